"""torch refuses in these words; ``observe/_refusals`` knows its refusals by them."""

import pytest
import torch

from unclobber.evidence.refusals import Kind, kind_of


def leaf() -> torch.Tensor:
    return torch.ones(2, 2, requires_grad=True)


class ViewOfInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


def view_under(mode) -> torch.Tensor:
    h = leaf() * 1
    with mode:
        return h[0]


def used_after_a_write(mode) -> torch.Tensor:
    h = leaf() * 1
    with mode:
        view = h[0]
    h.mul_(2)
    return view * leaf()


def made_in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2, 2)


def twice():
    y = leaf().exp().sum()
    y.backward()
    y.backward()


def stale():
    y = leaf().exp()
    y.add_(1)
    y.sum().backward()


def through_out():
    x = torch.ones(4)
    torch.add(x[:-1], 1, out=x[1:])


REFUSALS = {
    "leaf": (lambda: leaf().add_(1), Kind.LEAF),
    "leaf, foreach": (lambda: torch._foreach_add_([leaf()], 1), Kind.LEAF),
    "leaf, whole setitem": (lambda: leaf().__setitem__(slice(None), 1), Kind.LEAF),
    "view of a leaf": (lambda: leaf()[0].add_(1), Kind.LEAF_VIEW),
    "view of a leaf, setitem": (lambda: leaf().__setitem__(0, 1), Kind.LEAF_VIEW),
    "unbind": (lambda: (leaf() * 1).unbind()[0].add_(1), Kind.MULTI_VIEW),
    "split": (lambda: (leaf() * 1).split(1)[0].add_(1), Kind.MULTI_VIEW),
    "chunk": (lambda: (leaf() * 1).chunk(2)[0].add_(1), Kind.MULTI_VIEW),
    "unbind, no grad so far": (lambda: torch.ones(2, 2).unbind()[0].add_(leaf()[0]), Kind.MULTI_VIEW),
    "no_grad": (lambda: view_under(torch.no_grad()).add_(1), Kind.NO_GRAD_VIEW),
    "inference mode": (lambda: view_under(torch.inference_mode()).add_(1), Kind.INFERENCE_VIEW),
    "custom Function": (lambda: ViewOfInput.apply(leaf() * 1).add_(1), Kind.FUNCTION_VIEW),
    "inference tensor written": (lambda: made_in_inference_mode().add_(1), Kind.INFERENCE_WRITE),
    "inference tensor saved": (lambda: made_in_inference_mode() * leaf(), Kind.INFERENCE_SAVE),
    "inference tensor to train": (lambda: made_in_inference_mode().requires_grad_(), Kind.INFERENCE_LEAF),
    "no_grad view used": (lambda: used_after_a_write(torch.no_grad()), Kind.NO_GRAD_VIEW),
    "inference view used": (lambda: used_after_a_write(torch.inference_mode()), Kind.INFERENCE_VIEW),
    "expanded": (lambda: torch.ones(1).expand(3).add_(1), Kind.SELF_OVERLAP),
    "overlapping input": (through_out, Kind.INPUT_OVERLAP),
    "view detached": (lambda: leaf()[0].detach_(), Kind.VIEW_DETACHED),
    "second backward": (twice, Kind.FREED),
    "version": (stale, Kind.VERSION),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_sentence(name):
    """Each refusal is known by its sentence, and comes out of a call into C."""
    program, kind = REFUSALS[name]
    with pytest.raises(RuntimeError) as info:
        program()
    assert kind_of(info.value) is kind


def test_every_kind_has_a_sentence():
    assert {kind for _, kind in REFUSALS.values()} == set(Kind)
