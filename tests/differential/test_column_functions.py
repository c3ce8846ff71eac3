"""Functions of columns and elements of arrays and maps: readers push them, and return the rows of Spark's reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from session_settings import pushdown_off, session_settings
from spark_rows import sorted_rows

from pushdown_spark.contract import Exactness
from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

FLAT = """
id bigint, code string, name string, padded string, day date, at timestamp, local timestamp_ntz, amount int,
is_open boolean
"""
NESTED = """
id bigint, tags array<string>, items array<struct<sku: string, n: bigint, price: decimal(38,18)>>,
props map<string, string>, parts map<string, struct<n: bigint>>, box struct<tags: array<string>>
"""
LETTERS = "array('Kelvin', '\u212aelvin', 'straße', 'STRASSE', '\ufb01n', '\u0130zmir', 'kelvin')"
HOURS = "timestamp_micros(1230768000000000 + id * 20 * 3600 * 1000000 + 123456)"
FUNCTIONS = (
    "DATE(at) = '2009-03-10'",
    "TO_DATE(at) IN (DATE'2009-03-10', DATE'2009-07-01')",
    "DATE(at) BETWEEN '2009-10-30' AND '2009-12-02'",
    "DATE(at) <=> '2009-03-10'",
    "DATE(local) = '2009-12-01'",
    "YEAR(at) = 2010",
    "YEAR(local) < 2010",
    "EXTRACT(YEAR FROM day) > 2009",
    "DATE(day) = '2009-03-10'",
    "TRUNC(at, 'MONTH') = '2009-03-01'",
    "TRUNC(local, 'quarter') IN (DATE'2009-04-01', DATE'2009-05-01')",
    "TRUNC(day, 'week') > '2010-03-01'",
    "TRUNC(day, 'YY') = '2010-01-01'",
    "DATE_TRUNC('DAY', at) = '2009-03-10'",
    "DATE_TRUNC('mon', at) BETWEEN '2009-03-05' AND '2009-05-01'",
    "DATE_TRUNC('week', at) <= '2009-03-09 00:00:01'",
    "DATE_TRUNC('YEAR', day) < '2010-01-01'",
    "DATE_TRUNC('DD', day) >= '2010-01-01 10:00:00'",
    "DATE_FORMAT(at, 'yyyy-MM-dd') = '2009-03-10'",
    "DATE_FORMAT(at, 'yyyyMMdd') IN ('20090310', '20090701')",
    "DATE_FORMAT(day, 'yyyy-MM') = '2009-03'",
    "DATE_FORMAT(day, 'yyyyMM') = '200903'",
    "DATE_FORMAT(at, 'yyyy') = '2010'",
    "LEFT(code, 3) = 'c71'",
    "SUBSTRING(code, 1, 3) IN ('c71', 'c72')",
    "COALESCE(code, 'none') = 'c71'",
    "COALESCE(code, 'none') LIKE 'c71%'",
    "NVL(amount, 0) > 95",
    "COALESCE(is_open, false)",
)
"""Predicates that every reader pushes."""
WITHOUT_BYTES = (
    "DATE(at) <> '2009-03-10'",
    "NOT CAST(at AS DATE) IN (DATE'2009-03-10', DATE'2009-07-01')",
    "TO_DATE(at) IN (DATE'2009-03-10', DATE'2009-07-01', NULL)",
    "SUBSTRING(code, 1, 3) IN ('c71', 'c72', 'c', NULL)",
    "NOT DATE_FORMAT(at, 'yyyy-MM') IN ('2009-03', '2009-04')",
    "DATE_TRUNC('QUARTER', at) <> '2009-04-01'",
    "NOT LEFT(code, 2) IN ('c7', 'c8')",
    "LEFT(code, 0) = ''",
    "COALESCE(code, 'none') <> 'c71'",
    "IFNULL(amount, 99) > 95",
    "NOT COALESCE(is_open, true)",
)
"""Predicates that columnar readers push, and that may have no byte pattern."""
UNKNOWN = (
    # Spark has no unit Q, and none for days in TRUNC, so these are NULL.
    "DATE_TRUNC('Q', at) = '2009-04-01'",
    "TRUNC(day, 'DD') = '2009-03-10'",
    "DATE_TRUNC(name, at) = '2009-04-01'",
    "DATE_TRUNC('HOUR', at) = '2009-04-01'",
    "DATE_FORMAT(at, 'yyyy-MM-dd') = '2009-3-10'",
    "DATE_FORMAT(at, 'yyyy-MM-dd') > '2009-03-10'",
    "DATE_FORMAT(at, 'MM-dd') = '03-10'",
    "DATE_FORMAT(local, 'yyyy-MM-dd') = '2009-03-10'",
    "DATE_TRUNC('DAY', local) = '2009-03-10'",
)
"""Predicates that no reader pushes."""
CASES = (
    "LOWER(name) = 'kelvin'",
    "UPPER(name) = 'STRASSE'",
    "UPPER(name) IN ('FIN', 'KELVIN')",
    "name ILIKE 'STR%'",
    "LOWER(name) LIKE '%elvi%'",
    "CONTAINS(UPPER(name), 'ELV')",
    "TRIM(padded) = 'p 71'",
    "LTRIM(padded) IN ('p 71', 'p 72 ', 'p 73')",
)
"""Predicates that scans of JSON and CSV push."""
ELEMENTS = (
    "ARRAY_CONTAINS(tags, 't771')",
    "ARRAY_CONTAINS(box.tags, 't771')",
    "ARRAY_CONTAINS(items.sku, 's771')",
    "ARRAY_CONTAINS(items.n, 771)",
    "ARRAY_CONTAINS(items.price, 771D) AND ARRAY_CONTAINS(items.price, 1229D)",
    "EXISTS(tags, t -> t IN ('t771', 't772'))",
    "EXISTS(items, i -> i.sku = 's771' AND i.n = 771)",
    "EXISTS(items, i -> NOT i.n > 8)",
    # Two elements: no number is in both ranges.
    "EXISTS(items, i -> i.n > 1990) AND EXISTS(items, i -> i.n < 10)",
    "props['color'] = 'red 71'",
    "props['color'] IS NOT NULL",
    "props['color'] LIKE 'red 7%'",
    "element_at(props, 'color') IN ('red 71', 'red 72')",
    "parts['a'].n BETWEEN 5 AND 7",
)
"""Predicates that scans of JSON push."""
WITHOUT_ELEMENTS = (
    "NOT ARRAY_CONTAINS(items.sku, 's771')",
    "NOT EXISTS(items, i -> i.n > 5)",
    "props['color'] IS NULL",
)
"""Predicates that are true for lines without any element."""


def flat_rows(spark: SparkSession) -> DataFrame:
    """Return rows with NULLs, moments around the changes of clocks, and letters whose other case is ASCII."""
    return spark.range(0, 1000, 1, 2).selectExpr(
        "id",
        "if(id % 5 = 0, NULL, concat('c', id)) AS code",
        f"element_at({LETTERS}, CAST(id % 7 + 1 AS int)) AS name",
        "concat(repeat(' ', CAST(id % 3 AS int)), 'p ', id, repeat(' ', CAST(id % 2 AS int))) AS padded",
        f"DATE({HOURS}) AS day",
        f"{HOURS} AS at",
        f"CAST({HOURS} AS TIMESTAMP_NTZ) AS local",
        "if(id % 3 = 0, NULL, CAST(id % 100 AS int)) AS amount",
        "if(id % 3 = 0, NULL, id % 2 = 0) AS is_open",
    )


def nested_rows(spark: SparkSession) -> DataFrame:
    """Return rows with empty arrays and with elements that are NULL."""
    return spark.range(0, 2000, 1, 2).selectExpr(
        "id",
        "if(id % 7 = 0, array(), array(concat('t', id), 'new', NULL)) AS tags",
        "if(id % 6 = 0, array(), array("
        "named_struct('sku', concat('s', id), 'n', id, 'price', CAST(id AS decimal(38,18))), "
        "named_struct('sku', 'z', 'n', 2000 - id, 'price', CAST(2000 - id AS decimal(38,18))))) AS items",
        "map('color', if(id % 9 = 0, NULL, concat('red ', id))) AS props",
        "map('a', named_struct('n', id)) AS parts",
        "named_struct('tags', array(concat('t', id))) AS box",
    )


def is_pushed(spark: SparkSession, path: Path, file_format: str, schema: str, where: str) -> bool:
    """Compare the rows with those of Spark's reader. Return whether the pushdown reader took the predicate."""
    options = {"header": "true"} if file_format == "csv" else {}
    read = spark.read.format(spark_format(file_format)).schema(schema).options(**options).load(str(path))
    with pushdown_off(spark, file_format):
        expected = sorted_rows(read.where(where))
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format=file_format, schema=schema, options=options, reader="pushdown")
    result = session.scan("t", where=where)
    assert result.run(sorted_rows) == expected, where
    report = result.report()["t"]
    return report.reader == "pushdown" and any(part.exactness is not Exactness.UNSUPPORTED for part in report.conjuncts)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("file_format", ["json", "csv", "avro", "orc", "parquet"])
