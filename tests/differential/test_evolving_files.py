"""Files of different columns are one table, whose answer depends neither on their order nor on the reader."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from evolving_cases import COLUMNS, CONFLICTS, MEMBERS, WIDER, Evolving
from evolving_files import write_file
from pyspark.sql import SparkSession
from pyspark.sql import types as t
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


def compare(spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str) -> None:
    """The answer to a case by Spark's reader, and by ours over the files in the other order."""
    for order, reader in zip(orders(case), itertools.cycle(("spark", "pushdown"))):
        directory = tmp_path / "".join(map(str, order))
        places = written(case, source_format, directory, order)
        made = session(spark, case, source_format, directory, reader)
        if case.error:
            with pytest.raises(PushdownError) as caught:
                made.scan("data", columns=case.columns, where=case.where)
            for part in case.error:
                for number, place in places.items():
                    part = part.replace(f"{{{number}}}", str(place))
                assert part.replace("{", str(directory)) in str(caught.value)
            continue
        result = made.scan("data", columns=case.columns, where=case.where)
        assert result.df.schema.simpleString() == t.StructType.fromDDL(case.schema).simpleString(), reader
        assert result.run(rows_of) == shown(case.rows), reader
