"""torch refuses in these words; the table of codes has them, and errors are known by them."""

import pytest
import torch

from torch_features import FEATURES, needs
from unclobber.explain.refusals import kind_of
from unclobber.model import CODES
from unclobber.model.pages import page
from unclobber.torch_internals import compat


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


def added_under_vmap(total):
    torch.func.vmap(lambda x: total.add_(x))(torch.ones(3, 2))


REFUSALS = {
    "leaf": (lambda: leaf().add_(1), "UC201", None),
    "leaf, foreach": (lambda: torch._foreach_add_([leaf()], 1), "UC201", None),
    "setitem of a whole leaf": (lambda: leaf().__setitem__(slice(None), 1), "UC201", None),
    "view of a leaf": (lambda: leaf()[0].add_(1), "UC202", None),
    "view of a leaf, setitem": (lambda: leaf().__setitem__(0, 1), "UC202", None),
    "unbind": (lambda: (leaf() * 1).unbind()[0].add_(1), "UC203", None),
    "split": (lambda: (leaf() * 1).split(1)[0].add_(1), "UC203", None),
    "chunk": (lambda: (leaf() * 1).chunk(2)[0].add_(1), "UC203", None),
    "unbind, no grad so far": (lambda: torch.ones(2, 2).unbind()[0].add_(leaf()[0]), "UC203", None),
    "no_grad": (lambda: view_under(torch.no_grad()).add_(1), "UC204", "no_grad"),
    "inference mode": (lambda: view_under(torch.inference_mode()).add_(1), "UC204", "inference_mode"),
    "custom Function": (lambda: ViewOfInput.apply(leaf() * 1).add_(1), "UC205", None),
    "inference tensor written": (lambda: made_in_inference_mode().add_(1), "UC206", None),
    "inference tensor saved": (lambda: made_in_inference_mode() * leaf(), "UC206", "saved"),
    "inference tensor to train": (lambda: made_in_inference_mode().requires_grad_(), "UC206", "trained"),
    "no_grad view used": (lambda: used_after_a_write(torch.no_grad()), "UC204", "no_grad"),
    "inference view used": (lambda: used_after_a_write(torch.inference_mode()), "UC204", "inference_mode"),
    "expanded": (lambda: torch.ones(1).expand(3).add_(1), "UC207", None),
    "overlapping input": (through_out, "UC207", "input"),
    "view detached": (lambda: leaf()[0].detach_(), "UC208", None),
    "unbatched": (lambda: torch.func.vmap(torch.zeros(2).copy_)(torch.ones(3, 2)), "UC209", None),
    "unbatched, added to": (lambda: added_under_vmap(torch.zeros(2)), "UC209", None),
    "unbatched, by a level": (
        lambda: torch.func.vmap(lambda x: torch.zeros(2).addcmul_(x, x))(torch.ones(3, 2)),
        "UC209",
        None,
    ),
    "second backward": (twice, "UC301", None),
    "version": (stale, "UC101", None),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs(name)) if name in FEATURES else name for name in REFUSALS]
)
def test_sentence(name):
    """Each refusal is known by its sentence, and comes out of a call into C."""
    program, code, variant = REFUSALS[name]
    with pytest.raises(RuntimeError) as info:
        program()
    kind = kind_of(info.value)
    assert kind is not None
    assert (kind.code, kind.variant) == (code, variant)


def test_every_sentence_is_met():
    """By a program above, or by the one on the page of its code, whose error is compared with torch's."""
    above = {(code, variant) for _, code, variant in REFUSALS.values()}
    for code, entry in CODES.items():
        text = " ".join(page(code).text.split())
        for refusal in entry.refusals:
            assert (code, refusal.variant) in above or refusal.sentence in text


class KeepsWhatItMarks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.clone()


@pytest.mark.parametrize(
    "of", [lambda: leaf() * 1, leaf, lambda: torch.ones(2)], ids=["node", "leaf", "none"]
)
def test_what_is_said_of_a_dirty_tensor_that_is_not_returned(of):
    with pytest.raises(RuntimeError) as info:
        KeepsWhatItMarks.apply(of())
    assert str(info.value) == compat.Sentence.NOT_RETURNED
