"""Batches of cases, each made from one seed that hypothesis draws.

A batch (a schema, options, files, dozens of predicates) holds far more choices than hypothesis keeps for an example. A
failure names one predicate and the seed, so there is nothing left to shrink.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


def over_seeds(batches: int, check: Callable[[int], None]) -> None:
    """Run a check over the seeds of some batches."""

    @settings(
        max_examples=batches,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        check(seed)

    run()
