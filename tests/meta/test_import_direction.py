"""Facts flow one way: observe → ledger → judge → report / repair; private names of torch have one file."""

from __future__ import annotations

from pathlib import Path

import pytest
from _source_rules import (
    FORBIDDEN,
    PACKAGE,
    forbidden_imports,
    imports_of,
    looks_at_history,
    private_torch_names,
)

FILES = sorted(PACKAGE.rglob("*.py"))
HOME = PACKAGE / "observe" / "_torch_compat.py"


def _module(path: Path) -> tuple[str, bool]:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__"), path.name == "__init__.py"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file(path):
    """No file imports against the arrow; none but ``_torch_compat`` uses a private name of torch or asks a
    tensor for its history."""
    module, is_package = _module(path)
    source = path.read_text(encoding="utf-8")
    if module.count("."):
        assert not forbidden_imports(source, module, is_package=is_package)
    if path != HOME:
        assert not private_torch_names(source)
        assert not looks_at_history(source)


def test_the_private_names_are_found_where_they_live():
    """The one file with private names has some, so the search finds what it searches for."""
    assert len(private_torch_names(HOME.read_text(encoding="utf-8"))) > 5


def test_a_look_at_a_history_is_caught():
    assert looks_at_history("a = x.grad_fn\nb = compat.grad_fn(x)\nc = f(y).is_leaf") == [1, 3]


def test_every_stage_exists():
    """A stage that was renamed would otherwise go unchecked."""
    assert {stage for stage in FORBIDDEN if not (PACKAGE / stage).is_dir()} == set()


@pytest.mark.parametrize(
    ("module", "planted", "expected"),
    [
        ("unclobber.model._save", "from .._errors import InplaceError", "unclobber._errors"),
        ("unclobber.model._save", "from .. import _session", "unclobber._session"),
        ("unclobber.judge.rules.uc101", "def f():\n    import torch", "torch"),
        ("unclobber.judge._facts", "from torch import Tensor", "torch"),
        ("unclobber.judge._facts", "from ..observe import _saves", "unclobber.observe"),
        ("unclobber.report._text", "from unclobber.repair import plan", "unclobber.repair"),
        ("unclobber.repair.cures._clone", "from ...report import to_text", "unclobber.report"),
        ("unclobber.ledger._undo", "from ..judge import judge", "unclobber.judge"),
    ],
)
def test_a_planted_import_is_caught(module, planted, expected):
    """The check can fail: one violation of each kind."""
    assert expected in forbidden_imports(planted, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("unclobber.model._save", "from ._site import Site\nimport dataclasses"),
        ("unclobber.judge.rules.uc101", "from ...model import Finding\nfrom .._facts import Fact"),
        ("unclobber.report._text", "from ..model import Finding"),
    ],
)
def test_allowed_imports(module, source):
    """What follows the arrow passes."""
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
    assert imports_of("from . import x", "a.b.c") == {"a.b", "a.b.x"}
    assert imports_of("from .d import x", "a.b", is_package=True) == {"a.b.d", "a.b.d.x"}
    assert imports_of("from ..d import x", "a.b.c") == {"a.d", "a.d.x"}
