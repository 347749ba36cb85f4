"""``unclobber.lightning``: ``Trainer.fit`` is watched or guarded from its beginning to its end."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest
from gates import RESTORED, SOURCE, line_of, said_at_end
from weights import same_weights

import unclobber

pytestmark = [
    pytest.mark.usefixtures("left_nothing"),
    pytest.mark.filterwarnings("ignore::UserWarning:lightning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
]


@pytest.fixture
def Callback(lightning):  # noqa: N802
    from unclobber.lightning import UnclobberCallback

    return UnclobberCallback


@pytest.mark.parametrize("mode", ["watch", "guard", "strict"])
def test_clean_training(mode, lightning, Callback):  # noqa: N803
    """No findings, and the same weights to the last bit."""
    callback = Callback(mode)
    watched = lightning.train(lightning.Model, callback)
    assert callback.findings == ()
    assert callback._training._last.ledger.save_count > 10
    assert same_weights(watched, lightning.train(lightning.Model))


def test_the_weights_are_compared(lightning):
    """The comparison sees a program that differs in one step."""
    assert not same_weights(lightning.train(lightning.Model), lightning.train(lightning.Model, steps=2))


@pytest.mark.parametrize("mode", ["watch", "strict"])
def test_the_story(mode, lightning, Callback):  # noqa: N803
    """``fit`` raises it: the line that saved, the line that wrote, in the user's file."""
    callback = Callback(mode)
    with pytest.raises(unclobber.InplaceError, match="modified by an inplace operation") as caught:
        lightning.train(lightning.Overwrites, callback)
    finding = caught.value.finding
    assert callback.findings == (finding,)
    assert finding.code == "UC101"
    assert (finding.saved.site.path, finding.saved.site.line) == (str(SOURCE), line_of(")).sigmoid()"))
    (write,) = finding.writes
    assert (write.site.path, write.site.line) == (str(SOURCE), line_of("# the write"))
    # Lightning runs the training step inside of `optimizer.step`.
    assert write.optimizer is None


def test_guard(lightning, Callback, capsys):  # noqa: N803
    """The program trains to the weights of its right twin, and what guard did is said at the end."""
    callback = Callback("guard")
    guarded = lightning.train(lightning.Overwrites, callback)
    assert said_at_end(capsys.readouterr().err) == RESTORED
    assert {finding.code for finding in callback.findings} == {"UC101"}
    assert callback.peak_bytes > 0
    assert same_weights(guarded, lightning.train(lightning.Copies))


def test_a_silent_write(lightning, Callback):  # noqa: N803
    """``watch`` warns at its line, ``strict`` raises."""
    with pytest.warns(unclobber.SilentWriteWarning) as warned:
        lightning.train(lightning.Silently, Callback())
    (warning,) = [one for one in warned if one.category is unclobber.SilentWriteWarning]
    assert (warning.filename, warning.lineno) == (str(SOURCE), line_of("gate.data["))
    with pytest.raises(unclobber.InplaceError, match="UC102"):
        lightning.train(lightning.Silently, Callback("strict"))


def test_what_torch_refuses(lightning, Callback):  # noqa: N803
    """torch's own error leaves ``fit`` with the story in its place, and as its cause."""
    with pytest.raises(unclobber.InplaceError, match="UC201") as caught:
        lightning.train(lightning.WritesLeaf, Callback())
    assert caught.value.finding.writes[0].site.line == line_of("weight.mul_")
    assert type(caught.value.__cause__) is RuntimeError


