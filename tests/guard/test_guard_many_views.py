"""Several views that one call returned, whose memory is written where torch counts it and records nothing.

From then on torch refuses to say what became of such a view, so nothing of ours may ask it.
"""

import itertools

import pytest
import torch
from guarded_twins import ramp

import unclobber

SPLITS = {
    "chunk": lambda h: h.chunk(2),
    "split": lambda h: h.split(3),
    "split into sizes": lambda h: h.split([1, 2, 3]),
    "split_with_sizes": lambda h: h.split_with_sizes([2, 4]),
    "tensor_split": lambda h: h.tensor_split(3),
    "hsplit": lambda h: h.hsplit(2),
    "unbind": lambda h: h.unbind(),
    "iteration": lambda h: list(h),
    "views of chunks": lambda h: [part[1:] for part in h.chunk(2)],
}
BASES = {
    "leaf": lambda w: w,
    "view of a leaf": lambda w: w.view(-1),
    "result": lambda w: w * 1.5,
    "view of a result": lambda w: (w * 1.5).view(-1),
}


def stepped(w, optimizer, **options):
    w.grad = torch.ones_like(w)
    getattr(torch.optim, optimizer)([w], lr=0.5, **options).step()
    w.grad = None


WRITES = {
    "base": lambda w, h, parts: h.mul_(0.5),
    "one": lambda w, h, parts: parts[0].mul_(0.5),
    "another": lambda w, h, parts: parts[-1].zero_(),
    "a view of one": lambda w, h, parts: parts[-1].view(-1)[0].mul_(3),
    "step": lambda w, h, parts: stepped(w, "SGD", foreach=False),
    "foreach step": lambda w, h, parts: stepped(w, "Adam", foreach=True),
    "fused step": lambda w, h, parts: stepped(w, "SGD", fused=True),
}


def gradient(base, split, write, *, copied=False, held=True):
    """Of a product of two views and an ``exp``; ``copied`` computes with copies, so that no write matters."""
    w = ramp(6)
    h = BASES[base](w)
    parts = SPLITS[split](h)
    used = [part.clone() for part in parts] if copied else parts
    loss = (used[-1].exp() * used[-1]).sum() + (used[0].sum() * used[-1] ** 2).sum()
    if not held:
        parts = [part.detach() for part in parts]
        del used
    with torch.no_grad():
        WRITES[write](w, h, parts)
    loss.backward()
    return w.grad


@pytest.mark.parametrize("split", SPLITS)
def test_each_gives_the_gradient_of_copies(split):
    """Whichever view is written, and whatever writes: what was saved is what backward gets."""
    programs = list(itertools.product(BASES, [split], WRITES))
    expected = [gradient(*program, copied=True) for program in programs]
    with unclobber.guard():  # one for all: each story is told once
        got = [gradient(*program) for program in programs]
    assert [
        program for program, a, b in zip(programs, got, expected, strict=True) if not torch.equal(a, b)
    ] == []


def plain_sentence(*program, **options):
    try:
        gradient(*program, **options)
    except RuntimeError as error:
        return str(error).partition(" Hint: ")[0]
    return None


@pytest.mark.parametrize("held", [True, False], ids=["held", "held by the graph alone"])
@pytest.mark.parametrize("split", ["split into sizes", "tensor_split", "iteration", "views of chunks"])
def test_watch_refuses_in_torchs_own_words(split, held):
    """torch asks a view for its history before it compares counters, and says which of many it is."""
    for base, write in (("view of a result", "one"), ("leaf", "step")):
        expected = plain_sentence(base, split, write, held=held)
        with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
            gradient(base, split, write, held=held)
        assert str(caught.value).splitlines()[0] == expected, (base, write)
        (written,) = caught.value.finding.writes
        assert written.site.function in ("<lambda>", "stepped")


def test_watch_warns_where_torch_is_silent():
    """A fused step moves no counter: torch goes on with what is there."""
    with pytest.warns(unclobber.SilentWriteWarning), unclobber.watch():
        gradient("leaf", "chunk", "fused step")


def test_writes_beside_cost_nothing():
    """Torch refuses for the counter's sake; no element that backward needs is written."""
    w = ramp(6)
    with unclobber.guard() as g:
        first, second = w.chunk(2)
        loss = (first.exp() * first).sum()
        with torch.no_grad():
            second.zero_()
        loss.backward()
    (expected,) = torch.autograd.grad((w[:3].exp() * w[:3]).sum(), w)
    assert torch.equal(w.grad, expected)
    assert (g.peak_bytes, g.conflicts) == (0, ())


def test_one_element_of_one():
    """The bytes that are kept are those that were overwritten."""
    w = torch.tensor([0.0, 0.2, 0.3], requires_grad=True)
    with unclobber.guard() as g:
        _, b = w.view(-1).split([1, 2])
        s = b.exp() * b
        with torch.no_grad():
            b[0].mul_(0.5)
        s.sum().backward()
    assert torch.allclose(w.grad, torch.tensor([0.0, 1.4657, 1.7548]), atol=1e-4)
    assert (g.peak_bytes, len(g.conflicts)) == (4, 1)


def test_rows_of_a_state():
    """Rows that were unbound before a loop writes the next state over them."""
    w = ramp(3)
    (expected,) = torch.autograd.grad((w * w * torch.tensor([1.0, 2.0, 3.0])).sum(), w)
    with unclobber.guard():
        y = w * 1
        loss = sum(row * row * (index + 1) for index, row in enumerate(y))
        with torch.no_grad():
            for row in y:
                row.fill_(-1)
        loss.backward()
    assert torch.equal(w.grad, expected)
