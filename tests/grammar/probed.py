"""Random programs that look at themselves: classes, identities, hooks, modes, errors (``oracles/probed``).

All tensors are squares, so that every step fits every other. A write is drawn only where its twin is plain:
to a result that is no view and has none, and that nothing but autograd has kept.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from hypothesis import strategies as st

from oracles.probed import Line, ProbedProgram

from . import tables
from .writer import T, Writer, numbered

RESULTS = (
    *map(numbered, (*tables.POINTWISE, *tables.ALONG_LAST, *tables.MIXED)), "{0} @ {1}",
    "torch.nn.functional.linear({0}, {1})", "{0}.cumsum(0)", "torch.cat([{0}, {1}])[:3].clone()",
    "torch.addmm({0}, {1}, {1})", "torch.nn.functional.dropout({0}, 0.5)",
)  # fmt: skip
VIEWS = ("{0}.T", "{0}[:]", "{0}.view(3, 3)", "{0}.expand(3, 3)", "{0}.detach()", "{0}.flip(0).T", "{0}.data")
FUNCTIONS = (
    "Product.apply({0}, {1})",
    "Exponential.apply({0})",
    "sum(InTwo.apply({0}, {1}))",
    "InTwo.apply({0}, {1})[0]",
)
MODULES = ("linear", "norm", "layers", "hooked", "hooked_norm", "frozen")
IN_PLACE = {
    **{numbered(text): numbered(value) for text, value in (tables.BOUNDED | tables.AUGMENTED).items()},
    "{0}.add_({1})": "{0}.add({1})", "torch._foreach_mul_([{0}], 0.5)": "{0}.mul(0.5)",
    "{0}[0] = 0.25": "torch.cat([torch.full_like({0}[:1], 0.25), {0}[1:]])",
}  # fmt: skip
REFUSED = (
    "{leaf}.add_(1)", "{leaf}[0].zero_()", "Raising.apply({0}).sum().backward()", "{0}.sum().backward({1})",
    "Misshapen.apply({0}).sum().backward()", "{leaf}.detach().sum().backward()", "({0} @ torch.ones(2))",
    "again({0})", "{leaf}.unbind(0)[0].mul_(2)", "{0}.expand(2, 3, 3).add_(1)", "in_hook({0})",
    "torch.autograd.grad({0}, {leaf})",
)  # fmt: skip
"""Each fails, or may fail, and the program catches the error."""
AROUND = {
    "keeping('k{n}')": 2, "copying('c{n}')": 1, "functions()": 2, "operations()": 2, "torch.no_grad()": 1,
    "torch.autograd.profiler.record_function('part')": 1, "torch.autograd.set_detect_anomaly(True)": 1,
    "torch.autograd.graph.save_on_cpu()": 1,
}  # fmt: skip
START = (
    "from torch import nn\n"
    "norm, linear = nn.BatchNorm1d(3).double(), nn.Linear(3, 3).double()\n"
    "layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.LayerNorm(3)).double()\n"
    "hooked, hooked_norm = with_hooks(nn.Linear(3, 3).double()), with_hooks(nn.BatchNorm1d(3).double())\n"
    "frozen = nn.Linear(3, 3).double().requires_grad_(False)"
)
HELPERS = """\
def again(tensor):
    total = tensor.exp().sum()
    total.backward(retain_graph=False)
    total.backward()
def in_hook(tensor):
    result = tensor * 1
    raising_hook(result)
    result.sum().backward()"""

KNOWN: dict[str, str] = {}
"""Steps that are known to differ, each with the kind that it is of, and are not drawn."""
KNOWN_ENTRIES: dict[str, str] = {"alive": "C", "weak references": "C"}
"""What is known to be seen, by the first word of the log's entry."""


def probed_programs() -> st.SearchStrategy[ProbedProgram]:
    """Programs of two to four leaves, modules, and up to fourteen steps with one or two backward passes."""
    return st.randoms(use_true_random=False).map(lambda rng: ProbedWriter(rng).program())


