"""Every case of the projection table with every format and reader, and with plain Spark if it supports the request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from projection_cases import ARRAYS, FLATS, MAPS, NAMES_AND_MEMBERS, QUOTED, ProjectionCase
from projection_places import IMPLICIT_COLUMNS, LINES, PARTITIONS, REFUSED, Refused
from projection_tables import OURS, TABLES, Table, format_name
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from session_settings import pushdown_off
from typed_results import rows_of, sorted_rows

from pushdown_spark.errors import PushdownError
from pushdown_spark.session import PushdownSession

CASES = (*NAMES_AND_MEMBERS, *ARRAYS, *MAPS, *FLATS, *QUOTED, *IMPLICIT_COLUMNS, *PARTITIONS, *LINES)


@dataclass
class Written:
    """The tables' files, which are written on first use, and sessions over them."""

    spark: SparkSession
    directory: Path
    places: dict[tuple[str, str], Path] = field(default_factory=dict)
    sessions: dict[tuple[str, str, str], PushdownSession] = field(default_factory=dict)

    def place(self, table: str, source_format: str) -> Path:
        key = (table, source_format)
        if key not in self.places:
            target = self.directory / table / source_format
            self.places[key] = TABLES[table].write(self.spark, source_format, target)
        return self.places[key]

    def session(self, table: str, source_format: str, reader: str) -> PushdownSession:
        key = (table, source_format, reader)
        if key not in self.sessions:
            definition = TABLES[table]
            pushdown = PushdownSession(self.spark)
            pushdown.add_source(
                "data",
                path=str(self.place(table, source_format)),
                format=source_format,
                schema=definition.schema if definition.declared else None,
                options=self.options(table, source_format),
                reader=reader,
            )
            self.sessions[key] = pushdown
        return self.sessions[key]

    def options(self, table: str, source_format: str) -> dict[str, str]:
        """Return the table's options without those of CSV, which byte search rejects for JSON."""
        table_options = TABLES[table].options
        return {key: text for key, text in table_options.items() if source_format == "csv" or key != "header"}

    def by_spark(self, table: str, source_format: str) -> DataFrame:
        """Return Spark's own frame over the table."""
        definition = TABLES[table]
        reader = self.spark.read.format(format_name(source_format)).options(**definition.options)
        reader = reader.schema(definition.schema) if definition.declared else reader
        return reader.load(str(self.place(table, source_format)))


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    with pushdown_off(spark, *(OURS - {"avro"})):
        yield Written(spark, tmp_path_factory.mktemp("tables"))


def readers(table: Table) -> Iterator[tuple[str, str]]:
    for source_format in table.formats:
        yield source_format, "spark"
        if source_format in OURS:
            yield source_format, "pushdown"


@pytest.mark.parametrize(
    "number",
    # Half of them by default, as many by either kind of reader: all readers have all cases at night.
    [pytest.param(n, marks=() if n % 4 < 2 else pytest.mark.nightly, id=case.name) for n, case in enumerate(CASES)],
)
def test_readers_return_the_requested_columns(written: Written, number: int) -> None:
    case = CASES[number]
    actual = list(readers(TABLES[case.table]))
    # Each case by one reader; readers of both kinds and the formats take turns.
    kind = ("spark", "pushdown")[number % 2]
    of_kind = [source_format for source_format, reader in actual if reader == kind]
    compare(written, case, of_kind[number // 4 % len(of_kind)], kind)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_reader_returns_the_requested_columns(written: Written, case: ProjectionCase) -> None:
    for source_format, reader in readers(TABLES[case.table]):
        compare(written, case, source_format, reader)


def compare(written: Written, case: ProjectionCase, source_format: str, reader: str) -> None:
    """Compare schema and rows of a case in one format with one reader."""
    place = str(written.place(case.table, source_format))
    expected = [row.replace("{format}", source_format).replace("{place}", place) for row in sorted_rows(case.rows)]
    where = TABLES[case.table].where if reader == "pushdown" else None
    result = written.session(case.table, source_format, reader).scan("data", columns=case.columns, where=where)
    label = f"{source_format} by {reader}"
    assert result.df.schema.simpleString() == t.StructType.fromDDL(case.schema).simpleString(), label
    assert rows_of(result.df) == sorted(expected), label


@pytest.mark.nightly
@pytest.mark.parametrize("case", [case for case in CASES if case.select], ids=lambda case: case.name)
def test_spark_returns_the_same_columns_if_it_supports_the_request(written: Written, case: ProjectionCase) -> None:
    source_format = TABLES[case.table].formats[-1]
    frame = written.by_spark(case.table, source_format).selectExpr(*case.select)
    assert rows_of(frame) == sorted_rows(case.rows)


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=lambda number: REFUSED[number].name)
def test_impossible_columns_raise_a_typed_error(written: Written, number: int) -> None:
    actual = list(readers(TABLES[REFUSED[number].table]))
    refuse(written, REFUSED[number], actual[number % min(3, len(actual)) :: 3])


@pytest.mark.nightly
@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.name)
def test_impossible_columns_raise_with_every_reader(written: Written, refused: Refused) -> None:
    refuse(written, refused, readers(TABLES[refused.table]))


def refuse(written: Written, refused: Refused, actual: Iterable[tuple[str, str]]) -> None:
    """Assert that formats and readers reject the request with a one-line reason."""
    for source_format, reader in actual:
        session = written.session(refused.table, source_format, reader)
        with pytest.raises(PushdownError) as error:
            session.scan("data", columns=refused.columns)
        assert error.value.code == refused.code
        assert "\n" not in str(error.value)
        for part in refused.parts:
            assert part in str(error.value)


@pytest.mark.parametrize("table", ["flat", "nested"])
def test_the_pushdown_readers_read_the_tables_of_the_cases(written: Written, table: str) -> None:
    for source_format in sorted(OURS.intersection(TABLES[table].formats)):
        session = written.session(table, source_format, "pushdown")
        report = session.scan("data", columns=["name"], where=TABLES[table].where).report()["data"]
        assert report.reader == "pushdown", report.reason
