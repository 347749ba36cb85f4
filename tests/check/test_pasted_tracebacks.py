"""``unclobber explain --traceback``: what it reads from a pasted text, what it blames, what it admits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from unclobber.cli import main
from unclobber.static import traceback
from unclobber.static._pasted import read_pasted

SENTENCE = (
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace "
    "operation"
)
STEPS = """\
import torch
from torch import nn


def train(net, other, data):
    opt_a = torch.optim.Adam(net.parameters())
    opt_b = torch.optim.Adam(other.parameters())
    for x in data:
        y = net(x)
        loss_a = other(y).mean()
        loss_b = (y - x).pow(2).mean() + other(y).sum()
        loss_a.backward(retain_graph=True)
        opt_b.step()
        loss_b.backward()
        opt_a.step()
"""
RESIDUAL = """\
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.relu = nn.ReLU()
        self.tanh = nn.Tanh()

    def forward(self, x):
        gate = self.tanh(x)
        gate *= 2
        out = self.relu(self.conv(gate))
        out += x
        return out


class Levels(nn.Module):
    def forward(self, x, parts):
        total = self.first(x)
        for i in range(1, 4):
            total += parts[i]
        return total
"""
LEVELS_OF_A_LIST = """\
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList()
        for i in range(4):
            convs = nn.Sequential()
            convs.add_module("conv", nn.Conv2d(8, 8, 1))
            convs.add_module("relu", nn.ReLU())
            convs.add_module("up", nn.Upsample(scale_factor=2))
            self.levels.append(convs)

    def forward(self, parts):
        total = self.levels[0](parts[0])
        for i in range(1, 4):
            total += self.levels[i](parts[i])
        return total
"""


def pasted(kind="FloatTensor", shape="[8, 3]", node="", version=2, expected=1, frames=""):
    """A text as torch prints it."""
    of = f", which is output 0 of {node}," if node else ""
    versions = f" is at version {version}; expected version {expected} instead."
    return f"{frames}{SENTENCE}: [torch.{kind} {shape}]{of}{versions}"


@pytest.fixture
def answer(tmp_path, monkeypatch, capsys):
    """``answer(text, name=source, …)``: the JSON for a pasted text and these files."""
    monkeypatch.chdir(tmp_path)

    def asked(text, **sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
        (tmp_path / "pasted.txt").write_text(text)
        code = main(["explain", "--traceback", "pasted.txt", "--format", "json", "."])
        document = json.loads(capsys.readouterr().out)
        assert code == (not document["candidates"])
        return document

    return asked


def test_the_facts_of_a_message_are_read():
    """The sentence may be wrapped anywhere."""
    text = pasted("cuda.HalfTensor", "[4, 96, 256]", "ReluBackward0", 20, 0).replace(" ", "\n  ")
    facts = read_pasted(text)
    assert (facts.kind, facts.shape, facts.node) == ("saved", (4, 96, 256), "Relu")
    assert (facts.dtype, facts.bumps, facts.is_parameter) == ("torch.cuda.HalfTensor", 20, False)
    # A complex tensor is rarely a parameter, whatever its version.
    complex_one = pasted("FloatTensor", "[4, 1]", "AsStridedBackward0", 17, 13)
    facts = read_pasted(complex_one.replace("torch.FloatTensor", "CPUComplexDoubleType"))
    assert (facts.dtype, facts.bumps, facts.is_parameter) == ("CPUComplexDoubleType", 4, None)


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        (SENTENCE, "saved"),
        ("a view of a leaf Variable that requires grad is being used in an in-place operation.", "leaf_view"),
        ("a leaf Variable that requires grad is being used in an in-place operation.", "leaf"),
        ("Output 0 of UnbindBackward0 is a view and is being modified inplace.", "multi_view"),
        ("A view was created in no_grad mode and is being modified inplace with grad mode", "multi_view"),
        ("Inplace update to inference tensor outside InferenceMode is not allowed.", "inference"),
        ("Inference tensors cannot be saved for backward. Please do not use Tensors", "inference"),
        ("Trying to backward through the graph a second time", "second_backward"),
        ("more than one element of the written-to tensor refers to a single memory location.", "expanded"),
        ("some elements of the input tensor and the written-to tensor refer to a single memory", "overlap"),
        ("UserWarning: Traceback of forward call that caused the error:", "saved"),
        ("The step breaks because of the inplace `+=` in the block", "saved"),
        ("(act): ReLU(inplace=True)\nRuntimeError: mat1 and mat2 shapes cannot be multiplied", None),
        ("CUDA out of memory", None),
    ],
)
def test_each_of_torchs_sentences_is_known(sentence, kind):
    """A text without one has no kind."""
    assert read_pasted(sentence).kind == kind


def test_frames_of_the_save_and_of_the_failure_are_kept_apart():
    """Anomaly mode prints those of the save first."""
    facts = read_pasted(
        dedent("""\
        [W python_anomaly_mode.cpp:104] Warning: Error detected in AddmmBackward. Traceback of forward
        call that caused the error:
          File "train.py", line 5, in main
            y = net(x)
          File "/usr/lib/python3.8/site-packages/torch/nn/modules/module.py", line 1, in _call_impl
         (function _print_stack)
        Traceback (most recent call last):
          File "train.py", line 9, in main
            loss.backward()
        """)
    )
    assert [(frame.line, frame.source) for frame in facts.forward] == [(5, "y = net(x)"), (1, "")]
    assert [(frame.line, frame.function, frame.source) for frame in facts.frames] == [
        (9, "main", "loss.backward()")
    ]
    assert (facts.saver, facts.forward[1].is_library) == ("Addmm", True)


def test_a_terminal_may_wrap_the_words_of_anomaly_mode():
    """They are in the text even if torch's sentence is cut off."""
    facts = read_pasted(
        "UserWarning: Error detecte\n  d in NativeBatchNormBackward0. Traceback of forward call that"
    )
    assert (facts.kind, facts.saver, facts.is_guessed) == ("saved", "NativeBatchNorm", False)


