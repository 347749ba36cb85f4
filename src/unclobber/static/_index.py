"""Definitions and imports of a file, and the callers of its functions."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from typing import Any, get_args

from ..syntax import NotParsedError, SourcePart, dotted, imported_by, last_name, parse

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FunctionNode | ast.ClassDef
MODULE, FUNCTION = frozenset({"Module", "LightningModule", "BaseModule"}), frozenset({"Function"})
"""Last parts of the names of the base classes of torch's modules, and of custom Functions."""
_MOST_STARS = 16  # modules of which a file imports all names that are read; transformers' `models` has 300
_HIGHEST = 4  # folders above a file in which an absolute import is looked for
_LONGEST = 300  # syntax nodes of a function of another file that is followed
_NO_PARENTS = frozenset({ast.Constant, type(None)})  # kinds of children that hold no others
_DEFINITIONS = get_args(Definition)
unparsed = lru_cache(maxsize=4096)(ast.unparse)


class FileIndex:
    """The names at the top of one file."""

    def __init__(self, tree: ast.Module, path: str) -> None:
        """Collect functions and classes of the file's top, and imports and assignments anywhere in it."""
        self.tree = tree
        self.path = path
        self.imports: dict[str, str] = {}
        self.assigned: Counter[str] = Counter()  # the number of assignments of each name in the file
        self.assigned_attributes: Counter[str] = Counter()  # the same of each attribute
        self.trained: set[str] = set()
        """The names, for an item its list's, whose ``parameters()`` the file reads: networks."""
        self.zeroed: set[str] = set()  # the expressions of which the file calls ``zero_grad()``
        self.parametrized: set[str] = set()  # as `conv.bias`, which the file replaces by an `nn.Parameter`
        self.renewed: set[str] = set()  # variables and attributes that some branch binds or writes to
        self._defined: Counter[str] = Counter()
        self.sources: dict[str, FileIndex | None] = {}  # where imports were looked for; None if unreadable
        self.imported: dict[str, Definition | None] = {}  # from other files, as far as they were looked up
        self._stars: list[str] = []  # the modules of which all names are imported
        self.modules: dict[str, FileIndex | None] = {}  # the files of imported modules, by their names
        self.calls: list[tuple[str, str, bool]] = []  # each: its name, its caller, whether gradients are off
        self.kinds: set[type[ast.AST]] = set()  # of all syntax nodes
        todo: list[tuple[Any, str, bool, bool]] = [(tree, "", False, False)]
        for node, caller, off, chosen in todo:
            kind: Any = type(node)
            self.kinds.add(kind)
            chosen |= kind is ast.If
            if chosen and isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                self.renewed.add(last_name(node.value if kind is ast.Subscript else node))
            if kind is ast.Name:
                self.assigned[node.id] += type(node.ctx) is ast.Store
            elif kind is ast.Attribute:
                self.assigned_attributes[node.attr] += type(node.ctx) is not ast.Load
                self._note_method(node)
            elif kind is ast.Call and (name := last_name(node.func)):
                self.calls.append((name, caller, off))
            elif kind is ast.Assign and isinstance(node.value, ast.Call):
                if last_name(node.value.func) == "Parameter":
                    self.parametrized |= set(map(unparsed, node.targets))
            elif kind is ast.With or kind is ast.AsyncWith:
                off |= is_off([item.context_expr for item in node.items])
            elif kind in _DEFINITIONS:
                self._defined[node.name] += isinstance(node, FunctionNode)
                vars(node)["home"] = self
                if isinstance(node, FunctionNode):
                    caller, off = node.name, is_off(node.decorator_list)
            elif kind is ast.Import or kind is ast.ImportFrom:
                self.imports |= imported_by(node)
                if "*" in self.imports and len(self._stars) < _MOST_STARS:
                    self._stars.append(self.imports.pop("*")[:-1])
            for field in _fields(kind):
                part = getattr(node, field)
                children = part if type(part) is list else (part,)
                todo += [(child, caller, off, chosen) for child in children if type(child) not in _NO_PARENTS]
        self.called = {name for name, _, _ in self.calls}
        self.defined = {each.name: each for each in _top(tree.body) if isinstance(each, Definition)}

    def _note_method(self, node: ast.Attribute) -> None:
        if node.attr in ("parameters", "named_parameters", "train"):
            self.trained.add(unparsed(node.value).partition("[")[0])
        elif node.attr == "zero_grad":
            self.zeroed.add(unparsed(node.value))
        elif node.attr == "step" and (network := optimized(unparsed(node.value))):
            self.trained.add(network)

    def full(self, node: ast.AST) -> str:  # `torch.nn.functional.relu`
        head, _, tail = dotted(node).partition(".")
        head = self.imports.get(head, head)
        return f"{head}.{tail}" if tail else head

    def definition(self, text: str) -> Definition | None:
        """Return the function or class of a dotted name, of this file or where that is imported from."""
        if text in self.defined or not self.path:
            return self.defined.get(text)
        if text not in self.imported:
            self.imported[text] = None  # the answer for files that import one another
            head, dot, tail = text.partition(".")
            known = self.imports.get(head)
            for full in [star + text for star in self._stars] if known is None else [known + dot + tail]:
                if self.imported[text] is None and (source := _imported_file(full, self)) is not None:
                    self.imported[text] = source.definition(full.rpartition(".")[2])
        return self.imported[text]

    def network(self, text: str) -> ast.ClassDef | None:  # a class of torch's modules, by its dotted name
        cls = self.definition(text)
        return cls if isinstance(cls, ast.ClassDef) and is_a(cls, MODULE) else None

    def read_stars(self) -> None:
        """Take the imports of files from which all names are imported: ``utils`` may bring torch."""
        for star in self._stars if self.path else ():
            source = _imported_file(f"{star}*", self)
            for name, full in source.imports.items() if source is not None else ():
                if name not in self.defined and not full.startswith("."):
                    self.imports.setdefault(name, full)

    def every_source(self) -> set[str]:
        """Return the paths of all files on whose texts, or absence, the definitions depend."""
        known, todo = set[str](), [self]
        while todo:
            for path, index in todo.pop().sources.items():
                if path not in known and index is not None:
                    todo.append(index)
                known.add(path)
        return known

    @cached_property
    def never_recorded(self) -> frozenset[str]:
        """The bare names of functions and methods that this file calls, and only under no_grad."""
        calls, defined = [call for call in self.calls if call[0] != call[1]], self._defined  # no recursion
        unrecorded: set[str] = set()
        while more := {
            name
            for name in {called for called, _, _ in calls} & defined.keys() - unrecorded
            if defined[name] == 1
            and all(off or caller in unrecorded for called, caller, off in calls if called == name)
        }:
            unrecorded |= more
        return frozenset(unrecorded)


