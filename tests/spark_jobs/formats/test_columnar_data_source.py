"""`pushdown_avro` and `pushdown_orc` as data sources of Spark, compared with Spark's own sources."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType
from spark_rows import sorted_rows

from pushdown_spark.contract import OrcOptions
from pushdown_spark.errors import BadSpecError, UnsafeInputError
from pushdown_spark.formats.avro import data_source as avro
from pushdown_spark.formats.orc import data_source as orc
from pushdown_spark.runtime.spark_internals import AVRO_CLASS as SPARK_AVRO

_COLUMNS = (
    "id",
    "CAST(id % 1000 AS INT) k",
    "date_add(DATE'2000-01-01', CAST(id / 1000 AS INT)) dd",
    "CAST(id AS DECIMAL(12, 2)) de",
    "IF(id % 7 = 0, NULL, id * 1.5D) x",
    "named_struct('a', id % 77, 'b', IF(id % 3 = 0, NULL, CAST(id AS STRING))) st",
    "timestamp_micros(id * 1000000) ts",
    "timestamp_ntz'2000-01-01 00:00:00' ntz",
    "unhex(hex(CAST(id % 10 AS TINYINT))) b",
    "array(id, id + 1) arr",
)


@dataclass(frozen=True)
class Format:
    """A columnar format: our source, Spark's source, and the table of the tests."""

    name: str
    spark_name: str
    register: Callable[[SparkSession], None]
    rows: int
    columns: tuple[str, ...]
    write_options: dict[str, str]


AVRO = Format("pushdown_avro", SPARK_AVRO, avro.register, 3_000, ("concat('n', id % 500) name",), {})
ORC = Format(
    "pushdown_orc",
    "orc",
    orc.register,
    20_000,
    ("concat('n', id % 5000) name", "map('k', id) m"),
    {"orc.row.index.stride": "1000"},
)


@dataclass(frozen=True)
class Table:
    """A table of one format."""

    spark: SparkSession
    format: Format
    path: str

    def ours(self, schema: str | None = None, **options: str) -> DataFrame:
        """Return the table, read by our source."""
        reader = self.spark.read.format(self.format.name).options(**options)
        return (reader if schema is None else reader.schema(schema)).load(self.path)

    def spark_frame(self) -> DataFrame:
        """Return the table, read by Spark's source."""
        return self.spark.read.format(self.format.spark_name).load(self.path)


@pytest.fixture(scope="module", params=[AVRO, ORC], ids=lambda param: param.name)
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    source_format: Format = request.param
    source_format.register(spark)
    path = str(tmp_path_factory.mktemp("data_source") / "with blank % and #")
    rows = spark.range(0, source_format.rows, 1, 2).selectExpr(*_COLUMNS, *source_format.columns)
    rows.write.format(source_format.spark_name).options(**source_format.write_options).save(path)
    return Table(spark, source_format, path)


def test_schema_is_the_schema_that_spark_infers(table: Table) -> None:
    assert table.ours().schema == table.spark_frame().schema


@pytest.mark.parametrize("predicate", ["x > -1.5 AND id < 30", "id = 5 OR name = 'n7'"])
def test_predicates_return_sparks_rows_without_filter_pushdown(table: Table, predicate: str) -> None:
    assert sorted_rows(table.ours().where(predicate)) == sorted_rows(table.spark_frame().where(predicate))


@pytest.mark.parametrize(
    "predicate",
    [
        "id = 5 OR name = 'n7'",
        "st.b LIKE '%99' AND k IN (99, 199)",
        "st.b LIKE '%99'",
        "k NOT IN (5, 1001) AND id < 1500 AND dd = DATE'2000-01-02'",
        "k IN (5, 1001) AND x IS NULL AND NOT (id = 5)",
        "de > 1990.5 AND x > -1.5 AND k <=> 999",
        "st.a = 3 AND id > 1000 AND name LIKE 'n4%' AND b = X'07'",
    ],
)
def test_option_where_returns_sparks_rows(table: Table, predicate: str) -> None:
    ours, spark_frame = table.ours(where=predicate), table.spark_frame().where(predicate)
    assert sorted_rows(ours) == sorted_rows(spark_frame)
    assert ours.count() == spark_frame.count()


def test_option_where_rejects_a_predicate_without_an_exact_filter(table: Table) -> None:
    with pytest.raises(PySparkException, match="option where"):
        table.ours(where="id = 5 AND arr[0] = 5").collect()


@pytest.mark.parametrize("predicate", [r"name = 'a\tb'", 'name = "n7"'])
def test_option_where_rejects_text_whose_meaning_depends_on_the_session(table: Table, predicate: str) -> None:
    with pytest.raises(PySparkException, match="have a meaning that depends on the session; use single quotes"):
        table.ours(where=predicate).collect()


def test_a_given_schema_selects_columns_and_missing_columns_are_null(table: Table) -> None:
    ours = table.ours("k INT, missing STRING, id BIGINT")
    assert [tuple(row) for row in ours.where("id = 1077").collect()] == [(77, None, 1077)]


def test_a_path_without_files_raises(table: Table, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="matches no file"):
        table.spark.read.format(table.format.name).load(str(tmp_path / "nothing")).collect()


def test_map_columns_of_avro_raise_unless_the_schema_leaves_them_out(spark: SparkSession, tmp_path: Path) -> None:
    avro.register(spark)
    spark.range(3).selectExpr("id", "map('k', id) m").write.format(SPARK_AVRO).save(str(tmp_path / "maps"))
    with pytest.raises(PySparkException, match="m is a map, whose entries"):
        spark.read.format("pushdown_avro").load(str(tmp_path / "maps")).collect()
    ours = spark.read.format("pushdown_avro").schema("id BIGINT").load(str(tmp_path / "maps"))
    assert sorted_rows(ours) == ["Row(id=0)", "Row(id=1)", "Row(id=2)"]


@pytest.mark.parametrize(("option", "used"), [("0", 0), ("4096", 4096), ("auto", OrcOptions().min_seek_size)])
def test_min_seek_size_is_used_as_given(option: str, used: int) -> None:
    source = orc.PushdownOrcSource({"path": "/data", "min_seek_size": option})
    assert source.scan_task(StructType([]), (), None).query.min_seek == used


def test_an_option_that_is_not_a_number_raises() -> None:
    source = orc.PushdownOrcSource({"path": "/data", "partial_reads": "-1"})
    with pytest.raises(BadSpecError, match="option partial_reads: '-1' is neither 'auto' nor a number"):
        source.reader(StructType([]))


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the time zone of the process during the test."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("zone", ["UTC", "Africa/Abidjan"], indirect=True)
def test_orc_timestamps_are_read_in_utc(zone: str) -> None:
    orc.PushdownOrcSource({"path": "/data"}).check_schema(StructType().add("t", TimestampType()))


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Europe/London"], indirect=True)
def test_orc_timestamps_need_a_zone_without_summer_time(zone: str) -> None:
    """Europe/London is called GMT in winter."""
    source = orc.PushdownOrcSource({"path": "/data"})
    with pytest.raises(UnsafeInputError, match="only in UTC"):
        source.check_schema(StructType().add("t", TimestampType()))
    source.check_schema(StructType())
