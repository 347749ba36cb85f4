"""``unclobber.transformers``: ``Trainer.train`` is watched or guarded from its beginning to its end."""

from __future__ import annotations

import gc
import weakref

import pytest
from gates import RESTORED, SOURCE, line_of, said_at_end
from weights import same_weights

import unclobber

pytestmark = pytest.mark.usefixtures("left_nothing")


@pytest.fixture
def Callback(transformers):  # noqa: N802
    from unclobber.transformers import UnclobberCallback

    return UnclobberCallback


@pytest.fixture
def train(transformers, tmp_path):
    """Train a model of a kind and return it."""

    def train(kind, *callbacks, **options):
        trainer = transformers.trainer(kind, tmp_path, *callbacks, **options)
        trainer.train()
        return trainer.model

    return train


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("Model", "watch"), ("Model", "guard"), ("Model", "strict"), ("LanguageModel", "strict")],
)
def test_clean_training(kind, mode, transformers, Callback, train):  # noqa: N803
    """No findings, and the same weights to the last bit."""
    kind, callback = getattr(transformers, kind), Callback(mode)
    watched = train(kind, callback)
    assert callback.findings == ()
    assert callback._training._last.ledger.save_count > 10
    assert same_weights(watched, train(kind))


@pytest.mark.parametrize("mode", ["watch", "strict"])
def test_the_story(mode, transformers, Callback, train):  # noqa: N803
    """``train`` raises it: the line that saved, the line that wrote, in the user's file."""
    callback = Callback(mode)
    with pytest.raises(unclobber.InplaceError, match="modified by an inplace operation") as caught:
        train(transformers.Overwrites, callback)
    finding = caught.value.finding
    assert callback.findings == (finding,)
    assert finding.code == "UC101"
    assert (finding.saved.site.path, finding.saved.site.line) == (str(SOURCE), line_of(")).sigmoid()"))
    (write,) = finding.writes
    assert (write.site.path, write.site.line) == (str(SOURCE), line_of("# the write"))


def test_guard(transformers, Callback, train, capsys):  # noqa: N803
    """The program trains to the weights of its right twin, and what guard did is said at the end."""
    callback = Callback("guard")
    guarded = train(transformers.Overwrites, callback)
    assert said_at_end(capsys.readouterr().err) == RESTORED
    assert {finding.code for finding in callback.findings} == {"UC101"}
    assert callback.peak_bytes > 0
    assert same_weights(guarded, train(transformers.Copies))


def test_a_silent_write(transformers, Callback, train):  # noqa: N803
    """``watch`` warns at its line, ``strict`` raises."""
    with pytest.warns(unclobber.SilentWriteWarning) as warned:
        train(transformers.Silently, Callback())
    (warning,) = [one for one in warned if one.category is unclobber.SilentWriteWarning]
    assert (warning.filename, warning.lineno) == (str(SOURCE), line_of("gate.data["))
    with pytest.raises(unclobber.InplaceError, match="UC102"):
        train(transformers.Silently, Callback("strict"))


def test_what_torch_refuses(transformers, Callback, train):  # noqa: N803
    """torch's own error leaves ``train`` with the story in its place, and as its cause."""
    with pytest.raises(unclobber.InplaceError, match="UC201") as caught:
        train(transformers.WritesLeaf, Callback())
    assert caught.value.finding.writes[0].site.line == line_of("weight.mul_")
    assert type(caught.value.__cause__) is RuntimeError


@pytest.mark.parametrize("mode", ["watch", "guard"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_users_exception(error, mode, transformers, Callback, train):  # noqa: N803
    """It leaves ``train`` as it is, and nothing is watched any more."""
    callback = Callback(mode)

    class Raises(transformers.Raises):
        def __init__(self):
            super().__init__(error("own"))

    with pytest.raises(error, match="own"):
        train(Raises, callback)
    assert not callback._running


def test_added_later(transformers, Callback, tmp_path):  # noqa: N803
    """``add_callback`` after the trainer was made, with an object or with the class."""
    for callback in (Callback(), Callback):
        trainer = transformers.trainer(transformers.Overwrites, tmp_path)
        trainer.add_callback(callback)
        with pytest.raises(unclobber.InplaceError, match="UC101"):
            trainer.train()


def test_taken_away(transformers, Callback, tmp_path):  # noqa: N803
    """``remove_callback`` ends it."""
    trainer = transformers.trainer(transformers.Model, tmp_path, Callback)
    trainer.train()
    (callback,) = [one for one in trainer.callback_handler.callbacks if isinstance(one, Callback)]
    training = callback._training
    trainer.remove_callback(Callback)
    trainer.train()
    assert callback._training is training


def test_twice(transformers, Callback, tmp_path):  # noqa: N803
    """Each ``train`` of one trainer is a training of its own."""
    callback = Callback()
    trainer = transformers.trainer(transformers.Model, tmp_path, callback)
    trainer.train()
    first = callback._training
    trainer.train()
    assert callback._training is not first
    assert not first.running


def test_a_trainer_with_a_loop_of_its_own(transformers, Callback, train):  # noqa: N803
    """Nobody would end its training for us when it fails, so none begins, and we say what to do."""
    with pytest.raises(unclobber.UnclobberError, match=r"put `with unclobber\.watch\(\):` round the call"):
        train(transformers.Model, Callback(), trainer_class=transformers.OwnTrain)


def test_nothing_is_kept_alive(transformers, Callback, train):  # noqa: N803
    """Neither the model nor what it computed."""
    callback = Callback("guard")
    model = train(transformers.Overwrites, callback)
    gone = [weakref.ref(model), weakref.ref(model.inner.weight)]
    del model
    gc.collect()
    assert callback.findings
    assert [one() for one in gone] == [None, None]


def test_the_method_is_given_back(transformers, Callback, train):  # noqa: N803
    """When the last callback has gone, ``Trainer.train`` is transformers' own."""
    gc.collect()
    assert not hasattr(transformers.Trainer.train, "__wrapped__")
    callback = Callback()
    assert hasattr(transformers.Trainer.train, "__wrapped__")
    train(transformers.Model, callback)
    del callback
    gc.collect()
    assert not hasattr(transformers.Trainer.train, "__wrapped__")


def test_the_memory_of_one_step(transformers, train):
    """A real model's step is reported by module, and it trains the same."""
    from unclobber.transformers import MemoryCallback

    callback = MemoryCallback()
    reported = train(transformers.LanguageModel, callback)
    assert callback.report.backward
    paths = {one.path for one in callback.report.by_module if one.own}
    assert {"transformer.h.0.mlp.act", "transformer.h.1.mlp.act"} <= paths
    assert same_weights(reported, train(transformers.LanguageModel))


def test_each_training_has_its_own_memory(transformers, train):
    """A callback that is used again reports its last training, which may have failed in that step."""
    from unclobber.transformers import MemoryCallback

    class Fails(transformers.Raises):
        def __init__(self):
            super().__init__(LookupError("the user's own"))

    callback = MemoryCallback()
    train(transformers.Model, callback)
    first = callback.report
    with pytest.raises(LookupError):
        train(Fails, callback)
    assert callback.report is None
    train(transformers.Model, callback)
    assert callback.report.backward
    assert callback.report is not first