@pytest.mark.parametrize("mode", ["watch", "guard"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_users_exception(error, mode, lightning, Callback):  # noqa: N803
    """It leaves ``fit`` as it does without us; Lightning turns an interrupt into an exit."""
    with pytest.raises(BaseException) as plain:  # noqa: PT011
        lightning.train(lambda: lightning.Raises(error("own")))
    callback = Callback(mode)
    with pytest.raises(BaseException) as watched:  # noqa: PT011
        lightning.train(lambda: lightning.Raises(error("own")), callback)
    assert type(watched.value) is type(plain.value)
    assert watched.value.args == plain.value.args
    assert not callback._running


def test_a_callback_that_fails_before_ours(lightning, Callback):  # noqa: N803
    """Lightning asks us nothing then; the training has ended all the same."""
    callback = Callback()
    with pytest.raises(LookupError):
        lightning.train(lambda: lightning.Raises(ValueError()), lightning.RaisesOnException(), callback)
    assert not callback._running


def test_twice(lightning, Callback):  # noqa: N803
    """Each ``fit`` is a training of its own."""
    callback = Callback()
    with pytest.raises(unclobber.InplaceError):
        lightning.train(lightning.Overwrites, callback)
    lightning.train(lightning.Model, callback)
    assert callback.findings == ()


def test_nothing_is_kept_alive(lightning, Callback):  # noqa: N803
    """By what was found; Lightning itself gives the callback a method of the model."""
    callback = Callback("guard")
    model = lightning.train(lightning.Overwrites, callback)
    gone = [weakref.ref(model), weakref.ref(model.inner.weight)]
    training = callback._training
    del model, callback
    gc.collect()
    assert training.findings
    assert [one() for one in gone] == [None, None]


def test_a_model_that_brings_the_callback(lightning):
    """``configure_callbacks`` comes after the call of ``fit``: Lightning's hooks begin and end it."""
    kind = lightning.BringsItself
    made = []
    with pytest.raises(unclobber.InplaceError, match="UC101"):
        lightning.train(lambda: made.append(kind()) or made[0])
    assert not made[0].brought._running


def test_what_torch_refuses_such_a_model(lightning):
    """A hook can't replace torch's error; the story is a note under it."""
    with pytest.raises(RuntimeError, match="a leaf Variable") as caught:
        lightning.train(lightning.RefusedAndBringsItself)
    (note,) = caught.value.__notes__
    assert "error[UC201] leaf-written" in note


def test_such_a_model_ends_well(lightning):
    """And after a training that went well nothing is left either."""

    class Brings(lightning.Copies):
        configure_callbacks = lightning.BringsItself.configure_callbacks

    model = lightning.train(Brings)
    assert not model.brought._running
    assert model.brought._training._last.ledger.save_count > 10


SPAWNED = """
import sys
sys.path.insert(0, {folder!r})
import torch
from torch.utils.data import DataLoader
import lightning_programs as programs
from unclobber.lightning import UnclobberCallback

if __name__ == "__main__":
    trainer = programs.trainer(UnclobberCallback(), strategy="ddp_spawn")
    trainer.fit(programs.Overwrites(), DataLoader(torch.randn(4, 4), batch_size=2))
"""


@pytest.mark.sweep
def test_spawned_processes(tmp_path):
    """A process that the trainer spawns is watched, too, and its story comes back with its failure."""
    script = tmp_path / "spawning.py"
    script.write_text(SPAWNED.format(folder=str(SOURCE.parent)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "error[UC101] saved-overwritten" in done.stderr
    assert f"gates.py:{line_of('# the write')}" in done.stderr


UNDER_THE_OTHER_NAME = """
import pytorch_lightning
from unclobber.lightning import UnclobberCallback
import sys
assert issubclass(UnclobberCallback, pytorch_lightning.Callback)
assert "lightning.pytorch" not in sys.modules
import torch, unclobber
from torch.utils.data import DataLoader

class Model(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def training_step(self, batch, _):
        gate = self.inner(batch).sigmoid()
        gate[0] = 0.25
        return gate.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters())

trainer = pytorch_lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=UnclobberCallback()
)
try:
    trainer.fit(Model(), DataLoader(torch.randn(2, 2)))
except unclobber.InplaceError as error:
    print(error.finding.code, error.finding.writes[0].site.source)
"""


def test_pytorch_lightning(tmp_path):
    """The same code under its other name; the one that isn't used isn't imported."""
    script = tmp_path / "training.py"
    script.write_text(UNDER_THE_OTHER_NAME)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.splitlines()[-1:] == ["UC101 gate[0]"], done.stderr


def test_the_memory_of_one_step(lightning):
    """The second step is reported with Adam's state beside it, by module too, and trains the same."""
    from unclobber.lightning import MemoryCallback

    callback = MemoryCallback()
    reported = lightning.train(lightning.Model, callback)
    report = callback.report
    assert report.backward
    assert {one.path for one in report.by_module} >= {"inner", "drop", "head"}
    assert "drop" in {one.path for one in report.by_module if one.own}
    assert same_weights(reported, lightning.train(lightning.Model))
    first = MemoryCallback(step=1)
    lightning.train(lightning.Model, first)
    parameters = sum(parameter.nbytes for parameter in reported.parameters())
    assert report.peak.moment.lasting - first.report.peak.moment.lasting >= 2 * parameters


def test_each_training_has_its_own_memory(lightning):
    """A callback that is used again reports its last training, which may have failed in that step."""
    from unclobber.lightning import MemoryCallback

    class Fails(lightning.Raises):
        def __init__(self):
            super().__init__(LookupError("the user's own"))

    callback = MemoryCallback()
    lightning.train(lightning.Model, callback)
    first = callback.report
    with pytest.raises(LookupError):
        lightning.train(Fails, callback)
    assert callback.report is None
    lightning.train(lightning.Model, callback)
    assert callback.report.backward
    assert callback.report is not first