def test_words_alone_are_never_enough_to_be_confident(answer):
    """Without torch's sentence, another error may be meant."""
    frames = '  File "train.py", line 14, in train\n    loss_b.backward()\n'
    words = "AssertionError: leaf variable was used in an inplace operation"
    first, *_ = answer(frames + words, train=STEPS)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (13, False)
    first, *_ = answer(frames + SENTENCE, train=STEPS)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (13, True)


def test_a_file_of_an_older_python_is_read(answer):
    """`async` became a keyword in 3.7, and was an argument of `cuda` before."""
    source = STEPS.replace("for x in data:", "for x in data:\n        x = x.cuda(async=True)")
    document = answer(pasted(version=2, expected=1), train=source)
    assert lines_of(document)[0] == [14]


def test_what_a_loop_puts_into_a_list_made_the_target(answer):
    """As heads over several levels do, which are added up afterwards."""
    text = pasted(node="ReluBackward0", shape="[2, 8, 4, 4]", version=3, expected=0)
    why = answer(text, net=LEVELS_OF_A_LIST)["candidates"][0]["why"]
    assert any(each.startswith("Relu: the target comes from `self.levels[0](parts[0])") for each in why)


def test_frames_of_notebooks_and_pytest_are_read():
    """Both print other lines than the interpreter."""
    facts = read_pasted(
        "/home/u/model.py in train(loader)\n     18     loss = f(y)\n---> 19     loss.backward()\n     20\n"
        "tests/test_net.py:7: in test_it\n    step()\n"
    )
    assert [(frame.path, frame.line, frame.function) for frame in facts.frames] == [
        ("/home/u/model.py", 19, "train"), ("tests/test_net.py", 7, "test_it"),
    ]  # fmt: skip


def test_a_step_between_two_backwards_is_blamed(answer):
    """A parameter's version says that a step has changed it, and the frame which backward failed."""
    frames = '  File "/home/u/train.py", line 14, in train\n    loss_b.backward()\n'
    document = answer(pasted(node="TBackward", frames=frames), train=STEPS)
    (first, *_) = document["candidates"]
    assert first["writes"][0]["line"] == 13
    assert first["confident"]
    assert (first["rank"], first["needed"]["line"]) == (1, 14)
    assert any("parameter" in reason for reason in first["why"])


def test_lines_that_have_moved_are_found_by_their_text(answer):
    """People paste lines of their own copy."""
    frames = '  File "/home/u/train.py", line 20, in train\n    loss_b.backward()\n'
    document = answer(pasted(node="TBackward", frames=frames), train=STEPS)
    assert document["candidates"][0]["needed"]["line"] == 14


def test_the_node_names_the_save(answer):
    """Of two writes over results that were saved, the node decides."""
    for node, line in (("ReluBackward0", 15), ("TanhBackward0", 13)):
        document = answer(pasted(node=node, version=1, expected=0), model=RESIDUAL)
        assert document["candidates"][0]["writes"][0]["line"] == line


def test_the_number_of_bumps_names_a_loop(answer):
    """Three bumps are a write in a loop."""
    (first, *_) = answer(pasted(node="SomeBackward0", version=3, expected=0), model=RESIDUAL)["candidates"]
    assert first["writes"][0]["line"] == 23
    assert "3 bumps: a write in a loop" in first["why"]


def test_a_refused_write_is_the_last_frame(answer):
    """Torch refuses leaves and views at the write itself."""
    source = "def mean(image):\n    for t in image.unbind(0):\n        t.sub_(1)\n"
    refusal = "RuntimeError: Output 0 of UnbindBackward0 is a view and is being modified inplace."
    text = f'  File "t.py", line 3, in mean\n    t.sub_(1)\n{refusal}'
    (first, *_) = answer(text, t=source)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (3, True)


SHARED = (
    "RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer"
)
MASKED = """\
import torch


def search(inputs, bound):
    with torch.no_grad():
        indices = torch.ones(4, dtype=torch.bool)
        indices[indices] = inputs[indices] > bound
    return indices


def other(x):
    x = x.relu()
    x += 1
    return x
"""


def test_shared_memory_is_refused_without_gradients_too(answer):
    """An index writes to itself, as in IGOS_pp: neither its name nor no_grad speaks against it."""
    text = f'  File "/home/u/masks.py", line 7, in search\n{SHARED} to a single memory location'
    (first, *_) = answer(text, masks=MASKED)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (7, True)


def test_a_step_may_write_to_an_expanded_parameter(answer):
    """Torch refuses it inside of the step, as in dti-sprites and EKFAC."""
    source = "def train(opt, loss, x):\n    loss.backward()\n    opt.step()\n    x[0] = 1\n"
    text = (
        '  File "t.py", line 3, in train\nmore than one element of the written-to tensor refers to a single'
    )
    (first, *_) = answer(text, t=source)["candidates"]
    assert first["writes"][0]["line"] == 3


@pytest.mark.parametrize(
    "frames",
    [
        '  File "/usr/lib/python3.9/site-packages/pkg/masks.py", line 7, in search\n',
        "/usr/lib/python3.9/dist-packages/pkg/masks.py in search(a, b)\n"
        "      6         x\n----> 7         indices[indices] = inputs[indices] > bound\n",
        '  File "old_name.py", line 99, in search\n    indices[indices] = inputs[indices] > bound\n',
        '  File "masks.py", line 7, in search\n    s\n  File "main.py", line 1, in <module>\n    search()\n',
    ],
)
def test_frames_of_the_program_are_found_in_other_places(answer, tmp_path, frames):
    """The package may be installed, the file renamed, and a debugger prints the innermost frame first."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "masks.py").write_text(MASKED)
    (first, *_) = answer(f"{frames}{SHARED}", main="search(1, 2)\n")["candidates"]
    assert first["writes"][0]["line"] == 7


AGENT = """\
import torch


class Agent:
    def train_step(self):
        loss = self.loss()
        loss.backward()
        self.opt.step()
