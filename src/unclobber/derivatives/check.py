"""Comparison of the derivative table with real runs of autograd, over torch's own operation database.

Runs answer four questions for each operation:

- **keeps**: which tensors does each backward node of a real run hold (its saved roles)?
- **runs**: is the operation (or the list of a composed function's operations) what really ran?
- **overwrite**: is backward refused after the inputs, or the outputs, count as written?
- **in place**: which tensors does the in-place variant hold, and is an old value a private copy?

Each input tensor needs a gradient alone in one run, and all of them in another, so that conditions are
tested.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from ..syntax import out_of_place, torch_table
from ..torch_internals import compat
from ._rule import Rule, SavedRole
from ._small_runs import PackedMemory, memory_of, nodes_of, packing
from .rules import resolve
from .torch_table import by_node, in_place_row

SAMPLES = 6  # inputs of the database that are tried per operation

_MOST_LEAVES = 4  # number of tensors above which they are only tried all together

_BY_HAND = {
    "torch::autograd::AccumulateGrad": "collects the gradient of a leaf",
    "torch::autograd::CopyBackwards": "a copy into an existing tensor, written by hand in C++",
    "torch::autograd::CopySlices": "an in-place write through a view, written by hand in C++",
    "torch::autograd::UndefinedGrad": "stands for no gradient",
}
"""Nodes that are in no table and save no tensor of an operation."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A difference between the table and a run."""

    question: str  # `keeps`, `runs`, `overwrite` or `in place`
    node: str
    expected: str
    observed: str
    why: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The comparison of one operation of the database."""

    name: str
    runs: int  # runs that torch itself could do
    nodes: int  # backward nodes compared
    writes: int = 0  # times that inputs or outputs counted as written, to see if backward is refused
    disagreements: tuple[Disagreement, ...] = ()
    error: str | None = None  # torch's error if `runs` is 0

    @property
    def agrees(self) -> bool:
        return self.runs > 0 and not self.disagreements


AGREEMENT = 0.97  # share of the operations that must agree


@dataclass(frozen=True)
class TableCheck:
    """The comparison of many operations, as a document."""

    results: Sequence[Checked]

    @classmethod
    def of(cls, only: Iterable[str], progress: Callable[[str], None]) -> TableCheck:
        """Compare the operations of the database, or ``only`` some; ``progress`` is called after each.

        Raises:
            ImportError: The database can't be loaded.
        """
        results: list[Checked] = []
        for checked in check(only=only):
            results.append(checked)
            progress(f"{len(results)}  {checked.name[:60]}")
        return cls(results)

    @property
    def ran(self) -> list[Checked]:
        return [checked for checked in self.results if checked.runs]

    @property
    def agreeing(self) -> int:
        return sum(checked.agrees for checked in self.ran)

    @property
    def agrees(self) -> bool:
        return bool(self.ran) and self.agreeing >= AGREEMENT * len(self.ran)

    def to_text(self, *, markdown: bool) -> str:
        """Return the disagreements and the totals, as text or Markdown."""
        ran, lines = self.ran, []
        for checked in self.results:
            title = f"## {checked.name}" if markdown else checked.name
            for wrong in checked.disagreements:
                of = f"- {wrong.question} ({wrong.node}): "
                lines += [title, f"{of}expected {wrong.expected}; observed {wrong.observed}"]
                lines.append(f"  because {wrong.why}")
                title = ""
            if not checked.runs:
                lines += [title, f"- torch could not run it: {checked.error}"]
        share = 100 * self.agreeing / len(ran) if ran else 0.0
        nodes, runs, writes = (sum(getattr(c, name) for c in ran) for name in ("nodes", "runs", "writes"))
        # Only what was really compared counts; what torch couldn't run is listed above.
        lines.append(
            f"{self.agreeing} of {len(ran)} operations agree ({share:.1f} %): {nodes} backward nodes in "
            f"{runs} runs, {writes} overwrites tried, torch {torch.__version__}"
        )
        return "\n".join(line for line in lines if line)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready data."""
        return {
            "schema": 1,
            "torch": str(torch.__version__),
            "operations": len(self.ran),
            "agreeing": self.agreeing,
            "results": [{**asdict(checked), "agrees": checked.agrees} for checked in self.results],
        }


def check(samples: int = SAMPLES, only: Iterable[str] = ()) -> Iterator[Checked]:
    """Compare every operation of the database that has a gradient on the CPU, one by one."""
    wanted = set(only)
    for op in compat.dispatcher.operation_database():
        dtype = _dtype(op)
        if dtype is not None and (not wanted or op.name in wanted):
            yield _check_op(op, dtype, samples)


def _dtype(op: Any) -> torch.dtype | None:
    supported = op.supported_backward_dtypes("cpu") if op.supports_autograd else ()
    return next((d for d in (torch.float64, torch.float32, torch.complex128) if d in supported), None)


