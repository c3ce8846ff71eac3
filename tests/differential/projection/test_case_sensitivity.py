"""Names that differ only by case are one column or two, depending on `spark.sql.caseSensitive`, with every reader."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from evolving_files import write_file
from projection_tables import OURS, format_name
from pyspark.sql import SparkSession
from session_settings import session_settings
from typed_results import rows_of, sorted_rows

from pushdown_spark.errors import PushdownError, SchemaConflictError, UnknownColumnError
from pushdown_spark.session import PushdownSession

NESTING = ("json", "avro", "orc", "parquet")
READINGS = [
    (source_format, reader)
    for source_format in ("csv", *NESTING)
    for reader in (("spark", "pushdown") if source_format in OURS else ("spark",))
]
BOTH = "id bigint, a string, A string"
NESTED = "id bigint, S struct<x: int, X: int, y: int>"


def case_sensitive(spark: SparkSession, value: str) -> AbstractContextManager[None]:
    """Set Spark's setting. Sessions that open sources in the block use it."""
    return session_settings(spark, {"spark.sql.caseSensitive": value})


def session(
    spark: SparkSession, source_format: str, directory: Path, reader: str, schema: str | None, **settings: str
) -> PushdownSession:
    pushdown = PushdownSession(spark)
    options = {"header": "true"} if source_format == "csv" else {}
    pushdown.add_source(
        "data", path=str(directory), format=source_format, schema=schema, options=options, reader=reader, **settings
    )
    return pushdown


@pytest.mark.parametrize(("source_format", "reader"), READINGS)
def test_two_spellings_are_two_columns_if_case_sensitive(
    spark: SparkSession, tmp_path: Path, source_format: str, reader: str
) -> None:
    write_file(source_format, tmp_path / f"p0.{source_format}", BOTH, [(1, "low", "HIGH"), (2, "b", "a")])
    with case_sensitive(spark, "true"):
        pushdown = session(spark, source_format, tmp_path, reader, BOTH)
        result = pushdown.scan("data", columns=["A", "a", "a AS low"], where="id = 1 AND A = 'HIGH'")
        assert result.df.columns == ["A", "a", "low"]
        assert result.run(rows_of) == sorted_rows([("HIGH", "low", "low")])
        assert pushdown.scan("data", columns=["a"], where="a = 'a'").run(rows_of) == []
        own = spark.read.format(format_name(source_format)).option("header", "true").schema(BOTH).load(str(tmp_path))
        assert pushdown.scan("data", where="id IN (1, 2)").run(rows_of) == rows_of(own)
        for wrong in ("ID", "B"):
            with pytest.raises(UnknownColumnError, match="did you mean" if wrong == "ID" else "no column 'B'"):
                pushdown.scan("data", columns=[wrong])


@pytest.mark.parametrize(("source_format", "reader"), READINGS)
def test_any_spelling_selects_the_column_if_case_insensitive(
    spark: SparkSession, tmp_path: Path, source_format: str, reader: str
) -> None:
    write_file(source_format, tmp_path / f"p0.{source_format}", "id bigint, Name string", [(1, "x"), (2, "y")])
    with case_sensitive(spark, "false"):
        pushdown = session(spark, source_format, tmp_path, reader, "id bigint, Name string")
        result = pushdown.scan("data", columns=["NAME", "name", "iD"], where="nAmE = 'x'")
        assert result.df.columns == ["NAME", "iD"]
        assert result.run(rows_of) == sorted_rows([("x", 1)])


@pytest.mark.parametrize(("source_format", "reader"), [reading for reading in READINGS if reading[0] != "csv"])
def test_members_follow_the_case_sensitivity_setting(
    spark: SparkSession, tmp_path: Path, source_format: str, reader: str
) -> None:
    write_file(source_format, tmp_path / f"p0.{source_format}", NESTED, [(1, {"x": 10, "X": 20, "y": 30}), (2, None)])
    with case_sensitive(spark, "true"):
        pushdown = session(spark, source_format, tmp_path, reader, NESTED)
        result = pushdown.scan(
            "data", columns=["S.X", "S.x", "S(y, X)"], where="id IN (1, 2) AND coalesce(S.X, 20) = 20"
        )
        assert result.df.columns == ["X", "x", "S"]
        assert result.run(rows_of) == sorted_rows([(20, 10, (30, 20)), (None, None, None)])
        for wrong in ("s.x", "S.Y"):
            with pytest.raises(UnknownColumnError):
                pushdown.scan("data", columns=[wrong])


