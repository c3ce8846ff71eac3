"""Queries that read Spark's column `_metadata` return the rows that Spark returns for the paths of the files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

FORMATS = ("json", "csv", "avro", "orc", "parquet")
QUERIES = {
    "a member": "SELECT _metadata.file_name FROM {a} WHERE k > 3",
    "all members": "SELECT _metadata.* FROM {a}",
    "another case": "SELECT _METADATA.File_Name AS f, k FROM {a}",
    "quoted": "SELECT `_metadata`.`file_path` FROM {a}",
    "with a star": "SELECT *, _metadata.file_size FROM {a} WHERE x > 1.5",
    "in WHERE alone": "SELECT * FROM {a} WHERE _metadata.file_name LIKE '%.%' AND x <> 2 AND _metadata.file_size > 0",
    "one file": "SELECT k FROM {a} WHERE _metadata.file_name = (SELECT max(_metadata.file_name) FROM {a})",
    "qualified": "SELECT q._metadata.file_name, q.k FROM {a} AS q WHERE q.x = 2.5 OR q.k < 3",
    "in a sub-query": "SELECT _metadata.file_name, x FROM (SELECT * FROM {a}) WHERE k = 2",
    "in GROUP BY": "SELECT _metadata.file_name, count(*) FROM {a} GROUP BY _metadata.file_name HAVING count(*) > 1",
    "in ORDER BY": "SELECT k FROM {a} ORDER BY _metadata.file_name, k LIMIT 5",
    "in a CTE": "WITH w AS (SELECT _metadata.file_name AS f, k FROM {a}) SELECT * FROM w WHERE k > 5",
    "of a join": "SELECT p._metadata.file_name, q._metadata.file_size, y FROM {a} p JOIN {b} q ON p.k = q.k AND x > 1",
    "in ON": "SELECT p.k FROM {a} p LEFT JOIN {b} q ON p._metadata.file_size <= q._metadata.file_size",
    "of one side of a join": "SELECT p._metadata.file_name, q.* FROM {a} p JOIN {b} q USING (k)",
    "of a union": "SELECT _metadata.file_size FROM {a} UNION ALL SELECT _metadata.file_size FROM {b}",
    "a name that nothing has": "SELECT _metadata.nothing FROM {a}",
    "above a projection that renames": "SELECT _metadata.file_name FROM (SELECT k AS j FROM {a} GROUP BY k)",
    "a literal": "SELECT '_metadata' AS s, k FROM {a} WHERE k < 2",
}


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("metadata")
    numbers = spark.range(9).repartition(2, "id")
    tables = {
        "a": numbers.selectExpr("id AS k", "id / 2 AS x", "concat('t', id) AS t").write,
        "b": numbers.selectExpr("id AS k", "id + 1 AS y", "id % 2 AS part").write.partitionBy("part"),
    }
    for source_format in FORMATS:
        for table, writer in tables.items():
            # Other formats ignore the header of CSV files.
            writer.option("header", "true").format(spark_format(source_format)).save(str(root / source_format / table))
    return root


def _rows(frame: DataFrame) -> tuple[list[str], Counter[str]]:
    return frame.columns, Counter(str(row) for row in frame.collect())


def _expected(spark: SparkSession, root: Path, source_format: str, query: str) -> tuple[list[str], Counter[str]] | None:
    """Return the rows of Spark's query for the paths, or None if the query is wrong."""
    options = " WITH (header = true, inferSchema = true)" if source_format == "csv" else ""
    names = {table: f"`{spark_format(source_format)}`.`{root / source_format / table}`{options}" for table in "ab"}
    try:
        return _rows(spark.sql(query.format(**names)))
    except AnalysisException:
        return None


@pytest.mark.parametrize("source_format", FORMATS)
@pytest.mark.parametrize("name", QUERIES)
def test_queries_for_the_file_of_a_row(spark: SparkSession, root: Path, name: str, source_format: str) -> None:
    expected = _expected(spark, root, source_format, QUERIES[name])
    options = {"header": "true", "inferSchema": "true"} if source_format == "csv" else {}
    query = QUERIES[name].format(a="a", b="b")
    for reader in ReaderChoice:
        session = PushdownSession(spark)
        for table in ("a", "b"):
            path = str(root / source_format / table)
            session.add_source(table, path=path, format=source_format, reader=reader.value, options=options)
        if expected is None:
            with pytest.raises((UnknownColumnError, BadSpecError)):
                session.sql(query)
            continue
        result = session.sql(query)
        assert _rows(result.df) == expected
        assert result.run(_rows) == expected
        is_read = name != "a literal"
        assert not is_read or all(report.reader == "spark" for report in result.report().values())
