"""One cause is one finding: the parameters of one step, the tensors of one line."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

import unclobber
from unclobber.report import guard_lines, to_json
from unclobber.report._notes import notes
from unclobber.session.session import Session


class Net(nn.Module):
    """Four layers on two lines."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))
        self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        h = self.trunk(x)
        return self.head(h)


def stepped_too_early(net, times=1):
    """A step between two backwards through one graph, again and again."""
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(times):
        loss = net(torch.ones(2, 4, requires_grad=True)).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
        (loss * 2).backward()


WEIGHTS = ["net.head.0.weight", "net.head.2.weight", "net.trunk.0.weight", "net.trunk.2.weight"]


def test_one_step_is_one_finding():
    """However many parameters it spoils, and whatever lines had saved them."""
    torch.manual_seed(0)
    net = Net()
    with pytest.raises(unclobber.InplaceError) as info, Session() as session:
        stepped_too_early(net)
    (finding,) = session.report().findings
    for one in (finding, info.value.finding):
        assert sorted(save.name for save in (one.saved, *one.also)) == WEIGHTS
        assert not any("more tensor" in note for note in notes(one))  # the optimizer's note names them
    assert "1 more finding" not in str(info.value)
    assert "would have refused" not in str(info.value)
    (written,) = to_json(session.report())["findings"]
    assert sorted(save["name"] for save in [written["saved"], *written["also"]]) == WEIGHTS


def test_guard_counts_each_value_at_its_tensor():
    """Two weights of one line are two tensors, not one that was restored twice as often."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    with Session("guard") as session:
        stepped_too_early(net, times=3)
    total, line = guard_lines(session.report(), 500)
    assert total.startswith("guard: 6 overwritten values restored (1 place), ")
    assert "overwrites `net.2.weight` (32 bytes) and `net.0.weight` (128 bytes), saved in" in line
    assert line.endswith(": 6 values restored")
    narrow = [row for line in guard_lines(session.report(), 60) for row in line.splitlines()]
    assert max(map(len, narrow)) <= 60
    assert "".join("".join(narrow).split()) == "".join(f"{total}{line}".split())


def test_tensors_of_one_line():
    """Statistics that one forward wrote: both are named, once."""
    net = nn.BatchNorm1d(3)
    with Session("watch", warn=False) as session:
        target = net.eval()(torch.randn(4, 3)).sum()
        loss = net.train()(torch.randn(4, 3)).sum()
        (target + loss).backward()
    (finding,) = session.report().findings
    assert [save.name for save in (finding.saved, *finding.also)] == ["net.running_mean", "net.running_var"]
    assert finding.times == 2
    (note,) = [note for note in notes(finding) if "more tensor" in note]
    assert note.startswith("that line spoils 1 more tensor that backward needs: `net.running_var`, saved at")
    assert not any(note.startswith("met ") for note in notes(finding))


class Block(nn.Module):
    """Reads what its activation overwrites; the harmless twin's activation isn't in place."""

    def __init__(self, size, *, inplace=True):
        super().__init__()
        self.conv, self.drop = nn.Linear(size, size), nn.Dropout(0.5, inplace=inplace)

    def forward(self, x):
        out = self.conv(x).tanh()
        gated = out * out.sigmoid()
        return self.drop(out) + gated


def test_all_modules_that_wrote_at_one_line_are_named():
    """Each of them is constructed with ``inplace=True``: to mend one of three leaves the others."""

    def train(net):
        net(torch.ones(2, 3)).sum().backward()

    net = nn.Sequential(Block(3), nn.Linear(3, 4), Block(4), Block(4, inplace=False), Block(4))
    with pytest.raises(unclobber.InplaceError) as info, Session():
        train(net)
    finding = info.value.finding
    at_fault = [f"net.{i}.drop (Dropout)" for i in (0, 2, 4)]
    assert finding.writes[0].module == at_fault[-1]
    assert finding.writes[0].modules == tuple(at_fault)
    assert finding.fixes[0].title == (
        f"construct {at_fault[0]}, {at_fault[1]} and {at_fault[2]} without inplace=True"
    )
    (note,) = [note for note in notes(finding) if "more tensor" in note]
    assert note.startswith(
        "that line spoils at least 1 more tensor that backward needs: `out`, saved at"
    )  # of other sizes
    for mended, runs in (((4,), False), ((0, 2, 4), True)):
        for i in mended:
            net[i].drop.inplace = False
        with Session("watch", warn=False), contextlib.nullcontext() if runs else pytest.raises(RuntimeError):
            train(net)


def test_a_module_of_another_graph_is_not_named():
    """It wrote at the same line, to what the refused backward never comes to."""
    first, second = Block(3), Block(3)
    graphs = []

    def program():
        graphs.extend(block(torch.ones(2, 3)).sum() for block in (first, second))
        graphs[1].backward()

    with pytest.raises(unclobber.InplaceError) as info, Session():
        program()
    assert info.value.finding.fixes[0].title == "construct second.drop (Dropout) without inplace=True"


def test_parts_of_one_buffer():
    """Each turn keeps the part that is filled so far: one name, and no value is lost."""
    cache, w = torch.zeros(4, 3), torch.rand(3, requires_grad=True)

    def program():
        rows = []
        for t in range(4):
            cache[t] = t
            rows.append((cache[: t + 1] * w).sum())
        sum(rows).backward()

    with pytest.raises(unclobber.InplaceError) as info, Session():
        program()
    finding = info.value.finding
    assert finding.harmless
    (note,) = [note for note in notes(finding) if "more tensor" in note]
    assert note.startswith(
        "that line reaches at least 2 more tensors that backward needs: `cache[: t + 1]`, saved"
    )


def test_what_is_not_described_is_not_left_out_of_the_count():
    """Twenty weights are described, and no number is given for what they are some of."""
    net = nn.Sequential(*(nn.Linear(3, 3) for _ in range(24)))

    def program():
        loss = net(torch.ones(2, 3)).sum()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(0.5)
        loss.backward()

    with pytest.raises(unclobber.InplaceError) as info, Session():
        program()
    (note,) = [note for note in notes(info.value.finding) if "more tensor" in note]
    assert note.startswith("that line spoils at least 19 more tensors that backward needs: `net.")


def test_a_loop_of_fresh_tensors_is_one_tensor():
    """They are met again and again at one place under one name, and are not described each time."""
    with Session("guard") as session:
        for _ in range(30):
            y = torch.ones(3, requires_grad=True).exp()
            y.mul_(2)
            y.sum().backward()
    (finding,) = session.report().findings
    assert (finding.times, finding.also) == (30, ())


def test_two_findings_are_one_by_their_places():
    """By the code and each place, as the caller compares places."""
    torch.manual_seed(0)
    net = Net()
    with Session("guard") as session:
        stepped_too_early(net)
    (finding,) = session.report().findings
    assert finding.identity(lambda site: site.line)[0] == "UC101"
    assert len(finding.identity(lambda site: site.line)) == 4
    assert finding.identity(lambda site: site.function)[1:] == (
        "Net.forward",
        "stepped_too_early",
        "stepped_too_early",
    )
