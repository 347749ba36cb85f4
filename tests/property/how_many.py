"""How many programs a property is tried on: the same ones in every run of one version."""

from hypothesis import HealthCheck, Phase, settings

SOME = settings(
    max_examples=120,
    derandomize=True,
    database=None,
    deadline=None,
    # Explaining a failure tries every part of it once more: minutes for little.
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    # Drawing follows a functional run along: slow by nature, and large where programs are long.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MANY = settings(SOME, max_examples=5_000)
