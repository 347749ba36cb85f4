"""Callbacks for the Trainer of Hugging Face ``transformers``.

::

    from unclobber.transformers import UnclobberCallback

    trainer = Trainer(model, args, train_dataset=data, callbacks=[UnclobberCallback("guard")])
    trainer.train()

Only this module imports ``transformers``.
"""

from __future__ import annotations

from typing import Any

from transformers import Trainer, TrainerCallback

from .integrations.trainers import WatchesTraining
from .integrations.training_memory import ReportsMemory
from .model import UnclobberError

__all__ = ["MemoryCallback", "UnclobberCallback"]

# Of the class and not of its instances: a subclass with a `train` of its own is refused by `_OWN_TRAIN`.
_TRAIN = (Trainer, "train", lambda trainer: trainer.callback_handler.callbacks)

_OWN_TRAIN = (
    "training has begun outside of transformers.Trainer.train, which UnclobberCallback watches: take the "
    "callback away and put `with unclobber.watch():` round the call"
)


class UnclobberCallback(WatchesTraining, TrainerCallback, wraps=[_TRAIN]):
    """Run ``trainer.train()`` under ``watch()`` or ``guard()``.

    What backward refuses leaves ``train()`` as ``InplaceError``, with the story. When ``train()`` has
    ended, however it ended, nothing is watched any more, and ``findings`` has what was found. A guarded
    training says then on standard error what was restored, and for which lines.

    Args:
        mode: ``"watch"``, ``"guard"``, or ``"strict"``, which is ``watch(strict=True)``. None: as the
            settings of the project say that begins the training, else ``"watch"``.
        fingerprint: As for ``watch()``.

    Raises:
        UnclobberError: There is no such mode.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._running:  # no hook is called if such a training fails
            raise UnclobberError(_OWN_TRAIN)


class MemoryCallback(ReportsMemory, TrainerCallback):
    """Say where the memory of one step of ``trainer.train()`` goes.

    ``report`` is what ``unclobber.memory()`` gives: of the step's first backward, where gradients are
    accumulated. The step is slower; the others run as without it.

    Args:
        step: Which one, from 1. The second has the optimizer's state among what lives anyway.

    Raises:
        UnclobberError: ``step`` is below 1.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._training_begins()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        optimizer = kwargs.get("optimizer")
        self._step_begins(kwargs["model"], () if optimizer is None else (optimizer,))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._step_ends()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._give_up()
