"""Measure models, by the names that come line by line: ``zoo.py`` runs this.

Each is measured in a process of its own, forked from this one, which has imported the packages. Prints a
line of JSON for each, and one with ``partly`` for what is known before the end.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

MEMORY = 9 << 30
"""Bytes of address space at most."""

IMPORTED = (
    "transformers.modeling_utils", "transformers.models.auto.modeling_auto", "timm", "diffusers.models",
    "torchvision.models", "torch_geometric.nn",
)  # fmt: skip
"""What is imported before the first model, where it is installed."""

FAMILIES = {
    "transformers": "zoo_transformers",
    "timm": "zoo_vision:Timm",
    "diffusers": "zoo_diffusers:Diffusers",
    "torchvision": "zoo_vision:Torchvision",
    "fields": "zoo_fields",
}


def family(name: str) -> Any:
    """Return the module or the object that has the names of a family, and builds one of them."""
    module, _, inside = FAMILIES[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, inside)() if inside else found


def declare_operators_of_torchvision() -> None:
    """Declare what importing torchvision asks for, if its compiled operators don't load beside this torch."""
    import torch

    package = importlib.util.find_spec("torchvision")
    if package is None or package.origin is None:
        return
    try:
        for compiled in Path(package.origin).parent.glob("_C*.so"):
            torch.ops.load_library(compiled)
    except OSError:
        for name in ("nms", "qnms"):
            _operators.append(library := torch.library.Library("torchvision", "FRAGMENT"))
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_operators: list[Any] = []
"""What is declared, which goes with its object."""


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line, default=str), file=_said, flush=True)


def main() -> None:
    """Answer names until there are no more, or print all that there are."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    declare_operators_of_torchvision()
    if sys.argv[1] == "names":
        for name in FAMILIES:
            try:
                say({"family": name, "names": family(name).names()})
            except ImportError as error:
                say({"family": name, "names": [], "error": str(error)})
        return
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import zoo_measure as measure

    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for mode in measure.MODES.values():  # the first context of a process imports and compiles
        with mode():
            torch.nn.Linear(3, 3)(torch.ones(3, requires_grad=True)).exp().sum().backward()
    gc.collect()
    gc.freeze()  # lest a collection in a fork writes to all that is there
    for line in sys.stdin:
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            answer(line.strip(), in_ways=sys.argv[2:] != ["plain"])
            os._exit(0)
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            say({"cut": "time limit" if code == -signal.SIGXCPU else f"the process ended with code {code}"})


def answer(name: str, *, in_ways: bool) -> None:
    """Build and measure a model, and say what came of it."""
    import zoo_measure as measure

    start = time.process_time()
    row: dict[str, Any] = {"name": name}
    package, _, model = name.partition("/")
    try:
        case = family(package).build(model)
    except Exception as error:
        row["not built"] = measure.brief(str(error) or type(error).__name__, 400)
        row["build s"] = round(time.process_time() - start, 1)
    else:
        say(row | {"partly": True, "notes": case.notes})
        built = time.process_time()
        row["build s"] = round(built - start, 1)
        try:
            row |= measure.measure(case, lambda known: say(row | known | {"partly": True}), in_ways)
        except Exception as error:
            row["failed"] = measure.brief(error, 300)
            row["trace"] = traceback.format_exc()[-1500:]
        row["run s"] = round(time.process_time() - built, 1)
    say(row)


if __name__ == "__main__":
    # Models and tests print: the answers have a descriptor of their own.
    _said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main()
