"""Arrow arrays that are made without pandas equal those that Arrow makes."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pushdown_spark.expressions.arrow_values import (
    arrow_array,
    arrow_scalar,
    from_bools,
    from_numpy,
    to_bools,
    to_numpy,
)
from pushdown_spark.expressions.types import Value

CASES: list[tuple[pa.DataType, Sequence[Value]]] = [
    (pa.int8(), (-128, 127)),
    (pa.int16(), (-32_768, 32_767)),
    (pa.int32(), (0, 2**31 - 1)),
    (pa.int64(), (-(2**63), 2**63 - 1)),
    (pa.float32(), (0.1, -0.0, float("inf"))),
    (pa.float64(), (0.1, 1, -1e300)),
    (pa.bool_(), (True, False, True)),
    (pa.string(), ("", "ä€😀", "x" * 1000, "a\0b")),
    (pa.binary(), (b"", b"\xff\x00")),
    (pa.decimal128(38, 4), (Decimal("1.2500"), Decimal("-9999999999999999999999999999999999.9999"))),
]


@pytest.mark.parametrize(("kind", "values"), CASES)
def test_arrays_equal_those_of_arrow(kind: pa.DataType, values: Sequence[Value]) -> None:
    for given in (values, ()):
        array = arrow_array(given, kind)
        array.validate(full=True)
        assert array.equals(pa.array(given, kind))
    assert arrow_scalar(values[0], kind) == pa.scalar(values[0], kind)
    assert not arrow_scalar(None, kind).is_valid


@pytest.mark.parametrize(("kind", "value"), [(pa.int8(), 128), (pa.int64(), 2**63)])
def test_numbers_that_do_not_fit_raise(kind: pa.DataType, value: int) -> None:
    with pytest.raises(OverflowError):
        arrow_array([value], kind)


def test_slices_become_numpy_arrays() -> None:
    numbers = np.arange(100)
    assert to_numpy(from_numpy(numbers).slice(13, 50)).tolist() == numbers[13:63].tolist()
    assert to_numpy(from_numpy(numbers[:0])).tolist() == []
    bools = numbers % 3 == 0
    assert to_bools(from_bools(bools).slice(13, 50)).tolist() == bools[13:63].tolist()
    assert to_bools(from_bools(bools[:0])).tolist() == []
