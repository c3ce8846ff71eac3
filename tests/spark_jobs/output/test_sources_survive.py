"""A job is rejected if its output would delete files that it reads, however source and output are spelled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdfs_server import run_server
from pyspark.sql import SparkSession

from pushdown_spark.contract import JobSpec, SecretValues
from pushdown_spark.errors import BadSpecError
from pushdown_spark.job import JobRun
from pushdown_spark.query_run import ClassicQueryRun, QueryRun, SharedApplication

ROW = '{"n": 1, "day": 1}\n'


def run(spark: SparkSession, source: dict[str, object], output: dict[str, object]) -> int | None:
    if "path" in source:
        paths = source["path"] if isinstance(source["path"], list) else [source["path"]]
        source = {"format": "json", "schema": "n INT, day INT", **source, "path": paths}
    output = {"format": "json", "mode": "overwrite", **output}
    job = {"run_key": "run", "sources": {"s": source}, "query": {"source": "s"}, "output": output}
    return ClassicQueryRun(SharedApplication(spark), JobSpec.model_validate(job), SecretValues()).run()


def write(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(ROW)


def content(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def check_rejected(spark: SparkSession, lake: Path, source: dict[str, object], output: dict[str, object]) -> None:
    before = content(lake)
    with pytest.raises(BadSpecError, match="would delete"):
        run(spark, source, output)
    assert content(lake) == before


SOURCES = [
    "{lake}/raw/events",
    "{lake}/raw/events/",
    "file:{lake}/raw/events",
    "file://{lake}/raw//events/a.json",
    "{lake}/other/../raw/events",
    "{lake}/*/events",
    "{lake}/r?w/events/*.json",
    "{lake}/[p-r]aw/events",
    "{lake}/[!o]*/events",
    "{lake}/{{raw,other}}/events",
    "{lake}/{{other/events,raw/events}}/*.json",
    "{lake}/ra\\w/events",
    "{lake}/raw/*",
    "{lake}/raw/*/a.json",
    "{lake}/raw/{{events,clicks}}",
    "{lake}/*",
    "{lake}/*w",
    "{lake}/raw/*/day=1",
    "{relative}/*/events",
    "{relative}/raw/events",
    "{lake}/link",
    "{lake}/links",
    "{lake}/links/*",
    "{above}/*/raw/events",
    "/*/{below_root}/raw/events",
]
OUTPUTS = ["{lake}/raw", "{lake}/raw/", "file://{lake}/other/../raw", "{relative}/raw", "{lake}/same/raw"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lake = tmp_path / "lake"
    write(
        lake / "raw" / "b.json",
        lake / "raw" / "events" / "a.json",
        lake / "raw" / "events" / "day=1" / "part-0.json",
        lake / "other" / "events" / "a.json",
    )
    (lake / "link").symlink_to(lake / "raw" / "events")
    (lake / "links").mkdir()
    (lake / "links" / "a.json").symlink_to(lake / "raw" / "events" / "a.json")
    (lake / "same").symlink_to(lake)
    return lake


def spelled_path(lake: Path, path: str) -> str:
    # The JVM's working directory cannot change, so relative paths start with "..".
    below_root = "/".join(lake.parts[2:])
    return path.format(lake=lake, above=lake.parent, relative=os.path.relpath(lake), below_root=below_root)


@pytest.mark.parametrize("source", SOURCES)
def test_overwrite_is_rejected_if_it_would_delete_a_source(spark: SparkSession, lake: Path, source: str) -> None:
    check_rejected(spark, lake, {"path": spelled_path(lake, source)}, {"path": f"{lake}/raw"})


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("source", ["{lake}/raw/events", "{lake}/*/events", "{lake}/link"])
def test_overwrite_is_rejected_for_each_spelling_of_the_output(
    spark: SparkSession, lake: Path, source: str, output: str
) -> None:
    check_rejected(spark, lake, {"path": spelled_path(lake, source)}, {"path": spelled_path(lake, output)})


@pytest.mark.parametrize("reader", ["auto", "spark", "pushdown"])
def test_overwrite_is_rejected_for_each_reader(spark: SparkSession, lake: Path, reader: str) -> None:
    check_rejected(spark, lake, {"path": f"{lake}/*/events", "reader": reader}, {"path": f"{lake}/raw"})


def test_overwrite_is_rejected_if_the_second_path_of_a_source_is_in_it(spark: SparkSession, lake: Path) -> None:
    paths = [f"{lake}/other/events", f"{lake}/raw/ev*"]
    check_rejected(spark, lake, {"path": paths}, {"path": f"{lake}/raw"})


def test_overwrite_is_rejected_below_a_source_that_is_read_recursively(spark: SparkSession, lake: Path) -> None:
    source: dict[str, object] = {"path": str(lake), "options": {"recursiveFileLookup": "true"}}
    check_rejected(spark, lake, source, {"path": f"{lake}/raw"})


@pytest.mark.parametrize(
    "source",
    ["{lake}/other/events", "{lake}/oth*/events", "{lake}/other/*", "{lake}/{{other,missing}}/events", "{lake}/links*"],
)
def test_overwrite_may_read_other_directories(spark: SparkSession, lake: Path, source: str) -> None:
    (lake / "links" / "a.json").unlink()
    write(lake / "links" / "a.json")
    assert run(spark, {"path": spelled_path(lake, source)}, {"path": f"{lake}/raw"}) == 1


@pytest.mark.parametrize(
    "source", ["{out}", "{out}/", "{out}/*", "{out}/day=*", "{out}/*/*.json", "{out}/day=[1]/part-*"]
)
def test_overwrite_may_read_the_output(spark: SparkSession, tmp_path: Path, source: str) -> None:
    out = tmp_path / "out"
    write(out / "day=1" / "part-0.json")
    if source in ("{out}", "{out}/"):
        (out / ".latest").symlink_to(out / "day=1")
    output: dict[str, object] = {"path": str(out), "partition_by": ["day"]}
    assert run(spark, {"path": source.format(out=out)}, output) == 1
    (part,) = out.glob("day=1/part-*.json")
    assert part.name != "part-0.json"


def test_overwrite_of_a_partition_may_read_the_table(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "day=1" / "part-0.json", tmp_path / "day=2" / "part-0.json")
    assert run(spark, {"path": str(tmp_path)}, {"path": f"{tmp_path}/day=2"}) == 2


@pytest.mark.parametrize("output", ["{lake}/day=1/raw", "{lake}/raw"])
def test_overwrite_is_rejected_in_a_directory_that_spark_reads_as_partitions(
    spark: SparkSession, tmp_path: Path, output: str
) -> None:
    directory = Path(output.format(lake=tmp_path))
    write(directory / "day=1" / "part-0.json")
    check_rejected(spark, tmp_path, {"path": str(tmp_path)}, {"path": str(directory)})


def test_overwrite_may_write_below_the_files_of_a_source(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.json", tmp_path / "out" / "part-0.json")
    assert run(spark, {"path": str(tmp_path)}, {"path": f"{tmp_path}/out"}) == 1


@pytest.mark.parametrize("source", ["{lake}/day=1/raw", "{lake}/*/raw", "{lake}/day=1/a.json", "{above}/*/day=1"])
def test_overwrite_of_partitions_is_rejected_if_one_of_them_has_the_source(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    lake = tmp_path / "lake"
    write(lake / "day=1" / "raw" / "a.json", lake / "day=1" / "a.json")
    output: dict[str, object] = {"path": str(lake), "mode": "overwrite_partitions", "partition_by": ["day"]}
    check_rejected(spark, lake, {"path": source.format(lake=lake, above=tmp_path)}, output)


@pytest.mark.parametrize("source", ["{lake}/day=2/raw", "{lake}/day=1", "{lake}/day=1/*"])
def test_overwrite_of_partitions_may_read_others_and_the_output(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    write(tmp_path / "day=2" / "raw" / "a.json", tmp_path / "day=1" / "part-0.json")
    output: dict[str, object] = {"path": str(tmp_path), "mode": "overwrite_partitions", "partition_by": ["day"]}
    assert run(spark, {"path": source.format(lake=tmp_path)}, output) == 1
    assert (tmp_path / "day=2" / "raw" / "a.json").exists()


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Create a database whose table `t` has the rows below `day=1`, and drop it afterwards."""
    spark.sql(f"CREATE DATABASE survivors LOCATION '{tmp_path.as_uri()}/db'")
    yield tmp_path
    spark.sql("DROP DATABASE survivors CASCADE")