@pytest.mark.parametrize("source_format", NESTING)
def test_two_spellings_of_a_member_raise_if_case_insensitive(
    spark: SparkSession, tmp_path: Path, source_format: str
) -> None:
    write_file(source_format, tmp_path / f"p0.{source_format}", NESTED, [(1, {"x": 10, "X": 20, "y": 30})])
    with case_sensitive(spark, "false"):
        pushdown = session(spark, source_format, tmp_path, "spark", NESTED)
        with pytest.raises(PushdownError, match=r"'x' may be 'x' and 'X'|`x` already exists"):
            pushdown.scan("data", columns=["S.x"])


@pytest.mark.parametrize("source_format", ["csv", "orc", "parquet", "avro"])
def test_spellings_of_several_files_merge_by_the_setting(
    spark: SparkSession, tmp_path: Path, source_format: str
) -> None:
    write_file(source_format, tmp_path / f"p0.{source_format}", "id string, a string", [("1", "x")])
    write_file(source_format, tmp_path / f"p1.{source_format}", "id string, A string", [("2", "y")])
    with case_sensitive(spark, "true"):
        two = session(spark, source_format, tmp_path, "pushdown", None).scan("data", columns=["id", "a", "A"])
        assert two.run(rows_of) == sorted_rows([("1", "x", None), ("2", None, "y")])
        with pytest.raises(SchemaConflictError, match="is missing in"):
            session(spark, source_format, tmp_path, "spark", None, on_missing_column="error").scan(
                "data", columns=["a"]
            )
    with case_sensitive(spark, "false"):
        one = session(spark, source_format, tmp_path, "pushdown", None, on_missing_column="error")
        assert one.scan("data", columns=["a"]).run(rows_of) == sorted_rows([("x",), ("y",)])


@pytest.mark.parametrize("source_format", ["orc", "avro", "parquet"])
@pytest.mark.parametrize("kinds", [("int", "string"), ("string", "string")])
@pytest.mark.parametrize("others", [1, 0])
def test_two_spellings_in_one_file_raise_if_case_insensitive(
    spark: SparkSession, tmp_path: Path, source_format: str, kinds: tuple[str, str], others: int
) -> None:
    """Also with `on_schema_conflict='null'`, and if Spark infers the columns of the table from this file."""
    if others:
        write_file(source_format, tmp_path / f"p0.{source_format}", "id bigint", [(1,)])
    with case_sensitive(spark, "true"):
        schema = f"id bigint, a {kinds[0]}, A {kinds[1]}"
        first = 1 if kinds[0] == "int" else "x"
        write_file(source_format, tmp_path / f"p1.{source_format}", schema, [(2, first, "y")])
    own = rf"p1.{source_format} has a and A, whose names differ only in case; set spark.sql.caseSensitive=true"
    with case_sensitive(spark, "false"):
        for on_conflict in ("error", "widen", "null"):
            pushdown = session(spark, source_format, tmp_path, "spark", None, on_schema_conflict=on_conflict)
            with pytest.raises(SchemaConflictError, match=own):
                pushdown.scan("data", columns=["id"])
        declaring_session = session(
            spark, source_format, tmp_path, "spark", f"id bigint, a {kinds[0]}", on_schema_conflict="null"
        )
        with pytest.raises(SchemaConflictError, match=own):
            declaring_session.scan("data", columns=["a"])
        without = session(spark, source_format, tmp_path, "spark", "id bigint", on_schema_conflict="null")
        assert without.scan("data", columns=["id"]).run(rows_of) == sorted_rows([(2,), *[(1,)] * others])
