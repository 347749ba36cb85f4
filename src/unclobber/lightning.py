"""Callbacks for the Trainer of Lightning, be it ``lightning`` or ``pytorch_lightning``.

::

    from unclobber.lightning import UnclobberCallback

    trainer = Trainer(callbacks=[UnclobberCallback("guard")])
    trainer.fit(model, data)

Only this module imports Lightning: the package that the program has imported, else the one that is installed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .integrations.trainers import WatchesTraining
from .integrations.training_memory import ReportsMemory
from .model import InplaceError

__all__ = ["MemoryCallback", "UnclobberCallback"]

_NAMES = ("lightning.pytorch", "pytorch_lightning")
"""The packages of Lightning: two names for one code, each with classes of its own."""


def _packages() -> list[Any]:
    # Of both, if the program has imported both: each Trainer takes callbacks of its own package alone.
    loaded = [sys.modules[name] for name in _NAMES if name in sys.modules]
    return loaded or [import_module(_NAMES[0] if find_spec("lightning") else _NAMES[1])]


_LIGHTNING = _packages()
# Of the class and not of its instances, which the program makes later.
_FITS = [(package.Trainer, "fit", lambda trainer: trainer.callbacks) for package in _LIGHTNING]


class UnclobberCallback(
    WatchesTraining,
    *(package.Callback for package in _LIGHTNING),  # type: ignore[misc]
    wraps=_FITS,
):
    """Run ``trainer.fit()`` under ``watch()`` or ``guard()``.

    What backward refuses leaves ``fit()`` as ``InplaceError``, with the story. When ``fit()`` has ended,
    however it ended, nothing is watched any more, and ``findings`` has what was found. A guarded training
    says then on standard error what was restored, and for which lines.

    Args:
        mode: ``"watch"``, ``"guard"``, or ``"strict"``, which is ``watch(strict=True)``. None: as the
            settings of the project say that begins the training, else ``"watch"``.
        fingerprint: As for ``watch()``.

    Raises:
        UnclobberError: There is no such mode.
    """

    # `fit` was called without us in the processes that a trainer spawns, and where the model brings us by
    # `configure_callbacks`. Then Lightning's own hooks have to do.

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit" and not self._running:
            self._begin(by_hooks=True)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._training is not None and self._training.by_hooks:
            self._end(None, None, None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self._training is None or not self._training.by_hooks:
            return
        try:
            self._end(type(exception), exception, exception.__traceback__)
        except InplaceError as story:  # which can't leave a hook in the place of the exception
            exception.add_note(str(story))


class MemoryCallback(ReportsMemory, *(package.Callback for package in _LIGHTNING)):  # type: ignore[misc]
    """Say where the memory of one step of ``trainer.fit()`` goes.

    ``report`` is what ``unclobber.memory()`` gives. The step is slower; the others run as without it.

    Args:
        step: Which one, from 1. The second has the optimizer's state among what lives anyway.

    Raises:
        UnclobberError: ``step`` is below 1.
    """

    def on_train_start(self, *args: Any, **kwargs: Any) -> None:
        self._training_begins()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *args: Any, **kwargs: Any) -> None:
        self._step_begins(pl_module, trainer.optimizers)

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self._step_ends()

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self._give_up()

    def on_exception(self, *args: Any, **kwargs: Any) -> None:
        self._give_up()