def _check_op(op: Any, dtype: torch.dtype, samples: int) -> Checked:
    """Compare one operation over its samples, out of place and in place."""
    name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)
    disagreements: dict[Disagreement, None] = {}
    runs = nodes = writes = 0
    error = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The database draws its inputs at random, and a disagreement must come again in the next run.
        torch.manual_seed(0)
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=True), samples):
            for pick in _picks(sample):
                for in_place in (False, True) if op.inplace_variant is not None else (False,):
                    try:
                        count, tried, wrong = _compare(op, sample, pick, in_place=in_place)
                    # torch can't run every form (in place with another shape, say), which is no disagreement.
                    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError) as e:
                        error = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
                        continue
                    runs += 1
                    nodes += count
                    writes += tried
                    disagreements.update(dict.fromkeys(wrong))
    return Checked(name, runs, nodes, writes, tuple(disagreements), None if runs else error or "no sample")


Pick = frozenset[int] | None
"""Positions, among the tensors that can have a gradient, of those that need one; None for all."""


def _picks(sample: Any) -> list[Pick]:
    given = compat.compilers.tensors_in((sample.input, sample.args, sample.kwargs))
    count = sum(tensor.requires_grad for tensor in given)
    if count < 2 or count > _MOST_LEAVES:
        return [None]
    return [None, *(frozenset({position}) for position in range(count))]


def _compare(op: Any, sample: Any, pick: Pick, *, in_place: bool) -> tuple[int, int, list[Disagreement]]:
    """Run one sample; return the compared nodes, the tried writes and the disagreements."""
    run = _inputs(sample, pick)
    call: Callable[..., Any] = op.inplace_variant if in_place else op
    with packing():
        outputs = compat.compilers.tensors_in(call(run.first, *run.args, **run.kwargs))
    nodes = [node for node in nodes_of(outputs) if node not in run.own]
    tried = 0
    wrong = [disagreement for node in nodes for disagreement in _keeps(node)]
    wrong += _runs(op.name, nodes)
    if in_place:
        wrong += _in_place_memory(nodes, run, outputs)
    # Memory identifies inputs and outputs only if one operation did all the work.
    elif len(nodes) == 1 and not wrong:
        tried, refusals = _overwrite(op, sample, pick, nodes[0])
        wrong += refusals
    return len(nodes), tried, wrong


@dataclass
class _SampleRun:
    """A sample's arguments as results of other operations, so that they may be written."""

    first: Any
    args: Any
    kwargs: Any
    tensors: list[Tensor]
    own: set[Any]  # nodes of the copies, which are not the operation's


def _inputs(sample: Any, pick: Pick) -> _SampleRun:
    """Copy a sample's tensors; those in ``pick`` need a gradient."""
    tensors: list[Tensor] = []
    own: set[Any] = set()
    position = -1

    def copy(leaf: Tensor) -> Tensor:
        """Copy one tensor of the sample, so that it is no leaf."""
        nonlocal position
        plain = leaf.detach().clone()
        if leaf.requires_grad:
            position += 1
            if pick is None or position in pick:
                plain = plain.requires_grad_().clone()
                own.update(nodes_of([plain]))
        tensors.append(plain)
        return plain

    first, args, kwargs = compat.compilers.map_tensors(copy, (sample.input, sample.args, sample.kwargs))
    return _SampleRun(first, args, kwargs, tensors, own)


# --- keeps -----------------------------------------------------------------------------------------
def _keeps(node: Any) -> Iterator[Disagreement]:
    """Yield a disagreement if the node's saved roles differ from the table's."""
    name = node.name()
    observed = {role.partition("[")[0] for role, kept in compat.kept.raw_saved(node) if kept is not None}
    rule = by_node(name)
    if rule is None:
        if name not in _BY_HAND and observed:
            why = "not in the derivative table: a custom operator or Function brings its own backward"
            yield Disagreement("keeps", name, "nothing known", _listed(observed), why)
        return
    expected = _expected(rule, node)
    certain = {kept.role for kept in expected if not _may_be_left_out(rule, kept)}
    possible = {kept.role for kept in expected}
    if certain - observed or observed - possible:
        why = _explanation(certain - observed, observed - possible)
        yield Disagreement("keeps", name, _listed(certain), _listed(observed), why)


def _expected(rule: Rule, node: Any) -> list[SavedRole]:
    needed = rule.needed([parent for parent, _ in node.next_functions])
    return [
        kept for kept in rule.kept if not kept.only_if or needed is None or needed.intersection(kept.only_if)
    ]


def _may_be_left_out(rule: Rule, kept: SavedRole) -> bool:
    kind = rule.type_of(kept.role)
    return "?" in kind or "[]" in kind  # or an empty list of tensors


