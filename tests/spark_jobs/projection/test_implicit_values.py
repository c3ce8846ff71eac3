"""Values of implicit columns: Spark's expressions equal those of the listing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.projection.file_locations import directories, location, max_depth, root_of, scan_root
from pushdown_spark.projection.implicit_columns import BUILT_IN, BUILT_IN_NAMES, BuiltInColumns, FileMetadata
from pushdown_spark.projection.implicit_values import spark_expression


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("s3a://events/2026/*/*.json", "s3a://events/2026"),
        ("s3a://events/20{25,26}/a.json", "s3a://events"),
        ("/data/in", "/data/in"),
        ("file:///data/in/", "/data/in"),
        ("file:/data/x?.json", "/data"),
        ("/*.json", "/"),
        ("*.json", ""),
    ],
)
def test_the_scan_root_is_the_directory_before_the_first_glob(path: str, root: str) -> None:
    assert scan_root(path) == root


def test_the_scan_root_of_a_file_is_its_parent() -> None:
    assert scan_root("/data/in/a.json", is_file=True) == "/data/in"
    assert scan_root("hdfs://nn/a.json", is_file=True) == "hdfs://nn"


def builtin_values(path: str, root: str) -> dict[str, object]:
    """Return the values of the built-in columns for a file of one byte."""
    family = BuiltInColumns()
    metadata = FileMetadata(location(path), directories(path, root), 1, datetime(2026, 1, 2, tzinfo=UTC))
    columns = [family.column(name) for name in (*BUILT_IN_NAMES, "dir0", "dir1", "dir2")]
    return {column.name: family.value(column, metadata) for column in columns if column is not None}


def test_columns_of_an_object_have_the_parts_of_its_uri() -> None:
    assert builtin_values("s3a://events/2026/01/a b.json.gz", "s3a://events/2026") == {
        "filename": "a b.json.gz",
        "filepath": "s3a://events/2026/01",
        "fqn": "s3a://events/2026/01/a b.json.gz",
        "suffix": "gz",
        "modified": datetime(2026, 1, 2, tzinfo=UTC),
        "size": 1,
        "dir0": "01",
        "dir1": None,
        "dir2": None,
    }


def test_files_outside_the_source_have_no_directories_of_it() -> None:
    plain = builtin_values("file:/plain", "/")
    assert (plain["filename"], plain["filepath"], plain["fqn"], plain["suffix"]) == ("plain", "/", "/plain", None)
    assert builtin_values("/database/x/a.json", "/data")["dir0"] is None


def test_the_root_of_a_file_is_the_deepest_root_that_contains_it() -> None:
    files = ["/d/a.json", "/d/x/y/b.json", "/e/z/c.json"]
    assert max_depth(files, ["/d", "file:///e"]) == 2
    assert max_depth(files, ["/d/x", "/d", "/e"]) == 1
    assert max_depth([], ["/d"]) == 0
    assert root_of("/d/x/y/b.json", ["/d", "/d/x", "/d/xy"]) == "/d/x"
    assert root_of("/f/b.json", ["/d"]) is None


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("predicate", "names"),
    [
        ("FileName = 'a' AND dir1 > '2' OR dir1 IS NULL", ("filename", "dir1")),
        ("e.suffix = 'gz'", ("suffix",)),
        ("dir0.x = 1", ()),
        ("event.filename = 'x' AND e.event.fqn = 'y'", ()),
        ("filepath = 'own'", ()),
        ("dir01 = 1 AND dirx = 2", ()),
    ],
)
def test_a_predicate_refers_to_implicit_columns_only_by_names_that_the_schema_lacks(
    predicate: str, names: tuple[str, ...]
) -> None:
    schema = StructType.fromDDL("id int, event struct<filename:string>, FilePath string")
    assert BUILT_IN.references(sqlglot.parse_one(predicate, read="spark"), schema) == names


UNUSUAL_PATHS = [
    "plain.json",
    "with blank/a b.json",
    "per%41cent/100%/plus+sign.tar.json",
    "ümläut/日本/é.json",
    "key=007/q'uote/back#hash/x.json",
]


def test_spark_expressions_equal_builtin_values(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "it's a root+%20"
    for place in UNUSUAL_PATHS:
        file = root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"place": place}) + "\n")
    roots = [str(tmp_path), f"file://{root}"]
    names = (*BUILT_IN_NAMES, "dir0", "dir1", "dir2")
    frame = spark.read.option("recursiveFileLookup", True).schema("place string").json(str(root))
    rows = frame.selectExpr("place", *(f"{spark_expression(name, roots)} AS {name}" for name in names)).collect()
    actual = {row["place"]: {k: v for k, v in row.asDict().items() if k != "place"} for row in rows}
    for place in UNUSUAL_PATHS:
        status = (root / place).stat()
        modified = datetime.fromtimestamp(status.st_mtime_ns // 1_000_000 / 1000, UTC).replace(tzinfo=None)
        itself = {"size": status.st_size, "modified": modified}
        assert actual[place] == builtin_values(f"{root}/{place}", str(root)) | itself


def test_directories_without_roots_are_null() -> None:
    assert spark_expression("dir7", []) == "CAST(NULL AS STRING)"


def test_directories_outside_all_roots_are_null(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}\n")
    expressions = [spark_expression(name, ["/somewhere/else"]) for name in ("dir0", "filename")]
    row = spark.read.schema("x int").json(str(tmp_path)).selectExpr(*expressions).first()
    assert row is not None
    assert tuple(row) == (None, "a.json")


def test_location_drops_the_local_scheme_only() -> None:
    assert [location(p) for p in ("file:///a/", "/", "hdfs://nn/a", "file:/")] == ["/a", "/", "hdfs://nn/a", "/"]