"""


def test_a_step_after_the_only_backward_is_not_certain(answer):
    """Each call has a forward of its own, and a version above 0 may be that of a buffer filled in rows."""
    frames = '  File "agent.py", line 7, in train_step\n    loss.backward()\n'
    (best, *_) = answer(f"{frames}{pasted('FloatTensor', '[6, 2]', None, 11, 10)}", agent=AGENT)["candidates"]
    assert (best["writes"][0]["line"], best["confident"]) == (8, False)


IN_TURN = """\
import torch


def train(losses, optimizers):
    for name, opt in optimizers.items():
        opt.zero_grad()
        losses[name].backward(retain_graph=True)
        opt.step()
"""


def test_a_kept_graph_is_no_save(answer):
    """torch has refused, so another backward does go through it: the edit is another order."""
    frames = '  File "turn.py", line 7, in train\n    losses[name].backward(retain_graph=True)\n'
    (best, *_) = answer(frames + pasted("FloatTensor", "[4, 4]", None, 2, 1), turn=IN_TURN)["candidates"]
    assert (best["writes"][0]["line"], best["saved"]) == (8, None)
    assert "retain_graph" not in best["edit"]


def test_a_refused_line_is_blamed_without_a_known_write(answer):
    """The call that torch refused stands there, or what it calls where the text is cut: not confident."""
    source = "from torch import nn\n\n\ndef reset(net):\n    nn.init.ones_(net.weight)\n"
    text = '  File "t.py", line 5, in reset\na leaf Variable that requires grad is being used in an in-place'
    (first, *_) = answer(text, t=source)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (5, False)


def test_a_save_of_an_inference_tensor_is_its_line(answer):
    """torch refuses it where it is saved, which may be in the statement of the backward."""
    source = (
        "import torch\n\nw = torch.ones(3, requires_grad=True)\nwith torch.inference_mode():\n"
        "    gate = torch.ones(3)\n(w * gate).sum().backward()\n"
    )
    text = '  File "t.py", line 6, in <module>\nRuntimeError: Inference tensors cannot be saved for backward.'
    (only,) = answer(text, t=source)["candidates"]
    assert only["writes"][0]["line"] == 6


def test_a_registry_of_functions_is_no_tensor(answer):
    """What is set under a function's name is an item of a dictionary."""
    source = (
        "import torch\n\nKNOWN = {}\n\n\ndef register(function):\n"
        "    KNOWN[function.__name__] = function\n\n\ndef mask(x):\n    x[1:] = 0\n    return x\n"
    )
    frames = '  File "t.py", line 20, in <module>\n    loss.backward()\n'
    found = answer(pasted(node="CopySlices", version=1, expected=0, frames=frames), t=source)["candidates"]
    assert [write["line"] for each in found for write in each["writes"]] == [11]


def test_two_writes_of_one_line_are_one_candidate(answer):
    source = "def plain(image):\n    for t in image:\n        t.mul_(2).add_(1)\n"
    text = (
        '  File "t.py", line 3, in plain\nOutput 0 of UnbindBackward is a view and is being modified inplace'
    )
    document = answer(text, t=source)
    assert [one["writes"] for one in document["candidates"]] == [
        [{"path": f"{document['candidates'][0]['writes'][0]['path']}", "line": 3}]
    ]
    assert document["candidates"][0]["confident"]


PYRAMID = """\
import torch
from torch import nn


class Pyramid(nn.Module):
    def forward(self, parts, history):
        laterals = [conv(part) for conv, part in zip(self.convs, parts)]
        for i in range(3, 0, -1):
            laterals[i - 1] += self.up(laterals[i])
        history[0:2] += 1
        noise = torch.empty(3).normal_()
        return laterals, history, noise
"""


def test_an_element_of_a_list_counts_once(answer):
    """`laterals[i] += x` bumps one tensor once, `history[0:2] += 1` twice; a new tensor has no save."""
    document = answer(pasted(node="ReluBackward0", version=1, expected=0), model=PYRAMID)
    assert [[write["line"] for write in one["writes"]] for one in document["candidates"]] == [[9], [10]]


@pytest.mark.parametrize(
    "words",
    [
        "See https://github.com/u/r/blob/0a1b2c/model.py#L10-L11",
        "it comes from model.py, line 10",
        "I think that it is in `fill_history`",
    ],
)
def test_people_name_a_line_or_a_function(answer, words):
    source = (
        PYRAMID
        + "\n    def fill_history(self, history):\n        history[0:2] += 1\n        return history\n"
    )
    said = answer(f"{SENTENCE}\n{words}", model=source)["candidates"][0]
    assert any("the text names" in reason for reason in said["why"])
    assert said["writes"][0]["line"] in (10, 15)


def test_what_runs_without_gradients_alone_is_no_way_to_the_backward(answer):
    """A function of another file that is called under no_grad, as in VAND-APRIL-GAN."""
    helper = "def normed(x):\n    x /= x.norm()\n    return x\n"
    source = (
        "import torch\nfrom helper import normed\n\n\ndef train(net, x):\n    with torch.no_grad():\n"
        "        x = normed(x)\n    y = net(x)\n    y /= y.norm()\n    y.sum().backward()\n"
    )
    text = pasted(node="DivBackward0", version=1, expected=0, frames='  File "t.py", line 10, in train\n')
    (first, second) = answer(text, t=source, helper=helper)["candidates"]
    assert (first["writes"][0]["line"], second["writes"][0]["line"]) == (9, 2)
    assert first["confident"]


def test_steps_that_each_break_a_backward_are_one_candidate(answer):
    source = STEPS.replace("        opt_b.step()\n", "        opt_b.step()\n        opt_a.step()\n", 1)
    frames = '  File "train.py", line 15, in train\n    loss_b.backward()\n'
    (first, *_) = answer(pasted(node="TBackward", frames=frames), train=source)["candidates"]
    assert sorted(write["line"] for write in first["writes"]) == [13, 14]
    assert first["confident"]


