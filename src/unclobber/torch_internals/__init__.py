"""What torch does not document: its private names, each with the version it was seen in, the reason, and
when it can go; and facts about its own files.

Nothing here is imported with the package, because ``judge`` must not load torch: name what you need.
"""

__all__ = [
    "compat",
    "engine",
    "inplace",
    "libraries",
    "own_writes",
    "patches",
    "versions",
    "views",
]
