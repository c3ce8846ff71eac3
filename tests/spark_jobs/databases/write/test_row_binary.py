"""The binary form of rows for PostgreSQL: the server reads the same values from it as from CSV."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from databases import Server

from pushdown_spark.contract import RemoteConnection
from pushdown_spark.databases.client import address_of
from pushdown_spark.databases.column_values import TargetColumn
from pushdown_spark.databases.write import postgresql_writer
from pushdown_spark.databases.write.row_binary import binary_rows
from pushdown_spark.databases.write.write_connection import connect_to_write

ZONED, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
COLUMNS: list[tuple[str, pa.DataType, list[object]]] = [
    ("boolean", pa.bool_(), [True, False]),
    ("smallint", pa.int8(), [-128, 127, 0]),
    ("integer", pa.int64(), [-(2**31), 2**31 - 1]),
    ("bigint", pa.int64(), [-(2**63), 2**63 - 1]),
    ("real", pa.float64(), [0.5, -0.0, float("inf"), float("nan")]),
    ("double precision", pa.float32(), [0.1, -1e30, float("-inf")]),
    ("double precision", pa.int32(), [-7, 7]),
    ("text", pa.string(), ["", 'it\'s "\\N", \n\ttab', "žluťoučký 🐎"]),
    ("character varying(9)", pa.string(), ["short", ""]),
    ("character(4)", pa.string(), ["ab", "abcd"]),
    ("json", pa.string(), ['{"a": [1, null]}', "3"]),
    ("bytea", pa.binary(), [b"", b"\0\xff\\"]),
    ("date", pa.date32(), [date(1, 1, 1), date(2000, 1, 1), date(9999, 12, 31)]),
    ("timestamp with time zone", ZONED, [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 3, 4, 5, 6, 7, 8, UTC)]),
    ("timestamp(3) without time zone", LOCAL, [datetime(9999, 12, 31, 23, 59, 59, 999_000), datetime(1999, 12, 31)]),
    ("numeric", pa.int64(), [0, 10_000, -123_456_789]),
    *(
        (
            f"numeric({precision},{scale})",
            pa.decimal128(precision, scale),
            [Decimal(f"{sign}{digits}").scaleb(-scale) for sign in ("", "-") for digits in ("0", "1", "9" * precision)],
        )
        for precision in (1, 4, 5, 9, 14)
        for scale in {0, 1, min(4, precision), precision}
        if scale <= precision
    ),
]


@pytest.mark.parametrize("has_null", [True, False])
def test_binary_rows_are_those_of_csv(
    postgresql_server: Server, has_null: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    targets = [
        TargetColumn(name=f"c{number}", column_type=declaration, database="PostgreSQL")
        for number, (declaration, *_) in enumerate(COLUMNS)
    ]
    arrays = [
        pa.array([chance.choice([*values, *([None] if has_null else [])]) for _ in range(200)], kind)
        for _, kind, values in COLUMNS
    ]
    # A slice has an offset in its buffers.
    batch = pa.RecordBatch.from_arrays(arrays, [target.name for target in targets]).slice(3, 190)
    assert binary_rows(targets, batch) is not None
    columns = ", ".join(f"{target.name} {target.column_type}" for target in targets)
    connection = RemoteConnection.model_validate(postgresql_server.connection())
    with closing(connect_to_write(address_of(connection))) as writer:
        actual = []
        for form in ("binary", "csv"):
            writer.rows("DROP TABLE IF EXISTS binary_rows")
            writer.rows(f"CREATE TABLE binary_rows ({columns})")
            if form == "csv":
                monkeypatch.setattr(postgresql_writer, "binary_rows", lambda columns, batch: None)
            writer.load("binary_rows", targets, batch)
            actual.append([str(row) for (row,) in writer.rows("SELECT t::text FROM binary_rows t")])
        writer.rows("DROP TABLE binary_rows")
    assert len(actual[0]) == batch.num_rows
    assert actual[0] == actual[1]


@pytest.mark.parametrize(
    ("declaration", "values"),
    [
        ("numeric(38,0)", pa.array([Decimal(10**18)], pa.decimal128(38, 0))),
        ("numeric(38,2)", pa.array([Decimal(10**30)], pa.decimal128(38, 2))),
        ("numeric(18,17)", pa.array([Decimal("1." + "1" * 17)], pa.decimal128(18, 17))),
        ("numeric", pa.array([2**62], pa.int64())),
        ("integer[]", pa.array([[1]], pa.list_(pa.int32()))),
        ("uuid", pa.array(["a"], pa.string())),
    ],
)
def test_other_types_and_long_numbers_are_not_written_as_binary_rows(declaration: str, values: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([values], ["c"])
    assert binary_rows([TargetColumn(name="c", column_type=declaration, database="PostgreSQL")], batch) is None