def test_a_second_backward_names_the_one_that_freed(answer):
    """In a loop it is the same line, a turn before."""
    source = "def f(s, net, data):\n    for x in data:\n        s = net(x, s)\n        s.sum().backward()\n"
    text = '  File "t.py", line 4, in f\nRuntimeError: Trying to backward through the graph a second time'
    (first, *_) = answer(text, t=source)["candidates"]
    assert first["writes"][0]["line"] == 4


FREED = """\
from torch import nn
net = nn.Linear(4, 4)
other = nn.Linear(4, 1)
def f(x):
    h = net(x).exp()
    h.sum().backward()
    other(h).sum().backward()
"""
SECOND = "RuntimeError: Trying to backward through the graph a second time"


def test_a_second_backward_in_no_loop_is_not_its_own_cause(answer):
    """The backward before it has freed what both need; the failing one is told, too."""
    first, second = answer(f'  File "t.py", line 7, in f\n{SECOND}', t=FREED)["candidates"]
    assert (first["writes"][0]["line"], first["confident"], second["writes"][0]["line"]) == (6, True, 7)
    assert "it frees the graph before the backward in line 7" in first["why"]


def test_a_backward_that_keeps_its_graph_frees_nothing(answer):
    source = FREED.replace("backward()", "backward(retain_graph=True)", 1)
    (first, *_) = answer(f'  File "t.py", line 7, in f\n{SECOND}', t=source)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (7, True)


def test_a_second_backward_without_frames_is_that_of_a_loop(answer):
    """The sentence alone is never enough to be confident."""
    source = (
        "def train(s, net, data):\n    for x in data:\n        s = net(x, s)\n        s.sum().backward()\n"
    )
    source += "\n\ndef test(net, x):\n    net(x).sum().backward()\n"
    first, second = answer(SECOND, t=source)["candidates"]
    assert (first["writes"][0]["line"], first["confident"], second["writes"][0]["line"]) == (4, False, 8)


