"""Write the package's table of torch's operations: ``src/unclobber/syntax/operations.json``.

    python tools/operations_table.py            # write it
    python tools/operations_table.py --check    # exit 1 if the installed torch says something else

``unclobber check`` doesn't import torch, so the facts are taken out of it beforehand: of operations with a
derivative from the derivative table that ships with torch; of functions that are composed of others, and of
modules, by running the samples of torch's own databases; which methods write, from the schemas. The rest is
kept by hand in ``operations_by_hand.toml``.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import sys
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch_signatures
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from unclobber.derivatives import Rule
from unclobber.derivatives._rule import Argument
from unclobber.derivatives.torch_table import table

FILE = Path(__file__).parents[1] / "src" / "unclobber" / "syntax" / "operations.json"
BY_HAND = tomllib.loads(Path(__file__).with_name("operations_by_hand.toml").read_text(encoding="utf-8"))
RUNS = {name: parts.split() for name, parts in BY_HAND["runs"].items()}
SAMPLES = 8
NOT_WRITES = frozenset(
    {"requires_grad_", "rename_", "retain_grad_", "share_memory_", "apply_", "map_", "map2_"}
)
"""Methods with an underscore that change no element, or run a Python function."""

Object = dict[str, Any]


def whole() -> Object:
    """All that goes into the file."""
    warnings.simplefilter("ignore")
    operations = {**dict(from_derivatives()), **dict(measured())}
    return {
        "torch": torch.__version__.partition("+")[0],
        "operations": dict(sorted(operations.items())),
        "makes_integers": sorted(set(integer_results()) - set(operations)),
        "makes_no_history": sorted(set(factories()) - set(operations)),
        "writes_self": sorted(writes()),
        "writes_expanded": sorted(spread()),
        "returns_views": sorted(torch_signatures.view_methods(BY_HAND["may_return_view"].split())),
        "returns_several_views": sorted(torch_signatures.several_views()),
        "returns_tied_views": sorted(torch_signatures.tied_views()),
        "view_attributes": sorted(torch_signatures.view_attributes()),
        "inplace": dict(sorted(torch_signatures.inplace_positions().items())),
        "modules": dict(sorted(modules())),
        **by_hand(),
    }


def by_hand() -> Object:
    """The columns that are kept by hand."""
    columns = {name: sorted(text.split()) for name, text in BY_HAND.items() if isinstance(text, str)}
    return {
        **columns,
        "aliases": dict(sorted(BY_HAND["aliases"].items())),
        "runs": dict(sorted(RUNS.items())),
        "calls": BY_HAND["calls"],
    }


# --- operations of the derivative table ------------------------------------------------------------
def from_derivatives() -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for rule in table():
        if rule.key != "Default" or not rule.gradients or _is_composed(rule.operation) or _is_internal(rule):
            continue
        found.setdefault(rule.operation, []).append(_overload(rule))
    for name in found.keys() & RUNS.keys():  # `max` of two tensors runs `maximum`
        for part in RUNS[name]:
            if part != name and part.startswith(name):
                found[name] += found.get(part, [])
    return found


def _is_composed(name: str) -> bool:
    return name in RUNS and name not in RUNS[name]


def _is_internal(rule: Rule) -> bool:
    name = rule.operation
    return name.startswith("_") or "backward" in name or name.endswith(("_copy", "_forward"))


def _overload(rule: Rule) -> Object:
    return _entry(
        args=[_argument(a) for a in rule.arguments],
        saves={kept.role: list(kept.only_if) for kept in rule.kept if not kept.output},
        results=[kept.role for kept in rule.kept if kept.output],
        returns=list(rule.returns),
        integer=[name for name in rule.returns if _is_index(rule, name)],
        view=_view(rule.schema),
    )


def _argument(argument: Argument) -> str:
    """``other:t!``: its name, its kind, and ``!`` where it must be given."""
    return f"{argument.name}:{_kind(argument.type)}{'!' if argument.default is None else ''}"


def _kind(text: str) -> str:
    """``t`` tensor, ``l`` list of tensors, ``s`` anything else."""
    return "l" if text.startswith("Tensor") and "[" in text else "t" if text.startswith("Tensor") else "s"


def _is_index(rule: Rule, name: str) -> bool:
    return name in ("indices", "info", "pivots", "rank") or (
        name.startswith("result") and rule.operation == "unique_dim"
    )


def _view(schema: str) -> str:
    result = schema.partition("->")[2]
    return "several" if "(a)[]" in result else "view" if "(a)" in result else ""


def _entry(**facts: Any) -> Object:
    return {key: value for key, value in facts.items() if value or key == "args"}


# --- composed functions, measured ------------------------------------------------------------------
def measured() -> Iterator[tuple[str, list[Object]]]:
    by_name: dict[str, list[Any]] = {}
    for op in op_db:
        if op.supports_autograd and torch.float64 in op.supported_backward_dtypes("cpu"):
            by_name.setdefault(op.name, []).append(op)
    for name, ops in by_name.items():
        bare = name.replace("nn.functional.", "").replace(".", "_")
        swapped = name.startswith("nn.functional.") and _is_swapped(bare)
        if _is_composed(bare) or swapped:
            entry = _measure(name, ops)
            if entry is not None:
                yield f"F.{bare}" if swapped else bare, [entry]


def _is_swapped(bare: str) -> bool:
    """Whether a function of ``nn.functional`` takes its arguments in another order than the operation."""
    function = getattr(torch.nn.functional, bare, None)
    first = next((rule for rule in table() if rule.operation == bare and rule.gradients), None)
    return inspect.isfunction(function) and first is not None and first.arguments[0].name == "weight"


def _measure(name: str, ops: list[Any]) -> Object | None:
    runs = [run for op in ops for run in _runs(op)]
    if not runs:
        return None
    whole_runs = [run for run in runs if run["alone"] is None]
    names = _names(name, runs)
    always, sometimes = {}, {}
    for at in sorted({at for run in runs for at in run["saved"]}):
        able = [run for run in whole_runs if at < run["tensors"]]
        if not able:
            continue
        needs = sorted({run["alone"] for run in runs if run["alone"] is not None and at in run["saved"]})
        without = sorted(
            {run["alone"] for run in runs if run["alone"] is not None and at < run["tensors"]} - set(needs)
        )
        when = [names[i] for i in needs if i < len(names)] if without else []
        (always if all(at in run["saved"] for run in able) else sometimes)[names[at]] = when
    views = {run["view"] for run in runs}
    outputs = _outputs(name, whole_runs)
    return _entry(
        args=[f"{one}:t" for one in names],
        saves=always,
        may_save=sometimes,
        results=[one for i, one in enumerate(outputs) if _keeps(whole_runs, i) == "always"],
        may_results=[one for i, one in enumerate(outputs) if _keeps(whole_runs, i) == "sometimes"],
        view=views.pop() if len(views) == 1 else "maybe",
        returns=outputs,
    )


def _schemas(name: str) -> list[Any]:
    """ATen's schemas of a function, whose module is a prefix there: ``linalg_qr``."""
    return list(torch._C._jit_get_schemas_for_operator(f"aten::{name.replace('.', '_')}"))