def optimized(name: str) -> str:
    """Return the name of the network, or list of them, to which an optimizer's belongs; empty if to none."""
    name = name.partition("[")[0]
    match = re.fullmatch(r"(.*[a-z0-9])_opt(im(izer)?)?|(.*\.)?opt(im(izer)?)?_(\w+)", name, re.I)
    return (match[1] or f"{match[4] or ''}{match[7]}") if match else ""


@lru_cache(maxsize=64)
def index_of(text: str, path: str) -> FileIndex:
    return FileIndex(parse(text), path)  # kept, because a file that others import is mostly checked, too


def _imported_file(full: str, importer: FileIndex) -> FileIndex | None:
    """Return the index of the file that defines an imported name, or None; a dot is a level of the import."""
    parts = full.lstrip(".").split(".")[:-1]
    level = len(full) - len(full.lstrip("."))
    folder, module = os.path.dirname(importer.path), full[: full.rfind(".") + 1]
    if module in importer.modules:
        return importer.modules[module]
    importer.modules[module] = None
    for up in range(1, _HIGHEST + 1 if parts or level else 1):
        stem = os.path.join(folder, *parts)
        for path in (f"{stem}.py", os.path.join(stem, "__init__.py")) if level in (0, up) else ():
            importer.sources[path] = None
            if os.path.isfile(path):
                with suppress(OSError, SyntaxError, ValueError, RecursionError, NotParsedError):
                    text = SourcePart.all_of(path)[0].python
                    # A wrapper of an optimizer needs no torch (`optim_schedule.py` of SoftMaskedBert).
                    if re.search(r"torch|\.step\(|[a-z]_\(", text) or path.endswith("__init__.py"):
                        importer.modules[module] = importer.sources[path] = index_of(text, path)
                return importer.sources[path]
        folder = os.path.dirname(folder)
    return None


def home_of(node: Definition | ast.Lambda) -> FileIndex:
    home: FileIndex = vars(node)["home"]
    return home


def lineage(cls: ast.ClassDef, depth: int = 0) -> Iterator[ast.ClassDef]:  # each before its own bases
    yield cls
    for base in cls.bases if depth < 6 else ():
        above = home_of(cls).definition(dotted(base))
        if isinstance(above, ast.ClassDef) and above is not cls:
            yield from lineage(above, depth + 1)


