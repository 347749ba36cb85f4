"""What makes the tables of the documentation lies beside it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "docs" / "_ext"))