def test_functions_of_columns_are_pushed(spark: SparkSession, tmp_path: Path, file_format: str, zone: str) -> None:
    is_text = file_format in ("json", "csv")
    with session_settings(spark, {"spark.sql.session.timeZone": zone}):
        flat_rows(spark).write.format(spark_format(file_format)).option("header", True).save(str(tmp_path / "t"))
        pushed_conjuncts = {
            where: is_pushed(spark, tmp_path / "t", file_format, FLAT, where)
            for where in (*FUNCTIONS, *WITHOUT_BYTES, *CASES, *UNKNOWN)
        }
    always = (*FUNCTIONS, *(CASES if is_text else WITHOUT_BYTES))
    assert [where for where in always if not pushed_conjuncts[where]] == []
    assert [where for where in (*UNKNOWN, *(() if is_text else CASES)) if pushed_conjuncts[where]] == []


def test_elements_of_arrays_and_maps_are_pushed_in_json(spark: SparkSession, tmp_path: Path) -> None:
    nested_rows(spark).write.json(str(tmp_path / "t"))
    pushed_conjuncts = {
        where: is_pushed(spark, tmp_path / "t", "json", NESTED, where) for where in (*ELEMENTS, *WITHOUT_ELEMENTS)
    }
    assert [where for where in ELEMENTS if not pushed_conjuncts[where]] == []
    assert not any(pushed_conjuncts[where] for where in WITHOUT_ELEMENTS)


