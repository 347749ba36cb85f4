"""What a verdict rests on is tried once; what does not work is named, and refused under guard."""

import ctypes

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import unclobber
import warm
from torch_features import needs
from unclobber.observe.hooks import functions, gradients, handed, mechanisms, undispatched
from unclobber.session import session
from unclobber.torch_internals import compat, versions


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


# --- ways to take a mechanism away ----------------------------------------------------------------


def no_hooks(monkeypatch):
    push = torch._C._autograd._push_saved_tensors_default_hooks
    others = lambda pack, unpack: push(lambda tensor: tensor, lambda tensor: tensor)  # noqa: E731
    monkeypatch.setattr(torch._C._autograd, "_push_saved_tensors_default_hooks", others)


def no_backward(monkeypatch):
    monkeypatch.setattr(compat.entries, "BACKWARD", ())


def no_data(monkeypatch):
    monkeypatch.setattr(undispatched, "_data", lambda inherited, clients: inherited)


def no_optimizer(monkeypatch):
    """A fused step past every operation."""
    monkeypatch.setattr(
        compat.dispatcher,
        "fused_step",
        lambda weight, gradient: ctypes.memset(weight.untyped_storage().data_ptr(), 0, weight.nbytes),
    )


def no_functions(monkeypatch):
    monkeypatch.setattr(functions, "install", handed.install)


def no_checkpoint(monkeypatch):
    """As on 2.14, where the function that we knew is called no more."""
    monkeypatch.setattr(torch.utils.checkpoint, "_old", lambda *args: None, raising=False)
    monkeypatch.setattr(compat.entries, "CHECKPOINT", (torch.utils.checkpoint, "_old"))


def no_reentrant_checkpoint(monkeypatch):
    class Unused:
        @staticmethod
        def forward(ctx, function, *args):
            return None

    monkeypatch.setattr(compat.entries, "REENTRANT_CHECKPOINT", (Unused, "forward"))


AWAY = {
    "hooks": no_hooks,
    "backward": no_backward,
    "data": no_data,
    "optimizer": no_optimizer,
    "functions": no_functions,
    "checkpoint": no_checkpoint,
    "reentrant checkpoint": no_reentrant_checkpoint,
}


@pytest.fixture
def take_away(monkeypatch):
    """Take a mechanism away, and have the self-test run anew."""

    def take(which):
        session.Session.put_back()  # what sleeps since an earlier session was installed with it
        AWAY[which](monkeypatch)
        monkeypatch.setattr(session.installation, "_off", None)
        session._warn_once.cache_clear()

    yield take
    session.Session.put_back()


def off() -> tuple[mechanisms.Off, ...]:
    return session.installation.off()


def test_nothing_is_off_on_this_torch(monkeypatch):
    monkeypatch.setattr(session.installation, "_off", None)
    assert off() == ()


@needs("checkpoint without sympy")
def test_neither_dynamo_nor_sympy_is_imported_for_it(tmp_path):
    """That takes a second."""
    script = tmp_path / "first.py"
    script.write_text(
        "import sys, torch, unclobber\n"
        "with unclobber.watch():\n"
        "    pass\n"
        "print({'sympy', 'torch._dynamo'} & set(sys.modules))\n"
    )
    ran = warm.python(str(script), first="")
    assert ran.stdout == "set()\n", ran.stderr


@pytest.mark.parametrize("dynamo", [False, True], ids=["alone", "with Dynamo"])
@pytest.mark.parametrize("which", AWAY)
def test_what_is_off_is_found(which, dynamo, take_away, monkeypatch):
    monkeypatch.setattr(compat.compilers, "has_dynamo", lambda: dynamo)
    take_away(which)
    assert which.split()[-1] in [one.name for one in off()]


@pytest.mark.parametrize("which", AWAY)
def test_watch_says_so_once_and_so_does_the_report(which, take_away):
    take_away(which)
    sentences = tuple(one.sentence for one in off())
    assert all(f"torch {torch.__version__}" in sentence for sentence in sentences)
    with pytest.warns(RuntimeWarning) as warned, unclobber.watch():
        pass
    assert tuple(str(warning.message) for warning in warned) == sentences
    with unclobber.watch():  # a second warning would be an error
        pass
    assert unclobber.audit(lambda: None).notices == sentences


def test_the_warning_points_at_the_line_that_enters(take_away):
    """However many calls of our own and of contextlib's lie between the line and the session."""
    entering = [
        lambda: unclobber.watch().__enter__().__exit__(None, None, None),
        lambda: unclobber.guard()(leaf)(),
    ]
    for enter in entering:
        take_away("functions")
        with pytest.warns(RuntimeWarning) as warned:
            enter()
        line = enter.__code__.co_firstlineno
        assert [(one.filename, one.lineno) for one in warned] == [(__file__, line)]


