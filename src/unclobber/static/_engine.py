"""The interpretation of one file: its counters, source locations, suspicions and tables of functions.

Each module of the interpreter registers its functions here by the kind of syntax node that they follow, and
calls the functions of modules above it by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ._index import FileIndex, FunctionNode, home_of, is_short
from ._rules import Suspicion
from ._state import FlowState, Guards, both
from ._values import APART, Grad, SourceSpan, Use, Value

NOT_TRAINED = re.compile(
    r"post_?process|^_?init_|init_weights|reset_param|predict|generate|decode|evaluat|inference|sample|^_?test|_test(_|$)|"
    r"convert|prune|visuali|(^|_)metric|accuracy|draw|plot|from_pretrained|load_|initiali|^_?eval|^_?valid|export|quantiz|"
    r"state_update|update_cache|cache_update|(select|choose|get)_action|recogni|beam|_chunk$|stream|explor",
    re.I,
)
"""Names of functions that mostly run without a gradient."""
_OFF_THE_GRAPH = re.compile(
    r"/optim/|transforms?/|image_processing|datasets?/|(?<!attention_)augment|/data/|preprocess|conversion|_original_"
)
"""Folders of such functions."""
BUDGET = 60_000  # limit of evaluated expressions for one function


class FileRun:
    """The interpretation of the file of an index."""

    def __init__(self, index: FileIndex) -> None:
        """Start with no suspicions, at the file's top."""
        self.index = self.own = index
        self.suspicions: dict[tuple[str, int], Suspicion] = {}
        self.least = 1  # the least confidence that is recorded; lower if the program is known to fail
        self.written: dict[int, Value] = {}  # the value that each line writes to, the most certain one
        self.clock = self.last_place = self.depth = self.evaluated = 0
        self.made: list[tuple[ast.stmt | None, str, SourceSpan | None]] = [(None, "", None)]
        """By each node's number the statement that made it, its function, and the call into another file."""
        self.function = "<module>"
        self.stack: list[FunctionNode] = []
        self.statement: ast.stmt | None = None
        self.returned: list[tuple[Value, FlowState]] = []
        self.breaks: list[FlowState] = []
        self.continues: list[FlowState] = []
        self.round = (0, 0, 0, 0)  # of the innermost loop: clock and node before this round, and before all
        self.held = Value.history_of(())  # what variables, and tuples in them, hold when this round begins
        self.callers: Guards = frozenset()  # the conditions that held where the function was called
        self.frozen: set[str] = set()  # modules whose parameters were set not to require grad
        self.thawed: set[str] = set()  # and those set to require it
        self.in_frozen = False  # whether a frozen module is applied
        self.globals: dict[str, Value] = {}
        self.attributes: dict[ast.ClassDef, dict[str, Value]] = {}  # set by `__init__`, for any arguments
        self.uses: dict[int, Use] = {}  # by the bit of a network's node, its call
        self.unseen: set[int] = set()
        """The storages of arguments and of unknown functions' results, which others may have saved."""
        self.overwritten: list[tuple[frozenset[int], Suspicion]] = []  # the writes to such storages
        self.losses: set[int] = set()  # the storages of values from which a backward ran
        self.constructed: dict[SourceSpan, dict[str, Value]] = {}
        """Constants that an object's constructor sets on it, by the call that makes the object."""
        self.call: ast.expr | None = None  # the call that is followed
        self.item: tuple[str, Value] | None = None  # the item that a statement changes, and its text
        self.elsewhere: SourceSpan | None = None
        """The call in this file from which a function of another file is followed."""
        self.again: bool | None = None  # whether a loop's second round is followed; None outside of loops
        self.at_top = False  # whether the file's own statements are followed, or a function by itself

    # --- syntax --------------------------------------------------------------------------------------
    def evaluate(self, node: ast.expr, state: FlowState) -> Value:
        """Return the value of an expression; an unknown one once the budget is spent."""
        self.evaluated += 1
        if self.evaluated > BUDGET:
            return Value(places=self.new_place())
        value: Value = followers[type(node)](self, node, state)
        if state.grown and value.places and value.data not in APART:
            for place in value.places & state.grown.keys():
                value = both(value, state.grown[place])
        return value

    def execute(self, body: list[ast.stmt], state: FlowState) -> FlowState:
        """Return the state after the statements; it stops at one that is never reached."""
        for statement in body:
            if state.dead:
                break
            if (known := followers.get(type(statement))) is not None:
                outer, self.statement = self.statement, statement
                state = known(self, statement, state) or state
                self.statement = outer
        return state

    @contextmanager
    def within(self, **fields: Any) -> Iterator[None]:
        """Set attributes for a while."""
        outer = {name: vars(self)[name] for name in fields}
        vars(self).update(fields)
        try:
            yield
        finally:
            vars(self).update(outer)

    # --- numbers -------------------------------------------------------------------------------------
    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def new_node(self) -> int:
        self.made.append((self.statement, self.function, self.elsewhere))
        return 1 << (len(self.made) - 1)

    def new_place(self) -> frozenset[int]:
        self.last_place += 1
        return frozenset([self.last_place])

    def part_of(self, places: frozenset[int]) -> frozenset[int]:  # a new place, unseen if the whole is
        made = self.new_place()
        self.unseen |= made if places & self.unseen else frozenset()
        return made

    @property
    def root(self) -> str:  # the function that is followed by itself, for any caller
        return self.stack[0].name if self.stack else ""

    @property
    def is_trained(self) -> bool:
        return self.root == "forward" or "loss" in self.root

    def tensor(self, grad: Grad = Grad.MAYBE, nodes: int = 0, may: int = 0, **more: Any) -> Value:
        return Value("tensor", self.new_place(), True, grad, nodes, may | nodes, **more)

    def trains(self, name: str) -> bool:
        name = re.sub(r"[#@]\d+", "", name)
        return name in self.index.trained or name in self.own.trained  # this file's, or the checked one's

    def is_frozen(self, name: str) -> bool:  # or a module that it is a part of
        return self.in_frozen or any(f"{name}.".startswith(f"{frozen}.") for frozen in self.frozen)

    def follows(self, function: FunctionNode) -> bool:
        return home_of(function) is self.own or is_short(function)

    def entered(self, function: FunctionNode | ast.Lambda) -> dict[str, Any]:
        home, called = home_of(function), self.elsewhere
        if home is self.index:
            return {}
        if called is None and self.call is not None:
            called = self.span(self.call)
        return {"index": home, "at_top": False, "elsewhere": None if home is self.own else called}

    def span(self, node: ast.expr | ast.stmt) -> SourceSpan:
        """Return the location of a node, with its statement."""
        if self.elsewhere is not None:
            inner = self.index.path, node.lineno, node.col_offset, self.function
            return self.elsewhere._replace(inner=inner)
        statement = self.statement if self.statement is not None else node
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        first, body = statement.lineno, getattr(statement, "body", None)
        last = statement.end_lineno or first
        if isinstance(body, list):
            last = max(first, body[0].lineno - 1)  # without the body of a compound statement
        return SourceSpan(node.lineno, node.col_offset, end_line, end_column, first, last, self.function)

    def maker(self, node: int) -> SourceSpan | None:  # the simple statement of this file that made it
        statement, function, called = self.made[node.bit_length() - 1]
        if statement is None or called or hasattr(statement, "body"):
            return called
        with self.within(statement=statement, function=function, elsewhere=None):
            return self.span(getattr(statement, "value", None) or statement)

    def use(self, owner: str, node: ast.expr, state: FlowState) -> Use:  # of its parameters, now
        return Use(owner, self.tick(), self.span(node), state.guards, state.quiet)

    def maybe_uses(self, value: Value) -> frozenset[Use]:
        """Return the calls of networks on which a value may depend, through unknown functions."""
        known = {use[:2] for use in value.graph}
        return frozenset(u for bit, u in self.uses.items() if bit & value.may and u[:2] not in known)

    # --- suspicions ----------------------------------------------------------------------------------
    def suspect(self, state: FlowState, suspicion: Suspicion) -> None:
        """Record a suspicion, unless one of at least its confidence is known for the line."""
        confidence = suspicion.confidence - state.quiet - self._quiet(suspicion)
        if confidence < self.least or suspicion.is_elsewhere:
            return
        key = (suspicion.rule.name, suspicion.span.line)
        known = self.suspicions.get(key)
        better = confidence, suspicion.needed is not None, not suspicion.is_weak
        if known is None or (known.confidence, known.needed is not None, not known.is_weak) < better:
            self.suspicions[key] = suspicion._replace(confidence=confidence)

    def _quiet(self, suspicion: Suspicion) -> int:
        """Return the steps of confidence that a suspicion loses in code that is mostly not trained."""
        rule = suspicion.rule.value
        # A write is reported where the function returns that called the writing function.
        places = [each.function for each in (suspicion.write, suspicion.saved) if each is not None]
        names = ".".join([*(function.name for function in self.stack), *places]).split(".")
        functions = [name for name in names if not name[:1].isupper()]  # a `Sampler` is trained, too
        # Where a backward runs, gradients are on: the `test()` at the end of a network's file.
        less = int(rule.needs_training and not suspicion.needed and any(map(NOT_TRAINED.search, functions)))
        return less + (rule.needs_graph and _OFF_THE_GRAPH.search(self.own.path) is not None)


followers: dict[type[ast.AST], Callable[..., Any]] = {}
"""By its kind the value of an expression, or the state after a statement: None for the given one, changed."""
_Function = TypeVar("_Function", bound=Callable[..., Value | FlowState | None])


def follows(*kinds: type[ast.expr] | type[ast.stmt]) -> Callable[[_Function], _Function]:
    """Register a function for some kinds of expressions or statements."""

    def register(function: _Function) -> _Function:
        followers.update(dict.fromkeys(kinds, function))
        return function

    return register
