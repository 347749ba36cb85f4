"""Random scripts: each statement is tried out as it is written, so that what is kept is legal.

The try-outs run with copies of everything that autograd saves; so nothing is refused for having
been overwritten, and what torch refuses for other reasons is left out, or is the last statement.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from oracles.scripts import LANES, PIECES, Script, compiled, copies

from . import tables
from .writer import Writer

_SHAPES = ("(3,)", "(4,)", "(2, 3)", "(3, 3)", "(2, 4)", "(2, 2, 3)", "(4, 4)")
_DTYPES = ("float32",) * 8 + ("float64",) * 7 + ("complex64", "complex128", "bfloat16")
_LARGEST = 40.0
_MOST_ELEMENTS = 64
_REFUSALS = ("inplace", "in-place", "leaf V", "written-to", "a second time", "some elements of the input")
"""What errors say that are worth being the last statement of a script."""


def random_script(seed: int, *, smooth: bool = False) -> Script:
    """The script of a seed, the same in each process.

    Args:
        seed: Any number.
        smooth: Only what finite differences can follow: float64, nothing that draws random numbers, and no
            way around autograd.
    """
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not smooth and rng.random() < 0.07:
            lanes = [ScriptWriter(rng, lane, smooth=False).write() for lane in LANES]
            return Script(("in_threads(left, right)",), *lanes, seed)
        return Script(ScriptWriter(rng, "main", smooth=smooth).write(), seed=seed)


_WAYS = ("",) * 6 + ("no_grad", "no_grad", "data", "detach()", "inference_mode")
"""How a write happens: as it stands, or around autograd."""


_AROUND = (".detach()", ".data", "nn.init")
"""What templates say that go around autograd themselves."""


class ScriptWriter(Writer):
    """Writes one thread's statements."""

    def __init__(self, rng: random.Random, lane: str, *, smooth: bool) -> None:
        super().__init__(rng)
        self.lane = lane
        self.smooth = smooth
        self.cuts = not smooth
        self.threaded = lane != "main"
        self.dtype = "float64" if smooth else rng.choice(_DTYPES)
        self.statements: list[str] = []
        self.leaves: list[str] = []
        self.modules: dict[str, str] = {}
        self.optimizers: list[str] = []
        self.losses: list[str] = []
        self.done = False
        self.shapes = rng.sample(_SHAPES, rng.choice((1, 1, 2)))
        self.planting = rng.random()
        """The lower, the fewer writes."""
        self.ways = _WAYS if self.cuts else ("",)
        if self.cuts and rng.random() < 0.15:
            self.ways = ("data",)  # nothing that torch sees: it never refuses
        self.space: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        for name, text in PIECES.items():
            if name != "in_threads":
                exec(compiled(text), self.space)

    # --- the shape of a script --------------------------------------------------------------------

    def write(self) -> tuple[str, ...]:
        rng = self.rng
        torch.manual_seed(0)
        for _ in range(rng.randint(1, 3)):
            self.leaf()
        if rng.random() < 0.4 and not self.smooth:
            for _ in range(rng.randint(1, 2)):
                self.module()
        if rng.random() < 0.3:
            self.optimizer()
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            self.round()
            if self.done:
                break
        if not self.done:
            self.keep(self.names)
        return tuple(self.statements)

    def round(self) -> None:
        """Forward, losses, and what may come between them and their backward passes."""
        rng = self.rng
        for _ in range(rng.randint(2, 7)):
            self.any_step()
        for _ in range(rng.choice((1, 1, 2))):
            self.loss()
            if rng.random() < 0.4 * self.planting:
                self.any_step()
        if rng.random() < self.planting:
            for _ in range(rng.randint(1, 2)):
                self.overwrite()
        for loss in [name for name in self.losses if rng.random() < 0.9]:
            if not self.done:
                self.backward(loss)
        self.losses.clear()

    def any_step(self) -> None:
        if self.done:
            return
        kinds: dict[Callable[[], object], float] = {
            self.compute: 5,
            self.view: 3,
            self.overwrite: 4 * self.planting,
            self.new: 0.5,
            self.function: 0.7,
        }
        if self.modules:
            kinds[self.call_module] = 3
        if self.optimizers:
            kinds[self.step] = 0.5 * self.planting
        if not self.smooth:
            kinds[self.hook] = 0.1
        self.weighted(kinds)()

    # --- trying out -------------------------------------------------------------------------------

    def take(self, text: str, *, may_end: bool = False) -> bool:
        """Add the statement if it runs; says whether it did."""
        if self.done:
            return False
        try:
            with copies():
                exec(text, self.space)
        except Exception as error:
            refused = isinstance(error, RuntimeError) and any(words in str(error) for words in _REFUSALS)
            if may_end and refused and self.rng.random() < 0.12:
                self.statements.append(text)
                self.done = True
            return False
        self.statements.append(text)
        return True

    def define(self, text: str, *names: str) -> bool:
        """Add a statement that defines tensors; it is dropped if these can't be used on."""
        if not self.take(text):
            return False
        if not all(self._usable(self.space.get(name)) for name in names):
            self.statements.pop()
            for name in names:
                self.space.pop(name, None)
            return False
        self.names += names
        return True

    def _usable(self, value: Any) -> bool:
        if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
            return False
        if not 0 < value.numel() <= _MOST_ELEMENTS or value.layout is not torch.strided:
            return False
        return bool(value.detach().abs().max() <= _LARGEST)

    # --- choosing ---------------------------------------------------------------------------------

    def pick(self, names: Iterable[str] | None = None) -> str:
        """A variable, late ones and those that require grad more often."""
        among = self.names if names is None else list(names)
        if self.rng.random() < 0.5:
            among = [name for name in among if self.space[name].requires_grad] or among
        return super().pick(among)

    def like(self, name: str) -> str:
        """A variable that fits another one, most times."""
        shape = self.space[name].shape
        fitting = [n for n in self.names if self.space[n].shape == shape]
        return self.pick(fitting if fitting and self.rng.random() < 0.75 else None)

    def fits(self, template: str, name: str) -> bool:
        """Whether the template may be used: torch does not check that the memory of a view is there."""
        value = self.space[name]
        if not self.cuts and any(words in template for words in _AROUND):
            return False
        return "as_strided" not in template or (value.numel() >= 4 and value.is_contiguous())

    def fill(self, template: str, name: str, target: str | None = None) -> str:
        text = template.replace("{v}", name if target is None else target)
        for place in ("{a}", "{b}"):
            if place in text:
                text = text.replace(place, self.like(name))
        return text

    # --- statements -------------------------------------------------------------------------------

    def leaf(self) -> None:
        name = self.fresh("x")
        shape = self.rng.choice(self.shapes)
        if self.take(f"{name} = leaf({len(self.leaves)}, {shape}, torch.{self.dtype})"):
            self.leaves.append(name)
            self.names.append(name)

    def new(self) -> None:
        """A buffer without history, such as programs fill row by row."""
        name = self.fresh("b")
        fill = self.rng.choice(("torch.zeros({})", "torch.full({}, 0.5)", "torch.ones({})"))
        shape = self.rng.choice(self.shapes)
        self.define(f"{name} = {fill.format(shape)[:-1]}, dtype=torch.{self.dtype})", name)

    def compute(self) -> None:
        for _ in range(4):
            name = self.fresh("y")
            template = self.rng.choice(tables.BINARY if self.rng.random() < 0.45 else tables.UNARY)
            if self.smooth and ".float()" in template:
                continue
            if self.define(f"{name} = {self.fill(template, self.pick())}", name):
                return

    def function(self) -> None:
        for _ in range(3):
            name = self.fresh("y")
            template = self.rng.choice(tables.FUNCTIONS)
            if self.smooth and "." in template.partition("(")[0]:
                continue  # a Function
            if self.define(f"{name} = {self.fill(template, self.pick())}", name):
                return

    def view(self) -> None:
        for _ in range(4):
            if self.rng.random() < 0.15:
                names = [self.fresh("v"), self.fresh("v")]
                template = self.rng.choice(tables.SEVERAL)
            else:
                names = [self.fresh("v")]
                template = self.rng.choice(tables.VIEWS)
            name = self.pick()
            if not self.fits(template, name):
                continue
            if self.define(f"{', '.join(names)} = {self.fill(template, name)}", *names):
                return

    def overwrite(self) -> None:
        """An in-place statement."""
        rng = self.rng
        for _ in range(5):
            inner = [name for name in self.names if name not in self.leaves]
            name = self.pick(inner if inner and rng.random() < 0.85 else None)
            text = self.rare_write(name) or self.write_to(name)
            if text and (self.take(text, may_end=True) or self.done):
                return

    def write_to(self, name: str) -> str | None:
        """As it stands, or around autograd."""
        template = self.rng.choice(tables.IN_PLACE_WITH if self.rng.random() < 0.5 else tables.IN_PLACE)
        text = self.fill(template, name)
        if not self.fits(template, name) or ("out=" in text and not self._has_room(text, name)):
            return None
        way = self.rng.choice(self.ways)
        if "out=" in template and way == "" and self.cuts:
            way = "no_grad"
        if way in ("no_grad", "inference_mode"):
            return f"with torch.{way}(): {text}"
        if way and not template.startswith("{v} "):  # not `v.data *= 2`: a write to an attribute, too
            return self.fill(template, name, f"{name}.{way}")
        return text

    def _has_room(self, text: str, name: str) -> bool:
        """Whether the result has the shape of ``out``: torch would give it other memory, under its views and
        even under the operation's own input."""
        try:
            with torch.no_grad():
                result = eval(text.replace(f", out={name}", ""), self.space)
        except (RuntimeError, IndexError, TypeError):
            return False
        return bool(result.shape == self.space[name].shape)

    def rare_write(self, name: str) -> str | None:
        """Past torch, to the tensor instead of to its memory, or by chance."""
        if not self.cuts:
            return None
        number = self.rng.random()
        if number < 0.01 and self.space[name].dtype != torch.bfloat16:
            return f"{name}.detach().numpy()[...] = 0.25"
        if 0.01 < number < 0.02 and self.space[name]._base is None:
            return f"{name}.data = torch.zeros_like({name})"
        if 0.02 < number < 0.03 and not self.threaded:
            return f"F.dropout({name}, 0.5, True, inplace=True)"
        return None

    def module(self) -> None:
        rng = self.rng
        if self.threaded:
            return  # parameters are drawn at random: threads would mix them up
        for _ in range(4):
            name, sizes = self.fresh("m"), list(self.space[self.pick()].shape)
            kind = rng.choice(tables.RECURRENT if rng.random() < 0.2 else tables.MODULES)
            if rng.random() < 0.08 and sizes[-1] % 2 == 0:
                kind = "nn.MultiheadAttention({n}, 2)"
            channels = sizes[-2] if len(sizes) == 3 else sizes[-1]
            text = kind.replace("{n}", str(sizes[-1])).replace("{m}", str(channels))
            if self.take(f"{name} = {text}.to(torch.{self.dtype})"):
                self.modules[name] = kind
                return

    def call_module(self) -> None:
        for _ in range(4):
            module = self.rng.choice(list(self.modules))
            kind = self.modules[module]
            out, value = self.fresh("y"), self.pick()
            arguments = {"nn.Bi": "{0}, {0}", "nn.Mu": "{0}, {0}, {0}"}.get(kind[:5], "{0}").format(value)
            call = f"{module}({arguments})"
            if kind.startswith(("nn.RNN(", "nn.GRU(", "nn.LSTM(", "nn.Mu")):
                call += "[0]"
            elif self.rng.random() < 0.1:
                call = f"checkpoint({module}, {arguments}, use_reentrant=False)"
            if self.define(f"{out} = {call}", out):
                return

    def parameters(self) -> str:
        parts = list(self.leaves) + [f"*{module}.parameters()" for module in self.modules]
        return f"[{', '.join(self.rng.sample(parts, self.rng.randint(1, len(parts))))}]"

    def optimizer(self) -> None:
        if self.threaded:
            return
        name = self.fresh("o")
        template = self.rng.choice(tables.OPTIMIZERS)
        if self.take(f"{name} = {template.replace('{p}', self.parameters())}"):
            self.optimizers.append(name)

    def step(self) -> None:
        self.take(f"{self.rng.choice(self.optimizers)}.step()")

    def hook(self) -> None:
        name = self.pick()
        value = self.space[name]
        if value.requires_grad and value._base is None:  # torch crashes on views whose base was written
            self.take(f"{name}.register_hook(halve)")

    def loss(self) -> None:
        rng = self.rng
        chosen = sorted({self.pick() for _ in range(rng.randint(1, 3))} | {self.names[-1]})
        terms = []
        for name in chosen:
            table = tables.COMPLEX_TERMS if self.space[name].is_complex() else tables.TERMS
            terms.append(rng.choice(table).replace("{v}", name))
        name = self.fresh("l")
        if self.take(f"{name} = {' + '.join(terms)}") and self.space[name].requires_grad:
            self.losses.append(name)

    def backward(self, loss: str) -> None:
        rng = self.rng
        kind = rng.random()
        wanted = rng.sample(self.leaves, rng.randint(1, len(self.leaves)))
        if kind < 0.4:
            self.take(f"{loss}.backward()", may_end=True)
        elif kind < 0.7:
            self.take(f"{loss}.backward(retain_graph=True)", may_end=True)
            self._between()
            self.take(f"{loss}.backward()", may_end=True)
        elif kind < 0.82:
            g = self.fresh("g")
            options = "retain_graph=True, allow_unused=True"
            self.take(f"{g} = torch.autograd.grad({loss}, [{', '.join(wanted)}], {options})")
            if g in self.space and not self.done:
                self.take(f"keep({self.lane!r}, *{g})")
            if rng.random() < 0.5:
                self._between()
                self.take(f"{loss}.backward()", may_end=True)
        else:
            g = self.fresh("g")
            taken = self.take(f"({g},) = torch.autograd.grad({loss}, [{wanted[0]}], create_graph=True)")
            if taken and self.space[g].requires_grad and self._usable(self.space[g]):
                self.names.append(g)
                second = self.fresh("l")
                square = "torch.view_as_real({0}).square()" if self.space[g].is_complex() else "({0} * {0})"
                self.take(f"{second} = {square.format(g)}.sum()")
                self._between()
                self.take(f"{second}.backward()", may_end=True)
        parameters = [f"*[p.grad for p in {module}.parameters()]" for module in self.modules]
        self.keep([f"{leaf}.grad" for leaf in self.leaves] + parameters)

    def _between(self) -> None:
        rng = self.rng
        if self.optimizers and rng.random() < 0.6 * self.planting:
            self.step()
        for _ in range(rng.randint(0, 2)):
            if rng.random() < self.planting:
                self.overwrite()

    def keep(self, what: list[str]) -> None:
        if not self.done:
            self.take(f"keep({self.lane!r}, {', '.join(what)})")
