"""Implicit columns: their names, types and values, plug-ins, and the array of CSV fields without names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from pushdown_spark.errors import BadSpecError, KindMismatchError
from pushdown_spark.projection.implicit_columns import (
    BUILT_IN,
    BuiltInColumns,
    FileMetadata,
    ImplicitCatalog,
    ImplicitColumn,
    ImplicitColumns,
    ImplicitValue,
    implicit_catalog,
)
from pushdown_spark.projection.path_expressions import PathContext
from pushdown_spark.projection.resolver import resolve

METADATA = FileMetadata("/in/2026/shop-12.json", ("2026",), 77, datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC))


class ShopColumns(ImplicitColumns):
    """The shop that a file name ends with, as a number."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("shop",)

    def column(self, name: str) -> ImplicitColumn | None:
        return ImplicitColumn("shop", IntegerType()) if name.lower() == "shop" else None

    def value(self, column: ImplicitColumn, file: FileMetadata) -> ImplicitValue:
        return int(file.filename.partition("-")[2].partition(".")[0])


def test_plugins_are_loaded_by_import_path_and_take_precedence() -> None:
    catalog = implicit_catalog({}, (f"{__name__}:ShopColumns",))
    column = catalog.find("SHOP")
    assert column == ImplicitColumn("shop", IntegerType())
    assert catalog.value(column, METADATA) == 12
    assert catalog.names[0] == "shop"
    assert catalog.find("filename") is not None
    projection = resolve(["shop", "dir0"], PathContext(StructType(), implicit_catalog=catalog))
    assert projection.implicit_columns == ("shop", "dir0")
    assert projection.outputs[0].data_type == IntegerType()


@pytest.mark.parametrize(
    "path", ["json", "no.such.module:X", f"{__name__}:Missing", f"{__name__}:METADATA", "json:JSONDecoder"]
)
def test_invalid_plugin_path_raises(path: str) -> None:
    with pytest.raises(BadSpecError, match="implicit_columns: "):
        implicit_catalog({}, (path,))


def test_implicit_names_rename_columns() -> None:
    catalog = implicit_catalog({"filename": "source_file", "dir": "Folder", "size": "bytes"}, ())
    assert catalog.find("filename") is None
    assert catalog.find("dir0") is None
    assert catalog.find("SOURCE_FILE") == ImplicitColumn("source_file", StringType(), builtin="filename")
    folder = catalog.find("folder3")
    assert folder is not None
    assert (folder.name, folder.level, folder.builtin) == ("Folder3", 3, "dir3")
    projection = resolve(["Bytes", "folder0"], PathContext(StructType(), implicit_catalog=catalog))
    assert projection.implicit_columns == ("bytes", "Folder0")
    assert [output.name for output in projection.outputs] == ["Bytes", "folder0"]


@pytest.mark.parametrize(
    "names",
    [{"file": "x"}, {"filename": ""}, {"filename": "size"}, {"filename": "dir7"}, {"filename": "X", "fqn": "x"}],
)
def test_conflicting_names_raise(names: dict[str, str]) -> None:
    with pytest.raises(BadSpecError, match="implicit_names: "):
        BuiltInColumns(names)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("filename", "shop-12.json"),
        ("filepath", "/in/2026"),
        ("fqn", "/in/2026/shop-12.json"),
        ("suffix", "json"),
        ("size", 77),
        ("modified", METADATA.modified),
        ("dir0", "2026"),
        ("dir1", None),
    ],
)
def test_builtin_columns_have_the_values_of_the_file(name: str, value: ImplicitValue) -> None:
    column = BUILT_IN.find(name)
    assert column is not None
    assert BUILT_IN.value(column, METADATA) == value


def test_builtin_columns_have_the_types_of_their_values() -> None:
    types = [output.data_type for output in resolve(["modified", "size", "suffix"], PathContext(StructType())).outputs]
    assert types == [TimestampType(), LongType(), StringType()]


def test_only_whole_names_are_implicit_columns() -> None:
    schema = StructType().add("a", StringType()).add("dir0", StructType().add("x", StringType()))
    projection = resolve(["*", "FILENAME", "dir0.x"], PathContext(schema))
    assert [output.name for output in projection.outputs] == ["a", "dir0", "FILENAME", "x"]
    assert (projection.table_columns, projection.implicit_columns) == (("a", "dir0"), ("filename",))
    assert projection.notes == ()


FIELDS = StructType().add("_c0", StringType()).add("_c1", StringType())
LINES = PathContext(FIELDS, has_unnamed_fields=True)
"""Lines whose fields have no names."""


def test_unnamed_fields_are_an_array() -> None:
    projection = resolve(["columns[1,7]", "Columns[0]", "filename"], LINES)
    assert [output.name for output in projection.outputs] == ["columns[1,7]", "Columns[0]", "filename"]
    assert projection.table_columns == ("_c0", "_c1")
    assert resolve(["columns"], LINES).outputs[0].data_type.simpleString() == "array<string>"
    assert resolve(["columns[9]"], LINES).table_columns == ()


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["columns[65536]"], BadSpecError, "positions end at 65535"),
        (["columns.x"], KindMismatchError, "no members"),
        (["columns[0].x"], KindMismatchError, "no members"),
        (["columns[0]", "_c1"], BadSpecError, "use one of them"),
        (["columns", "*"], BadSpecError, "use one of them"),
    ],
)
def test_invalid_use_of_unnamed_fields_raises(columns: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        resolve(columns, LINES)


def test_table_column_named_columns_takes_precedence() -> None:
    schema = StructType().add("columns", StructType().add("x", StringType()))
    assert resolve(["columns.x"], PathContext(schema, has_unnamed_fields=True)).table_columns == ("columns",)


def test_first_family_takes_precedence() -> None:
    catalog = ImplicitCatalog((BuiltInColumns({"size": "shop"}), ShopColumns()))
    column = catalog.find("shop")
    assert column is not None
    assert catalog.value(column, METADATA) == 77