def test_a_step_before_the_save_is_not_blamed(answer):
    """The frames of anomaly mode say where the save is: the write lies between it and the backward."""
    source = (
        "import torch\n\n\ndef train(net, opt, x):\n    opt.step()\n    h = net(x)\n"
        "    loss = h.sum()\n    opt.step()\n    loss.backward()\n"
    )
    frames = (
        "UserWarning: Error detected in AddmmBackward0. Traceback of forward call that caused the error:\n"
        '  File "train.py", line 6, in train\n    h = net(x)\n\n'
        'Traceback (most recent call last):\n  File "train.py", line 9, in train\n    loss.backward()\n'
    )
    document = answer(pasted(node="AsStridedBackward0", version=3, expected=2, frames=frames), train=source)
    (first, *_) = document["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (8, True)
    assert "it lies between the save in line 6 and the backward in line 9" in first["why"]


def test_a_step_of_the_turn_before_is_not_blamed(answer):
    """A forward, its backward and a step in turn: the forward computes with the new parameters. What was
    written by hand before the save, as LoRA's merged weights, has the version of a parameter."""
    source = (
        "import torch\n\n\ndef train(net, opt, data):\n    for x in data:\n        loss = net(x).sum()\n"
        "        net.merge()\n        opt.zero_grad()\n        loss.backward()\n        opt.step()\n"
    )
    frames = (
        "UserWarning: Error detected in AddmmBackward0. Traceback of forward call that caused the error:\n"
        '  File "train.py", line 6, in train\n    loss = net(x).sum()\n\n'
        'Traceback (most recent call last):\n  File "train.py", line 9, in train\n    loss.backward()\n'
    )
    document = answer(pasted(shape="[2, 2]", version=3, expected=1, frames=frames), train=source)
    assert [each for each in document["candidates"] if each["confident"]] == []


def test_what_cannot_be_told_is_said(answer):
    """Frames of another tree, a sentence without numbers, a text without a sentence."""
    document = answer(f'  File "/x/elsewhere.py", line 3, in run\n{SENTENCE}', train=STEPS)
    said = " | ".join(document["unknown"])
    assert "elsewhere.py, line 3" in said
    assert "no versions" in said
    assert "set_detect_anomaly" in said
    assert not any(candidate["confident"] for candidate in document["candidates"])
    document = answer("RuntimeError: CUDA out of memory", train=STEPS)
    assert document["candidates"] == []
    assert "none of torch's sentences" in document["unknown"][0]


def test_the_text_reads_standard_input_without_torch(tmp_path):
    """It is three candidates at most, with the reasons and the edit of a confident one."""
    (tmp_path / "train.py").write_text(STEPS)
    frames = '  File "train.py", line 14, in train\n    loss_b.backward()\n'
    program = (
        "import sys; from unclobber.cli import main\n"
        "code = main(['explain', '--traceback', '-', 'train.py'])\n"
        "assert 'torch' not in sys.modules\nsys.exit(code)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], input=pasted(node="TBackward", frames=frames), cwd=tmp_path,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("1. confident: train.py:13  opt_b.step()\n")
    assert "   edit    call step() after the backward of every loss" in run.stdout


def test_wrong_use_is_told(tmp_path, capsys):
    """A file that isn't there, and a format of reports."""
    assert main(["explain", "--traceback", str(tmp_path / "none.txt"), str(tmp_path)]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "t.txt").write_text(SENTENCE)
    assert main(["explain", "--traceback", str(tmp_path / "t.txt"), "--format", "html", str(tmp_path)]) == 2
    assert "It is text or json" in capsys.readouterr().err
    for format_ in ("html", "json"):
        assert main(["explain", "--format", format_, "UC101"]) == 2
        assert capsys.readouterr().err.startswith("unclobber: --format is for --traceback. ")


def test_lines_of_a_notebook_are_those_of_its_cell(tmp_path, answer):
    head, _, body = STEPS.partition("\n\n\n")
    cells = [{"cell_type": "code", "source": text} for text in (head, body)]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": cells}))
    (first, *_) = answer(pasted(node="TBackward"))["candidates"]
    assert [(one["path"].partition("ipynb:")[2], one["line"]) for one in first["writes"]] == [("cell[2]", 9)]


def lines_of(document):
    """The lines of each candidate."""
    return [[write["line"] for write in candidate["writes"]] for candidate in document["candidates"]]


def test_copies_of_a_function_are_one_candidate(answer, tmp_path):
    """The facts don't tell them apart; the one beside the frames comes first, and confidence is for both."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.py").write_text(RESIDUAL)
    (tmp_path / "b" / "loop.py").write_text("def run(loss):\n    loss.backward()\n")
    frames = '  File "/home/u/b/loop.py", line 2, in run\n'
    (first, *_) = answer(pasted(node="ReluBackward0", version=1, expected=0, frames=frames))["candidates"]
    assert [Path(write["path"]).parent.name for write in first["writes"]] == ["b", "a"]
    assert first["confident"]


def test_equal_places_that_are_no_copies_are_told_apart(answer):
    """The targets differ: they are two candidates, and none is confident."""
    block = "class {}(nn.Module):\n    def forward(self, x, y):\n"
    block += "        {} = x.relu()\n        {} += y\n        return {}\n"
    source = f"from torch import nn\n\n\n{block.format('A', *'ooo')}\n\n{block.format('B', *'zzz')}"
    document = answer(pasted(node="ReluBackward0", version=1, expected=0), model=source)
    assert lines_of(document) == [[7], [14]]
    assert not document["candidates"][0]["confident"]


def test_a_step_after_a_backward_that_keeps_its_graph_is_likelier(answer):
    """Of two programs alike, the one with `retain_graph`, though no other backward is in sight."""
    step = "def train(net, loss, x):\n    opt = torch.optim.Adam(net.parameters())\n"
    step += "    loss(net(x)).backward()\n    opt.step()\n"
    kept = step.replace("backward()", "backward(retain_graph=True)").replace("train", "kept")
    document = answer(pasted(node="TBackward"), t=f"import torch\n\n\n{step}\n\n{kept}")
    assert lines_of(document) == [[13], [7]]
    assert "a backward before it keeps its graph, by the source" in document["candidates"][0]["why"]


def test_what_a_module_returned_is_likelier_than_a_count(answer):
    """Dropout in place over what any module returns, and numbers of a dictionary."""
    source = dedent("""\
        from torch import nn


        class Net(nn.Module):
            def __init__(self, act):
                super().__init__()
                self.act = act
                self.drop = nn.Dropout(0.1, inplace=True)

            def forward(self, x, seen, sizes):
                seen = {}
                for name in sizes:
                    seen[name] = len(name)
                return self.drop(self.act(x))
        """)
    document = answer(pasted(node="GeluBackward0", version=1, expected=0), model=source)
    assert lines_of(document)[0] == [14]
    assert [13] not in lines_of(document)[:2]


def test_parameters_that_are_written_by_hand_are_stepped(answer):
    """MAML whose inner loop writes under ``no_grad``; the outer step comes after the backward."""
    source = dedent("""\
        import torch
        from torch import nn

        net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        meta = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            meta.zero_grad()
            total = 0.0
            for task in torch.ones(2, 10, 1):
                total = total + net(task).square().mean()
                with torch.no_grad():
                    for p in net.parameters():
                        p -= 0.1 * p
            total.backward()
            meta.step()
        """)
    frames = (
        'Traceback (most recent call last):\n  File "maml.py", line 14, in <module>\n    total.backward()\n'
    )
    text = pasted(node="AsStridedBackward0", shape="[16, 1]", version=3, expected=2, frames=frames)
    document = answer(text, maml=source)
    assert lines_of(document)[0] == [13]
    assert document["candidates"][0]["confident"]


@pytest.mark.parametrize("written", ["average.update_parameters(net)", "torch._foreach_mul_(shifts, 0.9)"])
def test_another_write_than_the_step_may_be_the_cause(answer, written):
    """An averaged network and a list of tensors are written, too, by their own functions."""
    source = dedent(f"""\
        import torch
        from torch import nn

        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
        average = torch.optim.swa_utils.AveragedModel(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(2):
            goal = average(shifted())
            net(torch.ones(4, 3)).square().mean().backward()
            optimizer.step()
            {written}
            goal.mean().backward()
        """)
    frames = 'Traceback (most recent call last):\n  File "mean.py", line 12, in <module>\n    goal.mean()\n'
    text = pasted(node="AsStridedBackward0", shape="[3, 1]", version=5, expected=3, frames=frames)
    document = answer(text, mean=source)
    assert not document["candidates"][0]["confident"]
    assert [11] in lines_of(document)


def test_what_a_loop_writes_has_a_version_like_a_parameter_s(answer):
    """CAVIA's context is no parameter, though it is a row, as a weight's, and was written before its save."""
    source = dedent("""\
        import torch

        net = torch.nn.Linear(2, 1)
        start = torch.nn.Parameter(torch.zeros(2))
        c = start * 1.0
        for _ in range(2):
            (g,) = torch.autograd.grad(net(c).square().sum(), c, create_graph=True)
            c.sub_(0.1 * g)
        net(c).square().sum().backward()
        """)
    frames = '  File "cavia.py", line 9, in <module>\n    net(c).square().sum().backward()\n'
    text = pasted(node="AsStrided", shape="[1, 2]", version=2, expected=1, frames=frames)
    document = answer(text, cavia=source)
    assert (lines_of(document), document["candidates"][0]["confident"]) == ([[8]], False)


def test_a_counter_of_an_object_is_no_tensor(answer):
    """`self.n += 1` comes last before the backward."""
    source = dedent("""\
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.n = 0

            def turn(self, x):
                y = self.net(x)
                y.mul_(2)
                self.n += 1
                y.square().sum().backward()
        """)
    frames = (
        'Traceback (most recent call last):\n  File "train.py", line 10, in turn\n'
        "    y.square().sum().backward()\n"
    )
    assert lines_of(answer(pasted(version=1, expected=0, frames=frames), train=source)) == [[8]]


def test_a_write_that_a_call_in_another_file_leads_to(answer):
    """The keys of MoCo, of which only the file that calls the queue shows that a product keeps them."""
    bank = dedent("""\
        import torch


        class Bank:
            def __init__(self):
                self.keys = torch.randn(8, 4)

            @torch.no_grad()
            def put(self, keys):
                self.keys[: len(keys)] = keys

            def logits(self, q):
                return q @ self.keys.T
        """)
    train = dedent("""\
        import torch
        from torch import nn

        from bank import Bank

        net, bank = nn.Linear(4, 4), Bank()
        for x in torch.randn(3, 2, 4):
            q = net(x)
            loss = bank.logits(q).square().sum()
            bank.put(q.detach())
            loss.backward()
        """)
    frames = (
        'Traceback (most recent call last):\n  File "train.py", line 11, in <module>\n    loss.backward()\n'
    )
    document = answer(pasted(shape="[4, 8]", version=1, expected=0, frames=frames), train=train, bank=bank)
    assert [Path(write["path"]).name for write in document["candidates"][0]["writes"]] == ["bank.py"]
    assert lines_of(document)[0] == [10]


@pytest.mark.parametrize(("kept", "confident"), [("retain_graph=False", [False]), ("", [])])
def test_a_step_after_the_only_backward_is_not_confident(answer, kept, confident):
    """A forward runs again in each turn, and no graph is left of the last; what wrote is not read here."""
    source = dedent("""\
        import torch
        from helpers import renorm


        def train(model, opt, data):
            for x, y in data:
                loss = torch.nn.functional.mse_loss(model(x), y)
                renorm(model)
                opt.zero_grad()
                loss.backward(KEPT)
                opt.step()
        """).replace("KEPT", kept)
    frames = 'Traceback (most recent call last):\n  File "train.py", line 10, in train\n    loss.backward()\n'
    document = answer(pasted(version=3, expected=1, frames=frames), train=source)
    assert [each["confident"] for each in document["candidates"]] == confident


def test_a_number_added_to_a_tensor_is_no_count(answer):
    """`y += 1` is the only write of its file, and reads as a counter's."""
    net = dedent("""\
        import torch
        from torch import nn


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                y = torch.sigmoid(self.linear(x))
                y += 1
                return y
        """)
    document = answer(pasted(node="SigmoidBackward0", version=1, expected=0), net=net)
    assert lines_of(document) == [[12]]
    reason = "Sigmoid: the target comes from `torch.sigmoid(self.linear(x))  # Linear`"
    assert reason in document["candidates"][0]["why"]


@pytest.mark.parametrize(
    ("end", "kind"), [("", "saved"), ("Function 'ExpBackward0' returned nan values", None)]
)
def test_a_text_that_is_cut_after_the_frames_of_the_save(answer, end, kind):
    """Anomaly mode prints them for a NaN, too, which no write makes."""
    frames = (
        "Warning: Error detected in AddmmBackward0. Traceback of forward call that caused the error:\n"
        f'  File "train.py", line 8, in train\n    y = net(x)\n\nTraceback (most recent call last):\n{end}'
    )
    document = answer(frames, train=STEPS)
    assert document["kind"] == kind
    assert lines_of(document)[:1] == ([[13]] if kind else [])


def test_a_refused_write_behind_a_cut_is_not_the_last_frame(answer):
    """The text ends with a call; the whole one says where torch refused."""
    source = "def mean(image):\n    for t in image.unbind(0):\n        t.sub_(1)\n"
    source += "\n\ndef run(model, image):\n    model(image)\n"
    refusal = "RuntimeError: Output 0 of UnbindBackward0 is a view and is being modified inplace."
    frame = '  File "t.py", line 7, in run\n    model(image)\n'
    assert lines_of(answer(f"{refusal}\n{frame}", t=source))[0] == [3]
    assert lines_of(answer(f"{frame}{refusal}", t=source))[0] == [7]


def test_a_view_that_is_read_after_its_base_was_written_is_no_write(answer):
    """torch refuses the use of such a view, which may be backward's."""
    source = "def run(w):\n    c = w * 1\n    a, b = c\n    r = a * b\n    c -= r\n    c.sum().backward()\n"
    refusal = "Output 0 of Unbind is a view and its base or another view of its base has been modified"
    text = f'  File "t.py", line 6, in run\n    c.sum().backward()\n{refusal} inplace.'
    assert lines_of(answer(text, t=source)) == [[5]]


def test_a_refusal_without_frames_is_confident_if_one_write_is_such(answer):
    source = "def mean(image):\n    for t in image.unbind(0):\n        t.sub_(1)\n"
    refusal = "RuntimeError: Output 0 of UnbindBackward0 is a view and is being modified inplace."
    (first, *_) = answer(refusal, t=source)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (3, True)
    other = source.replace("mean", "other").replace("sub_", "mul_")
    (first, *_) = answer(refusal, t=source, other=other)["candidates"]
    assert not first["confident"]


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        ("it works with ` history[ 0 : 2 ] = history[0:2] + 1 `", True),
        ("I see\n```\nhistory[0:2]+=1\n```", True),
        ("it works with `history[0:2] = history[0:2] - 1`", False),
    ],
)
def test_people_quote_a_line_or_what_they_change_it_to(answer, words, quoted):
    (first, *_) = answer(f"{SENTENCE}\n{words}", model=PYRAMID)["candidates"]
    assert ("the text quotes this line" in first["why"]) == quoted
    assert first["writes"][0]["line"] == 10


@pytest.mark.parametrize("more", ["", "It is slow.\n (Triggered internally at a.cpp:8.)\n"])
def test_a_line_that_a_warning_quotes_is_not_quoted_by_a_person(answer, more):
    """Python prints the line that warned below the warning, as vmap's of an operation without a rule."""
    warned = f"/home/u/model.py:10: UserWarning: no batching rule\n{more}  history[0:2] += 1\n"
    frame = '  File "/home/u/model.py", line 10, in forward\n    history[0:2] += 1\n'
    saved = (
        f"/lib/graph.py:9: UserWarning: Error detected in AddBackward0. Traceback of forward call:\n{frame}"
    )
    for text in (warned, saved):
        (first, *_) = answer(text + SENTENCE, model=PYRAMID)["candidates"]
        assert not any(reason.startswith("the text") for reason in first["why"])


def test_a_write_after_the_save_of_the_pasted_frames_is_likelier(answer):
    """Anomaly mode's frames order the writes of activations, too."""
    source = "def run(x, y):\n    x[0] = 1\n    z = x * y\n    y[0] = 1\n    return z\n"
    frames = (
        "Warning: Error detected in MulBackward0. Traceback of forward call that caused the error:\n"
        '  File "t.py", line 3, in run\n    z = x * y\n\n'
    )
    text = pasted(node="SomeBackward0", version=1, expected=0, frames=frames)
    assert lines_of(answer(text, t=source))[0] == [4]


def test_a_step_some_calls_away_is_less_likely(answer):
    """Both precede the backward."""
    source = dedent("""\
        def near(opt):
            opt.step()


        def far(optimizer):
            optimizer.step()


        def between(optimizer):
            far(optimizer)


        def train(loss, opt):
            between(opt)
            near(opt)
            loss.backward()
        """)
    text = pasted(node="TBackward", frames='  File "t.py", line 16, in train\n')
    assert lines_of(answer(text, t=source)) == [[2], [6]]


def test_fewer_bumps_than_a_write_makes_are_not_its(answer):
    """`x[0:2] += 1` counts twice."""
    for version, line in ((1, 3), (2, 2)):
        document = answer(
            pasted(node="SomeBackward0", version=version, expected=0),
            t="def run(x, y):\n    x[0:2] += 1\n    y[0:2] = 1\n    return x, y\n",
        )
        assert lines_of(document)[0] == [line]


def test_a_frame_whose_beginning_was_cut_is_read(answer):
    """People copy from within a line, as in XRec; the line that torch refused decides among its copies."""
    copies = "\n\n".join(f"def mean_{name}(image):\n    for t in image:\n        t.sub_(1)" for name in "ab")
    refusal = "RuntimeError: Output 0 of UnbindBackward is a view and is being modified inplace."
    text = f'ed/models/t.py", line 8, in mean_b\n        t.sub_(1)\n{refusal}'
    (first, *_) = answer(text, t=f"{copies}\n")["candidates"]
    assert (first["writes"], first["confident"]) == ([{"path": first["writes"][0]["path"], "line": 7}], True)


def test_a_step_that_takes_arguments_is_no_optimizers(answer):
    """An ODE solver's step returns a state, as in torch_ACA."""
    source = (
        "def integrate(solver, func, state, t, y, loss):\n    loss(y).backward(retain_graph=True)\n"
        "    func.load_state_dict(state)\n    y = solver.step(func, t, y)\n    loss(y).backward()\n"
    )
    (first, *_) = answer(pasted(shape="[512]"), t=source)["candidates"]
    assert first["writes"][0]["line"] == 3


WRAPPED = {
    "base": """\
from torch.nn.parallel import DistributedDataParallel


class Base:
    def wrapped(self, net):
        net = DistributedDataParallel(net)
        return net
""",
    "gan": """\
from base import Base


class Model(Base):
    def __init__(self, net):
        self.net = net
        self.net = self.wrapped(self.net)
        self.net = self.net.train()
""",
    "relativistic": """\
from gan import Model


class Relativistic(Model):
    def step_discriminator(self, real, fake, loss):
        good = self.net(real)
        bad = self.net(fake)
        loss(good, bad).backward()
        self.optimizer.step()
        return bad
""",
}


def test_a_module_may_be_wrapped_by_a_function_of_another_file(answer):
    """Data parallel training sends the buffers of a norm at each forward, as in BasicSR."""
    text = f"[W] Warning: Error detected in CudnnBatchNormBackward.\n{SENTENCE}"
    (first, *_) = answer(text, **WRAPPED)["candidates"]
    assert lines_of({"candidates": [first]}) == [[7]]


SIBLINGS = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x, y):\n"


