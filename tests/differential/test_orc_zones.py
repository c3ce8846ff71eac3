"""ORC timestamps equal Spark's in any time zone of the JVM, for files written in the same zone.

Times are near 1970, where fractions of seconds are stored differently, near clock changes, and random since 1900. The
expected values come from Spark's reader without pushdown.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyorc
import pytest
from columnar_cases import Row, as_strings, count_rows, select_predicates
from constant_cache import ConstantCache
from orc_comparison import rows_of
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from session_settings import pushdown_off

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.formats.orc.file_reader import OrcQuery
from pushdown_spark.formats.orc.metrics import OrcMetrics, OrcOutcome
from pushdown_spark.formats.orc.planner import jvm_zone, orc_arrow_schema
from pushdown_spark.formats.scan_task import sum_metrics
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.session import PushdownSession

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Africa/Monrovia",
    "GMT+03:30",
)
SCHEMA = "row bigint, ts timestamp, n int, many array<timestamp>, s struct<at: timestamp, m: int>"
ROWS = 2_500
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = datetime(1900, 1, 2, tzinfo=UTC)
MICROS = (0, 1, 999, 1_000, 1_500, 500_000, 999_000, 999_999)


@contextmanager
def in_zone(spark: SparkSession, name: str) -> Iterator[None]:
    """Set the time zone of the JVM and the session, as on a machine in this zone."""
    zones = java_class(spark, "java.util.TimeZone")
    before, session = zones.getDefault(), spark.conf.get("spark.sql.session.timeZone")
    zones.setDefault(zones.getTimeZone(name))
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        zones.setDefault(before)
        spark.conf.set("spark.sql.session.timeZone", str(session))


def clock_changes(name: str) -> list[datetime]:
    """Return days around which the offset of a zone changes, in some years."""
    if name.startswith("GMT"):
        return []
    zone = ZoneInfo(name)
    days = [
        datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=n) for year in (1969, 1987, 2011, 2021) for n in range(365)
    ]
    return [
        day for day, after in pairwise(days) if day.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset()
    ]


def moment(rng: random.Random, changes: list[datetime]) -> datetime:
    """Return a time, often near 1970 or a clock change."""
    micros = timedelta(microseconds=rng.choice(MICROS))
    kind = rng.random()
    if kind < 0.3:
        return EPOCH + timedelta(seconds=rng.randint(-90_000, 90_000)) + micros
    if kind < 0.4:
        return EPOCH + timedelta(hours=rng.randint(-24, 24)) + timedelta(seconds=rng.choice((-1, 0, 1))) + micros
    if kind < 0.6 and changes:
        return rng.choice(changes) + timedelta(seconds=rng.randint(-90_000, 180_000)) + micros
    return EARLIEST + timedelta(seconds=rng.randint(0, 10_000_000_000)) + micros


def table(rng: random.Random, name: str, first: int) -> pa.Table:
    """Return random rows, mostly ordered by time so that statistics exclude some."""
    changes = clock_changes(name)
    times = [moment(rng, changes) for _ in range(ROWS)]
    times[: ROWS * 3 // 4] = sorted(times[: ROWS * 3 // 4])

    def some() -> datetime | None:
        return None if rng.random() < 0.1 else rng.choice(times)

    zoned = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "row": pa.array(range(first, first + ROWS), pa.int64()),
            "ts": pa.array([None if rng.random() < 0.02 else each for each in times], zoned),
            "n": pa.array([rng.randint(0, 99) for _ in times], pa.int32()),
            "many": pa.array([[some() for _ in range(rng.randint(0, 3))] for _ in times], pa.list_(zoned)),
            "s": pa.array(
                [None if rng.random() < 0.1 else {"at": some(), "m": rng.randint(0, 9)} for _ in times],
                pa.struct([("at", zoned), ("m", pa.int32())]),
            ),
        }
    )


def write_by_spark(spark: SparkSession, rows: pa.Table, directory: Path) -> None:
    frame = spark.createDataFrame(rows, t._parse_datatype_string(SCHEMA)).coalesce(1)
    options = {"orc.row.index.stride": "1000", "orc.stripe.row.count": "1000", "compression": "zlib"}
    frame.write.mode("append").options(**options).orc(str(directory))


def write_by_pyorc(rng: random.Random, rows: pa.Table, name: str, directory: Path) -> None:
    """Write a file with the C++ library. Times without a zone are in the given zone, others are instants."""
    kinds = [rng.choice(("timestamp", "timestamp with local time zone")) for _ in range(3)]
    schema = "struct<row:bigint,ts:{},n:int,many:array<{}>,s:struct<at:{},m:int>>".format(*kinds)
    path = directory / "part-pyorc.orc"
    with path.open("wb") as out, pyorc.Writer(out, schema, row_index_stride=100, timezone=ZoneInfo(name)) as writer:
        for row in rows.to_pylist():
            s = row["s"]
            writer.write((row["row"], row["ts"], row["n"], row["many"], None if s is None else (s["at"], s["m"])))


def predicates(rng: random.Random, name: str) -> list[str]:
    """Return ranges, equalities, lists and null tests of times in the session's zone."""
    changes = clock_changes(name)

    def text() -> str:
        return f"TIMESTAMP '{moment(rng, changes):%Y-%m-%d %H:%M:%S.%f}'"

    column = rng.choice
    conditions = []
    for _ in range(12):
        operator = rng.choice(("<", "<=", ">", ">=", "=", "<>"))
        conditions.append(f"{column(('ts', 's.at'))} {operator} {text()}")
        conditions.append(f"ts BETWEEN {text()} AND {text()}")
        conditions.append(f"NOT (ts < {text()} OR n = {rng.randint(0, 99)})")
    conditions.append(f"ts IN ({', '.join(text() for _ in range(5))})")
    return [*conditions, "s.at IS NULL", "ts < s.at", f"ts > DATE '{moment(rng, changes):%Y-%m-%d}'"]


