"""Modules that write to their buffers, weights or inputs."""

import pytest
import torch
from guarded_twins import assert_as_written, ramp
from torch import nn

import unclobber


def test_batch_norm_in_eval_then_in_training():
    """Evaluation saves the running statistics, and a training forward writes them before backward."""

    def run(x, apart):
        norm = nn.BatchNorm1d(3).double().eval()
        first = (norm(x) ** 2).sum()
        if apart:
            first.backward()
        norm.train()
        norm(x.detach() * 3)
        if not apart:
            first.backward()
        return norm.running_mean

    assert_as_written(lambda x: run(x, False), lambda x: run(x, True), ramp(4, 3), plain="wrong")


def test_batch_norm_in_training_is_no_conflict():
    """Two training forwards: the gradient needs batch statistics, not the running ones they update."""

    def program(x):
        norm = nn.BatchNorm1d(3).double()
        ((norm(x) + norm(2 * x)) ** 2).sum().backward()

    assert assert_as_written(program, program, ramp(4, 3), plain="right").conflicts == ()


def test_batch_norm_in_training_enters_nothing_into_a_book():
    """What it saves of its running statistics it updates itself, and never reads: nothing to keep."""
    norm = nn.BatchNorm1d(3).double()
    with unclobber.guard() as g:
        out = norm(ramp(4, 3))
        ledger = g._last.ledger
        assert (ledger.write_count, dict(ledger.logs)) == (0, {})
        norm.running_mean.zero_()  # somebody else's write is a write
        assert ledger.write_count == 1
        out.sum().backward()


def test_another_save_of_running_statistics_that_share_their_memory():
    """Mean and variance as rows of one tensor, of which an operation saved something."""

    def run(x, apart):
        norm = nn.BatchNorm1d(3).double()
        both = torch.ones(2, 3, dtype=torch.float64)
        norm.running_mean, norm.running_var = both[0], both[1]
        loss = (x * (both[1].clone() if apart else both[1])).sum()
        (loss + norm(x).square().sum()).backward()

    assert_as_written(lambda x: run(x, False), lambda x: run(x, True), ramp(4, 3), plain="wrong")


def test_running_statistics_reset_between_forward_and_backward():
    def run(x, reset):
        norm = nn.BatchNorm1d(3).double()
        total = (norm(x) ** 2).sum()
        if reset:
            norm.reset_running_stats()
        total.backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(4, 3))


@pytest.mark.parametrize("grad", [True, False], ids=["recorded", "no_grad"])
def test_evaluation_and_training_by_one_line(grad):
    """The save of the evaluation is by the same line as the write of the training."""

    def run(x, apart):
        norm = nn.BatchNorm1d(3).double()
        totals = []
        for training in (False, True):
            norm.train(training)
            with torch.set_grad_enabled(grad or not training):
                totals.append((norm(x) ** 2).sum())
            if apart and not training:
                totals.pop().backward()
        if alive := [total for total in totals if total.requires_grad]:
            sum(alive).backward()

    assert_as_written(lambda x: run(x, False), lambda x: run(x, True), ramp(4, 3), plain="wrong")


def test_rrelu_noise_is_the_filled_one():
    """RReLU saves its noise before the kernel fills it, and needs it filled."""

    def program(x):
        (nn.functional.rrelu(x - 1, training=True) * 3).sum().backward()

    assert assert_as_written(program, program, ramp(20), plain="right").conflicts == ()


@pytest.mark.parametrize(
    "activation",
    [nn.ReLU, nn.ELU, nn.Hardtanh, nn.LeakyReLU, nn.SiLU, nn.CELU, nn.ReLU6, nn.Dropout, nn.Threshold],
)
def test_in_place_activation_after_what_saves_its_result(activation):
    """``inplace=True`` after a sigmoid destroys what the sigmoid saved: the same gradient as without it."""
    options = (0.6, 0.1) if activation is nn.Threshold else ()

    def run(x, inplace):
        layers = nn.Sequential(nn.Sigmoid(), activation(*options, inplace=inplace))
        layers(x).square().sum().backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(6))


