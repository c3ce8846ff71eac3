"""Damaged Avro files never crash a worker, and their rows equal those of Spark's own reader.

Spark reads the files that the pushdown reader reads in one job, and stops in a file that it cannot read further. If its
rows differ from those of the intact file, it reads the file again in a separate query, which shows whether it fails.
Some other files would end its JVM, because it allocates the size of a damaged length.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import avro_damage
import fastavro
import pytest
from avro_damage import regions
from avro_files import AVRO, CODECS
from damage import ROW, A, DamagedFormat, Outcome, Rows, count_outcome, plain
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from session_settings import pushdown_off, session_settings
from spark_results import SPARK_ERRORS

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Comparison, Op, Or
from pushdown_spark.formats.avro.avro_schema import parse_schema, spark_schema
from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.readable_types import arrow_schema

ROWS = 300
ERRORS = {"UnreadableFileError", "UnsafeInputError", "SchemaConflictError", "BadSchemaError"}
PLACE = re.compile(r"block \d+ at byte \d+|header at byte \d+")
DECIMAL = {"logicalType": "decimal", "precision": 20, "scale": 4}
RECORD = {"type": "record", "name": "inner", "fields": [{"name": "u", "type": "int"}, {"name": "v", "type": "bytes"}]}
FIELDS = {
    "row": "long",
    "a": ["null", "int"],
    "s": "string",
    "b": "boolean",
    "d": {"type": "bytes", **DECIMAL},
    "w": {"type": "fixed", "name": "wide", "size": 12, **DECIMAL},
    "m": {"type": "long", "logicalType": "timestamp-micros"},
    "y": {"type": "int", "logicalType": "date"},
    "x": "double",
    "e": {"type": "enum", "name": "symbol", "symbols": ["p", "q", "r"]},
    "l": {"type": "array", "items": ["string", "null"]},
    "k": {"type": "map", "values": "long"},
    "t": ["null", RECORD],
}
SCHEMA = {
    "type": "record",
    "name": "damaged",
    "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
}
FILTER = ArrowFilter(Or((Comparison(ROW, Op.GE, 100_200), Comparison(A, Op.EQ, 5))))
NEEDLE = ArrowFilter(Comparison(ROW, Op.EQ, 100_100))


def columns() -> t.StructType:
    """Return all columns except the map, which the pushdown reader skips."""
    schema = spark_schema(parse_schema(json.dumps(SCHEMA)))
    return t.StructType([field for field in schema.fields if field.name != "k"])


def queries() -> dict[str, AvroQuery]:
    """Return a query without filter, and two filters. One of them passes only few blocks."""
    schema = arrow_schema(columns().fields)
    filters = {"all": None, "filter": FILTER, "needle": NEEDLE}
    return {name: AvroQuery(schema, row_filter, has_corrected_calendar=True) for name, row_filter in filters.items()}


def record(rng: random.Random, number: int) -> dict[str, object]:
    return {
        "row": 100_000 + number,
        "a": rng.choice((None, 5, rng.randint(-(2**31), 2**31 - 1))),
        "s": "text " * rng.randint(0, 4),
        "b": rng.random() < 0.5,
        "d": rng.randint(-(10**19), 10**19).to_bytes(10, "big", signed=True),
        "w": rng.randint(-(10**19), 10**19).to_bytes(12, "big", signed=True),
        "m": rng.randrange(10**15),
        "y": rng.randrange(20_000),
        "x": rng.random(),
        "e": rng.choice("pqr"),
        "l": [rng.choice((None, "item")) for _ in range(rng.randint(0, 3))],
        "k": {f"key{place}": rng.randrange(1 << 40) for place in range(rng.randint(0, 2))},
        "t": rng.choice((None, {"u": number, "v": b"bytes"})),
    }


def intact_file(rng: random.Random, codec: str, path: Path) -> bytes:
    """Return an intact file with every type and about ten blocks."""
    records = [record(rng, number) for number in range(ROWS)]
    with path.open("wb") as file:
        writer = fastavro.write.Writer(file, fastavro.parse_schema(SCHEMA), codec=codec, sync_interval=2_500)
        for each in records:
            writer.write(each)
        writer.flush()
    return path.read_bytes()


FORMAT = DamagedFormat(avro_damage.__file__, ".avro", intact_file, regions, queries(), ERRORS)


def skip_unreadable_files(spark: SparkSession) -> AbstractContextManager[None]:
    """Let Spark skip what it cannot read."""
    return session_settings(spark, {"spark.sql.files.ignoreCorruptFiles": "true"})


class Reference:
    """The results of Spark's own reader."""

    def __init__(self, spark: SparkSession, paths: list[Path]) -> None:
        self._spark = spark
        with skip_unreadable_files(spark), pushdown_off(spark, "avro"):
            frame = self._frame(paths)
            table = frame.withColumn("file", f.input_file_name()).toArrow()
        self._rows: dict[str, list[dict[str, object]]] = defaultdict(list)
        names = [Path(uri).name for uri in table["file"].to_pylist()]
        for name, row in zip(names, plain(table.drop_columns(["file"])).to_pylist(), strict=True):
            self._rows[name].append(row)

    def _frame(self, paths: list[Path]) -> DataFrame:
        options = {"datetimeRebaseMode": "CORRECTED"}
        return self._spark.read.format(AVRO).schema(columns()).options(**options).load([str(path) for path in paths])

    def rows(self, name: str, query: str) -> Rows:
        """Return the rows that pass a query, up to the position at which the reader stopped."""
        return tuple(sorted(repr(row) for row in self._rows[name] if _passes(row, query)))

    def fails(self, path: Path) -> bool:
        """Return whether Spark cannot read the file to its end."""
        try:
            with pushdown_off(self._spark, "avro"):
                self._frame([path]).toArrow()
        except SPARK_ERRORS:
            return True
        return False