def _outputs(name: str, runs: list[Object]) -> list[str]:
    """Names of the tensors that all runs return; one, if they return no tuple or unlike ones."""
    schemas = _schemas(name)
    found = [one.name for one in schemas[0].returns] if schemas else []
    several = len(found) > 1 and all(found) and all(len(run["results"]) == len(found) for run in runs)
    return found if several else ["result"]


def _keeps(runs: list[Object], at: int) -> str:
    return _often(at < len(run["results"]) and run["results"][at] for run in runs)


def _names(name: str, runs: list[Object]) -> list[str]:
    """Names of the tensor arguments in their order: the function's own where they can be had."""
    most = max(run["tensors"] for run in runs)
    function = getattr(torch.nn.functional, name.removeprefix("nn.functional."), None)
    found: list[str] = []
    if inspect.isfunction(function):
        found = list(inspect.signature(function).parameters)
    else:
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name.rpartition('.')[2]}")
        if schemas:
            found = [a.name for a in schemas[0].arguments]
    found = ["self" if i == 0 else one for i, one in enumerate(found)]
    return found + [f"other{i}" for i in range(len(found), most)]


def _runs(op: Any) -> Iterator[Object]:
    torch.manual_seed(0)
    inputs = [_inputs(sample) for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True)]
    # What has no elements shares memory with everything; all first samples of `svd` are so.
    usable = [bool(one[2]) and all(tensor.numel() > 1 for tensor in one[2]) for one in inputs]
    able = list(itertools.compress(inputs, usable))
    for sample, flat, tensors in able[: sum(usable[:SAMPLES])] or able[:SAMPLES]:
        for alone in (None, *(range(len(tensors)) if len(tensors) <= 3 else ())):
            for i, one in enumerate(tensors):
                one.requires_grad_(alone is None or i == alone)
            run = _run(op, sample, flat)
            if run is not None:
                yield {**run, "alone": None if alone is None else _position(flat, tensors[alone])}