def method_of(cls: ast.ClassDef, name: str) -> FunctionNode | None:
    return next((own[name] for own in map(_methods, lineage(cls)) if name in own), None)


def setter_of(cls: ast.ClassDef, name: str) -> FunctionNode | None:  # of a property
    named = (f for own in lineage(cls) for f in own.body if isinstance(f, FunctionNode) and f.name == name)
    return next((f for f in named if has_decorator(f, f"{name}.setter")), None)


@lru_cache(maxsize=1024)
def _methods(cls: ast.ClassDef) -> dict[str, FunctionNode]:  # the first of each name
    return {each.name: each for each in reversed(cls.body) if isinstance(each, FunctionNode)}


def bases_of(cls: ast.ClassDef) -> Iterator[str]:  # full names, those of its bases' bases, too
    return (home_of(each).full(base) for each in lineage(cls) for base in each.bases)


def is_a(cls: ast.ClassDef, names: frozenset[str]) -> bool:
    return any(base.rpartition(".")[2] in names for base in bases_of(cls))  # by the last part of its name


@cache
def _fields(kind: type) -> list[str]:  # of a node that may hold others; none of a constant, or of None
    no_nodes = {"ctx", "op", "ops", "id", "attr", "arg", "kind", "type_comment", "names"}
    return [f for f in getattr(kind, "_fields", ()) if f not in no_nodes]


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a file's top, including those in its ``if``, ``try`` and ``with``."""
    for statement in body:
        yield statement
        inside = isinstance(statement, (ast.If, ast.Try, ast.TryStar, ast.With, ast.ExceptHandler))
        for name in ("body", "orelse", "handlers") if inside else ():
            yield from _top(getattr(statement, name, []))


def is_off(expressions: list[ast.expr]) -> bool:
    return any(mode_of(expression) for expression in expressions)


def mode_of(node: ast.expr) -> int | None:
    """Return the mode that a decorator or context sets: 1 no_grad, 2 inference mode, 0 gradients, or None."""
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    name = dotted(call.func).rpartition(".")[2]
    first = [*call.args, *(k.value for k in call.keywords if k.arg == "mode"), ast.Constant(True)][0]
    # `set_grad_enabled(flag)` may be on: suspect writes as if it were.
    if not isinstance(first, ast.Constant):
        return 0 if name in ("enable_grad", "set_grad_enabled") else None
    off = int(not first.value)
    modes = {"no_grad": 1, "inference_mode": None if off else 2, "enable_grad": 0, "set_grad_enabled": off}
    return modes.get(name)


@lru_cache(maxsize=512)
def is_short(function: FunctionNode) -> bool:
    """Return whether another file's function is followed: no network, unless it trains or cuts a graph."""
    nodes = list(ast.walk(function))
    words = {getattr(node, "attr", getattr(node, "id", "")) for node in nodes}
    return len(nodes) <= _LONGEST * (10 if words & {"detach", "backward", "step", "optim"} else 1)


@lru_cache(maxsize=4096)
def calls(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


@lru_cache(maxsize=1024)
def _inside(function: FunctionNode, *kinds: type[ast.AST]) -> list[Any]:
    nodes = [] if home_of(function).kinds.isdisjoint(kinds) else ast.walk(function)
    return [node for node in nodes if isinstance(node, kinds)]


def globals_of(function: FunctionNode) -> frozenset[str]:
    return frozenset(name for node in _inside(function, ast.Global, ast.Nonlocal) for name in node.names)


def is_unread(function: FunctionNode) -> bool:
    last = unparsed(function.body[-1])  # a class that derives has another `_forward` (`trainers.py` of OAMN)
    first, is_bare = function.body[0], last in ("pass", "...") or last.startswith("raise NotImplemented")
    is_open = is_bare and len(function.body) < 3 and isinstance(first, ast.Expr | ast.Pass | ast.Raise)
    return is_open or bool(_inside(function, ast.Yield, ast.YieldFrom))


def is_text(node: ast.expr) -> bool:  # or a dictionary's key with one: `outputs["disp", 0]` of monodepth2
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    texts = (isinstance(p, ast.JoinedStr) or isinstance(getattr(p, "value", 0), str) for p in parts)
    return any(texts) or "__name__" in [getattr(p, "attr", "") for p in parts]  # `known[function.__name__]`


def has_decorator(function: FunctionNode, word: str) -> bool:
    return any(word in unparsed(decorator) for decorator in function.decorator_list)
