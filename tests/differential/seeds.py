"""Random seeds, which Hypothesis draws: a failure names its case, so nothing is shrunk."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


def over_seeds(count: int, check: Callable[[int], None]) -> None:
    """Run a check over this number of seeds."""

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        check(seed)

    run()


def few_and_many(few: object, many: object) -> list[object]:
    """Return parameters of a test that runs few cases by default and many nightly. A tuple has several parameters."""
    values = many if isinstance(many, tuple) else (many,)
    return [few, pytest.param(*values, marks=pytest.mark.nightly)]
