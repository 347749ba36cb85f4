"""How many programs a property is tried on: the same ones in every run of one version."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

SOME = settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    # Explaining a failure tries every part of it once more: minutes for little.
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    # Drawing follows a functional run along: slow by nature, and large where programs are long.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

PARTS = range(20)
"""A sweep is a test for each of these numbers, for as many processes as there are."""
IN_A_PART = 250
"""Programs."""


def sweep(part: int, programs: SearchStrategy[Any], test: Callable[[Any], None]) -> None:
    """Call ``test`` with the programs of one part."""

    @seed(part)
    @settings(SOME, max_examples=IN_A_PART)
    @given(program=programs)
    def over(program: Any) -> None:
        test(program)

    over()
