"""``unclobber fix`` on custom Functions that overwrite their input unmarked."""

UNMARKED = """
import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


w = torch.tensor([1.0, 2.0], requires_grad=True)
h = w * 1
y = Double.apply(h)
(y * h).sum().backward()
"""


def test_the_mark_is_added_and_proved(fix):
    """Not against the program as it is, whose gradient is wrong, and the words say against what."""
    done = fix(UNMARKED, "--write")
    assert done.code == 0, done.err
    marked = UNMARKED.replace("        return x.mul_", "        ctx.mark_dirty(x)\n        return x.mul_")
    assert done.text == marked.lstrip("\n")
    said = " ".join(done.out.split())
    assert (
        "proved to the end: output, files and state are those of the script with the custom Function run on "
        "a copy and its result written back, and so are loss and gradients of 1 leaf, bit for bit" in said
    )


def test_where_the_input_is_not_returned_nothing_is_proved(fix):
    """What the derivative of the overwritten input should be is nowhere said: a copy is offered."""
    text = UNMARKED.replace("return x.mul_(2)", "x.mul_(2)\n        return x * 1")
    done = fix(text, "--write", "--format", "json")
    assert done.code == 1
    assert done.text == text.lstrip("\n")
    fixes = done.document["findings"][0]["fixes"]
    assert not any(one["verified"] for one in fixes)
    assert any("+        x = x.clone()" in (one["diff"] or "") for one in fixes)
