"""``python -m unclobber`` is ``unclobber``."""

import os
import sys

if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        # Else a file of the current folder, its `copy.py`, would run in place of one that is imported here.
        sys.path[0] = os.path.dirname(sys.executable)
    from .cli import main

    sys.exit(main())