@pytest.mark.parametrize(
    "view",
    [
        "SELECT * FROM survivors.s",
        "SELECT 1 AS n, 1 AS day WHERE 1 IN (SELECT n FROM survivors.s)",
        "SELECT (SELECT max(n) FROM survivors.s) AS n, 1 AS day",
        "SELECT n, day FROM json.`{lake}/*/events/*.json`",
    ],
)
def test_overwrite_is_rejected_if_it_would_delete_a_table(
    spark: SparkSession, tables: Path, lake: Path, view: str
) -> None:
    spark.sql(f"CREATE TABLE survivors.s (n INT, day INT) USING json LOCATION '{lake.as_uri()}/raw/events'")
    spark.sql(f"CREATE VIEW survivors.v AS {view.format(lake=lake)}")
    check_rejected(spark, lake, {"format": "table", "table": "survivors.v"}, {"path": f"{lake}/raw"})


@pytest.mark.parametrize("provider", ["json", "hive"])
def test_overwrite_is_rejected_if_it_would_delete_a_partition_elsewhere(
    spark: SparkSession, tables: Path, lake: Path, provider: str
) -> None:
    if provider == "hive" and spark.conf.get("spark.sql.catalogImplementation") != "hive":
        pytest.skip("needs a Hive metastore, as in test_catalog_hive.py")
    columns = "n INT, day INT"
    spark.sql(
        f"CREATE TABLE survivors.s ({columns}) USING {provider} PARTITIONED BY (day) LOCATION '{tables.as_uri()}/s'"
    )
    spark.sql(f"ALTER TABLE survivors.s ADD PARTITION (day = 1) LOCATION '{lake.as_uri()}/raw/events'")
    check_rejected(spark, lake, {"format": "table", "table": "survivors.s"}, {"path": f"{lake}/raw"})


