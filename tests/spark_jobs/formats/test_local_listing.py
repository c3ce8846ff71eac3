"""`pushdown_orc` and `pushdown_avro` read the files that Spark's own sources read, or raise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.errors import BadSpecError
from pushdown_spark.formats.data_source_options import check_options, list_local_files
from pushdown_spark.formats.orc.data_source import register

HERE = ["a.orc", "_k=1.orc"]
ELSEWHERE = [
    "_temporary/b.orc",
    ".stage/b.orc",
    "deeper/b.orc",
    "_hidden.orc",
    "_metadata.orc",
    ".hidden.orc",
    "copied.orc._COPYING_",
    "_hidden/k=1/b.orc",
]


def write_files(spark: SparkSession, directory: Path, names: list[str]) -> Path:
    """Write files of one row each, which is the number of the file."""
    for number, name in enumerate(names):
        parts = directory.with_name(f"{directory.name}-{number}")
        spark.range(number, number + 1, 1, 1).selectExpr("id AS Number").write.orc(str(parts))
        (file,) = parts.glob("*.orc")
        place = directory / name
        place.parent.mkdir(parents=True, exist_ok=True)
        file.rename(place)
    return directory


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(str, frame.collect()))


def test_directories_are_read_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    table = write_files(spark, tmp_path / "table", [*HERE, *ELSEWHERE])
    for path in (table, table / "deeper", table / "*.orc"):
        actual = rows(spark.read.format("pushdown_orc").load(str(path)))
        assert actual == rows(spark.read.orc(str(path)))
        assert len(actual) == len(HERE) or path != table


@pytest.mark.parametrize(
    ("name", "path", "options", "message"),
    [
        ("k=1/a.orc", "", {}, "is a partition directory"),
        ("deeper/k=1/a.orc", "", {}, "is a partition directory"),
        ("a.orc", "{a,b}.orc", {}, "does not support '{' in paths"),
        ("a.orc", "[^b].orc", {}, "in paths"),
        ("a.orc", "", {"pathGlobFilter": "*.txt"}, "option pathglobfilter"),
        ("a.orc", "", {"modifiedBefore": "2020-01-01"}, "option modifiedbefore"),
        ("a.orc", "", {"case_sensitive": "yes"}, "neither true nor false"),
    ],
)
def test_unsupported_paths_and_options_raise(
    spark: SparkSession, tmp_path: Path, name: str, path: str, options: Mapping[str, str], message: str
) -> None:
    register(spark)
    place = write_files(spark, tmp_path / "table", [name]) / path
    with pytest.raises(PySparkException, match=message):
        spark.read.format("pushdown_orc").options(**options).load(str(place)).collect()


@pytest.mark.parametrize("case_sensitive", ["true", "false"])
def test_the_option_case_sensitive_controls_name_matching(
    spark: SparkSession, tmp_path: Path, case_sensitive: str
) -> None:
    register(spark)
    table = str(write_files(spark, tmp_path / "table", ["a.orc", "b.orc"]))
    source = spark.read.format("pushdown_orc").schema("number bigint").option("case_sensitive", case_sensitive)
    actual = rows(source.option("where", "number >= 0 OR number IS NULL").load(table))
    before = spark.conf.get("spark.sql.caseSensitive")
    try:
        spark.conf.set("spark.sql.caseSensitive", case_sensitive)
        assert actual == rows(spark.read.schema("number bigint").orc(table))
    finally:
        spark.conf.set("spark.sql.caseSensitive", before)


def test_invalid_paths_and_options_raise_bad_spec(tmp_path: Path) -> None:
    with pytest.raises(BadSpecError, match="needs a path"):
        list_local_files("pushdown_avro", {})
    with pytest.raises(BadSpecError, match="is not local"):
        list_local_files("pushdown_avro", {"path": "s3://bucket/table"})
    with pytest.raises(BadSpecError, match="option mode: format 'pushdown_avro' supports only path, where"):
        check_options("pushdown_avro", {"mode": "PERMISSIVE"}, ("path", "where"))