def test_a_file_that_the_text_names_speaks_for_its_folder(answer, tmp_path):
    """Of several programs of a tree the one that ran is named, as in nni."""
    for folder, name in (("first", "x"), ("second", "z")):
        (tmp_path / "examples" / folder).mkdir(parents=True)
        source = f"{SIBLINGS}        {name} = self.act(y)\n        {name} += y\n        return {name}\n"
        (tmp_path / "examples" / folder / "net.py").write_text(source)
        (tmp_path / "examples" / folder / "search.py").write_text("import net\n")
    facts = pasted(node="EluBackward", version=1, expected=0)
    (first, *_) = answer(f"examples/second/search.py cannot run\n{facts}")["candidates"]
    assert Path(first["writes"][0]["path"]).parent.name == "second"
    assert "the text names a file of its folder" in first["why"]


def test_a_save_of_another_operation_is_no_reason(answer):
    """The interpreter has seen relu() save what is overwritten, but torch says elu()."""
    source = dedent("""\
        import torch


        class Net(torch.nn.Module):
            def forward(self, x, y):
                x = x.relu()
                x += y
                return x


        class Other(torch.nn.Module):
            def forward(self, x, y):
                z = self.mixed(x)
                z += y
                return z
        """)
    document = answer(pasted(node="EluBackward0", version=1, expected=0), t=source)
    assert lines_of(document) == [[14], [7]]


