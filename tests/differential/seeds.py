"""Settings of Hypothesis for tests in which it draws only seeds: a failure names its case, so nothing is shrunk."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)
BATCHES = {
    "deadline": None,
    "database": None,
    "phases": [Phase.explicit, Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
