"""The counts of columnar scans."""

from __future__ import annotations

from collections import Counter

from pushdown_spark.formats.orc.metrics import OrcMetrics, ReadPurpose


def test_skipped_bytes_are_never_negative() -> None:
    metrics = OrcMetrics(bytes=Counter({ReadPurpose.METADATA: 5, ReadPurpose.FILTER: 7}))
    assert metrics.count_skipped(20) == {"bytes never read": 8}
    assert metrics.count_skipped(10) == {"bytes never read": 0}
