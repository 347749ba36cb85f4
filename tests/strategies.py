"""Random small programs with views and in-place writes.

Programs are drawn while a functional run follows along, so every step is well formed and finite.
They are legal apart from the question about saved tensors, except where torch alone can tell (a
``view`` of a result that is not contiguous) and where ``refusals`` asks for illegal ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from hypothesis import strategies as st

from oracles import Alias, Backward, Compute, Leaf, Loss, Machine, Program, Step, View, Write

Draw = Callable[[st.SearchStrategy[Any]], Any]

SHAPES = ((3,), (2, 3), (3, 3), (2, 2, 3))

# What an operation saves is the whole point, so the tables say it.
UNARY = (
    "{0}.exp()", "{0}.tanh()", "{0}.sigmoid()", "{0}.relu()", "({0} * {0} + 1).sqrt()",  # its result
    "{0}.sin()", "{0}.cos()", "{0} ** 2", "{0} ** 3", "{0} * {0}", "{0}.mul({0}.sin())",  # its input
    "-{0}", "{0} * 2", "{0} + 1", "{0}.clone()", "{0}.sum()", "{0}.mean()",  # nothing
    "{0}.max()", "{0}.prod()", "torch.nn.functional.gelu({0})",  # indices or input, reductions
)  # fmt: skip
ALONG_LAST = (
    "{0}.softmax(-1)", "{0}.log_softmax(-1)", "{0}.cumprod(-1)", "{0}.cumsum(-1)",
    "{0}.logsumexp(-1)", "torch.nn.functional.layer_norm({0}, {0}.shape[-1:])", "{0}.sort(-1).values",
)  # fmt: skip
BINARY = (
    "{0} * {1}", "{0} / ({1} * {1} + 1)", "torch.atan2({0}, {1} * {1} + 1)", "torch.hypot({0} + 2, {1})",
    "{0} + {1}", "{0} - {1}", "torch.maximum({0}, {1})", "torch.where({0} > 0, {0} * {1}, {1})",
    "torch.lerp({0}, {1}, 0.3)",
)  # fmt: skip

# Statement in place, and the value that it leaves: arguments from {1} on.
IN_PLACE = (
    ("{0}.zero_()", "torch.zeros_like({0})"),
    ("{0}.fill_(0.25)", "torch.full_like({0}, 0.25)"),
    *(
        (f"{{0}}.{name}_({rest})", f"{{0}}.{name}({rest})")
        for name, rest in (
            ("exp", ""), ("tanh", ""), ("sigmoid", ""), ("relu", ""), ("sin", ""), ("neg", ""),
            ("square", ""), ("mul", "0.5"), ("add", "0.5"), ("div", "2"), ("pow", "2"),
            ("clamp", "-0.5, 0.8"),
        )
    ),
)  # fmt: skip
SAME_SHAPE = (
    ("{0}.lerp_({1}, 0.3)", "{0}.lerp({1}, 0.3)"),
    ("torch._foreach_mul_([{0}], [{1}])", "{0} * {1}"),
)
BROADCAST = (
    ("{0}.mul_({1})", "{0} * {1}"),
    ("{0}.add_({1})", "{0} + {1}"),
    ("{0}.sub_({1}, alpha=2)", "{0} - 2 * {1}"),
    ("{0}.copy_({1})", "{1}"),
    ("{0}.addcmul_({1}, {2})", "{0} + {1} * {2}"),
)
AUGMENTED = (("{0} *= {1}", "{0} * {1}"), ("{0} += {1}", "{0} + {1}"), ("{0} -= {1}", "{0} - {1}"))
LARGEST = 30.0
"""Steps with larger values are dropped: rounding would drown what is compared."""


@st.composite
def inplace_programs(draw: Draw, *, refusals: bool = False, second_order: bool = True) -> Program:
    """A program of one to three leaves, up to 12 steps, losses and backward passes.

    Args:
        refusals: Whether to draw, now and then, a write that torch refuses at once: to a leaf that
            requires grad, through an expansion, to one of several views made by ``unbind``.
        second_order: Whether a backward pass may be differentiated again.
    """
    return _Writer(draw, refusals).program(second_order=second_order)


@dataclass
class _Writer:
    """One drawing of one program."""

    draw: Draw
    refusals: bool
    machine: Machine = field(default_factory=Machine)
    steps: list[Step] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Variables that steps may use; the losses are not among them."""
    numbers: Any = field(default_factory=count)

    def program(self, *, second_order: bool) -> Program:
        for n in range(self.draw(st.integers(1, 3))):
            self.take(Leaf(f"x{n}", self.draw(st.sampled_from(SHAPES))))
        for _ in range(12):
            self.any_step()
        losses = [self.loss()]
        if self.draw(st.booleans()):
            for _ in range(self.draw(st.integers(0, 4))):
                self.any_step()
            losses.append(self.loss())
        if self.draw(st.booleans()):
            self.write()
        if self.draw(st.booleans()):  # the first pass fine, then writes, then a second one
            self.take(Backward(losses[0]))
            for _ in range(self.draw(st.integers(0, 2))):
                self.write()
        if second_order and self.draw(st.sampled_from((False, False, True))):
            squares = f"loss{next(self.numbers)}"
            if self.take(Backward(losses[-1], out=squares)):
                if self.draw(st.booleans()):
                    self.write()
                losses.append(squares)
        for loss in losses:
            self.take(Backward(loss, retain=loss != losses[-1]))
        return Program(tuple(self.steps))

    # ------------------------------------------------------------------ accepting a step
    def take(self, step: Step) -> bool:
        """Append the step if it is well formed, finite and not large; says whether it was."""
        trial = self.machine.fork()
        try:
            trial.run(step)
        except (RuntimeError, IndexError, ValueError):
            return False
        out = step.target if isinstance(step, Write) else step.out
        largest = 1e6 if isinstance(step, Loss | Backward) else LARGEST
        if out is not None and not _finite(trial.values(out), largest):
            return False
        if isinstance(step, Backward) and not all(g is None or _finite(g, 1e6) for g in trial.gradients[-1]):
            return False
        self.machine = trial
        self.steps.append(step)
        if isinstance(step, Leaf | Compute | View | Alias):
            self.names.append(step.out)
        return True

    # ------------------------------------------------------------------ choosing
    def pick(self, names: list[str] | None = None) -> str:
        """A variable, late ones more often."""
        among = self.names if names is None else names
        recent = among[-4:] if self.draw(st.booleans()) else among
        return str(self.draw(st.sampled_from(recent)))

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.machine.variables[name].index.shape)

    def of_shape(self, shape: tuple[int, ...], *, broadcast: bool) -> list[str]:
        """Variables of this shape, or that can be broadcast to it."""
        return [
            name for name in self.names
            if self.shape(name) == shape or (broadcast and _broadcasts(self.shape(name), shape))
        ]  # fmt: skip

    def fresh(self) -> str:
        return f"a{next(self.numbers)}"

    # ------------------------------------------------------------------ steps
    def any_step(self) -> None:
        # "nothing" comes first: a failing program shrinks towards it.
        kinds = ("nothing",) + ("compute",) * 4 + ("view",) * 3 + ("write",) * 4 + ("alias", "new")
        kind = self.draw(st.sampled_from(kinds))
        if kind != "nothing":
            {"compute": self.compute, "view": self.view, "write": self.write,
             "alias": self.alias, "new": self.new}[kind]()  # fmt: skip

    def compute(self) -> None:
        name = self.pick()
        kind = self.draw(st.sampled_from(("unary", "unary", "binary", "binary", "last", "matmul")))
        shape = self.shape(name)
        if kind == "binary":
            other = self.pick(self.of_shape(shape, broadcast=True))
            self.take(Compute(self.fresh(), self.draw(st.sampled_from(BINARY)), (name, other)))
        elif kind == "matmul" and len(shape) == 2:
            fitting = [n for n in self.names if len(self.shape(n)) == 2 and self.shape(n)[0] == shape[1]]
            if fitting:
                self.take(Compute(self.fresh(), "{0} @ {1}", (name, self.pick(fitting))))
        elif kind == "last" and shape:
            self.take(Compute(self.fresh(), self.draw(st.sampled_from(ALONG_LAST)), (name,)))
        else:
            self.take(Compute(self.fresh(), self.draw(st.sampled_from(UNARY)), (name,)))

    def new(self) -> None:
        """A buffer without history, such as programs fill row by row."""
        shape = self.draw(st.sampled_from(SHAPES))
        fill = self.draw(st.sampled_from(("torch.zeros({})", "torch.full({}, 0.5)")))
        self.take(Compute(self.fresh(), fill.format(shape)[:-1] + ", dtype=torch.float64)"))

    def view(self) -> None:
        base = self.pick()
        places = _places(self.draw, self.shape(base))
        places += ["{0}.view(-1)", "{0}.unsqueeze(0).expand(2" + ", -1" * len(self.shape(base)) + ")"]
        if self.refusals and self.shape(base):
            places.append("{0}.unbind(0)[0]")
        self.take(View(self.fresh(), base, self.draw(st.sampled_from(places))))

    def alias(self) -> None:
        base = self.pick()
        how = self.draw(st.sampled_from(("detach", "data", "no_grad")))
        if how == "no_grad" and not (self.refusals and self.machine.requires_grad(base)):
            how = "detach"  # torch gives such a view a history once its base gets one, or refuses
        self.take(Alias(self.fresh(), base, how))

    def loss(self) -> str:
        chosen = {self.pick() for _ in range(self.draw(st.integers(1, 3)))} | {self.names[-1]}
        terms = tuple(
            (name, self.draw(st.sampled_from(("squares", "cosine", "sum")))) for name in sorted(chosen)
        )
        out = f"loss{next(self.numbers)}"
        self.take(Loss(out, terms))
        return out

    def write(self) -> None:
        results = [name for name in self.names if not self.machine.variables[name].leaf]
        target = self.pick(results if results and self.draw(st.sampled_from((True, True, False))) else None)
        handle = self.machine.variables[target]
        illegal = handle.leaf or not handle.writable
        how = self.draw(
            st.sampled_from(("grad",) * 6 + ("no_grad", "no_grad", "data", "detach", "inference"))
        )
        if illegal and not (self.refusals and self.draw(st.sampled_from((False, False, True)))):
            if not handle.writable:
                return
            if how == "grad":
                how = "no_grad"
        place = "{0}"
        if self.shape(target) and self.draw(st.booleans()):
            place = self.draw(st.sampled_from(_places(self.draw, self.shape(target))))
        try:
            index = self._index(target, place)
        except (RuntimeError, IndexError):
            return
        if index.numel() == 0:
            return
        step = self._statement(target, place, how, tuple(index.shape))
        if step is not None and self._defined(step, index):
            self.take(step)

    def _index(self, target: str, place: str) -> torch.Tensor:
        index: torch.Tensor = eval(place.format("index"), {"index": self.machine.variables[target].index})
        return index

    def _statement(self, target: str, place: str, how: Any, shape: tuple[int, ...]) -> Write | None:
        """Choose what to do with a place of this shape."""
        kinds = ["alone"] * 3 + ["broadcast"] * 4 + ["same", "masked", "setitem"]
        if how in ("grad", "no_grad") and place.endswith(("}", "]")):
            kinds.append("augmented")
        if how == "no_grad":
            kinds.append("out")
        if shape:
            kinds += ["indexed", "indexed", "scattered", "put"]
        if len(shape) == 2:
            kinds.append("addmm")
        kind = self.draw(st.sampled_from(kinds))
        arguments: tuple[str, ...] = ()
        if kind == "alone":
            statement, value = self.draw(st.sampled_from(IN_PLACE))
        elif kind in ("broadcast", "augmented", "same", "out", "setitem"):
            fitting = self.of_shape(shape, broadcast=kind not in ("same", "out"))
            if not fitting:
                return None
            table = {
                "broadcast": BROADCAST, "augmented": AUGMENTED, "same": SAME_SHAPE,
                "out": (("torch.sin({1}, out={0})", "{1}.sin()"),), "setitem": (("{0}[...] = {1}", "{1}"),),
            }[kind]  # fmt: skip
            statement, value = self.draw(st.sampled_from(table))
            arguments = tuple(self.pick(fitting) for _ in range(2 if "{2}" in statement else 1))
        elif kind == "addmm":
            rows = [n for n in self.names if len(self.shape(n)) == 2 and self.shape(n)[0] == shape[0]]
            pairs = [
                (a, b) for a in rows for b in self.of_shape((self.shape(a)[1], shape[1]), broadcast=False)
            ]
            if not pairs:
                return None
            statement, value = "{0}.addmm_({1}, {2})", "{0} + {1} @ {2}"
            arguments = self.draw(st.sampled_from(pairs))
        elif kind == "masked":
            statement, value, arguments = self._masked(shape)
        elif kind == "put":
            where = f"torch.tensor({self.draw(st.integers(0, _numel(shape) - 1))})"
            number = "torch.tensor(0.25, dtype=torch.float64)"
            statement, value = f"{{0}}.put_({where}, {number})", f"{{0}}.put({where}, {number})"
        else:
            statement, value, arguments = self._indexed(shape, scattered=kind == "scattered")
        return Write(target, place, how, statement, value, arguments)

    def _masked(self, shape: tuple[int, ...]) -> tuple[str, str, tuple[str, ...]]:
        bits = self.draw(st.lists(st.booleans(), min_size=_numel(shape), max_size=_numel(shape)))
        mask = f"torch.tensor({torch.tensor(bits).view(shape).tolist()})"
        form = self.draw(st.sampled_from(("masked_fill", "setitem", "masked_scatter", "variable")))
        scalars = self.of_shape((), broadcast=False)
        if form == "variable" and scalars:
            return f"{{0}}[{mask}] = {{1}}", f"torch.where({mask}, {{1}}, {{0}})", (self.pick(scalars),)
        if form == "masked_scatter":
            source = "torch.full_like({0}, 0.5)"
            return f"{{0}}.masked_scatter_({mask}, {source})", f"{{0}}.masked_scatter({mask}, {source})", ()
        statement = f"{{0}}.masked_fill_({mask}, 0.5)" if form == "masked_fill" else f"{{0}}[{mask}] = 0.5"
        return statement, f"{{0}}.masked_fill({mask}, 0.5)", ()

    def _indexed(self, shape: tuple[int, ...], *, scattered: bool) -> tuple[str, str, tuple[str, ...]]:
        dim = self.draw(st.integers(0, len(shape) - 1))
        order = self.draw(st.permutations(range(shape[dim])))
        # No doubles: which of two writes to one element wins is undefined.
        chosen = order[: self.draw(st.integers(1, shape[dim]))]
        some = tuple(len(chosen) if d == dim else n for d, n in enumerate(shape))
        fitting = self.of_shape(some, broadcast=False)
        source = "{1}" if fitting else f"torch.full({some}, 0.5, dtype=torch.float64)"
        arguments = (self.pick(fitting),) if fitting else ()
        if scattered:
            along = torch.tensor(chosen).view([-1 if d == dim else 1 for d in range(len(shape))])
            where = f"{dim}, torch.tensor({along.expand(some).tolist()}), {source}"
            name = self.draw(st.sampled_from(("scatter", "scatter_add")))
            return f"{{0}}.{name}_({where})", f"{{0}}.{name}({where})", arguments
        index = f"torch.tensor({list(chosen)})"
        form = self.draw(st.sampled_from(("setitem", "index_add", "index_copy", "index_fill")))
        if form == "index_fill":
            where = f"{dim}, {index}, 0.25"
            return f"{{0}}.index_fill_({where})", f"{{0}}.index_fill({where})", ()
        where = f"{dim}, {index}, {source}"
        if form == "setitem":
            return f"{{0}}[{':, ' * dim}{index}] = {source}", f"{{0}}.index_copy({where})", arguments
        return f"{{0}}.{form}_({where})", f"{{0}}.{form}({where})", arguments

    def _defined(self, step: Write, index: torch.Tensor) -> bool:
        """Whether torch defines the result: an argument that overlaps the target must be the target.

        And then only for pointwise operations.
        """
        written = set(index.reshape(-1).tolist())
        pointwise = any(step.statement == statement for statement, _ in BROADCAST + AUGMENTED + SAME_SHAPE)
        storage = self.machine.variables[step.target].storage
        for name in step.arguments:
            read = self.machine.variables[name]
            if read.storage == storage and not written.isdisjoint(read.index.reshape(-1).tolist()):
                same = read.index.shape == index.shape and bool((read.index == index).all())
                if not (pointwise and same):
                    return False
        return True


def _places(draw: Draw, shape: tuple[int, ...]) -> list[str]:
    """Templates of some views of a tensor of this shape."""
    places = ["{0}.squeeze()", "{0}.unsqueeze(0)"]
    if shape:
        dim = draw(st.integers(0, len(shape) - 1))
        at = draw(st.integers(0, shape[dim] - 1))
        before = ":, " * dim
        places += [
            f"{{0}}[{before}{at}]", f"{{0}}[{before}{at}:]", f"{{0}}[{before}::2]",
            f"{{0}}.select({dim}, {at})", f"{{0}}.narrow({dim}, {at}, 1)",
        ]  # fmt: skip
    if len(shape) >= 2:
        places += ["{0}.transpose(0, 1)", "{0}.diagonal()"]
    return places


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False)
    )


def _numel(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def _finite(values: torch.Tensor, largest: float) -> bool:
    return values.numel() > 0 and bool(values.isfinite().all()) and float(values.abs().max()) <= largest