class ProbedWriter(Writer):
    """Writes lines, and where a line writes in place, what stands there in the twin."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.lines: list[Line] = []
        self.leaves: list[str] = []
        self.kinds: set[str] = set()
        """The kinds of its leaves."""
        self.writable: set[str] = set()
        self.rewritten: set[str] = set()
        """Results of a write in place, which keeps a copy of its own: docs/limits.md."""
        self.past_autograd: set[str] = set()
        """Results that were written without autograd: their twins are other tensors, without their hooks."""
        self.is_kept = False
        """Whether the program's own hooks keep all that is saved."""

    def program(self) -> ProbedProgram:
        before = [Line(START), Line(HELPERS)]
        outer = self.rng.choice((None, None, None, "keeping('outer')", "functions()", "operations()"))
        self.is_kept = outer == "keeping('outer')"
        for n in range(self.rng.randint(2, 4)):
            kinds = [kind for kind in ("leaf", "parameter", "parameter", "subclass") if kind not in KNOWN]
            kind = self.rng.choice(kinds)
            self.kinds.add(kind)
            before.append(Line(f"x{n} = {kind}(3, 3)"))
            self.leaves.append(f"x{n}")
        before.append(Line("b0 = buffer(3, 3)"))
        before.append(Line("seen = torch.ones(3)"))  # what recomputations write, and nothing else reads
        before.append(Line(f"leaves = [{', '.join(self.leaves)}, *layers.parameters(), *norm.parameters()]"))
        self.names = [*self.leaves, "b0"]
        for _ in range(self.rng.randint(2, 14)):
            self.step()
        self.end(last=True)
        self.take(f"look({', '.join(self.names)})")
        self.take(f"loss = found = None\nforget({', '.join(map(repr, self.made('a')))})\nalive()")
        after = (Line(f"look({', '.join(self.leaves)})"),)
        return ProbedProgram(tuple(before), tuple(self.lines), after, None if outer in KNOWN else outer)

    # ------------------------------------------------------------------ choosing
    def weighted(self, kinds: Mapping[T, float]) -> T:
        return super().weighted({kind: weight for kind, weight in kinds.items() if kind not in KNOWN})

    def take(self, text: str, *, twin: str | None = None, silent: bool = False) -> None:
        self.lines.append(Line(text, twin, silent))

    def step(self) -> None:
        kinds = {
            "compute": 5, "function": 3, "module": 2, "write": 2, "overwritten": 2, "view": 1,
            "surrounded": 3, "checkpointed": 1, "hook": 4, "look": 1, "refused": 1, "pickled": 1,
            "dropped": 1, "thread": 1, "dirty": 1, "end": 1,
        }  # fmt: skip
        kind = self.weighted(kinds)
        getattr(self, kind)()

    # ------------------------------------------------------------------ steps
    def expression(self, among: tuple[str, ...] = RESULTS) -> str:
        return str(self.rng.choice(among)).format(self.pick(), self.pick())

    def result(self, text: str, *, writable: bool = True) -> str:
        out = self.fresh("a")
        self.take(f"{out} = {text}")
        self.names.append(out)
        if writable:
            self.writable.add(out)
        return out

    def compute(self) -> None:
        self.result(self.expression())

    def function(self) -> None:
        self.result(self.expression(FUNCTIONS))

    def module(self) -> None:
        name, base = self.rng.choice(MODULES), self.pick()
        # A full backward hook makes views of input and result, and torch refuses to read them after a write.
        hooked = name.startswith("hooked")
        if hooked:
            self.writable.discard(base)
        self.result(f"{name}({base})", writable=not hooked)

    def view(self) -> None:
        base = self.pick()
        self.writable.discard(base)
        self.result(str(self.rng.choice(VIEWS)).format(base), writable=False)

    def dirty(self) -> None:
        base = self.result(self.expression(), writable=False)
        self.names.remove(base)
        out = self.fresh("a")
        self.take(f"{out} = Dirty.apply({base})", twin=f"{out} = Dirty.apply({base}.clone())")
        self.names.append(out)

    def overwritten(self) -> None:
        """A result that its own operation has saved, and that the program may drop before backward."""
        out = self.result(self.expression(("{0}.exp()", "{0}.tanh()", "Exponential.apply({0})")))
        self.write(out)
        if self.rng.random() < 0.3:
            self.result(f"{out} * {self.rng.choice(self.leaves)}", writable=False)
            self.take(f"del {out}")
            self.names.remove(out)
            self.writable.discard(out)

    def write(self, target: str | None = None) -> None:
        if not self.writable:
            return
        target = target or self.rng.choice(sorted(self.writable))
        # Under a mode of operations torch records no `_foreach_mul_` of a view, as which it has a subclass.
        among = {s: v for s, v in IN_PLACE.items() if "subclass" not in self.kinds or "foreach" not in s}
        statement, value = self.rng.choice(list(among.items()))
        argument = self.rng.choice([name for name in self.names if name != target])
        # A subclass returns itself from `+=`: without autograd the name then has no history.
        rebinds = "=" in statement and not statement.startswith("{0}[") and "subclass" in self.kinds
        # Hooks that keep the very tensor keep the memory that the program gives it.
        how = self.rng.choice(("data", "grad", "no_grad", "grad", *("memory",) * (not self.is_kept)))
        how = "grad" if rebinds else how
        value = value.format(target if how == "grad" else f"{target}.detach()", argument)
        if how == "grad":
            self.rewritten.add(target)
            self.take(statement.format(target, argument), twin=f"{target} = {value}")
            return
        self.past_autograd.add(target)
        twin = f"with torch.no_grad(): values = {value}\n{target} = with_values({target}, values)"
        if how == "no_grad":
            self.take(f"with torch.no_grad(): {statement.format(target, argument)}", twin=twin)
        elif how == "memory":
            self.take(f"{target}.data = ({value}).detach()", twin=twin, silent=True)
        else:
            text = statement.format(f"{target}.data", f"{argument}.detach()")
            self.take(text, twin=twin, silent=True)

    def surrounded(self) -> None:
        text, out = self.expression(RESULTS + FUNCTIONS), self.fresh("a")
        with_what = self.weighted(AROUND).format(n=len(self.lines))
        for name in self._used(text):  # its hooks keep what they like
            self.writable.discard(name)
        self.take(f"with {with_what}: {out} = {text}")
        self.names.append(out)

    def checkpointed(self) -> None:
        text = self.expression()
        used = self._used(text)
        self.writable -= set(used)
        reentrant = self.rng.random() < 0.5
        parameters = ", ".join(f"p{n}" for n in range(len(used)))
        body = text
        for n, name in enumerate(used):
            body = re.sub(rf"\b{name}\b", f"p{n}", body)
        write = self.rng.choice(
            ("seen.div_(seen.norm())", "seen[1:] = seen.mean() + 1", "seen.copy_(seen * 2)")
        )
        lines = "note('part runs')", f"with torch.no_grad(): {write}", f"return ({body}).exp()"
        self.take("\n    ".join((f"def part({parameters}):", *lines)))
        self.result(f"checkpoint(part, {', '.join(used)}, use_reentrant={reentrant})", writable=False)

    def _used(self, text: str) -> list[str]:
        return [name for name in dict.fromkeys(re.findall(r"\b[axb]\d+\b", text)) if name in self.names]

    def hook(self) -> None:
        name = self.pick()
        if name == "b0" or name in self.past_autograd:
            return
        kinds = {
            "hook_on({0}, '{0}')": 2, "hook_on({0}, '{0}', 0.5)": 1, "hook_once({0})": 1,
            "removed_hook({0})": 1, "hook_after({leaf}, '{leaf}')": 2, "node_hooks({0}, '{0}')": 2,
            "hook_on_all({0}, {leaf})": 1, "hook_on_any({0}, {leaf})": 1,
            "raw_hooks({0})": 1, "{0}.retain_grad()": 1,
        }  # fmt: skip
        if name in self.rewritten:
            del kinds["raw_hooks({0})"]
        kind = self.weighted(kinds)
        text = kind.format(name, leaf=self.rng.choice(self.leaves))
        self.writable.discard(name)  # a hook is of one version of its tensor
        self.take(f"if {name}.requires_grad: {text}")

    def look(self) -> None:
        self.take(f"look({self.pick()}, {self.pick()})")

    def refused(self) -> None:
        text = self.rng.choice([one for one in REFUSED if one not in KNOWN])
        name, other = self.pick(), self.pick()
        text = str(text).format(name, other, leaf=self.rng.choice(self.leaves))
        self.writable -= {name, other}  # a backward that fails frees a part of the graph
        self.take(f"with caught(): {text}")

    def pickled(self) -> None:
        kinds = ("pickled(linear)", "pickled(norm)", "pickled(layers)", "pickled_parameter({0})")
        leaf = self.rng.choice(self.leaves)
        text = str(self.rng.choice(kinds)).format(leaf)
        self.take(f"if type({leaf}) is not Logged: {text}")

    def dropped(self) -> None:
        """A result that nothing but autograd may hold any more."""
        out = self.result(self.expression(), writable=False)
        self.result(self.expression((f"{out} * {{0}}", f"{out}.exp()", f"Product.apply({out}, {{0}})")))
        self.take(f"follow({out}, '{out}')\ndel {out}\nnote('dropped', '{out}')")
        self.names.remove(out)

    def thread(self) -> None:
        leaf = self.rng.choice(self.leaves)
        text = self.rng.choice(("torch.autograd.grad({0}.exp().sum(), {0})", "look(Product.apply({0}, {0}))"))
        self.take(f"in_thread(lambda: {text.format(leaf)})")

    def end(self, *, last: bool = False) -> None:
        """A loss of some results, and a backward pass."""
        terms = list(dict.fromkeys([self.names[-1], *(self.pick() for _ in range(2))]))
        loss = " + ".join(f"({one} * {one}).sum()" if n else f"{one}.sum()" for n, one in enumerate(terms))
        self.take(f"loss = {loss}")
        kinds = {
            "loss.backward(retain_graph={keep})\ngradients()": 3,
            "gradients(torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph={keep}))": 1,
            "found = torch.autograd.grad(loss, leaves, allow_unused=True, create_graph=True)\n"
            "gradients(found)\n"
            "loss = sum((g.square().sum() for g in found if g is not None and g.requires_grad), loss)\n"
            "loss.backward(retain_graph={keep})\ngradients()": 1,
            "with functions(): loss.backward(retain_graph={keep})": 1,
            "with operations(): loss.backward(retain_graph={keep})": 1,
        }
        kind = self.weighted(kinds)
        keep = not last and self.rng.choice((True, True, False))
        text = str(kind).format(keep=keep)
        guarded = "\n".join(f"    {line}" for line in text.split("\n"))
        self.take(f"if loss.requires_grad:\n{guarded}")
