"""``freeze``: a write to a frozen tensor raises at its line, exactly where its elements are hit."""

import contextlib
import threading

import pytest
import torch

import unclobber
import warm


def line_of(error: unclobber.InplaceError) -> str:
    site = error.finding.writes[0].site
    return site.source


WRITES = {
    "in place": lambda w: w.add_(1),
    ".data": lambda w: w.data.mul_(2),
    "one element": lambda w: w.__setitem__((1, 2), 5),
    "a view": lambda w: w[1].t().zero_(),
    "out=": lambda w: torch.add(w, 1, out=w),
    "foreach": lambda w: torch._foreach_add_([w], 1.0),
    "swapped memory": lambda w: setattr(w, "data", torch.zeros(3, 4)),
    "set_": lambda w: w.set_(torch.zeros(3, 4)),
    "storage": lambda w: w.untyped_storage().fill_(0),
    "another dtype": lambda w: w.view(torch.int32).fill_(0),
}


@pytest.mark.parametrize("watching", [False, True])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_raises_and_does_not_happen(write, watching):
    w = torch.arange(12.0).reshape(3, 4)
    before = w.clone()

    def attempt() -> None:
        with unclobber.freeze(w), pytest.raises(unclobber.InplaceError, match="frozen"):
            write(w)

    if watching:
        with unclobber.watch():
            attempt()
    else:
        attempt()
    assert torch.equal(w, before)


def test_the_story_has_both_lines():
    w = torch.zeros(3)
    handle = unclobber.freeze(w)
    with handle, pytest.raises(unclobber.InplaceError) as caught:
        w += 1
    finding = caught.value.finding
    assert finding.saved.site.source == "unclobber.freeze(w)"
    assert line_of(caught.value) == "w += 1"
    assert "guard" not in str(caught.value)


@pytest.mark.parametrize(
    "write",
    [lambda w: w[0].zero_(), lambda w: w[2:].add_(1), lambda w: w.t()[:, 0].mul_(2)],
    ids=["a row", "several rows", "through a transpose"],
)
def test_other_elements_may_be_written(write):
    w = torch.arange(12.0).reshape(3, 4)
    with unclobber.freeze(w[1]):
        write(w)
    assert w[1].tolist() == [4.0, 5.0, 6.0, 7.0]


def test_reading_is_free():
    """A frozen tensor may be read, saved and viewed."""
    w = torch.ones(3, requires_grad=True)
    with unclobber.freeze(w):
        (w * 2 + w.exp()).sum().backward()
        w.detach().unsqueeze(0).squeeze_(0)
    assert w.grad is not None


def test_remove_ends_it_and_may_be_repeated():
    w = torch.zeros(3)
    handle = unclobber.freeze(w)
    handle.remove()
    handle.remove()
    w += 1
    assert w.tolist() == [1.0, 1.0, 1.0]


def test_two_freezes_of_one_tensor_end_one_by_one():
    w = torch.zeros(3)
    outer = unclobber.freeze(w)
    with unclobber.freeze(w):
        pass
    with pytest.raises(unclobber.InplaceError):
        w += 1
    outer.remove()
    w += 1


def test_an_optimizer_may_not_step_frozen_parameters():
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2)).sum().backward()
    with unclobber.frozen(layer.parameters()), pytest.raises(unclobber.InplaceError) as caught:
        optimizer.step()
    assert line_of(caught.value) == "optimizer.step()"
    optimizer.step()


@pytest.mark.parametrize("watching", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_training_may_not_update_frozen_running_statistics(watching, grad):
    """Nobody saved them but batch norm itself, whose own update is otherwise told to no one."""
    norm = torch.nn.BatchNorm1d(3)
    context = unclobber.watch() if watching else contextlib.nullcontext()
    with context, unclobber.freeze(norm.running_mean), torch.set_grad_enabled(grad):
        saved = torch.ones(3, requires_grad=True).exp()
        with pytest.raises(unclobber.InplaceError):
            norm(torch.ones(4, 3))
    assert norm.running_mean.tolist() == [0, 0, 0]
    del saved


@pytest.mark.parametrize("watching", [False, True])
def test_backward_may_not_add_to_a_frozen_gradient(watching):
    """Backward adds gradients up in C++, where a session would not look."""
    w = torch.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    with unclobber.freeze(w.grad):
        if watching:
            with unclobber.watch(), pytest.raises(unclobber.InplaceError):
                (w * 2).sum().backward()
        else:
            with pytest.raises(unclobber.InplaceError):
                (w * 2).sum().backward()


def test_a_session_that_ends_leaves_the_freeze():
    w = torch.zeros(3)
    with unclobber.freeze(w):
        with unclobber.watch():
            pass
        with pytest.raises(unclobber.InplaceError):
            w += 1


def test_new_threads_see_it():
    w = torch.zeros(3)
    errors = []

    def write() -> None:
        try:
            w.add_(1)
        except unclobber.InplaceError as error:
            errors.append(error)

    with unclobber.freeze(w):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert len(errors) == 1


def test_an_exception_inside_ends_it():
    w = torch.zeros(3)
    with pytest.raises(KeyError), unclobber.frozen([w]):
        raise KeyError
    w += 1


def test_what_cannot_be_frozen_is_refused():
    with pytest.raises(TypeError, match="takes a tensor"):
        unclobber.freeze([1, 2])
    with pytest.raises(unclobber.UnclobberError, match="strided"):
        unclobber.freeze(torch.eye(3).to_sparse())


def test_nothing_stays_installed():
    """After the last freeze no kernel, client or included key is left."""
    from unclobber.observe.hooks import kernels
    from unclobber.observe.hooks.installation import installation
    from unclobber.torch_internals import compat

    with unclobber.freeze(torch.zeros(3)):
        assert kernels.running.active
    assert not kernels.running.active
    assert installation._clients.now == ()
    assert not compat.dispatcher.sees_writes()


def test_a_process_may_begin_with_a_freeze(tmp_path):
    """Its self-tests take nothing away, and read values whatever the default device."""
    script = tmp_path / "first.py"
    script.write_text(
        "import torch, unclobber\n"
        "from unclobber.observe.hooks import fallback\n"
        "w = torch.ones(1, requires_grad=True)\n"
        "torch.set_default_device('meta')\n"
        "with unclobber.freeze(w), unclobber.guard():\n"
        "    y = w.exp()\n"
        "    y.mul_(2)\n"
        "    y.sum().backward()\n"
        "torch.set_default_device(None)\n"
        "print(w.grad.item() > 5, fallback.why())\n"
    )
    ran = warm.python(str(script), first="import torch")
    assert ran.stdout == "True None\n", ran.stderr


def test_memory_of_a_frozen_tensor_can_be_given_away():
    """What code outside of torch does with it is unknown: giving it is no write."""
    w = torch.ones(2)
    with unclobber.freeze(w):
        assert w.data_ptr()
        assert w.numpy().sum() == 2
        assert torch.utils.dlpack.to_dlpack(w) is not None