def _inputs(sample: Any) -> tuple[Any, list[Any], list[Tensor]]:
    first = sample.input if isinstance(sample.input, (list, tuple)) else [sample.input]
    flat = [*first, *sample.args]
    return sample, flat, [one for one in flat if isinstance(one, Tensor) and one.is_floating_point()]


def _position(flat: list[Any], tensor: Tensor) -> int:
    return next(i for i, one in enumerate(flat) if one is tensor)


def _run(op: Any, sample: Any, flat: list[Any]) -> Object | None:
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    try:
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            out = op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:  # a sample that torch itself can't run says nothing
        return None
    results = [one for one in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(one, Tensor)]
    inputs = {i: _memory(one) for i, one in enumerate(flat) if isinstance(one, Tensor) and one.numel()}
    memory = {_memory(one) for one in kept}
    fresh = {_memory(one) for one in results} - set(inputs.values())
    same = [_memory(one) in inputs.values() for one in results]
    several = isinstance(out, (tuple, list)) and len(results) > 1
    return {
        "saved": {i for i, place in inputs.items() if place in memory},
        "results": [_memory(one) in fresh & memory for one in results] if several else [bool(fresh & memory)],
        "view": "" if not any(same) else "several" if several else "view",
        "tensors": len(flat),
    }


def _memory(tensor: Tensor) -> int:
    if tensor.layout is not torch.strided:
        return -id(tensor)  # no storage of its own; every such tensor of a run is alive
    return tensor.untyped_storage()._cdata