def test_a_later_call_of_a_module_writes_to_other_activations(answer):
    """The frames of anomaly mode show the save; only parameters are those of the second call, too."""
    source = dedent("""\
        class Block:
            def forward(self, x):
                x += x.exp()
                return x


        def train(opt, x, loss):
            net = Block()
            a = net(x)
            opt.step()
            b = net(x)
            loss(a, b).backward()
        """)
    text = (
        "Warning: Error detected in AddmmBackward. Traceback of forward call that caused the error:\n"
        f'  File "t.py", line 9, in train\n    a = net(x)\n\n{SENTENCE}'
    )
    (first, *_) = answer(text, t=source)["candidates"]
    assert first["writes"][0]["line"] == 10


def test_a_step_that_no_backward_follows_is_unlikelier(answer):
    """The first step lies between two backwards, and nothing keeps a graph for the next turn."""
    source = "def train(a, b, opt_a, opt_b):\n    a.backward(retain_graph=True)\n    opt_a.step()\n"
    source += "    b.backward()\n    opt_b.step()\n"
    first, second = answer(pasted(node="TBackward"), t=source)["candidates"]
    assert (first["writes"][0]["line"], first["confident"], second["writes"][0]["line"]) == (3, True, 5)


def test_a_step_between_two_backwards_alone_is_not_confident(answer):
    """So it is in programs that are right, too."""
    source = "def train(a, b, opt_a, opt_b):\n    a.backward()\n    opt_a.step()\n"
    source += "    b.backward()\n    opt_b.step()\n"
    (first, *_) = answer(pasted(node="TBackward"), t=source)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (3, False)