@pytest.mark.parametrize("which", ["hooks", "backward", "data", "optimizer"])
def test_guard_does_not_begin_without(which, take_away):
    take_away(which)
    with pytest.raises(unclobber.UnclobberError, match="guard refuses to begin"), unclobber.guard():
        pass
    assert not session.installation._clients.now


def scaled():
    x, factor = leaf(), torch.full((3,), 2.0)
    with unclobber.guard():
        y = Scale.apply(x, factor)
        factor.add_(1)
        y.sum().backward()


def recomputed(reentrant):
    x, factor = leaf(), torch.full((3,), 2.0)
    with unclobber.guard():
        y = checkpoint(lambda v: v * factor, x, use_reentrant=reentrant)
        y.sum().backward()


@pytest.mark.filterwarnings("ignore:what .* is not seen:RuntimeWarning")
@pytest.mark.parametrize(
    ("which", "program", "code"),
    [
        ("functions", scaled, "UC103"),
        ("checkpoint", lambda: recomputed(False), "UC105"),
        ("reentrant checkpoint", lambda: recomputed(True), "UC105"),
    ],
    ids=["functions", "checkpoint", "reentrant checkpoint"],
)
def test_guard_refuses_a_backward_through_it(which, program, code, take_away):
    take_away(which)
    with pytest.raises(unclobber.InplaceError) as info:
        program()
    assert info.value.finding.code == code
    assert off()[0].sentence in info.value.finding.notes


@pytest.mark.filterwarnings("ignore:what .* is not seen:RuntimeWarning")
@pytest.mark.parametrize("which", ["functions", "checkpoint"])
def test_guard_goes_on_where_nothing_rests_on_it(which, take_away):
    take_away(which)
    x, module = leaf(), torch.nn.Identity()
    module.register_full_backward_hook(lambda *_: None)  # made by a Function of torch's own
    with unclobber.guard() as guard:
        y = module(x).exp()
        y.mul_(2)
        y.sum().backward()
    assert torch.equal(x.grad, 2 * x.detach().exp())
    assert guard.peak_bytes > 0


@pytest.mark.filterwarnings("ignore:what .* is not seen:RuntimeWarning")
def test_a_graph_too_large_to_look_at_is_refused(take_away, monkeypatch):
    take_away("functions")
    monkeypatch.setattr(compat.graph, "MOST_NODES", 0)
    with pytest.raises(unclobber.InplaceError, match="can't be known on this torch"), unclobber.guard():
        leaf().exp().sum().backward()


@pytest.mark.filterwarnings("ignore:what .* is not seen:RuntimeWarning")
def test_other_backwards_are_not_refused(take_away):
    """Outside of the context, and under a watch inside of it, which says what it can."""
    take_away("functions")
    x, factor = leaf(), torch.full((3,), 2.0)
    with unclobber.guard():
        y = Scale.apply(x, factor)
        with unclobber.watch():
            y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert x.grad.tolist() == [4.0] * 3


def test_gradients_are_kept_apart_where_torch_does_not_count_as_known(monkeypatch):
    monkeypatch.setattr(gradients, "unshared_counts", lambda: gradients.Counts(*[None] * 5))
    a, b = leaf(), leaf()
    with unclobber.guard() as guard:
        p = a * 1
        p.register_hook(lambda gradient: [gradient.mul_(5), None][1])
        total = b * 1 + p
        (total * total).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([20.0] * 3, [4.0] * 3)
    assert guard.findings == ()


# --- versions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.99.0", "3.0.0+cpu", "2.99.0a0+git1234567"])
def test_a_torch_that_nobody_has_tried_is_named(version, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    (notice,) = unclobber.audit(lambda: None).notices
    assert notice == f"torch {version} is newer than 2.15, the newest that unclobber was tried on"


@pytest.mark.parametrize("version", ["2.15.0", "2.15.7+cu132", "2.13.0"])
def test_a_torch_that_was_tried_is_not(version, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    assert versions.untried() is None
    versions.require()


@pytest.mark.parametrize("version", ["1.13.1", "2.1.2+cpu"])
def test_a_torch_that_is_too_old_is_refused(version, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(
        unclobber.UnclobberError, match=rf"needs torch 2\.\d+ or newer, and this is {version[:4]}"
    ):
        versions.require()


def test_the_versions_are_in_order():
    assert list(versions.TRIED) == sorted(set(versions.TRIED))
