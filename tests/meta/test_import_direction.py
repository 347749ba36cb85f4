"""A room imports only what its line in the table of rooms allows; private names of torch have one file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _source_rules import (
    FRONT,
    PACKAGE,
    ROOMS,
    circles,
    face,
    forbidden_imports,
    imported_from,
    looks_at_history,
    module_of,
    package_imports,
    private_torch_names,
)

import unclobber

FILES = sorted(PACKAGE.rglob("*.py"))
HOME = PACKAGE / "torch_internals"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file(path):
    """No file imports against the table; none outside of ``torch_internals`` uses a private name of torch or
    asks a tensor for its history."""
    source = path.read_text(encoding="utf-8")
    assert not forbidden_imports(source, module_of(path), is_package=path.name == "__init__.py")
    if HOME not in path.parents:
        assert not private_torch_names(source)
        assert not looks_at_history(source)


def test_the_table_is_complete():
    """Every folder is a room of the table, every file beside them a door, and neither is listed in vain."""
    assert {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))} == set(ROOMS)
    assert {path.stem for path in PACKAGE.glob("*.py")} == set(FRONT)


def test_no_room_has_a_public_name():
    """Importing the room would put its module in the place of what users call."""
    assert not {*ROOMS, *FRONT} & set(unclobber.__all__)


def test_every_room_has_unit_tests():
    """In the folder of its name, and no folder has another's."""
    units = Path(__file__).parents[1] / "unit"
    assert {path.name for path in units.iterdir() if any(path.rglob("test_*.py"))} == set(ROOMS)
    assert not list(units.glob("*.py"))


def test_each_room_imports_only_rooms_above_it():
    """So the table itself has no circle."""
    above = list(ROOMS)
    assert {room: set(allowed) - set(above[:n]) for n, (room, allowed) in enumerate(ROOMS.items())} == {
        room: set() for room in ROOMS
    }


def test_no_arrow_of_the_table_is_unused():
    used = {room: set() for room in ROOMS}
    for module, targets in package_imports().items():
        if (room := [*module.split("."), ""][1]) in ROOMS:
            used[room] |= {target.split(".")[1] for target in targets if "." in target} - {room}
    assert used == {room: set(allowed) for room, allowed in ROOMS.items()}


def test_no_files_import_each_other():
    assert circles(package_imports()) == []


def test_circles_are_found():
    """The search for circles of imports finds one of three files, and none where there is none."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_every_face_lists_what_is_there():
    """A name that a room shows is imported in its ``__init__``, or is a file of the room."""
    for room in ROOMS:
        text = (PACKAGE / room / "__init__.py").read_text(encoding="utf-8")
        here = {path.stem for path in (PACKAGE / room).iterdir()}
        assert {name for name in face(room) if name not in here and text.count(name) < 2} == set(), room


def test_the_private_names_are_found_where_they_live():
    """The room of private names has some, so the search finds what it searches for."""
    texts = [path.read_text(encoding="utf-8") for path in HOME.rglob("*.py")]
    assert sum(len(private_torch_names(text)) for text in texts) > 20


def test_a_look_at_a_history_is_caught():
    assert looks_at_history("a = x.grad_fn\nb = compat.graph.grad_fn(x)\nc = f(y).is_leaf") == [1, 3]


@pytest.mark.parametrize(
    ("module", "planted", "expected"),
    [
        (
            "unclobber.model._save",
            "from ..session.session import Session",
            "unclobber.session.session.Session",
        ),
        ("unclobber.model._save", "from .. import session", "unclobber.session"),
        ("unclobber.report._html", "def f():\n    import torch", "torch"),
        ("unclobber.report._words", "from torch import Tensor", "torch"),
        ("unclobber.report._words", "from ..observe.hooks import saves", "unclobber.observe.hooks.saves"),
        ("unclobber.report._text", "from unclobber.repair import plan", "unclobber.repair.plan"),
        ("unclobber.repair.fixers.scatter", "from ...report import to_text", "unclobber.report.to_text"),
        ("unclobber.observe.record._undo", "from ...explain import notices", "unclobber.explain.notices"),
        ("unclobber.attic._box", "from ..model import Save", "unclobber.model.Save"),
        ("unclobber.explain.save", "from ..source._definitions import x", "unclobber.source._definitions.x"),
        (
            "unclobber.explain.save",
            "from ..observe.record._undo import x",
            "unclobber.observe.record._undo.x",
        ),
        ("unclobber.explain.save", "from ..observe.record import keep", "unclobber.observe.record.keep"),
    ],
)
def test_a_planted_import_is_caught(module, planted, expected):
    """The check can fail: one violation of each kind, a room that is not in the table among them."""
    assert expected in forbidden_imports(planted, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("unclobber.model._save", "from ._site import Site\nimport dataclasses"),
        ("unclobber.explain.rules.uc101", "from ...model import Finding\nfrom ._words import line"),
        ("unclobber.report._text", "from ..model import Finding"),
        ("unclobber.session._freeze", "from ..source import resolve\nfrom ..observe.hooks import saves"),
    ],
)
def test_allowed_imports(module, source):
    """What follows the table passes."""
    assert forbidden_imports(source, module) == set()


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("import torch\nx = torch._C._get_tracing_state()", "torch._C._get_tracing_state"),
        ("import torch\ny = torch.autograd.graph._Node", "torch.autograd.graph._Node"),
        ("import torch._dynamo", "torch._dynamo"),
        ("from torch.utils import _pytree", "torch.utils._pytree"),
        ("from torch._subclasses import FakeTensor", "torch._subclasses.FakeTensor"),
        ("import torch.autograd as ag\nag._engine", "torch.autograd._engine"),
        ("from torch import autograd\nautograd._engine", "torch.autograd._engine"),
        ("from importlib import import_module\nimport_module('torch._ops')", "torch._ops"),
        ("import torch\ngetattr(torch, '_C')", "torch._C"),
    ],
)
def test_a_planted_private_name_is_caught(planted, name):
    """The check can fail: each way to reach a private name."""
    assert [found for _, found in private_torch_names(planted)] == [name]


def test_public_names_pass():
    """Public and dunder names of torch are no violation, nor are private names of others."""
    source = "import torch\ntorch.__version__, torch.autograd.graph.Node, self._C, numpy._core"
    assert private_torch_names(source) == []


def test_relative_imports_are_resolved():
    """One dot is the package that holds the file; for ``__init__`` it is the package itself."""
    assert [*imported_from("from . import x", "a.b.c")] == [("a.b", "x")]
    assert [*imported_from("from .d import x", "a.b", is_package=True)] == [("a.b.d", "x")]
    assert [*imported_from("from ..d import x", "a.b.c")] == [("a.d", "x")]
    assert [*imported_from("from .. import report", "unclobber.session.session")] == [
        ("unclobber.report", "")
    ]


def _rooms_in(text):
    """Room and imports of each row of a Markdown table of rooms, in its order."""
    rows = [row.strip("|").split("|") for row in text.splitlines() if row.startswith("| `")]
    return {room.strip(" `"): set(re.findall(r"`(\w+)`", imports)) for room, _, imports in rows}


def test_the_readme_shows_the_table():
    """What the package's README says of the rooms is what is checked."""
    shown = _rooms_in((PACKAGE / "README.md").read_text(encoding="utf-8"))
    assert [*shown.items()] == [(room, set(allowed)) for room, allowed in ROOMS.items()]


def test_the_table_in_a_readme_is_read():
    assert _rooms_in("| room |\n| `a` | b | nothing |\n| `c` | d `e` | `a`, `f` |") == {
        "a": set(),
        "c": {"a", "f"},
    }
