"""The interpreter's shared parts: clock, storages, source locations and the list of suspicions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace

from ._index import FileIndex, FunctionNode
from ._interpreter import Interpreter
from ._state import FlowState
from ._values import Grad, SourceSpan, Value

HIGH = 3
MEDIUM = 2

_NOT_TRAINED = re.compile(
    r"post_?process|^_?init_|init_weights|reset_param|predict|generate|decode|evaluat|inference|sample|^_?test|"
    r"convert|prune|visuali|metric|accuracy|draw|plot|from_pretrained|load_|initiali|^_?eval|^_?valid|export|quantiz|"
    r"state_update|update_cache|cache_update",
    re.I,
)
"""Names of functions that mostly run without a gradient."""
_OFF_THE_GRAPH = re.compile(
    r"/optim/|transforms?/|image_processing|datasets?/|augment|/data/|preprocess|conversion|_original_"
)
"""Folders of such functions."""
_GRAPH_RULES = frozenset({"saved", "saved-data", "self-overlap", "several", "module", "operand"})
BUDGET = 60_000
"""Limit of evaluated expressions for one function."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An event that goes wrong if the line runs with gradients on."""

    rule: str
    confidence: int
    """Confidence: 3 high, 2 medium; a suspicion with 1 isn't reported."""
    write: SourceSpan | None = None
    saved: SourceSpan | None = None
    needed: SourceSpan | None = None
    freed: SourceSpan | None = None
    operand: SourceSpan | None = None
    """The saved operand, inside of the expression that saved it."""
    operation: str = ""
    role: str = ""
    how: str = ""
    """The operation that writes: ``add_``, ``+=``."""
    name: str = ""
    """The written tensor in the user's words."""
    more: tuple[str, ...] = field(default=())
    """Further words of the rule."""

    @property
    def span(self) -> SourceSpan:
        """The line to blame."""
        to_blame = self.write or self.needed or self.saved
        assert to_blame is not None
        return to_blame


class Core(Interpreter):
    """The bookkeeping of the interpreter of one file.

    Args:
        index: The file's names.
    """

    def __init__(self, index: FileIndex) -> None:
        """Start with no suspicions, at the file's top."""
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
        self.constructed: dict[SourceSpan, dict[str, Value]] = {}
        """Constants that an object's constructor sets on it, by the call that makes the object."""
        self.at_top = False
        """Whether the interpreter follows the file's own statements, rather than one of its functions by
        itself."""

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
        """Return a new tensor in a storage of its own."""
        return Value("tensor", self.new_place(), True, grad, nodes, may | nodes)

    def unknown(self) -> Value:
        """Return a value of which nothing is known."""
        return Value("unknown", self.new_place())

    # --- places of the source ------------------------------------------------------------------------
    def span(self, node: ast.expr | ast.stmt) -> SourceSpan:
        """Return the location of a node, with its statement."""
        statement = self.statement if self.statement is not None else node
        first, last = statement.lineno, _last_line(statement)
        return SourceSpan(
            node.lineno,
            node.col_offset,
            node.end_lineno or node.lineno,
            node.end_col_offset or node.col_offset,
            first,
            last,
            self.function,
        )

    # --- suspicions ----------------------------------------------------------------------------------
    def suspect(self, state: FlowState, suspicion: Suspicion) -> None:
        """Record a suspicion, unless one of at least its confidence is known for the line."""
        confidence = suspicion.confidence - state.quiet - self._quiet(suspicion)
        if confidence < 1:
            return
        key = (suspicion.rule, suspicion.span.line)
        known = self.suspicions.get(key)
        if known is None or (known.confidence, known.needed is not None) < (
            confidence,
            suspicion.needed is not None,
        ):
            self.suspicions[key] = replace(suspicion, confidence=confidence)

    def _quiet(self, suspicion: Suspicion) -> int:
        """Return the steps of confidence that a suspicion loses because its function or folder is mostly not
        trained."""
        rule = suspicion.rule
        # A write is reported where the function returns that called the writing function.
        functions = [function.name for function in self.stack]
        for location in (suspicion.write, suspicion.saved):
            functions += [] if location is None else location.function.split(".")
        # Names of classes say nothing: a `Sampler` is trained, too.
        functions = [name for name in functions if not name[:1].isupper()]
        less = int(rule != "leaf" and any(map(_NOT_TRAINED.search, functions)))
        if rule in _GRAPH_RULES and _OFF_THE_GRAPH.search(self.index.path):
            less += 1
        return less


def _last_line(statement: ast.expr | ast.stmt) -> int:
    """Return a statement's last line; of a compound one, the last line of its head, because a location
    excludes the body."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno


def called(node: ast.expr) -> str:
    """Return the name of a variable or attribute, or of the base of an index or method."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
            node = node.value
    return ast.unparse(node)


def text_of(node: ast.expr, most: int = 40) -> str:
    """Return an expression's text; empty if it has more than ``most`` characters."""
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        return ""
    return text if len(text) <= most and "\n" not in text else ""
