"""What every part of the interpreter uses: the clock, places, spots and the list of suspicions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace

from ._index import FileIndex, FunctionNode
from ._interpreter import Interpreter
from ._state import FlowState
from ._values import Grad, SourceSpot, Value

HIGH = 3
MEDIUM = 2

_NOT_TRAINED = re.compile(
    r"post_?process|^_?init_|init_weights|reset_param|predict|generate|decode|evaluat|inference|sample|^_?test|"
    r"convert|prune|visuali|metric|accuracy|draw|plot|from_pretrained|load_|initiali|^_?eval|^_?valid|export|quantiz|"
    r"state_update|update_cache|cache_update",
    re.I,
)
"""Functions in which mostly no gradient is asked for."""
_OFF_THE_GRAPH = re.compile(
    r"/optim/|transforms?/|image_processing|datasets?/|augment|/data/|preprocess|conversion|_original_"
)
"""Folders of such functions."""
_GRAPH_RULES = frozenset({"saved", "saved-data", "self-overlap", "several", "module", "operand"})
BUDGET = 60_000
"""Expressions that are evaluated for one function at most."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something that goes wrong if the line runs with gradients on."""

    rule: str
    level: int
    """3 high, 2 medium; with 1 it isn't told."""
    write: SourceSpot | None = None
    saved: SourceSpot | None = None
    needed: SourceSpot | None = None
    freed: SourceSpot | None = None
    operand: SourceSpot | None = None
    """What was saved, inside of the expression that saved it."""
    operation: str = ""
    role: str = ""
    how: str = ""
    """The operation that writes: ``add_``, ``+=``."""
    name: str = ""
    """What is written, as the user calls it."""
    more: tuple[str, ...] = field(default=())
    """Further words of the rule."""

    @property
    def spot(self) -> SourceSpot:
        """The line to blame."""
        found = self.write or self.needed or self.saved
        assert found is not None
        return found


class Core(Interpreter):
    """One file's interpreter, its bookkeeping.

    Args:
        index: The file's names.
    """

    def __init__(self, index: FileIndex) -> None:
        self.index = index
        self.suspicions: dict[tuple[str, int], Suspicion] = {}
        self.clock = 0
        self.last_node = 0
        self.last_place = 0
        self.depth = 0
        self.evaluated = 0
        self.function = "<module>"
        self.stack: list[FunctionNode] = []
        self.statement: ast.stmt | None = None
        self.frozen: set[str] = set()
        """Modules whose parameters were set not to require grad."""
        self.globals: dict[str, Value] = {}
        self.constructed: dict[SourceSpot, dict[str, Value]] = {}
        """By the call that makes an object, the constants that it sets on it."""
        self.at_top = False
        """Whether the file's own statements are being followed, and not one of its functions by itself."""

    # --- numbers -------------------------------------------------------------------------------------
    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def new_node(self) -> int:
        self.last_node += 1
        return 1 << self.last_node

    def new_place(self) -> frozenset[int]:
        self.last_place += 1
        return frozenset([self.last_place])

    def tensor(self, grad: Grad = Grad.MAYBE, nodes: int = 0, may: int = 0) -> Value:
        """A new tensor."""
        return Value("tensor", self.new_place(), True, grad, nodes, may | nodes)

    def unknown(self) -> Value:
        """Something of which nothing is known."""
        return Value("unknown", self.new_place())

    # --- places of the source ------------------------------------------------------------------------
    def spot(self, node: ast.expr | ast.stmt) -> SourceSpot:
        """Where a node stands, and its statement."""
        statement = self.statement if self.statement is not None else node
        first, last = statement.lineno, _last_line(statement)
        return SourceSpot(
            node.lineno,
            node.col_offset,
            node.end_lineno or node.lineno,
            node.end_col_offset or node.col_offset,
            first,
            last,
            self.function,
        )

    # --- suspicions ----------------------------------------------------------------------------------
    def suspect(self, state: FlowState, found: Suspicion) -> None:
        """Note it, unless something at least as certain is known of the line."""
        level = found.level - state.quiet - self._quiet(found)
        if level < 1:
            return
        key = (found.rule, found.spot.line)
        known = self.suspicions.get(key)
        if known is None or (known.level, known.needed is not None) < (level, found.needed is not None):
            self.suspicions[key] = replace(found, level=level)

    def _quiet(self, found: Suspicion) -> int:
        rule = found.rule
        # A write is told where the function returns that called the one that made it.
        functions = [one.name for one in self.stack]
        for one in (found.write, found.saved):
            functions += [] if one is None else one.function.split(".")
        # Names of classes say nothing: a `Sampler` is trained, too.
        functions = [name for name in functions if not name[:1].isupper()]
        less = int(rule != "leaf" and any(map(_NOT_TRAINED.search, functions)))
        if rule in _GRAPH_RULES and _OFF_THE_GRAPH.search(self.index.path):
            less += 1
        return less


def _last_line(statement: ast.expr | ast.stmt) -> int:
    """A compound statement's last line is that of its head: the body is no part of a place."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno


def called(node: ast.expr) -> str:
    """The name of a variable or attribute, or of what an index or a method is taken of."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
            node = node.value
    return ast.unparse(node)


def text_of(node: ast.expr, most: int = 40) -> str:
    """An expression's text, empty where it is long."""
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        return ""
    return text if len(text) <= most and "\n" not in text else ""