def test_lstm():
    """Weights stepped while an LSTM's graph is alive; hidden state carried in one buffer."""

    def run(x, buffered):
        torch.manual_seed(1)
        lstm = nn.LSTM(3, 4, num_layers=2).double()
        state = [torch.zeros(2, 1, 4).double(), torch.zeros(2, 1, 4).double()]
        total = torch.zeros((), dtype=x.dtype)
        for step in x.view(4, 1, 1, 3):
            out, new = lstm(step, tuple(state))
            total = total + (out**2).sum()
            if buffered:
                for old, value in zip(state, new, strict=True):
                    old.copy_(value.detach())
            else:
                state = [value.detach() for value in new]
        if buffered:
            with torch.no_grad():
                for p in lstm.parameters():
                    p.mul_(0.5)
        total.backward()
        return [p.grad for p in lstm.parameters()]

    x, twin = ramp(4, 3), ramp(4, 3)
    expected = run(twin, False)
    with unclobber.guard():
        got = run(x, True)
    # LSTM's own kernels round differently over copies of its weights
    for a, b in zip([*got, x.grad], [*expected, twin.grad], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell, nn.GRU])
def test_gates_cut_out_of_one_storage_enter_nothing_into_a_book(kind):
    """torch writes to gates next to others that are saved: to no element and no counter of those."""
    torch.manual_seed(0)
    cell, x = kind(3, 4).double(), ramp(2, 3)
    cell(x)[0].sum().backward()
    expected = [x.grad, *(p.grad for p in cell.parameters())]
    x.grad = None
    cell.zero_grad()
    with unclobber.guard() as g:
        out = cell(x)[0].sum()
        ledger = g._last.ledger
        assert (ledger.write_count, dict(ledger.logs)) == (0, {})
        out.backward()
    got = [x.grad, *(p.grad for p in cell.parameters())]
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def test_attention_mask_refilled():
    """A mask that is refilled for each layer."""

    def run(x, fresh):
        mask = torch.zeros(3, 3, dtype=x.dtype)
        total = torch.zeros((), dtype=x.dtype)
        for layer in range(3):
            if fresh:
                mask = mask.clone()
            mask[layer] = layer + 1.0
            total = total + ((x @ x.t()).softmax(-1) * mask).sum()
        total.backward()

    assert_as_written(lambda x: run(x, False), lambda x: run(x, True), ramp(3, 3))


def test_spectral_norm_power_iteration():
    """Two training forwards update the singular vectors that the first one's backward needs."""

    def run(weight, apart):
        layer = nn.Linear(3, 4, bias=False).double()
        with torch.no_grad():
            layer.weight.copy_(weight)
        layer = nn.utils.parametrizations.spectral_norm(layer)
        x = torch.ones(2, 3).double()
        first = layer(x).square().sum()
        if apart:
            first.backward()
        layer(2 * x)
        if not apart:
            first.backward()
        return [layer.parametrizations.weight.original.grad]

    with unclobber.guard():
        torch.manual_seed(0)
        got = run(ramp(4, 3, grad=False), apart=False)
    torch.manual_seed(0)
    expected = run(ramp(4, 3, grad=False), apart=True)
    assert torch.equal(got[0], expected[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype):
    """The cast copies that autocast keeps are saves like others; the weight may be stepped meanwhile."""

    def run(x, weight, apart):
        with torch.autocast("cpu", dtype=dtype):
            hidden = x @ weight
            loss = (hidden.exp() @ weight).float().sum()
        if apart:
            loss.backward()
        with torch.no_grad():
            weight.mul_(3)
            hidden.zero_()
        if not apart:
            loss.backward()

    leaves = ramp(3, 3, dtype=torch.float32), ramp(3, 3, dtype=torch.float32)
    assert_as_written(lambda *v: run(*v, False), lambda *v: run(*v, True), *leaves, plain="right")


def test_autocast_overwritten_activation():
    """An activation that autocast made, overwritten after it was saved."""

    def run(x, weight, inplace):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = (x @ weight).exp()
            out = (hidden * hidden).float().sum()
            if inplace:
                hidden.zero_()
        out.backward()

    leaves = ramp(3, 3, dtype=torch.float32), ramp(3, 3, dtype=torch.float32)
    assert_as_written(lambda *v: run(*v, True), lambda *v: run(*v, False), *leaves)
