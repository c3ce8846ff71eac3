"""Damaged ORC files never crash a worker, and their rows equal those of Spark's own reader.

Spark reads all files of a case in one job and skips those that it cannot read. Without pushdown, it does not use row
indexes and statistics. A flipped bit there that leaves them readable may mislead any reader that uses them.
"""

from __future__ import annotations

import random
from collections import ChainMap, Counter, defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import orc_damage
import pytest
from bisection import split_failures
from damage import FILTER, DamagedFormat, Outcome, Rows, count_outcome, expected_rows, plain, region_of
from orc_damage import regions
from orc_files import storable
from orc_values import Times, table_of
from pyarrow import orc
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from session_settings import session_settings
from spark_results import SPARK_ERRORS

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.names import EXACT_NAMES
from pushdown_spark.formats.orc.file_reader import OrcQuery
from pushdown_spark.formats.orc.planner import orc_arrow_schema

CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
ROWS = 400
ERRORS = {"UnreadableFileError", "UnsafeInputError", "SchemaConflictError"}
PRUNING = {"index", "statistics", "footer", "stripe footer"}
"""Regions that decide which row groups are skipped: statistics, indexes, and the footers that refer to them."""
SCHEMA = t.StructType(
    [
        t.StructField("row", t.LongType()),
        t.StructField("a", t.IntegerType()),
        t.StructField("s", t.StringType()),
        t.StructField("b", t.BooleanType()),
        t.StructField("d", t.DecimalType(10, 2)),
        t.StructField("w", t.DecimalType(38, 18)),
        t.StructField("m", t.TimestampType()),
        t.StructField("y", t.DateType()),
        t.StructField("x", t.DoubleType()),
        t.StructField("l", t.ArrayType(t.StringType())),
        t.StructField("k", t.MapType(t.StringType(), t.LongType())),
        t.StructField("t", t.StructType([t.StructField("u", t.ByteType()), t.StructField("v", t.BinaryType())])),
    ]
)


def queries() -> dict[str, OrcQuery]:
    schema, places = orc_arrow_schema(SCHEMA.fields), tuple(range(len(SCHEMA)))
    filters: tuple[tuple[str, ArrowFilter | None, int | None], ...] = (
        ("all", None, None),
        ("filter", FILTER, None),
        ("filter, one read", FILTER, 0),
    )
    return {
        name: OrcQuery(
            schema=schema,
            positions=places,
            filter=row_filter,
            partial_reads=partial_reads,
            min_seek=0,
            name_rule=EXACT_NAMES,
        )
        for name, row_filter, partial_reads in filters
    }


def intact_file(rng: random.Random, codec: str, path: Path) -> bytes:
    """Return an intact file with every type and four row groups."""
    table = table_of(rng, SCHEMA, ROWS, 0, Times(early_fractions=False))
    orc.write_table(
        storable(table, zoned=False),
        path,
        compression=codec,
        row_index_stride=100,
        batch_size=64,
        dictionary_key_size_threshold=rng.choice((0.0, 1.0)),
    )
    return path.read_bytes()


FORMAT = DamagedFormat(orc_damage.__file__, ".orc", intact_file, regions, queries(), ERRORS)


def skip_unreadable_files(spark: SparkSession) -> AbstractContextManager[None]:
    """Let Spark skip unreadable files, use a task for each file, and turn off all filters of its ORC reader."""
    conf = {
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.orc.filterPushdown": "false",
        "spark.sql.caseSensitive": "true",
    }
    return session_settings(spark, conf)


def spark_rows(spark: SparkSession, paths: Sequence[Path]) -> dict[str, list[dict[str, object]]]:
    """Return Spark's rows of each file. It skips files that it cannot read."""
    if not paths:
        return {}
    frame = spark.read.schema(SCHEMA).orc([str(path) for path in paths])
    table = frame.withColumn("file", f.input_file_name()).toArrow()
    rows: dict[str, list[dict[str, object]]] = defaultdict(list)
    names = [Path(uri).name for uri in table["file"].to_pylist()]
    for name, row in zip(names, plain(table.drop_columns(["file"])).to_pylist(), strict=True):
        rows[name].append(row)
    # In a chain of maps, a map with default values would hide the files of the next ones.
    return dict(rows)


def check_outcome(region: str, outcome: Outcome, expected: Rows | None, undamaged: Rows, about: str) -> str:
    """Return the kind of outcome of a query over a damaged file. Raises AssertionError for a wrong outcome."""
    if outcome.error:
        return outcome.error
    if expected is None:
        # Spark fails, for example at the writer's time zone, which is not used here, or in rows that this query skips.
        # ORC has no checksums, so that damaged data, or streams that belong to another column, may be other values.
        assert region in {"data", "stripe footer"} or set(outcome.rows) <= set(undamaged), about
        return "rows where Spark fails"
    if outcome.rows == expected:
        return "the same rows"
    if outcome.rows == undamaged:
        # The pushdown reader starts at a later row group with the index, so the damage before it has no effect.
        return "the rows of the sound file"
    if region == "data" and expected != undamaged and len(outcome.rows) <= len(expected) and "filter" in about:
        # ORC values have no checksum. Damage beyond a row group affects other values if row groups are skipped.
        return "other values where Spark's are damaged too"
    assert region in PRUNING, f"{about}: {outcome.rows[:3]} are not {expected[:3]}"
    missing = set(undamaged) - set(outcome.rows)
    assert missing or len(outcome.rows) != len(undamaged), about
    return "rows misled by statistics"


@pytest.mark.nightly
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(4))
def test_files_with_flipped_bits_return_sparks_rows_or_raise(
    spark: SparkSession, tmp_path: Path, codec: str, seed: int
) -> None:
    tally = Counter[str]()
    actual = FORMAT.flip(random.Random(f"{codec} {seed}"), codec, 60, tmp_path)
    # Damaged runs of integers can make Spark's reader loop forever, so Spark reads only files that the pushdown reader
    # can read.
    with skip_unreadable_files(spark):
        readable = sorted(tmp_path / name for name, outcomes in actual.items() if not outcomes["all"].error)
        batches, _ = split_failures(readable, partial(spark_rows, spark), SPARK_ERRORS)
    rows_by_file = dict(ChainMap(*batches))
    whole = rows_by_file["sound.orc"]
    for name, outcomes in actual.items():
        rows = rows_by_file.get(name)
        for query, outcome in outcomes.items():
            expected = None if rows is None else expected_rows(rows, query)
            kind = check_outcome(
                region_of(name), outcome, expected, expected_rows(whole, query), f"{name}: {codec}, {query}"
            )
            count_outcome(tally, name, kind)
    assert tally["sound: the same rows"] == len(FORMAT.queries)
    assert tally["data: the same rows"] > 10, tally
    assert tally["UnreadableFileError"] > 50, tally
    assert tally["rows misled by statistics"] < tally["the same rows"] * 0.1, tally


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_files_raise(tmp_path: Path, codec: str) -> None:
    FORMAT.check_truncated(codec, tmp_path)


@pytest.mark.parametrize("codec", CODECS)
def test_overwritten_bytes_do_not_crash_the_reader(tmp_path: Path, codec: str) -> None:
    """This test overwrites ranges in every region with zeros, ones and noise. It checks the decoders, not the rows."""
    FORMAT.check_overwritten(codec, tmp_path)
