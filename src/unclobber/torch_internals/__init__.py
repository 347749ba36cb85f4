"""Undocumented parts of torch: private names, each with its version, its reason and when it can go, and how
far its results may differ by rounding.

The package imports nothing: import the module that you need.
"""

__all__ = [
    "agreement", "compat", "engine", "patches", "versions",
]  # fmt: skip
