"""Files of different columns are one table, whose answer depends neither on their order nor on the reader."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

import pytest
from evolving_cases import COLUMNS, CONFLICTS, EVERY_ORDER, MEMBERS, WIDER, Evolving
from evolving_files import write_file
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from thirds import third
from typed_results import rows_of, shown

from spark_jobs.errors import PushdownError
from spark_jobs.session import PushdownSession

CASES = (*COLUMNS, *MEMBERS, *WIDER, *CONFLICTS)
TURNS = [(case, case.formats[number % len(case.formats)]) for number, case in enumerate(CASES)]
"""Each case in one of its formats."""
EVERY = [(case, source_format) for case in CASES for source_format in case.formats]


def label(part: object) -> str:
    """A case's name, or a format."""
    return part.name if isinstance(part, Evolving) else str(part)


def orders(case: Evolving) -> Iterator[tuple[int, ...]]:
    """The files as they come, and the other way round: their names say which comes first."""
    numbers = tuple(range(len(case.files)))
    yield numbers
    yield numbers[::-1]


def written(case: Evolving, source_format: str, directory: Path, order: Sequence[int]) -> dict[int, Path]:
    """The files by number, named so that they are listed in the order."""
    places = {}
    for place, number in enumerate(order):
        schema, rows = case.files[number]
        places[number] = directory / f"p{place}.{source_format}"
        write_file(source_format, places[number], schema, rows)
    return places


def session(spark: SparkSession, case: Evolving, source_format: str, directory: Path, reader: str) -> PushdownSession:
    made = PushdownSession(spark)
    header = {"header": "true"} if source_format == "csv" else {}
    made.add_source(
        "data",
        path=str(directory),
        format=source_format,
        schema=case.declared,
        options={**header, **case.options},
        reader=reader,
        on_schema_conflict=case.on_schema_conflict,
        on_missing_column=case.on_missing_column,
    )
    return made


@pytest.mark.parametrize(("case", "source_format"), TURNS, ids=label)
def test_files_are_one_table_in_any_order(
    spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str
) -> None:
    compare(spark, tmp_path, case, source_format)


@pytest.mark.nightly
@pytest.mark.parametrize(("case", "source_format"), EVERY, ids=label)
def test_files_are_one_table_in_any_format(
    spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str
) -> None:
    compare(spark, tmp_path, case, source_format)


@pytest.mark.parametrize("number", third(range(len(EVERY_ORDER))), ids=lambda number: EVERY_ORDER[number].name)
def test_files_are_one_table_in_every_order(spark: SparkSession, tmp_path: Path, number: int) -> None:
    case = EVERY_ORDER[number]
    in_every_order(spark, tmp_path, case, case.formats[number % len(case.formats)])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("case", "source_format"), [(case, name) for case in EVERY_ORDER for name in case.formats], ids=label
)
def test_files_are_one_table_in_every_order_and_format(
    spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str
) -> None:
    in_every_order(spark, tmp_path, case, source_format)


def in_every_order(spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str) -> None:
    """The answer to a case over its files in all orders, the readers in turn: one query for all of them."""
    frames: list[DataFrame] = []
    turns = zip(itertools.permutations(range(len(case.files))), itertools.cycle(("spark", "pushdown")))
    for turn, (order, reader) in enumerate(turns):
        directory = tmp_path / "".join(map(str, order))
        places = written(case, source_format, directory, order)
        made = session(spark, case, source_format, directory, reader)
        if case.error:
            refused(made, case, directory, places)
            continue
        found = made.scan("data", columns=case.columns, where=case.where).df
        assert found.schema.simpleString() == t.StructType.fromDDL(case.schema).simpleString(), (order, reader)
        frames.append(found.selectExpr(f"{turn} AS turn", "*"))
    if frames:
        expected = [(turn, *row) for turn in range(len(frames)) for row in case.rows]
        assert rows_of(reduce(DataFrame.unionAll, frames)) == shown(expected)


def refused(made: PushdownSession, case: Evolving, directory: Path, places: Mapping[int, Path]) -> None:
    """The error of a case, which names files by their places."""
    with pytest.raises(PushdownError) as caught:
        made.scan("data", columns=case.columns, where=case.where)
    for part in case.error:
        for number, place in places.items():
            part = part.replace(f"{{{number}}}", str(place))
        assert part.replace("{", str(directory)) in str(caught.value)


def compare(spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str) -> None:
    """The answer to a case by Spark's reader, and by ours over the files in the other order."""
    for order, reader in zip(orders(case), itertools.cycle(("spark", "pushdown"))):
        directory = tmp_path / "".join(map(str, order))
        places = written(case, source_format, directory, order)
        made = session(spark, case, source_format, directory, reader)
        if case.error:
            refused(made, case, directory, places)
            continue
        result = made.scan("data", columns=case.columns, where=case.where)
        assert result.df.schema.simpleString() == t.StructType.fromDDL(case.schema).simpleString(), reader
        assert result.run(rows_of) == shown(case.rows), reader
