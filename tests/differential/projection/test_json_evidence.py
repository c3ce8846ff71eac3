"""Types of JSON files without a declared schema are Spark's, and conflicts between files are found at any depth."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typed_results import rows_of

from pushdown_spark.errors import KindMismatchError, SchemaConflictError
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.session import PushdownSession

NOTE = "no schema is declared, so the strings of all files were read once more to compare the types of the files"
ALIKE = {
    "strings": ('{"a": "x"}', '{"a": "y", "b": "z"}'),
    "nothing but numbers": ('{"a": 1}', '{"a": 2.5}'),
    "zeros after the decimal point": ('{"a": 1.0, "t": "x"}', '{"a": 2.0, "t": "x"}'),
    "integers beyond 64 bits": ('{"a": 100000000000000000000, "t": "x"}', '{"a": 1, "t": null}'),
    "a double and a large number": ('{"a": 1.0, "t": "x"}', '{"a": 100000000000000000000}'),
    "powers of ten": ('{"a": 1e3, "t": "x"}', '{"a": 1}'),
    "nulls": ('{"a": null, "t": null}', '{"a": true, "t": "x"}'),
    "nulls everywhere": ('{"a": null}', '{"a": null, "l": []}'),
    "structs": ('{"s": {"x": "u"}}', '{"s": {"x": null, "y": [{"z": "v"}, {}]}}'),
    "lists": ('{"l": [1, null]}', '{"l": [], "m": ["x"]}'),
    "several types in one file": ('{"a": 1, "b": "x"}\n{"a": "x"}', '{"a": "y"}'),
    "a corrupt record": ('{"a": "x"}\n{"a": ', '{"a": "y"}'),
    "names of Spark's own": ('{"_metadata": "x", "record": 1}', '{"_metadata": "y", "file_path": "z"}'),
    "odd names": ('{"a b": "x", "OBJECT<": "y", "c.d": {"`": "z"}}', '{"a b": "u"}'),
    "escapes and other scripts": ('{"a": "\\u00e9\\n", "é": "ü"}', '{"a": "\\"", "é": null}'),
}
CONFLICTS = {
    "a": ('{"a": 1}', '{"a": "x"}'),
    "s.x": ('{"s": {"x": "u", "y": 1}}', '{"s": {"x": true}}'),
    "l.element": ('{"l": ["x"]}', '{"l": [1]}'),
    "l.element.x": ('{"l": [{"x": "u"}]}', '{"l": [{"x": 1}]}'),
    "o": ('{"o": {"x": 1}, "t": "u"}', '{"o": [1], "t": "u"}'),
    "p": ('{"p": {"x": 1}}', '{"p": "text"}'),
    "_metadata": ('{"_metadata": 1}', '{"_metadata": "x"}'),
}


def write_files(directory: Path, contents: tuple[str, ...]) -> str:
    for number, text in enumerate(contents):
        (directory / f"p{number}.json").write_text(text + "\n")
    return str(directory)


def session(spark: SparkSession, path: str, on_schema_conflict: str = "error", **options: str) -> PushdownSession:
    pushdown = PushdownSession(spark)
    pushdown.add_source("data", path=path, format="json", options=options, on_schema_conflict=on_schema_conflict)
    return pushdown


@pytest.mark.parametrize(
    ("name", "on_schema_conflict"),
    [
        *((name, "error") for name in ALIKE),
        *((name, "null") for name in ALIKE),
    ],
)
def test_files_without_conflicts_return_sparks_rows(
    spark: SparkSession, tmp_path: Path, name: str, on_schema_conflict: str
) -> None:
    path = write_files(tmp_path, ALIKE[name])
    own = spark.read.json(path)
    result = session(spark, path, on_schema_conflict).scan("data")
    assert {field.name: field.dataType for field in result.df.schema} == {f.name: f.dataType for f in own.schema}
    assert result.run(lambda frame: rows_of(frame.select(*map(quote_name, own.columns)))) == rows_of(own)


@pytest.mark.parametrize("column", CONFLICTS)
def test_a_type_conflict_in_any_file_raises(spark: SparkSession, tmp_path: Path, column: str) -> None:
    path = write_files(tmp_path, CONFLICTS[column])
    with pytest.raises(SchemaConflictError) as error:
        session(spark, path).scan("data")
    assert str(error.value).startswith(f"column {column} is ")
    assert all(f"{path}/p{number}.json" in str(error.value) for number in range(2))


def test_only_string_columns_are_read_a_second_time_for_evidence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "strings").mkdir()
    (tmp_path / "numbers").mkdir()
    strings = session(spark, write_files(tmp_path / "strings", ALIKE["strings"])).scan("data").report()["data"]
    numbers = (
        session(spark, write_files(tmp_path / "numbers", ALIKE["nothing but numbers"])).scan("data").report()["data"]
    )
    assert NOTE in strings.notes
    assert NOTE not in numbers.notes


def test_inferred_timestamps_do_not_depend_on_the_conflict_setting(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path, ('{"t": "2024-01-02T03:04:05Z", "n": 1}', '{"t": "2024-05-06T07:08:09Z", "n": "x"}'))
    result = session(spark, path, "null", inferTimestamp="true").scan("data", columns=["t"])
    assert result.df.schema.simpleString() == "struct<t:timestamp>"
    assert result.run(rows_of) == rows_of(spark.read.option("inferTimestamp", "true").json(path).select("t"))


def test_an_error_names_a_file_that_has_the_column(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path, ('{"a": "x"}', '{"a": "x", "b": "y"}'))
    with pytest.raises(KindMismatchError, match=r"'b\[0\]' asks for position 0 of a string \(in .*p1\.json\)"):
        session(spark, path).scan("data", columns=["b[0]"])
