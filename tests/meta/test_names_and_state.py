"""A class name stands for one thing; what a module keeps while programs run is listed, with its reason."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from _source_rules import PACKAGE, module_of


@cache
def trees() -> dict[str, ast.Module]:
    """The modules of the package, by their names; parsed once a test needs them."""
    return {
        module_of(path).removeprefix("unclobber."): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


SHARED_NAMES = {
    "MemoryCallback": {"lightning", "transformers"},
    "UnclobberCallback": {"lightning", "transformers"},
}
"""Class names that two modules may have: both are public, each in its own package's words."""

STATE = {
    "one a process, because torch is patched once a process": {
        "observe.hooks.installation.installation", "observe.hooks.kernels.running",
        "observe.hooks.saves._frozen", "observe.hooks.backward.backward_calls",
        "observe.hooks.write_log._follower", "observe.hooks.autocast.copies", "session.freezing._keeper",
        "torch_internals.engine.engine", "torch_internals.patches.installed",
        "observe.hooks.functions._classes",
        "cli.children._settings.following", "integrations.always_on._installed",
    },
    "one a thread, because torch's hooks, modes and backward calls are": {
        "observe.hooks.backward.local", "observe.hooks.compiled._compiling",
        "observe.record.ledger.announced", "observe.record.running.newest", "explain.reads._unpacking",
        "observe.record._undo._slabs", "cli.ranks._termination._held", "report._cells._encoding",
        "torch_internals.compat._hook_stack.hook_stack", "torch_internals.compat.kept._reading",
    },
    "read by the unpack hook at each saved tensor": {"observe.hooks.backward.marker"},
    "beside torch's nodes, of the last backward calls": {"observe.hooks.backward.started_at"},
    "holds only what is alive elsewhere": {
        "observe.hooks.unmarked._alive", "observe.hooks.unmarked._look_ahead",
        "observe.hooks._on_import._finder", "observe.hooks._on_import._waiting",
        "observe.hooks.functions._classes", "integrations.notebook._magics",
        "observe.hooks.functions._stashes", "observe.hooks.module_hooks._hooked",
        "observe.record.saved._lives", "observe.hooks.registered._failed",
        "observe.record.open_memory._shown",
        "observe.hooks._triton_stores._sources", "observe.hooks.functions._wrappers",
        "observe.hooks.compiled._refused", "observe.hooks.checkpoint._cache",
    },
    "lines by the number of a compiled graph, which torch gives once a process": {
        "observe.hooks.compiled._saves", "observe.hooks.compiled._backwards",
    },
    "one a process, because `sys.modules` is": {"repair.main_module._forgotten"},
    "installed code that a running block examines": {"source.sites._examined"},
    "a cache": {
        "source.owners._settled", "static._index.unparsed",
    },
    "what was warned of, as in Python's own registries": {
        "session._warning._first_texts", "session._warning._registries",
    },
    "functions of torch's and of the platform, found by name": {
        "observe.hooks._libraries.loads",
        "torch_internals.compat.dispatcher._set_included", "torch_internals.compat.dispatcher._is_included",
    },
    "a lock": {
        "source.owners._looking",
        "observe.hooks.unmarked._lock", "torch_internals.patches._lock", "syntax._texts._lock",
        "derivatives.torch_table._lock", "torch_internals.compat.graph._lock",
    },
    "filled by decorators as the package is imported": {
        "static._engine.followers", "static._call.transfer_functions",
    },
    "nothing of it changes": {
        "torch_internals.compat.kept.no_memory", "torch_internals.compat._behaviour.behaviour",
    },
    "lent to torch under that lock": {
        "torch_internals.compat.graph._with_hooks",
    },
}  # fmt: skip
"""Every module-level object that changes while a program runs."""

_FIXED = frozenset(
    {"TypeVar", "StashKey", "frozenset", "compile", "partial",
     "_dispatch_key_parse", "_dispatch_keyset_full_after"}
)  # fmt: skip
"""Calls whose results never change."""
_CHANGES = {"add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault", "update"}


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that a module binds at its top, with their values."""
    for node in tree.body:
        if isinstance(node, ast.With):
            yield from _assigned(ast.Module(node.body, []))
        elif isinstance(node, ast.Assign):
            yield from ((one.id, node.value) for one in node.targets if isinstance(one, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def _may_change(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Subscript(value=called) | called):
            return ast.unparse(called).rpartition(".")[2] not in _FIXED
        case (
            ast.Call() | ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp()
        ):
            return True
        case _:
            return False


def _state(tree: ast.Module) -> set[str]:
    """Module-level names in small letters whose values may change; capitals are tables, which do not."""
    names = {name for name, value in _assigned(tree) if _may_change(value)}
    return {name for name in names if not name.isupper() and not name.startswith("__")}


def _changed_tables(tree: ast.Module) -> set[str]:
    """Names in capitals that an item assignment or a changing method is used on."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _CHANGES:
                found.add(name)
    return {name for name in found if name.isupper()}


def _doubled(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Class names that are given more than once, also with and without an underscore; with their modules."""
    homes = defaultdict(list)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(module)
    return {name: where for name, where in homes.items() if len(where) > 1}


def test_a_class_name_stands_for_one_thing():
    assert {name: set(where) for name, where in _doubled(trees()).items()} == SHARED_NAMES


def test_a_doubled_class_name_is_found():
    planted = {"record": ast.parse("class Save: ..."), "report": ast.parse("def f():\n class _Save: ...")}
    assert _doubled(planted) == {"Save": ["record", "report"]}


def test_state_of_modules_is_listed():
    """Nothing more, and nothing that is gone."""
    found = {f"{module}.{name}" for module, tree in trees().items() for name in _state(tree)}
    assert found == set().union(*STATE.values())


def _rebinding(trees: dict[str, ast.Module]) -> list[str]:
    return [module for module, tree in trees.items() for n in ast.walk(tree) if isinstance(n, ast.Global)]


def test_nothing_is_rebound():
    """No function rebinds a module's name with `global`."""
    assert _rebinding(trees()) == []


def test_a_rebound_name_is_found():
    assert _rebinding({"hooks": ast.parse("def f():\n    global on\n    on = 1")}) == ["hooks"]


def test_tables_stay_as_they_are():
    assert {module: found for module, tree in trees().items() if (found := _changed_tables(tree))} == {}


def test_state_and_changed_tables_are_found():
    tree = ast.parse("_seen = {}\nTABLE = {}\nname = frozenset()\nTABLE['a'] = 1\n_seen.clear()")
    assert (_state(tree), _changed_tables(tree)) == ({"_seen"}, {"TABLE"})
