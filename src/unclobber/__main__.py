"""``python -m unclobber`` is ``unclobber``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
