"""Files read with another schema than the writer's return the rows of Spark's own Avro source."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from avro_comparison import AvroComparison, rows_of
from avro_evolve import evolve_schema
from avro_files import AVRO, by_fastavro, random_table, records_of, schema_of
from columnar_cases import case_over, check_seeds
from pyspark.sql import SparkSession
from seeds import few_and_many
from spark_results import SPARK_ERRORS

from pushdown_spark.errors import PushdownError, UnsafeInputError
from pushdown_spark.formats.avro.avro_schema import parse_schema, spark_schema
from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.readable_types import arrow_schema

ROWS = 200
SCHEMAS = 4
"""Reader schemas for each table."""
Avro = str | list[str]
REFUSED = "Spark refuses"


def check_schema(comparison: AvroComparison, rng: random.Random, directory: Path, schema: str) -> None:
    """Check one reader schema with many predicates, each with some columns."""
    tally = comparison.tally
    try:
        frame = comparison.spark.read.format(AVRO).option("avroSchema", schema).load(str(directory))
    except SPARK_ERRORS:
        tally[REFUSED] += 1
        return
    try:
        case = case_over(rng, frame, frame.schema, directory, schema, "avro")
    except UnicodeDecodeError:
        # Spark makes strings of any bytes, which Python cannot show.
        tally["strings that are no UTF-8"] += 1
        return
    if case is not None:
        comparison.reader_schema = schema
        comparison.check_scans(rng, case)
        return
    tally[REFUSED] += 1
    query = AvroQuery(arrow_schema(spark_schema(parse_schema(schema)).fields), None, schema)
    with pytest.raises(PushdownError):
        rows_of(query, directory, 1 << 27, [])


def check_case(comparison: AvroComparison, rng: random.Random, directory: Path) -> None:
    table = random_table(rng)
    writer = schema_of(table)
    by_fastavro(rng, directory / "a.avro", writer, records_of(rng, table, ROWS))
    for _ in range(SCHEMAS):
        reader = json.dumps(evolve_schema(rng, writer, rng.choice((0.0, 0.0, 0.0, 0.05))))
        check_schema(comparison, rng, directory, reader)


@pytest.mark.parametrize("cases", few_and_many(1, 150))
def test_reader_schemas_return_sparks_rows(spark: SparkSession, cases: int) -> None:
    comparison = AvroComparison(spark)
    check_seeds(cases, lambda _, rng, directory: check_case(comparison, rng, directory))
    comparison.check_compared()


@pytest.mark.parametrize("written", [["null", "string"], ["string", "null"], "null", ["null"]], ids=json.dumps)
@pytest.mark.parametrize("read", ["string", ["string"]], ids=json.dumps)
def test_nulls_that_the_reader_schema_does_not_allow_raise(
    spark: SparkSession, tmp_path: Path, written: Avro, read: Avro
) -> None:
    """Spark fails at the first null. The pushdown reader uses Spark's for these files, because they may have none."""
    by_fastavro(random.Random(1), tmp_path / "a.avro", _with_column(written), [{"row": 1, "c": None}])
    schema = json.dumps(_with_column(read))
    with pytest.raises(SPARK_ERRORS):
        spark.read.format(AVRO).option("avroSchema", schema).load(str(tmp_path)).collect()
    query = AvroQuery(arrow_schema(spark_schema(parse_schema(schema)).fields), None, schema)
    with pytest.raises(UnsafeInputError, match="c may be null in the file and not in the reader's schema"):
        rows_of(query, tmp_path, 1 << 27, [])


def _with_column(kind: Avro) -> dict[str, object]:
    fields = [{"name": "row", "type": "long"}, {"name": "c", "type": kind}]
    return {"type": "record", "name": "table", "fields": fields}