def check(rng: random.Random, spark: SparkSession, name: str, directory: Path) -> tuple[int, OrcMetrics]:
    """Compare all predicates. Return how many filters ran over files, and their counts."""
    schema = t._parse_datatype_string(SCHEMA)
    assert isinstance(schema, t.StructType)
    names = schema.fieldNames()
    texts = predicates(rng, name)
    with pushdown_off(spark, "orc"):
        whole = select_predicates(spark.read.schema(schema).orc(str(directory)), names, texts)
    assert whole is not None
    values = list(zip(*as_strings(whole.select(names)).values(), strict=True))
    trees = {text: parse_predicate(text) for text in texts}
    constants = ConstantCache(spark)
    constants.prepare([predicate for predicate in trees.values() if predicate is not None], schema)
    counts: list[OrcMetrics] = []
    filters = 0
    for text, predicate in trees.items():
        assert predicate is not None
        outcome = bind(predicate, Scope(schema, has_plain_strings=True, fold=constants))
        if outcome.artifact is None:
            continue
        row_filter = ArrowFilter(outcome.artifact)
        query = OrcQuery(
            schema=orc_arrow_schema(schema.fields),
            positions=tuple(range(5)),
            filter=row_filter,
            partial_reads=None,
            min_seek=0,
            name_rule=ANY_CASE,
            zone=jvm_zone(spark),
        )
        actual = rows_of(query, directory, 1 << 27, counts)
        expected = [row for row, kept in zip(values, whole[text].to_pylist(), strict=True) if kept]
        compare(actual, expected, f"{name}: {text}", exact=outcome.is_exact)
        filters += 1
    session = PushdownSession(spark)
    session.add_source("t", path=str(directory), format="orc", schema=SCHEMA, reader="pushdown")
    text = rng.choice(texts)
    result = session.scan("t", where=text)
    expected = [row for row, kept in zip(values, whole[text].to_pylist(), strict=True) if kept]
    compare(count_rows(result.run(lambda frame: frame.toArrow())), expected, f"{name}: session, {text}", exact=True)
    assert result.report()["t"].reader == "pushdown"
    return filters, sum_metrics(counts)


def compare(actual: Counter[Row], expected: list[Row], about: str, *, exact: bool) -> None:
    expected_counts = Counter(expected)
    assert not expected_counts - actual, f"{about}: missing {expected_counts - actual}"
    assert not exact or not actual - expected_counts, f"{about}: more {actual - expected_counts}"


@pytest.mark.parametrize("name", ZONES)
def test_timestamps_equal_those_of_spark_in_the_session_time_zone(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    rng = random.Random(name)
    with in_zone(spark, name):
        write_by_spark(spark, table(rng, name, 0), tmp_path)
        if not name.startswith("GMT"):
            write_by_pyorc(rng, table(rng, name, ROWS), name, tmp_path)
        filters, count = check(rng, spark, name, tmp_path)
    assert filters > 30
    assert count.groups[OrcOutcome.BY_STATISTICS] > 0


def test_files_of_another_zone_are_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(1)
    rows = table(rng, "Europe/Berlin", 0)
    with in_zone(spark, "Europe/Berlin"):
        write_by_spark(spark, rows, tmp_path)
    with in_zone(spark, "Asia/Kolkata"):
        with pushdown_off(spark, "orc"):
            expected = spark.read.orc(str(tmp_path)).where("n = 5").toArrow()
        session = PushdownSession(spark)
        session.add_source("t", path=str(tmp_path), format="orc", reader="pushdown")
        result = session.scan("t", where="n = 5")
        assert count_rows(result.run(lambda frame: frame.toArrow())) == count_rows(expected)
        report = result.report()["t"]
        assert report.reader == "spark"
        assert "written in the time zone Europe/Berlin, here it is Asia/Kolkata" in report.reason


def test_timestamps_before_1900_use_spark_outside_utc(spark: SparkSession, tmp_path: Path) -> None:
    early = datetime(1885, 6, 1, 12, 0, 0, tzinfo=UTC)
    rows = pa.table({"ts": pa.array([early], pa.timestamp("us", "UTC"))})
    with in_zone(spark, "Europe/Berlin"):
        spark.createDataFrame(rows, t._parse_datatype_string("ts timestamp")).write.orc(str(tmp_path / "o"))
        (file,) = (tmp_path / "o").glob("*.orc")
        schema = pa.schema([("ts", pa.timestamp("us", "UTC"))])
        query = OrcQuery(
            schema=schema,
            positions=(0,),
            filter=None,
            partial_reads=None,
            min_seek=0,
            name_rule=ANY_CASE,
            zone=jvm_zone(spark),
        )
        with pytest.raises(UnsafeInputError, match="before 1900"):
            rows_of(query, file.parent, 1 << 27, [])
        session = PushdownSession(spark)
        session.add_source("t", path=str(tmp_path / "o"), format="orc", reader="pushdown")
        result = session.scan("t")
        assert result.run(lambda frame: frame.toArrow())["ts"].to_pylist() == [early]