def test_a_sentence_without_numbers_and_frames_needs_a_longer_lead(answer):
    """One and the same source: the numbers make the difference, as in DRIT."""
    source = dedent("""\
        import torch


        def train_it(loss, opt):
            loss.backward()
            opt.step()


        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        y += 1
        y.sum().backward()
        """)
    for text, is_confident in ((SENTENCE, False), (pasted(node="ExpBackward0", version=1, expected=0), True)):
        (first, *_) = answer(f"{text}\nmaybe in train_it", t=source)["candidates"]
        assert (first["writes"][0]["line"], first["confident"]) == (11, is_confident)


@pytest.mark.parametrize(
    "facts",
    [
        pasted(node="TBackward"),  # a parameter, which a sum never writes to
        pasted(node="ReluBackward0", version=4, expected=2),  # two writes more than there are
        pasted(node="SigmoidBackward0", version=1, expected=0),  # the result of another operation
    ],
)
def test_what_a_fact_contradicts_is_never_confident(answer, facts):
    """The tree may be that of another program, or the write in a library."""
    source = dedent("""\
        import torch


        class Net(torch.nn.Module):
            def forward(self, x, y):
                x = torch.relu(x)
                x += y
                return x
        """)
    (first, *_) = answer(facts, t=source)["candidates"] or [{"confident": False}]
    assert not first["confident"]
    document = answer(pasted(node="ReluBackward0", version=1, expected=0), t=source)
    assert document["candidates"][0]["confident"]


def test_a_step_is_confident_only_in_the_one_program_of_a_tree(answer):
    """A text without frames and names of files may be of the other, whose step is not known to be wrong."""
    other = "import torch\n\n\ndef main(loss, opt):\n    loss.backward()\n    opt.step()\n"
    facts = pasted(node="TBackward")
    for text, sources, is_confident in (
        (facts, {"train": STEPS}, True),
        (facts, {"train": STEPS, "other": other}, False),
        (f"in ./train.py: {facts}", {"train": STEPS, "other": other}, True),
    ):
        (first, *_) = answer(text, **sources)["candidates"]
        assert (first["writes"][0]["line"], first["confident"]) == (13, is_confident)


def test_a_step_of_a_loop_that_no_frame_reaches_is_not_the_first(answer):
    """The graph of the last turn may be left in what isn't followed, and the other loop is not running."""
    source = """\
        import torch
        import memory, models


        def {}(env, steps):
            agent, kept = models.build("critic"), memory.Kept()
            optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
            for t in range(steps):
                s, r = env.step()
                loss = (r + agent(s).detach() - kept.take()).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.put(agent(s))
        """
    sources = {name: dedent(source.format(name)) for name in ("train", "pretrain")}
    frames = 'Traceback (most recent call last):\n  File "train.py", line 12, in train\n    loss.backward()\n'
    first, *others = answer(pasted(node="TBackward", frames=frames), **sources)["candidates"]
    assert (Path(first["writes"][0]["path"]).name, first["confident"]) == ("train.py", False)
    assert [Path(each["writes"][0]["path"]).name for each in others] in ([], ["pretrain.py"])


def test_a_large_tree_without_frames_is_never_confident(answer, monkeypatch):
    """Nothing tells which of its files were used, as in DiscoBox, whose tree is that of mmdetection."""
    facts = pasted(node="TanhBackward0", version=1, expected=0)
    assert answer(facts, net=RESIDUAL)["candidates"][0]["confident"]
    monkeypatch.setattr(traceback, "_LARGE", 0)
    assert not answer(facts, net=RESIDUAL)["candidates"][0]["confident"]


FILLED = """\
import torch
from torch import nn

net, opt = nn.Linear(4, 4), None
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    seen = torch.zeros(8, 4, dtype=torch.bool)
    loss = 0.0
    for i in range(4):
        scores = net(torch.ones(8, 4)).masked_fill(seen, -1e9)
        loss = loss + scores.logsumexp(1).sum()
        seen{write}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("kind", ["CPUBoolType", "torch.sparse.FloatTensor", "torch.FloatTensor"])
def test_what_a_loop_fills_has_the_version_of_a_parameter(answer, kind):
    """A mask or a sparse tensor is none, and of others the source knows."""
    source = FILLED.format(write=".scatter_(1, scores.argmax(1, keepdim=True), True)")
    document = answer(pasted(kind=kind, shape="[8, 4]", version=3, expected=2), net=source)
    assert lines_of(document)[0] == [12]


@pytest.mark.parametrize(("write", "confident"), [("", True), ("    made.mul_(2)\n", False)])
def test_a_step_beside_a_line_that_fills_a_tensor_is_not_confident(answer, write, confident):
    """The tensor may be that one (MAML by hand, whose fast weights are clones)."""
    source = f"{STEPS}\n\ndef filled(made):\n{write}    return made\n"
    (first, *_) = answer(pasted(node="TBackward"), train=source)["candidates"]
    assert (first["writes"][0]["line"], first["confident"]) == (13, confident)
