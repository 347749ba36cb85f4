"""Undocumented parts of torch: private names, each with its version, its reason and when it can go, and facts
about torch's own files.

The package imports nothing: import the module that you need.
"""

__all__ = [
    "compat",
    "engine",
    "patches",
    "versions",
]