# --- what has no gradient --------------------------------------------------------------------------
def integer_results() -> Iterator[str]:
    """Operations whose results are integers or truth values, whatever the inputs are."""
    for op in op_db:
        if torch.float32 not in op.supported_dtypes("cpu"):
            continue
        kinds = set()
        for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 3):
            try:
                out = op.op(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                continue
            kinds |= {
                one.dtype for one in (out if isinstance(out, tuple) else [out]) if isinstance(one, Tensor)
            }
        if kinds and not any(kind.is_floating_point or kind.is_complex for kind in kinds):
            yield op.name.replace("nn.functional.", "").replace(".", "_")


def factories() -> Iterator[str]:
    """Functions that make a tensor without a history: of no tensor, or of one's shape alone."""
    for name in dir(torch):
        if name.endswith("_like") and callable(getattr(torch, name)):
            yield name
            continue
        schemas = [] if name.startswith("_") else _schemas(name)
        plain = [s for s in schemas if not any(a.is_out for a in s.arguments)]
        if (
            plain
            and all("Tensor" not in str(a.type) for s in plain for a in s.arguments)
            and any(str(r.type) == "Tensor" for s in plain for r in s.returns)
        ):
            yield name
    yield from (name for name in dir(Tensor) if name.startswith("new_"))
    yield from ("tensor", "as_tensor", "from_numpy")


# --- writes ------------------------------------------------------------------------------------------
def writes() -> Iterator[str]:
    """Methods that write to the tensor that they are called on."""
    for name in dir(Tensor):
        if name.endswith("_") and not name.startswith("_") and name not in NOT_WRITES:
            schemas = _schemas(name)
            if any(
                a.alias_info is not None and a.alias_info.is_write for s in schemas for a in s.arguments[:1]
            ):
                yield name


def spread() -> Iterator[str]:
    """Of these, those that torch does even where several elements share memory."""
    for name in writes():
        given = ((), (2,), (torch.ones(2, 3),), (torch.ones(2, 3) > 0, 1.0), (0, 1), (0,))
        if any(_does(name, arguments) for arguments in given):
            yield name


def _does(name: str, arguments: tuple[Any, ...]) -> bool:
    try:
        getattr(torch.ones(1, 3).expand(2, 3), name)(*arguments)
    except Exception:  # refused, or called with arguments that it doesn't take
        return False
    return True


# --- modules -----------------------------------------------------------------------------------------
def modules() -> Iterator[tuple[str, Object]]:
    """What a call of a module keeps of its input and its result, and whether it has parameters."""
    seen: dict[str, list[Object]] = {}
    for info in module_db:
        cls = info.module_cls
        if not cls.__module__.startswith("torch.nn.modules"):
            continue
        for training in (True, False):
            torch.manual_seed(0)
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
            )
            for sample in itertools.islice(inputs, SAMPLES):
                run = _module_run(cls, sample, training)
                if run is not None:
                    seen.setdefault(cls.__name__, []).append(run)
    for name, cls in sorted(vars(torch.nn).items()):
        if inspect.isclass(cls) and issubclass(cls, torch.nn.Module) and name not in seen:
            runs = [run for shape in _SHAPES if (run := _default_run(cls, shape)) is not None]
            if runs:
                seen[name] = runs
    for name, runs in seen.items():
        yield (
            name,
            _entry(
                input=_often(run["input"] for run in runs),
                result=_often(run["result"] for run in runs),
                others=_often(run["others"] for run in runs),
                parameters=any(run["parameters"] for run in runs),
            ),
        )


def _often(values: Iterable[bool]) -> str:
    seen = set(values)
    return "always" if seen == {True} else "sometimes" if True in seen else ""


def _default_run(cls: Any, shape: tuple[int, ...]) -> Object | None:
    """A module that the database doesn't have, as it is without arguments."""
    sample = SimpleNamespace(
        constructor_input=SimpleNamespace(args=(), kwargs={}),
        forward_input=SimpleNamespace(args=(torch.rand(shape, requires_grad=True),), kwargs={}),
    )
    return _module_run(cls, sample, True)


_SHAPES = ((4, 8), (2, 4, 8), (2, 4, 8, 8), (2, 4, 4, 8, 8))
"""Inputs that are tried for such a module."""


def _module_run(cls: Any, sample: Any, training: bool) -> Object | None:
    try:
        module = cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        module.train(training)
        arguments = [one for one in sample.forward_input.args if isinstance(one, Tensor)]
        if not arguments or getattr(module, "inplace", False):
            return None
        kept: list[int] = []

        def pack(tensor: Tensor) -> Tensor:
            kept.append(_memory(tensor))
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            out = module(*sample.forward_input.args, **sample.forward_input.kwargs)
    except Exception:  # a sample that torch itself can't run says nothing
        return None
    results = [one for one in (out if isinstance(out, tuple) else [out]) if isinstance(one, Tensor)]
    first = results[0] if results else None
    return {
        "input": _memory(arguments[0]) in kept,
        "others": any(_memory(one) in kept for one in arguments[1:] if one.is_floating_point()),
        "result": first is not None and _memory(first) in kept and _memory(first) != _memory(arguments[0]),
        "parameters": any(True for _ in module.parameters()),
    }


def text() -> str:
    """The file's text: an entry a line."""
    parts = []
    for key, value in whole().items():
        if isinstance(value, dict):
            lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items()]
            parts.append(f"{json.dumps(key)}: {{\n" + ",\n".join(lines) + "\n}")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()
    made = text()
    if options.check:
        return int(made != FILE.read_text(encoding="utf-8"))
    FILE.write_text(made, encoding="utf-8")
    print(f"{FILE}: {len(made)} characters", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