def test_days_on_which_clocks_go_back_over_midnight_are_not_pushed(spark: SparkSession, tmp_path: Path) -> None:
    """In 2009, Newfoundland set its clocks back by an hour one minute after midnight."""
    with session_settings(spark, {"spark.sql.session.timeZone": "America/St_Johns"}):
        moments = "timestamp_micros((1257039000 + id * 600) * 1000000)"
        spark.range(0, 300, 1, 2).selectExpr("id", f"{moments} AS at").write.orc(str(tmp_path / "t"))
        pushed_conjuncts = [
            is_pushed(spark, tmp_path / "t", "orc", "id bigint, at timestamp", f"DATE(at) {operator} '2009-11-{day}'")
            for day in ("01", "02")
            for operator in ("=", "<", ">=")
        ]
    assert pushed_conjuncts == [False, False, False, True, True, True]


def test_dates_that_a_time_zone_skips_are_not_pushed_as_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    """Samoa skipped 2011-12-30, so that Spark converts it to the first moment of 2011-12-31."""
    with session_settings(spark, {"spark.sql.session.timeZone": "Pacific/Apia"}):
        days = spark.range(0, 6, 1, 2).selectExpr("DATE_ADD(DATE'2011-12-28', CAST(id AS int)) AS day")
        days.write.orc(str(tmp_path / "t"))
        pushed_conjuncts = {
            where: is_pushed(spark, tmp_path / "t", "orc", "day date", where)
            for day in range(28, 32)
            for where in (
                f"DATE_FORMAT(day, 'yyyy-MM-dd') = '2011-12-{day}'",
                f"DATE_TRUNC('DAY', day) >= '2011-12-{day}'",
            )
        }
    assert [where[-4:-1] for where, done in pushed_conjuncts.items() if not done] == ["-30", "-30", "-31", "-31"]