def _passes(row: Mapping[str, object], query: str) -> bool:
    number = row["row"]
    if query == "needle":
        return number == 100_100
    return query == "all" or (isinstance(number, int) and number >= 100_200) or row["a"] == 5


def check_outcome(
    reference: Reference, path: Path, query: str, outcomes: Mapping[str, Outcome], undamaged: Rows
) -> str:
    """Return the kind of outcome of a query over a damaged file. Raises AssertionError for a wrong outcome."""
    outcome, about = outcomes[query], f"{path.name}, {query}"
    if outcome.error:
        assert PLACE.search(outcome.message), f"{about}: {outcome}"
        return outcome.error
    if outcomes["all"].error:
        # Blocks skipped by byte patterns, and bytes after the last required column, are not checked.
        assert set(outcome.rows) <= set(undamaged), f"{about}: {set(outcome.rows) - set(undamaged)}"
        return "rows around the damage"
    expected = reference.rows(path.name, query)
    if outcome.rows == undamaged == expected:
        return "the same rows"
    assert not reference.fails(path), f"{about}: Spark fails, we read {len(outcome.rows)} rows"
    assert outcome.rows == expected, f"{about}: {set(outcome.rows) ^ set(expected)}"
    return "the same rows"


@pytest.mark.nightly
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(4))
def test_files_with_flipped_bits_return_sparks_rows_or_raise(
    spark: SparkSession, tmp_path: Path, codec: str, seed: int
) -> None:
    tally = Counter[str]()
    actual = FORMAT.flip(random.Random(f"{codec} {seed}"), codec, 80, tmp_path)
    reference = Reference(spark, [tmp_path / name for name, outcomes in actual.items() if not outcomes["all"].error])
    for name, outcomes in actual.items():
        for query in outcomes:
            kind = check_outcome(reference, tmp_path / name, query, outcomes, actual["sound.avro"][query].rows)
            count_outcome(tally, name, kind)
    assert tally["sound: the same rows"] == len(FORMAT.queries)
    assert tally["marker: UnreadableFileError"] > 20, tally
    assert tally["UnreadableFileError"] > 100, tally
    assert tally["the same rows"] > tally["sound: the same rows"], tally


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_files_raise(tmp_path: Path, codec: str) -> None:
    """A file that ends after a complete block is valid, so no reader can detect that."""

    def ends_with_marker(start: bytes) -> bool:
        path = tmp_path / "sound.avro"
        begin, end = regions(path)["first marker"]
        return start.endswith(path.read_bytes()[begin:end])

    FORMAT.check_truncated(codec, tmp_path, is_whole=ends_with_marker)


@pytest.mark.parametrize("codec", CODECS)
def test_overwritten_bytes_do_not_crash_the_reader(tmp_path: Path, codec: str) -> None:
    """This test overwrites ranges in every region with zeros, ones and noise. It checks the decoders, not the rows."""
    FORMAT.check_overwritten(codec, tmp_path)
