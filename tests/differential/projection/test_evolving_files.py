"""Files with different columns are one table. The result depends neither on their order nor on the reader."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyorc
import pytest
from evolving_cases import COLUMNS, CONFLICTS, EVERY_ORDER, MEMBERS, WIDER, Evolving
from evolving_files import write_file
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from typed_results import rows_of, sorted_rows

from pushdown_spark.errors import PushdownError
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

CASES = (*COLUMNS, *MEMBERS, *WIDER, *CONFLICTS)


def in_formats(cases: Sequence[Evolving]) -> list[tuple[Evolving, str]]:
    return [(case, source_format) for case in cases for source_format in case.formats]


def label(part: object) -> str:
    """Return the name of a case or a format."""
    return part.name if isinstance(part, Evolving) else str(part)


def orders(case: Evolving) -> Iterator[tuple[int, ...]]:
    """Return the files in their order and reversed. Their names determine the order."""
    numbers = tuple(range(len(case.files)))
    yield numbers
    yield numbers[::-1]


def write_files(case: Evolving, source_format: str, directory: Path, order: Sequence[int]) -> dict[int, Path]:
    """Write the files by number, with names that are listed in the order."""
    places = {}
    for place, number in enumerate(order):
        schema, rows = case.files[number]
        places[number] = directory / f"p{place}.{source_format}"
        write_file(source_format, places[number], schema, rows)
    return places


def session(spark: SparkSession, case: Evolving, source_format: str, directory: Path, reader: str) -> PushdownSession:
    pushdown = PushdownSession(spark)
    header = {"header": "true"} if source_format == "csv" else {}
    pushdown.add_source(
        "data",
        path=str(directory),
        format=source_format,
        schema=case.declared,
        options={**header, **case.options},
        reader=reader,
        on_schema_conflict=case.on_schema_conflict,
        on_missing_column=case.on_missing_column,
    )
    return pushdown


@pytest.mark.parametrize(("case", "source_format"), in_formats(CASES), ids=label)
def test_files_are_one_table_in_any_order(
    spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str
) -> None:
    """The readers read the files in their order, and reversed."""
    for reader, result in plan_in_orders(spark, tmp_path, case, source_format, orders(case)):
        assert result.run(rows_of) == sorted_rows(case.rows), reader


@pytest.mark.parametrize(("case", "source_format"), in_formats(EVERY_ORDER), ids=label)
def test_files_are_one_table_in_every_order(
    spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str
) -> None:
    """All orders of the files, with alternating readers, are one query."""
    every = itertools.permutations(range(len(case.files)))
    frames = [
        result.df.selectExpr(f"{turn} AS turn", "*")
        for turn, (_, result) in enumerate(plan_in_orders(spark, tmp_path, case, source_format, every))
    ]
    if frames:
        expected = [(turn, *row) for turn in range(len(frames)) for row in case.rows]
        assert rows_of(reduce(DataFrame.unionAll, frames)) == sorted_rows(expected)


@pytest.mark.parametrize("reader", ["spark", "pushdown"])
def test_json_lines_without_columns_are_rows_of_nulls(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    for number, text in enumerate(('{"n": 1}\n', "{}\n{}\n", '{"n": "ten"}\n', "no JSON\n")):
        (tmp_path / f"p{number}.json").write_text(text)
    case = Evolving("rows without columns", ("json",), (), on_schema_conflict="null")
    actual = session(spark, case, "json", tmp_path, reader).scan("data", columns=("n",)).run(rows_of)
    assert actual == sorted_rows([(1,), *[(None,)] * 4])


@pytest.mark.parametrize("reader", ["spark", "pushdown"])
def test_avro_records_without_fields_are_rows_of_nulls(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    for number, (schema, rows) in enumerate((("n int", [(1,)]), ("", [(), ()]), ("n string", [("ten",)]))):
        write_file("avro", tmp_path / f"p{number}.avro", schema, rows)
    case = Evolving("records without fields", ("avro",), (), on_schema_conflict="null")
    actual = session(spark, case, "avro", tmp_path, reader).scan("data").run(rows_of)
    assert actual == sorted_rows([(1,), *[(None,)] * 3])


@pytest.mark.parametrize("reader", ["spark", "pushdown", "auto"])
def test_a_type_that_spark_lacks_in_one_file_stops_only_queries_of_its_column(
    spark: SparkSession, tmp_path: Path, reader: str
) -> None:
    for number, unit in enumerate(("us", "ns")):
        times = pa.array([0], pa.timestamp(unit, "UTC"))
        pq.write_table(pa.table({"k": [number], "t": times}), tmp_path / f"p{number}.parquet", version="2.6")
    pushdown = session(spark, Evolving("nanoseconds", ("parquet",), ()), "parquet", tmp_path, reader)
    result = pushdown.scan("data", columns=["k"], where="k >= 0")
    assert result.run(rows_of) == sorted_rows([(0,), (1,)])
    assert "TIMESTAMP(NANOS" in result.report()["data"].notes[0]
    with pytest.raises(Exception, match=r"p1\.parquet"):
        pushdown.scan("data").run(rows_of)


@pytest.mark.parametrize("reader", ["spark", "pushdown", "auto"])
def test_strings_with_a_length_are_read_in_files_with_other_types(
    spark: SparkSession, tmp_path: Path, reader: str
) -> None:
    for number, kind in enumerate(("int", "double")):
        schema = f"struct<v:varchar(4),s:struct<c:char(3)>,n:{kind}>"
        with (tmp_path / f"p{number}.orc").open("wb") as file, pyorc.Writer(file, schema) as writer:
            writer.write(("abc", ("x",), number))
    pushdown = session(spark, Evolving("lengths", ("orc",), ()), "orc", tmp_path, reader)
    expected = [row for number in range(2) for row in spark.read.orc(str(tmp_path / f"p{number}.orc")).collect()]
    rows = pushdown.scan("data", where="v = 'abc'").run(rows_of)
    assert rows == sorted_rows([(row.v, tuple(row.s), float(row.n)) for row in expected])


def plan_in_orders(
    spark: SparkSession, tmp_path: Path, case: Evolving, source_format: str, every: Iterable[tuple[int, ...]]
) -> Iterator[tuple[str, PushdownResult]]:
    """Yield a reader and its plan for each order, with the expected columns. Yield nothing if the case is an error."""
    for order, reader in zip(every, itertools.cycle(("spark", "pushdown"))):
        directory = tmp_path / "".join(map(str, order))
        places = write_files(case, source_format, directory, order)
        pushdown = session(spark, case, source_format, directory, reader)
        if case.error:
            check_error(pushdown, case, directory, places)
            continue
        schema = t.StructType.fromDDL(case.schema)
        # Spark sorts the columns of JSON files by name.
        is_sorted = source_format == "json" and case.declared is None
        columns = case.columns or (tuple(schema.fieldNames()) if is_sorted else None)
        result = pushdown.scan("data", columns=columns, where=case.where)
        assert result.df.schema.simpleString() == schema.simpleString(), (order, reader)
        yield reader, result


def check_error(pushdown: PushdownSession, case: Evolving, directory: Path, places: Mapping[int, Path]) -> None:
    """Check the error of a case, which names files by their location."""
    with pytest.raises(PushdownError) as error:
        pushdown.scan("data", columns=case.columns, where=case.where)
    for part in case.error:
        for number, place in places.items():
            part = part.replace(f"{{{number}}}", str(place))
        assert part.replace("{", str(directory)) in str(error.value)