def test_escaped_glob_characters_are_plain_ones(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "raw[1]" / "events" / "a.json")
    source: dict[str, object] = {"path": rf"{tmp_path}/raw\[1\]/events/*.json"}
    check_rejected(spark, tmp_path, source, {"path": f"{tmp_path}/raw[1]"})


@pytest.mark.parametrize("other", ["{lake}/raw/events", "{lake}/link", "{lake}/raw"])
def test_overwrite_is_rejected_if_it_would_delete_the_source_of_another_scan(
    spark: SparkSession, lake: Path, other: str
) -> None:
    scan = scan_beside(spark, lake, {"format": "json", "path": [spelled_path(lake, other)]})
    before = content(lake)
    with pytest.raises(BadSpecError, match="would delete"):
        scan.run()
    assert content(lake) == before


@pytest.mark.parametrize(
    "other",
    [
        {"format": "json", "path": ["s3a://unreachable/*"]},
        {"format": "json", "path": ["hdfs://unreachable:1/lake/raw"]},
        {"format": "table", "table": "missing"},
    ],
)
def test_unreachable_source_of_another_scan_does_not_matter(
    spark: SparkSession, lake: Path, other: dict[str, object]
) -> None:
    assert scan_beside(spark, lake, other).run() == 1


def test_overwrite_is_rejected_if_it_would_delete_the_output_of_another_scan(spark: SparkSession, lake: Path) -> None:
    output = {"path": f"{lake}/link", "format": "json", "mode": "append"}
    scan = scan_beside(spark, lake, {"format": "json", "path": [f"{lake}/other"]}, output)
    with pytest.raises(BadSpecError, match="would delete the output of another scan"):
        scan.run()


