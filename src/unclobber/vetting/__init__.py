"""A module trained in the ways in which people train, each judged against ``guard``.

``_ways`` has a function for each way, ``_judge`` compares its gradients plain and under guard, ``_processes``
runs each in a process of its own, and ``_proofs`` takes proved edits for what they find. ``_targets``,
``_tiny`` and ``_inputs`` make the module and its inputs.
"""

from ._library import checked_ways, vet, ways
from ._processes import run_ways
from ._proofs import train, with_proofs
from ._results import Vetting, WayResult
from ._targets import Target

__all__ = [
    "Target",
    "Vetting",
    "WayResult",
    "checked_ways",
    "run_ways",
    "train",
    "vet",
    "ways",
    "with_proofs",
]
