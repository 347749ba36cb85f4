"""The trainer's method is wrapped while a callback lives, and no longer."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import runpy
import sys
import traceback

import pytest
import torch

import unclobber
from unclobber.integrations._saying import show_without_traceback
from unclobber.integrations.trainers import WatchesTraining, Wrapped
from unclobber.model import Finding
from unclobber.report import error_of


class Trainer:
    """A trainer as the wrapper sees it."""

    def __init__(self, *callbacks):
        self.callbacks = callbacks

    def fit(self, steps=1):
        """Trains."""
        return steps, [callback._running for callback in self.callbacks]


ORIGINAL = Trainer.fit
FIT = Wrapped(Trainer, "fit", lambda trainer: trainer.callbacks)


class Callback(WatchesTraining):
    def __new__(cls, *args, **kwargs):
        callback = super().__new__(cls)
        FIT.serve(callback)
        return callback


@pytest.fixture(autouse=True)
def restored():
    """Every test ends with the method as it was."""
    yield
    gc.collect()
    assert Trainer.fit is ORIGINAL


def test_a_trainer_with_the_callback():
    """The training runs inside, with its arguments and its result."""
    callback = Callback()
    assert Trainer(callback).fit(steps=3) == (3, [True])
    assert not callback._running


def test_a_trainer_without():
    """Another trainer runs as before while a callback lives."""
    callback = Callback()
    assert Trainer().fit() == (1, [])
    assert callback.findings == ()


def test_it_looks_the_same():
    """Help and signature are the method's own."""
    callback = Callback()
    assert Trainer.fit is not ORIGINAL
    assert Trainer.fit.__doc__ == "Trains."
    assert callback.peak_bytes == 0


def test_the_last_one_unwraps():
    """Not the first of two."""
    one, other = Callback(), Callback()
    wrapped = Trainer.fit
    del one
    gc.collect()
    assert Trainer.fit is wrapped
    assert Trainer(other).fit() == (1, [True])


def test_copies_are_served():
    """A copy and an unpickled callback have the settings, but no training, and wrap the method, too."""
    callback = Callback("guard", fingerprint=0.5)
    Trainer(callback).fit()
    for make in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        made = make(callback)
        assert (made.mode, made.fingerprint, made._training) == ("guard", 0.5, None)
    del callback
    gc.collect()
    assert Trainer(made).fit() == (1, [True])


def test_somebody_wraps_it_after_us():
    """Their wrapper stays, ours inside of theirs does nothing, and a new callback wraps anew."""
    callback = Callback()
    ours = Trainer.fit
    Trainer.fit = lambda self: ("theirs", *ours(self))
    del callback
    gc.collect()
    assert Trainer().fit() == ("theirs", 1, [])
    callback = Callback()
    assert Trainer(callback).fit() == ("theirs", 1, [True])
    del callback
    gc.collect()
    assert Trainer().fit() == ("theirs", 1, [])
    Trainer.fit = ORIGINAL


def test_fit_inside_of_fit():
    """A trainer that trains inside of its training, as tuners do, is watched once."""

    class Nested(Trainer):
        def fit(self):
            return super().fit(), super().fit()

    callback = Callback()
    assert Nested(callback).fit() == ((1, [True]), (1, [True]))


class Failing(Trainer):
    """Its training overwrites what its backward needs, some frames down."""

    def fit(self):
        return self.run(5)

    def run(self, depth):
        if depth:
            return self.run(depth - 1)
        gate = torch.ones(3, requires_grad=True).sigmoid()
        gate += 1
        return gate.sum().backward()


def test_an_uncaught_failure_is_its_report_alone(monkeypatch, capsys):
    """No frame of the trainer's or of unclobber's is shown; the error keeps its traceback for handlers."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    callback = WatchesTraining()
    Wrapped(Failing, "fit", lambda trainer: trainer.callbacks).serve(callback)
    with pytest.raises(unclobber.InplaceError) as caught:
        Failing(callback).fit()
    error = caught.value
    assert len(traceback.extract_tb(error.__traceback__)) > 5
    sys.excepthook(type(error), error, error.__traceback__)
    said = capsys.readouterr().err
    assert said.startswith("\nerror[UC101] saved-overwritten: `gate` was overwritten")
    assert said.splitlines()[-1].startswith("SUMMARY: UC101 saved-overwritten ")
    assert "Traceback" not in said
    assert "trainers.py" not in said
    assert error._render_traceback_() == said.splitlines()[1:]  # what a notebook shows
    assert pickle.loads(pickle.dumps(error)).finding == error.finding
    sys.excepthook(ValueError, ValueError("the program's own"), None)
    assert "ValueError: the program's own" in capsys.readouterr().err


def test_a_hook_of_the_programs_own_is_left_alone(monkeypatch):
    """The message of the error has the explanation for it."""
    own = functools.partial(print)
    monkeypatch.setattr(sys, "excepthook", own)
    show_without_traceback(error_of(Finding("UC101", "`y` was overwritten")), ())
    assert sys.excepthook is own


def test_a_wrong_mode():
    """The answer names the right ones."""
    with pytest.raises(unclobber.UnclobberError, match="mode is 'gaurd': the modes are watch, guard, strict"):
        Callback("gaurd")
    gc.collect()


@pytest.mark.parametrize(
    ("settings", "arguments", "expected"),
    [
        ("guard = true", {}, ("guard", False, 0.0)),
        ("strict = true\nfingerprint = 0.5", {}, ("watch", True, 0.5)),
        ("guard = true\nfingerprint = 0.5", {"mode": "strict", "fingerprint": 0.0}, ("watch", True, 0.0)),
        ("", {}, ("watch", False, 0.0)),
    ],
)
def test_settings_say_what_the_callback_leaves_open(tmp_path, settings, arguments, expected):
    """Those of the project of the file that begins the training."""
    (tmp_path / "pyproject.toml").write_text(f"[tool.unclobber]\n{settings}\n")
    (tmp_path / "train.py").write_text("def train(trainer):\n    return trainer.fit()\n")
    train = runpy.run_path(str(tmp_path / "train.py"))["train"]
    callback = Callback(**arguments)
    train(Trainer(callback))
    session = callback._training._last
    assert (session.policy, session.strict, session.fingerprint) == expected