def scan_beside(
    spark: SparkSession, lake: Path, other: dict[str, object], output: dict[str, object] | None = None
) -> QueryRun:
    """Return a scan that overwrites `raw`, in a job with another scan of the given source and output."""
    own = {"format": "json", "schema": "n INT, day INT", "path": [f"{lake}/other/events"]}
    scans = {"own": {"output": {"path": f"{lake}/same/raw", "format": "json", "mode": "overwrite"}}}
    scans["other"] = {} if output is None else {"output": output}
    spec = JobSpec.model_validate({"run_key": "run", "sources": {"own": own, "other": other}, "scans": scans})
    return JobRun(spec).query_runs(spark)["own"]


@pytest.mark.parametrize("replaced", [{"mode": "overwrite"}, {}, {"replace_where": "day > 0"}])
@pytest.mark.parametrize("source", ["{table}/day=1/raw", "{above}/*/day=1/raw/*.json", "{above}/*/day=[12]"])
def test_overwrite_of_a_table_is_rejected_if_it_would_delete_a_source(
    spark: SparkSession, tables: Path, source: str, replaced: dict[str, object]
) -> None:
    table = tables / "table"
    spark.sql(f"CREATE TABLE survivors.t (n INT, day INT) USING json PARTITIONED BY (day) LOCATION '{table.as_uri()}'")
    write(table / "day=1" / "part-0.json", table / "day=1" / "raw" / "a.json")
    spark.sql("ALTER TABLE survivors.t ADD PARTITION (day = 1)")
    output: dict[str, object] = {"catalog_table": "survivors.t", "mode": "overwrite_partitions", **replaced}
    check_rejected(spark, table, {"path": source.format(table=table, above=tables)}, output)


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
def test_overwrite_of_a_table_may_read_the_table(spark: SparkSession, tables: Path, mode: str) -> None:
    table = tables / "table"
    spark.sql(f"CREATE TABLE survivors.t (n INT, day INT) USING json PARTITIONED BY (day) LOCATION '{table.as_uri()}'")
    write(table / "day=1" / "part-0.json")
    spark.sql("ALTER TABLE survivors.t ADD PARTITION (day = 1)")
    assert run(spark, {"format": "table", "table": "survivors.t"}, {"catalog_table": "survivors.t", "mode": mode}) == 1
    (part,) = table.glob("day=1/part-*.json")
    assert part.name != "part-0.json"


@pytest.mark.nightly
def test_overwrite_is_rejected_under_another_name_of_the_name_node(spark: SparkSession, tmp_path: Path) -> None:
    with run_server(tmp_path) as root:
        same = root.replace("localhost", "127.0.0.1")
        spark.sql("SELECT 1 AS n, 1 AS day").write.json(f"{root}/lake/raw/events")
        for path in ("lake/*/events", "lake/r?w/events/*.json", "lake/raw"):
            source: dict[str, object] = {"path": f"{root}/{path}", "options": {"recursiveFileLookup": "true"}}
            with pytest.raises(BadSpecError, match="would delete"):
                run(spark, source, {"path": f"{same}/lake/raw/events"})
        assert run(spark, {"path": f"{root}/lake/raw/events"}, {"path": f"{same}/lake/raw/events"}) == 1
        assert run(spark, {"path": f"{root}/lake/raw/events/*.json"}, {"path": f"{root}/lake/raw/events"}) == 1
        assert run(spark, {"path": f"{root}/lake/raw/events"}, {"path": f"{same}/lake/new"}) == 1
