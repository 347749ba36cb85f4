"""Random small programs with views and in-place writes.

Programs are drawn while a functional run follows along, so every step is well formed and finite.
They are legal apart from the question about saved tensors, except where torch alone can tell (a
``view`` of a result that is not contiguous) and where ``refusals`` asks for illegal ones.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from hypothesis import strategies as st

from oracles import Alias, Backward, Compute, Leaf, Loss, Machine, Program, Step, View, Write

from . import tables
from .writer import Writer, numbered

SHAPES = ((3,), (2, 3), (3, 3), (2, 2, 3))

LARGEST = 30.0
"""Steps with larger values are dropped: rounding would drown what is compared."""


def inplace_programs(*, refusals: bool = False, second_order: bool = True) -> st.SearchStrategy[Program]:
    """Programs of one to three leaves, up to 12 steps, losses and backward passes.

    Args:
        refusals: Whether to draw, now and then, a write that torch refuses at once: to a leaf that
            requires grad, through an expansion, to one of several views made by ``unbind``.
        second_order: Whether a backward pass may be differentiated again.
    """
    return st.randoms(use_true_random=False).map(
        lambda rng: ValuesWriter(rng, refusals).program(second_order=second_order)
    )


class ValuesWriter(Writer):
    """Writes steps, each tried out by a functional run that follows along."""

    def __init__(self, rng: random.Random, refusals: bool) -> None:
        super().__init__(rng)
        self.refusals = refusals
        self.machine = Machine()
        self.steps: list[Step] = []

    def program(self, *, second_order: bool) -> Program:
        for n in range(self.rng.randint(1, 3)):
            self.take(Leaf(f"x{n}", self.rng.choice(SHAPES)))
        for _ in range(12):
            self.any_step()
        losses = [self.loss()]
        if self.rng.random() < 0.5:
            for _ in range(self.rng.randint(0, 4)):
                self.any_step()
            losses.append(self.loss())
        if self.rng.random() < 0.5:
            self.write()
        if self.rng.random() < 0.5:  # the first pass fine, then writes, then a second one
            self.take(Backward(losses[0]))
            for _ in range(self.rng.randint(0, 2)):
                self.write()
        if second_order and self.rng.choice((False, False, True)):
            squares = self.fresh("loss")
            if self.take(Backward(losses[-1], out=squares)):
                if self.rng.random() < 0.5:
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
    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.machine.variables[name].index.shape)

    def of_shape(self, shape: tuple[int, ...], *, broadcast: bool) -> list[str]:
        """Variables of this shape, or that can be broadcast to it."""
        return [
            name for name in self.names
            if self.shape(name) == shape or (broadcast and _broadcasts(self.shape(name), shape))
        ]  # fmt: skip

    def operation(self, table: tuple[str, ...]) -> str:
        return numbered(self.rng.choice(table))

    def in_place(self, table: dict[str, str]) -> tuple[str, str]:
        """A statement, and the value that it leaves."""
        statement, value = self.rng.choice(list(table.items()))
        return numbered(statement), numbered(value)

    # ------------------------------------------------------------------ steps
    def any_step(self) -> None:
        # "nothing" comes first: a failing program shrinks towards it.
        kinds = ("nothing",) + ("compute",) * 4 + ("view",) * 3 + ("write",) * 4 + ("alias", "new")
        kind = self.rng.choice(kinds)
        if kind != "nothing":
            {"compute": self.compute, "view": self.view, "write": self.write,
             "alias": self.alias, "new": self.new}[kind]()  # fmt: skip

    def compute(self) -> None:
        name = self.pick()
        kind = self.rng.choice(("unary", "unary", "binary", "binary", "last", "matmul"))
        shape = self.shape(name)
        if kind == "binary":
            other = self.pick(self.of_shape(shape, broadcast=True))
            self.take(Compute(self.fresh("a"), self.operation(tables.MIXED), (name, other)))
        elif kind == "matmul" and len(shape) == 2:
            fitting = [n for n in self.names if len(self.shape(n)) == 2 and self.shape(n)[0] == shape[1]]
            if fitting:
                self.take(Compute(self.fresh("a"), "{0} @ {1}", (name, self.pick(fitting))))
        elif kind == "last" and shape:
            self.take(Compute(self.fresh("a"), self.operation(tables.ALONG_LAST), (name,)))
        else:
            self.take(
                Compute(self.fresh("a"), self.operation((*tables.POINTWISE, *tables.REDUCING)), (name,))
            )

    def new(self) -> None:
        """A buffer without history, such as programs fill row by row."""
        shape = self.rng.choice(SHAPES)
        fill = self.rng.choice(("torch.zeros({})", "torch.full({}, 0.5)"))
        self.take(Compute(self.fresh("a"), fill.format(shape)[:-1] + ", dtype=torch.float64)"))

    def view(self) -> None:
        base = self.pick()
        places = self.places(self.shape(base))
        places += ["{0}.view(-1)", "{0}.unsqueeze(0).expand(2" + ", -1" * len(self.shape(base)) + ")"]
        if self.refusals and self.shape(base):
            places.append("{0}.unbind(0)[0]")
        self.take(View(self.fresh("a"), base, self.rng.choice(places)))

    def places(self, shape: tuple[int, ...]) -> list[str]:
        """Templates of some views of a tensor of this shape."""
        places = ["{0}.squeeze()", "{0}.unsqueeze(0)"]
        if shape:
            dim = self.rng.randrange(len(shape))
            at = self.rng.randrange(shape[dim])
            before = ":, " * dim
            places += [
                f"{{0}}[{before}{at}]", f"{{0}}[{before}{at}:]", f"{{0}}[{before}::2]",
                f"{{0}}.select({dim}, {at})", f"{{0}}.narrow({dim}, {at}, 1)",
            ]  # fmt: skip
        if len(shape) >= 2:
            places += ["{0}.transpose(0, 1)", "{0}.diagonal()"]
        return places

    def alias(self) -> None:
        base = self.pick()
        how = self.rng.choice(("detach", "data", "no_grad"))
        if how == "no_grad" and not (self.refusals and self.machine.requires_grad(base)):
            how = "detach"  # torch gives such a view a history once its base gets one, or refuses
        self.take(Alias(self.fresh("a"), base, how))

    def loss(self) -> str:
        chosen = {self.pick() for _ in range(self.rng.randint(1, 3))} | {self.names[-1]}
        terms = tuple((name, self.rng.choice(("squares", "cosine", "sum"))) for name in sorted(chosen))
        out = self.fresh("loss")
        self.take(Loss(out, terms))
        return out

    def write(self) -> None:
        results = [name for name in self.names if not self.machine.variables[name].leaf]
        target = self.pick(results if results and self.rng.choice((True, True, False)) else None)
        handle = self.machine.variables[target]
        illegal = handle.leaf or not handle.writable
        how = self.rng.choice(("grad",) * 6 + ("no_grad", "no_grad", "data", "detach", "inference"))
        if illegal and not (self.refusals and self.rng.choice((False, False, True))):
            if not handle.writable:
                return
            if how == "grad":
                how = "no_grad"
        place = "{0}"
        if self.shape(target) and self.rng.random() < 0.5:
            place = self.rng.choice(self.places(self.shape(target)))
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
        kind = self.rng.choice(kinds)
        arguments: tuple[str, ...] = ()
        if kind == "alone":
            statement, value = self.in_place(tables.CONSTANT | tables.BOUNDED | tables.GROWING)
        elif kind in ("broadcast", "augmented", "same", "out", "setitem"):
            fitting = self.of_shape(shape, broadcast=kind not in ("same", "out"))
            if not fitting:
                return None
            table = {
                "broadcast": tables.BROADCAST, "augmented": tables.AUGMENTED, "same": tables.SAME_SHAPE,
                "out": {"torch.sin({a}, out={v})": "{a}.sin()"}, "setitem": {"{v}[...] = {a}": "{a}"},
            }[kind]  # fmt: skip
            statement, value = self.in_place(table)
            arguments = tuple(self.pick(fitting) for _ in range(2 if "{2}" in statement else 1))
        elif kind == "addmm":
            rows = [n for n in self.names if len(self.shape(n)) == 2 and self.shape(n)[0] == shape[0]]
            pairs = [
                (a, b) for a in rows for b in self.of_shape((self.shape(a)[1], shape[1]), broadcast=False)
            ]
            if not pairs:
                return None
            statement, value = "{0}.addmm_({1}, {2})", "{0} + {1} @ {2}"
            arguments = self.rng.choice(pairs)
        elif kind == "masked":
            statement, value, arguments = self._masked(shape)
        elif kind == "put":
            where = f"torch.tensor({self.rng.randint(0, _numel(shape) - 1)})"
            number = "torch.tensor(0.25, dtype=torch.float64)"
            statement, value = f"{{0}}.put_({where}, {number})", f"{{0}}.put({where}, {number})"
        else:
            statement, value, arguments = self._indexed(shape, scattered=kind == "scattered")
        return Write(target, place, how, statement, value, arguments)

    def _masked(self, shape: tuple[int, ...]) -> tuple[str, str, tuple[str, ...]]:
        bits = [self.rng.random() < 0.5 for _ in range(_numel(shape))]
        mask = f"torch.tensor({torch.tensor(bits).view(shape).tolist()})"
        form = self.rng.choice(("masked_fill", "setitem", "masked_scatter", "variable"))
        scalars = self.of_shape((), broadcast=False)
        if form == "variable" and scalars:
            return f"{{0}}[{mask}] = {{1}}", f"torch.where({mask}, {{1}}, {{0}})", (self.pick(scalars),)
        if form == "masked_scatter":
            source = "torch.full_like({0}, 0.5)"
            return f"{{0}}.masked_scatter_({mask}, {source})", f"{{0}}.masked_scatter({mask}, {source})", ()
        statement = f"{{0}}.masked_fill_({mask}, 0.5)" if form == "masked_fill" else f"{{0}}[{mask}] = 0.5"
        return statement, f"{{0}}.masked_fill({mask}, 0.5)", ()

    def _indexed(self, shape: tuple[int, ...], *, scattered: bool) -> tuple[str, str, tuple[str, ...]]:
        dim = self.rng.randint(0, len(shape) - 1)
        order = self.rng.sample(range(shape[dim]), shape[dim])
        # No doubles: which of two writes to one element wins is undefined.
        chosen = order[: self.rng.randint(1, shape[dim])]
        some = tuple(len(chosen) if d == dim else n for d, n in enumerate(shape))
        fitting = self.of_shape(some, broadcast=False)
        source = "{1}" if fitting else f"torch.full({some}, 0.5, dtype=torch.float64)"
        arguments = (self.pick(fitting),) if fitting else ()
        if scattered:
            along = torch.tensor(chosen).view([-1 if d == dim else 1 for d in range(len(shape))])
            where = f"{dim}, torch.tensor({along.expand(some).tolist()}), {source}"
            name = self.rng.choice(("scatter", "scatter_add"))
            return f"{{0}}.{name}_({where})", f"{{0}}.{name}({where})", arguments
        index = f"torch.tensor({list(chosen)})"
        form = self.rng.choice(("setitem", "index_add", "index_copy", "index_fill"))
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
        pointwise = step.statement in _POINTWISE
        storage = self.machine.variables[step.target].storage
        for name in step.arguments:
            read = self.machine.variables[name]
            if read.storage == storage and not written.isdisjoint(read.index.reshape(-1).tolist()):
                same = read.index.shape == index.shape and bool((read.index == index).all())
                if not (pointwise and same):
                    return False
        return True


_POINTWISE = {numbered(text) for text in tables.BROADCAST | tables.AUGMENTED | tables.SAME_SHAPE}
"""Statements that read each element of an argument before they write it."""


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False)
    )


def _numel(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def _finite(values: torch.Tensor, largest: float) -> bool:
    return values.numel() > 0 and bool(values.isfinite().all()) and float(values.abs().max()) <= largest
