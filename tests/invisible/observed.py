"""What a program of ``programs/`` uses to be looked at, and the process that runs several in one mode.

Run as ``python observed.py MODE CORE FILE...``, CORE being the value of ``UNCLOBBER_NATIVE``, it
prints one JSON line for each file: what the program printed, and the codes of what was found in it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

MODES = "watch", "guard", "audit"
"""The ways of looking at a program; ``plain`` is none of them, and imports nothing of ours."""

mode = "plain"
found: list[str] = []
"""The codes of what was found since the program began."""


def observed(step: Callable[[], Any]) -> Any:
    """Run ``step`` in the mode of this process, and give what it returns."""
    if mode == "plain":
        return step()
    import unclobber

    if mode == "audit":
        results: list[Any] = []
        found.extend(finding.code for finding in unclobber.audit(lambda: results.append(step())).findings)
        return results[0]
    with getattr(unclobber, mode)() as session:
        try:
            return step()
        finally:
            found.extend(finding.code for finding in session.findings)


def printed(file: str) -> list[str]:
    """The lines that a program prints, the last one its exception if it raises."""
    import torch

    torch.manual_seed(0)
    with open(file, encoding="utf-8") as source:
        code = compile(source.read(), file, "exec")
    out = io.StringIO()
    # Its functions are looked up in `__main__` when they are pickled (hooks_of_tensors.py).
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = file
    with contextlib.redirect_stdout(out):
        try:
            exec(code, vars(main))
        except Exception as error:
            print(type(error).__name__, error)
    return out.getvalue().splitlines()


def _main(files: list[str]) -> None:
    for file in files:
        found.clear()
        lines = printed(file)
        print(json.dumps({"lines": lines, "found": found}), flush=True)
        if mode != "plain":
            import unclobber

            unclobber.uninstall()  # the next program, too, begins with torch as it is


if __name__ == "__main__":
    sys.modules["observed"] = sys.modules["__main__"]
    mode, os.environ["UNCLOBBER_NATIVE"] = sys.argv[1:3]
    warnings.simplefilter("ignore")
    _main(sys.argv[3:])
