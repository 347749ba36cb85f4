"""Runs the programs of _triton_programs.py and prints what was seen, as JSON.

Under Triton's interpreter on the CPU; without it on the GPU.
"""

import json
import os
import pickle
import sys

import torch

import unclobber

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED:
    torch.set_default_device("cuda")

finders = list(sys.meta_path)
with unclobber.watch():
    # The import inside of the context is what the hooks of launches wait for.
    import _triton_programs as programs

    if INTERPRETED:
        from triton.runtime.interpreter import GridExecutor

        launch = (GridExecutor, "__call__")
    else:
        launch = (programs.triton.runtime.jit.JITFunction, "run")
assert sys.meta_path == finders

seen = {}
for name in programs.PROGRAMS:
    report = unclobber.audit(lambda name=name: programs.gradient(name))
    assert pickle.loads(pickle.dumps(report.findings)) == report.findings  # as ranks and `fix` send them
    with unclobber.guard():
        guarded = programs.gradient(name)
    try:
        plain = torch.equal(programs.gradient(name), programs.right())
    except RuntimeError:
        plain = False
    seen[name] = {
        "findings": [
            (
                f.code,
                [(w.site.line, w.count, w.site.below[-1].line if w.site.below else None) for w in f.writes],
            )
            for f in report.findings
        ],
        "guarded": torch.equal(guarded, programs.right()),
        "plain": plain,
    }
unclobber.uninstall()
print(json.dumps({"seen": seen, "restored": type(getattr(*launch)).__name__ == "function"}))
