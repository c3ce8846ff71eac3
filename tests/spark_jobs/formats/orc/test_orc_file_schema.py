"""Schemas that pyorc reads are those that Spark infers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from pushdown_spark.errors import BadSchemaError, UnreadableFileError, UnsafeInputError
from pushdown_spark.formats.orc.file_schema import read_schema
from pushdown_spark.sources.stores.storage import LOCAL

PYORC = (
    "struct<b:boolean,i1:tinyint,i2:smallint,i4:int,i8:bigint,f:float,d:double,s:string,x:binary,day:date,ts:timestamp,"
    "tz:timestamp with local time zone,c:char(5),v:varchar(7),de:decimal(12,3),l:array<struct<n:int,c:char(2)>>,"
    "m:map<string,struct<n:int,v:varchar(3)>>,p:map<int,array<double>>>"
)


def write_file(path: Path, schema: str, rows: int = 0) -> Path:
    with path.open("wb") as out, pyorc.Writer(out, schema) as writer:
        for number in range(rows):
            writer.write((number,))
    return path


def test_types_and_metadata_are_those_that_spark_infers(spark: SparkSession, tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.orc", PYORC)
    schema, rows = read_schema(str(path), LOCAL)
    expected = spark.read.orc(str(path)).schema
    assert schema == expected
    assert [field.metadata for field in schema.fields] == [field.metadata for field in expected.fields]
    assert rows == 0


def test_times_without_zone_and_unusual_names_have_the_types_that_spark_infers(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.sql(
        "SELECT timestamp_ntz'2020-01-01 00:00:00' ntz, 1 `a b`, 's' `x.y`, named_struct('größe', 2.5D) `c:<d>`"
    )
    rows.coalesce(1).write.orc(str(tmp_path / "t"))
    (path,) = (tmp_path / "t").glob("*.orc")
    assert read_schema(str(path), LOCAL) == (spark.read.orc(str(path)).schema, 1)


@pytest.mark.parametrize("schema", ["struct<u:uniontype<int,string>>", "struct<l:array<uniontype<int,string>>>"])
def test_types_that_only_spark_knows_are_rejected(tmp_path: Path, schema: str) -> None:
    with pytest.raises(BadSchemaError, match="uniontype"):
        read_schema(str(write_file(tmp_path / "a.orc", schema)), LOCAL)


def test_values_without_columns_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadSchemaError, match="without columns"):
        read_schema(str(write_file(tmp_path / "a.orc", "int")), LOCAL)


@pytest.mark.parametrize("names", [["x", "x"], ["x", "x", "y"]])
def test_columns_of_one_name_are_left_to_spark(tmp_path: Path, names: list[str]) -> None:
    """pyorc returns one of them."""
    path = tmp_path / "a.orc"
    orc.write_table(pa.Table.from_arrays([pa.array([1])] * len(names), names=names), path)
    with path.open("rb") as file:
        assert list(pyorc.Reader(file).schema.fields) == sorted(set(names))
    with pytest.raises(UnsafeInputError, match="two columns of one name"):
        read_schema(str(path), LOCAL)


def test_members_of_one_name_are_left_to_spark(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    members = pa.StructArray.from_arrays([pa.array([1]), pa.array(["s"])], names=["m", "m"])
    orc.write_table(pa.table({"s": members, "n": [1]}), path)
    with pytest.raises(UnsafeInputError, match="two columns of one name"):
        read_schema(str(path), LOCAL)


@pytest.mark.parametrize("content", [b"", b"ORC", b"ORC" + bytes(100), b"not an ORC file at all"])
def test_damaged_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"a\.orc"):
        read_schema(str(path), LOCAL)
