"""Options of `pushdown_orc`."""

from __future__ import annotations

import pytest
from pyspark.sql import types as t

from pushdown_spark.contract import OrcOptions
from pushdown_spark.errors import BadSpecError
from pushdown_spark.formats.orc.data_source import PushdownOrcSource


@pytest.mark.parametrize(("given", "used"), [("0", 0), ("4096", 4096), ("auto", OrcOptions().min_seek_size)])
def test_min_seek_size_is_used_as_given(given: str, used: int) -> None:
    source = PushdownOrcSource({"path": "/data", "min_seek_size": given})
    assert source.scan_task(t.StructType([]), (), None).query.min_seek == used


def test_an_option_that_is_not_a_number_raises() -> None:
    source = PushdownOrcSource({"path": "/data", "partial_reads": "-1"})
    with pytest.raises(BadSpecError, match="option partial_reads: '-1' is neither 'auto' nor a number"):
        source.reader(t.StructType([]))