def _explanation(missing: set[str], surplus: set[str]) -> str:
    """Return the explanation of missing and surplus roles."""
    texts = []
    if missing:
        texts.append(f"the table's formulas read {_listed(missing)}, and the generated code left it out")
    if surplus:
        texts.append(
            f"no formula for a needed gradient reads {_listed(surplus)}, and the generated code kept it"
        )
    return "; ".join(texts)


# --- runs --------------------------------------------------------------------------------------------
def _runs(name: str, nodes: list[Any]) -> Iterator[Disagreement]:
    """Yield a disagreement for each node that is neither the operation's own nor one of its known parts."""
    known = resolve(name)
    ran = {rule.operation: node.name() for node in nodes if (rule := by_node(node.name())) is not None}
    if known is None:
        if ran:
            why = "`unclobber rules` doesn't know this function"
            yield Disagreement("runs", next(iter(ran.values())), "nothing known", _listed(ran), why)
        return
    table = torch_table()
    target = table.aliases.get(known, known)
    own = {target, f"{target}_", out_of_place(target)}
    if not own.isdisjoint(ran) and target not in table.runs:
        return  # the operation itself, with operations that prepare other shapes
    surplus = {operation: node for operation, node in ran.items() if operation not in own}
    for operation, node in surplus.items():
        if not {operation, out_of_place(operation)}.intersection(table.runs.get(target, ())):
            why = f"`{target}` is not known to run `{operation}` on CPU tensors"
            yield Disagreement("runs", node, _listed(table.runs.get(target, own)), f"`{operation}`", why)


# --- overwrite ---------------------------------------------------------------------------------------
def _overwrite(op: Any, sample: Any, pick: Pick, node: Any) -> tuple[int, list[Disagreement]]:
    """Count the inputs, then the outputs, as written and see whether torch's own check refuses.

    Only if the function is the node's operation itself, because others save intermediate results that no
    program can write, or drop outputs.
    """
    rule = by_node(node.name())
    if rule is None or resolve(op.name) != rule.operation:
        return 0, []
    expected = _expected(rule, node)
    tried, wrong = 0, []
    for output in (False, True):
        refused = _refused(op, sample, pick, output=output, outputs_of=rule)
        kept = [saved for saved in expected if saved.output == output]
        # A sample that leaves out an optional argument saves nothing in its role.
        if refused is None or (kept and all(_may_be_left_out(rule, saved) for saved in kept)):
            continue
        tried += 1
        if refused != bool(kept):
            what = "the outputs" if output else "the inputs"
            wrong.append(
                Disagreement(
                    "overwrite",
                    node.name(),
                    f"{what} may {'not ' if kept else ''}be overwritten",
                    "backward is refused" if refused else "backward is not refused",
                    "what is kept was neither passed in nor returned: a copy, or made inside the function",
                )
            )
    return tried, wrong


def _refused(op: Any, sample: Any, pick: Pick, *, output: bool, outputs_of: Rule) -> bool | None:
    """Return whether backward is refused; None if that can't be decided."""
    run = _inputs(sample, pick)
    outputs = compat.compilers.tensors_in(op(run.first, *run.args, **run.kwargs))
    memory = {memory_of(tensor) for tensor in run.tensors}
    if len(outputs) != len(outputs_of.returns):
        return None
    if None in memory or any(memory_of(out) in memory for out in outputs):
        return None  # a view, or an output that is an input: a write to one is a write to both
    for tensor in outputs if output else run.tensors:
        increment_version(tensor)
    live = [out for out in outputs if out.requires_grad]
    try:
        torch.autograd.backward(live, [torch.ones_like(out) for out in live])
    except RuntimeError as error:
        return True if "modified by an inplace operation" in str(error) else None
    return False


# --- in place ----------------------------------------------------------------------------------------
def _in_place_memory(nodes: list[Any], run: _SampleRun, outputs: list[Tensor]) -> Iterator[Disagreement]:
    """Yield a disagreement unless an old ``self`` is a private copy and a result is the written tensor."""
    if len(nodes) != 1 or len(outputs) != 1 or memory_of(outputs[0]) is None:
        return
    rule = by_node(nodes[0].name())
    if rule is None or in_place_row(rule) is not rule or len(rule.returns) != 1:
        return
    mine = memory_of(outputs[0])
    for role, kept in compat.kept.raw_saved(nodes[0]):
        known = rule.keeps(role)
        if not isinstance(kept, PackedMemory) or known is None or not (known.output or role == "self"):
            continue
        same = memory_of(kept.tensor) == mine
        if same != known.output:
            yield Disagreement(
                "in place",
                nodes[0].name(),
                "the written tensor itself" if known.output else "a private copy of the old value",
                "the written tensor itself" if same else "another tensor",
                f"`{role}` of the in-place variant is not kept as the generated code keeps it elsewhere",
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "nothing"
