"""Backwards that ``guard`` refuses because the installed torch hides writes from it."""

from __future__ import annotations

from ..explain import bare_finding
from ..observe.hooks import saves
from ..observe.hooks.installation import installation
from ..report import error_of
from ..torch_internals import compat
from ..torch_internals.engine import EngineCall

_CODES = {"functions": "UC103", "checkpoint": "UC105"}


class Unseen:
    """Engine subscriber that inspects the graph of each backward for which ``hooks`` are the innermost."""

    def __init__(self, hooks: saves.SavedTensorHooks) -> None:
        self._off = installation.off()
        self._hooks = hooks

    def begin(self, call: EngineCall) -> None:
        """Refuse a backward that may go on with wrong values.

        Raises:
            InplaceError: its graph goes through a mechanism that doesn't work, or is too large to search
                (test_a_graph_too_large_to_look_at_is_refused).
        """
        # Only the innermost session decides, as for a save record.
        if call.is_internal or saves.active()[-1:] != (self._hooks,):
            return
        graph = call.graph()
        for mechanism in self._off:
            at_checkpoint = mechanism.name == "checkpoint"
            passes = compat.entries.is_checkpoint if at_checkpoint else compat.entries.is_programs_function
            if graph is None or any(map(passes, graph.values())):
                raise error_of(bare_finding(_CODES[mechanism.name], mechanism.sentence, message=_MESSAGE))


_MESSAGE = "whether a tensor that backward needs was overwritten can't be known on this torch"
