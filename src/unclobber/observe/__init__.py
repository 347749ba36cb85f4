"""All that runs while a program runs: the hooks, the ledger that they fill, and the native core.

The package imports nothing, because ``unclobber --version`` imports ``native`` without torch. Each of the
three packages shows the names in its ``__all__``; inside of the room they use each other's files. The room
isn't called ``watch``, because a module of that name would take the place of ``unclobber.watch``.
"""

__all__ = ["hooks", "native", "record"]
