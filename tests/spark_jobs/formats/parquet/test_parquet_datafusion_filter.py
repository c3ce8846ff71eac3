"""DataFusion's prefilters drop no row that passes, also where statistics of other writers mislead."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.formats.parquet.datafusion_filter import datafusion_filter
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, open_parquet
from pushdown_spark.formats.parquet.metrics import ParquetMetrics, ParquetOutcome
from pushdown_spark.sources.stores.storage import LOCAL

STRINGS = ["a", "ab", "a%c", "", None, "ü日本", "zzz" * 30]
TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, 4, 5, -6, 7], pa.int32()),
        "g": [1, 2, 3, None, 5, 6, 2**62],
        "x": [1.0, math.nan, None, -0.0, 0.0, math.inf, -5.0],
        "f": pa.array([1.0, math.nan, None, -0.0, 0.0, -math.inf, 5.0], pa.float32()),
        "z": pa.array([-0.0] * 7),
        "s": STRINGS,
        "b": [b"", b"\xff", None, b"\x00", b"a", b"ab", b"b"],
        "n": [True, False, None, True, True, False, True],
        "d": pa.array([Decimal(text) for text in ("1.50", "-1.50", "0", "9.99", "5", "7", "8")], pa.decimal128(10, 2)),
        "r": pa.array(
            [
                {"a": n, "x": x, "s": s} if s != "" else None
                for n, (x, s) in enumerate(zip((1.0, math.nan, *[0.5] * 5), STRINGS, strict=True))
            ],
            pa.struct([("a", pa.int32()), ("x", pa.float64()), ("s", pa.string())]),
        ),
    }
)
SCHEMA = from_arrow_schema(TABLE.schema)
ZEROS = ("= 0.0D", "= -0.0D", ">= 0.0D", "<= -0.0D", "< 0.0D", "> -0.0D", "<> 0.0D", "IN (0.0D, 7.0D)", "<=> 0.0D")
NUMBERS = (*ZEROS, "> 5.0D", "< 5.0D", ">= 1.0D", "<> 1.0D", "NOT IN (1.0D)", "BETWEEN -1.0D AND 9.0D", "IS NULL")
PREDICATES = [
    *(f"{column} {test}" for column in ("x", "f", "z", "r.x") for test in NUMBERS),
    *(f"NOT ({column} {test})" for column in ("x", "z") for test in NUMBERS),
    *(f"isnan({column}) OR i = 1" for column in ("x", "f", "r.x")),
    *("i = 1", "i > 3", "i <= -6", "NOT i = 2", "i <> 2", "i IN (1, 7, NULL)", "i NOT IN (1, 7)", "i IS NULL"),
    *(
        "NOT i IS NULL",
        "i = 1 OR g = 6",
        "i = 1 AND x = 1.0D",
        "NOT (i = 1 OR g = 2)",
        "i <=> 4",
        "g = 4611686018427387904",
    ),
    *("s = 'a'", "s LIKE 'a%'", "s LIKE '%b'", "s LIKE '%日%'", "s LIKE 'a_c'", "s LIKE 'a%c'", "s > 'a'", "s < 'b'"),
    *("NOT s LIKE 'a%'", "s LIKE '%'", "NOT s LIKE '%'", "startswith(s, 'zzz')", "s LIKE '%z%z%'", "s LIKE '_%'"),
    *("b = X'FF'", "b > X'61'", "b IS NOT NULL", "n", "NOT n", "n IS TRUE", "(n AND i > 1) IS NULL", "n = false"),
    *("d = 1.50", "d > 5", "d IN (7.00, 8.00)", "r.a = 1", "r.s = 'ab'", "r.a > 3 OR r.s LIKE 'a%'", "r IS NULL"),
    *(
        "i < g",
        "i = g",
        "x < f",
        "r.a <= i",
        f"i IN ({', '.join(map(str, range(1, 60, 3)))}, 4, 7)",
        "i = NULL",
        "true",
    ),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write the rows as one row group, as many, and with pages of one row."""
    folder = tmp_path_factory.mktemp("rows")
    layouts: list[dict[str, object]] = [
        {"row_group_size": 100},
        {"row_group_size": 1, "write_page_index": True},
        {"data_page_size": 1, "write_batch_size": 1, "write_page_index": True, "use_dictionary": False},
    ]
    for number, layout in enumerate(layouts):
        pq.write_table(TABLE, folder / f"{number}.parquet", **layout)
    return sorted(folder.iterdir())


def matching_rows(path: Path, arrow_filter: ArrowFilter, counts: ParquetMetrics) -> list[str]:
    query = ParquetQuery(
        TABLE.schema, arrow_filter, has_corrected_dates=True, has_corrected_int96=True, name_rule=ANY_CASE
    )
    with open_parquet(str(path), LOCAL, query) as file:
        batches = list(file.batches(0, path.stat().st_size, counts))
    return list(map(repr, pa.Table.from_batches(batches, TABLE.schema).to_pylist()))


def test_the_filter_of_datafusion_keeps_every_matching_row(files: list[Path]) -> None:
    counts = ParquetMetrics()
    bound = 0
    for text in PREDICATES:
        tree = parse_predicate(text)
        assert tree is not None, text
        root = bind(tree, Scope(SCHEMA, has_plain_strings=True)).artifact
        if root is None:
            continue
        bound += 1
        arrow_filter = ArrowFilter(root)
        (batch,) = TABLE.combine_chunks().to_batches()
        expected = list(map(repr, batch.filter(arrow_filter.keep(batch)).to_pylist()))
        for path in files:
            assert matching_rows(path, arrow_filter, counts) == expected, (text, path.name)
    assert bound > 120
    assert counts.row_groups[ParquetOutcome.BY_STATISTICS] > 50
    assert counts.pages[ParquetOutcome.BY_PAGE_INDEX] > 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 1", "i = Int32(1)"),
        ("x > 5.0D", "x > Float64(5) OR isnan(x)"),
        ("x = 0.0D", "x >= Float64(-0) AND x <= Float64(0) OR isnan(x)"),
        ("NOT x > 5.0D", None),
        ("NOT (i = 1 OR x > 5.0D)", None),
        ("i = 1 AND NOT x > 5.0D", "i = Int32(1)"),
        ("i = 1 OR NOT x > 5.0D", None),
        ("NOT i = 1", "NOT i = Int32(1)"),
        ("i IN (1, 2, NULL)", "i IN ([Int32(1), Int32(2)])"),
        ("NOT i IN (1, 2, NULL)", None),
        ("x < z", None),
        ("(n AND i > 1) IS NULL", None),
        ("r.a = 1", 'get_field(r, Utf8("a")) = Int32(1)'),
    ],
)
def test_nodes_with_another_meaning_are_left_out(text: str, expected: str | None) -> None:
    tree = parse_predicate(text)
    assert tree is not None
    root = bind(tree, Scope(SCHEMA, has_plain_strings=True)).artifact
    assert root is not None
    actual = datafusion_filter(root, lambda column: column.path[0])
    assert (None if actual is None else str(actual)) == (None if expected is None else f"Expr({expected})")


def test_a_column_that_must_not_be_filtered_is_left_out() -> None:
    tree = parse_predicate("i = 1 AND g = 2")
    assert tree is not None
    root = bind(tree, Scope(SCHEMA, has_plain_strings=True)).artifact
    assert root is not None
    actual = datafusion_filter(root, lambda column: None if column.path == ("i",) else "G")
    assert str(actual) == "Expr(G = Int64(2))"
