"""Two scans of one job that write to one place under two names, which is an error before any scan runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import JobSpec
from pushdown_spark.errors import BadSpecError
from pushdown_spark.job import JobRun


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a directory with a source `in`, and a link to itself."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"n": 1, "day": 2}\n')
    (tmp_path / "link").symlink_to(tmp_path)
    return tmp_path


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Return the directory of a database that is the current one."""
    location = tmp_path / "warehouse"
    spark.sql(f"CREATE DATABASE shared LOCATION '{location.as_uri()}'")
    spark.sql("USE shared")
    yield str(location)
    spark.sql("USE default")
    spark.sql("DROP DATABASE shared CASCADE")


def run(spark: SparkSession, lake: Path, *outputs: dict[str, object]) -> int | None:
    """Run a scan for each output. Return the number of their rows."""
    source = {"format": "json", "schema": "n INT, day INT", "path": [f"{lake}/in"]}
    scans = {f"s{number}": {"output": output} for number, output in enumerate(outputs)}
    spec = JobSpec.model_validate({"run_key": "run", "sources": dict.fromkeys(scans, source), "scans": scans})
    return JobRun(spec).run_queries(spark).rows


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions", "errorifexists"])
@pytest.mark.parametrize("other", ["{lake}/link/out", "{lake}/link/link/out/inside"])
def test_links_to_one_directory_are_an_error(spark: SparkSession, lake: Path, mode: str, other: str) -> None:
    outputs = [
        {"path": path, "format": "json", "mode": mode, "partition_by": ["day"]}
        for path in (f"{lake}/out", other.format(lake=lake))
    ]
    with pytest.raises(BadSpecError, match="scans: 's0' and 's1' write to one place"):
        run(spark, lake, *outputs)
    assert not (lake / "out").exists()


def test_links_to_one_directory_may_both_append(spark: SparkSession, lake: Path) -> None:
    paths = (f"{lake}/out", f"{lake}/link/out")
    assert run(spark, lake, *({"path": path, "format": "json", "mode": "append"} for path in paths)) == 2
    assert spark.read.json(str(lake / "out")).count() == 2


@pytest.mark.parametrize("name", ["shared.t", "T", "spark_catalog.shared.t", "`t`"])
def test_two_names_of_one_table_are_an_error(spark: SparkSession, lake: Path, database: str, name: str) -> None:
    with pytest.raises(BadSpecError, match=r"write to one place \(t, "):
        run(spark, lake, *({"catalog_table": table, "mode": "overwrite"} for table in ("t", name)))
    assert not spark.catalog.tableExists("shared.t")
    outputs = [{"catalog_table": table, "mode": "append"} for table in ("t", name)]
    assert run(spark, lake, *outputs) == 2
    assert spark.table("shared.t").count() == 2


def test_a_directory_and_its_table_are_an_error(spark: SparkSession, lake: Path, database: str) -> None:
    for path in (f"{database}/t", f"{database}/t/day=1", database):
        with pytest.raises(BadSpecError, match="write to one place"):
            run(spark, lake, {"path": path, "mode": "overwrite"}, {"catalog_table": "t", "mode": "overwrite"})
    outputs = [{"catalog_table": "t", "mode": "overwrite"}, {"path": f"{database}/u", "mode": "overwrite"}]
    assert run(spark, lake, *outputs) == 2
