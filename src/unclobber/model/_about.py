"""The package itself: its version and its folder."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of the package, without a separator at its end; code below it is unclobber's, never the
program's."""

VERSION = "0.1.0"
