"""Implicit columns in a session: configured names, plug-ins, times and sizes, with either kind of reader."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType

from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.projection.implicit_columns import FileMetadata, ImplicitColumn, ImplicitColumns, ImplicitValue
from pushdown_spark.session import PushdownSession

READERS = ("spark", "pushdown")
ALL = "id IN (1, 2, 3)"


class BranchColumns(ImplicitColumns):
    """The branch and the till number in file names such as `12-3.json`."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("branch", "till")

    def column(self, name: str) -> ImplicitColumn | None:
        return ImplicitColumn(name.lower(), IntegerType()) if name.lower() in self.names else None

    def value(self, column: ImplicitColumn, file: FileMetadata) -> ImplicitValue:
        parts = file.filename.partition(".")[0].split("-")
        position = self.names.index(column.name)
        return int(parts[position]) if len(parts) > position else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("implicit")
    for number, name in enumerate(("north/12-3", "south/7")):
        path = folder / f"{name}.json"
        path.parent.mkdir()
        path.write_text("".join(json.dumps({"id": n, "Size": "L"}) + "\n" for n in range(number + 1, 3)))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def _session(
    spark: SparkSession, folder: Path, reader: str, schema: str = "id bigint", **settings: object
) -> PushdownSession:
    fields = {"format": "json", "path": (str(folder),), "schema": schema, "options": {"recursiveFileLookup": "true"}}
    session = PushdownSession(spark)
    session.add_source("data", **{**fields, "reader": reader, **settings})  # type: ignore[arg-type]
    return session


def _rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("reader", READERS)
def test_plugin_adds_columns(spark: SparkSession, folder: Path, reader: str) -> None:
    session = _session(spark, folder, reader, implicit_columns=[f"{__name__}:BranchColumns"])
    actual = session.scan("data", columns=["id", "Branch", "till", "dir0"], where=f"{ALL} AND branch > 1")
    assert actual.df.columns == ["id", "Branch", "till", "dir0"]
    assert [field.dataType.simpleString() for field in actual.df.schema][1:3] == ["int", "int"]
    expected = [(1, 12, 3, "north"), (2, 7, None, "south"), (2, 12, 3, "north")]
    assert sorted(map(str, actual.run(_rows))) == sorted(map(str, expected))
    (only,) = session.scan("data", columns=["id"], where=f"{ALL} AND branch = 7").run(_rows)
    assert only == (2,)


@pytest.mark.parametrize("reader", READERS)
def test_sql_selects_implicit_columns(spark: SparkSession, folder: Path, reader: str) -> None:
    session = _session(
        spark, folder, reader, implicit_columns=[f"{__name__}:BranchColumns"], implicit_names={"filename": "source"}
    )
    sql = "SELECT branch, max(source) AS source FROM data WHERE id IN (1, 2) GROUP BY branch"
    assert session.sql(sql).run(_rows) == [(7, "7.json"), (12, "12-3.json")]


@pytest.mark.parametrize("reader", READERS)
def test_modification_time_and_size_are_those_of_the_file(spark: SparkSession, folder: Path, reader: str) -> None:
    actual = _session(spark, folder, reader).scan("data", columns=["fqn", "size", "modified"], where=ALL).run(_rows)
    for fqn, size, modified in actual:
        assert isinstance(modified, datetime)
        stat = Path(str(fqn)).stat()
        assert (size, modified.replace(tzinfo=UTC).timestamp()) == (stat.st_size, stat.st_mtime)
    assert len({row[2] for row in actual}) == 2


@pytest.mark.parametrize("reader", READERS)
def test_a_renamed_implicit_column_has_only_its_new_name(spark: SparkSession, folder: Path, reader: str) -> None:
    session = _session(spark, folder, reader, implicit_names={"filename": "source", "dir": "level"})
    actual = session.scan("data", columns=["*", "source", "LEVEL0"], where="id = 1")
    assert actual.run(_rows) == [(1, "12-3.json", "north")]
    assert actual.df.columns == ["id", "source", "LEVEL0"]
    with pytest.raises(UnknownColumnError, match="source"):
        session.scan("data", columns=["soruce"])
    with pytest.raises(UnknownColumnError, match="no column 'filename'"):
        session.scan("data", columns=["filename"])


@pytest.mark.parametrize("reader", READERS)
def test_table_column_takes_precedence_with_a_note(spark: SparkSession, folder: Path, reader: str) -> None:
    session = _session(spark, folder, reader, "id bigint, Size string")
    result = session.scan("data", columns=["id", "size", "filename"], where="id = 1 AND size = 'L'")
    assert result.run(_rows) == [(1, "L", "12-3.json")]
    (note,) = [note for note in result.report()["data"].notes if "size" in note]
    assert note == "size is a column of the table, so it is not the implicit column of that name"


def test_wildcard_excludes_implicit_columns(spark: SparkSession, folder: Path) -> None:
    session = _session(spark, folder, "spark", implicit_columns=[f"{__name__}:BranchColumns"])
    assert session.scan("data").df.columns == ["id"]
    assert session.scan("data", columns=["*", "filename"]).df.columns == ["id", "filename"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"implicit_names": {"file": "x"}}, "no implicit column 'file'"),
        ({"implicit_names": {"filename": "size"}}, "the same name"),
        ({"implicit_columns": ["no_such_module:Columns"]}, "cannot load 'no_such_module:Columns'"),
        ({"on_schema_conflict": "guess"}, "on_schema_conflict"),
        ({"on_missing_column": "guess"}, "on_missing_column"),
    ],
)
def test_invalid_settings_raise(spark: SparkSession, folder: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(BadSpecError, match=message):
        _session(spark, folder, "spark", **fields)  # type: ignore[arg-type]
