"""`spark.read.format("pushdown_avro")`: Avro files by the pushdown reader. See `formats.columnar_data_source`."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.formats.avro.avro_schema import INTERVAL_MARK, parse_schema, spark_schema
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.avro.file_reader import AvroScanTask
from pushdown_spark.formats.avro.planner import container_files
from pushdown_spark.formats.columnar_data_source import ColumnarSource, drop_counts
from pushdown_spark.formats.readable_types import arrow_schema
from pushdown_spark.scan.packing import Task
from pushdown_spark.sources.stores.listing import InputFile


def register(spark: SparkSession) -> None:
    """Register the format in a session."""
    spark.dataSource.register(PushdownAvroSource)


class PushdownAvroSource(ColumnarSource):
    """Local Avro files whose blocks are skipped by their bytes.

    Options:

    - `path`: a file, a directory or a glob.
    - `where`: a predicate that all rows pass.
    - `case_sensitive`: true or false. Spark does not pass its setting of that name to such a source.

    Only the columns of the given schema are decoded.
    """

    format_name = "pushdown_avro"
    known_options = ("path", "where", "case_sensitive")

    def files(self) -> tuple[InputFile, ...]:
        """Return the files to read."""
        return container_files(super().files(), allows_any_extension=True)

    def scan_task(self, schema: t.StructType, tasks: tuple[Task, ...], row_filter: ArrowFilter | None) -> AvroScanTask:
        """Return a function that reads the columns of a schema."""
        query = AvroQuery(arrow_schema(schema.fields), row_filter, name_rule=self.name_rule)
        return AvroScanTask(tasks, query, drop_counts)

    def schema(self) -> t.StructType:
        """Return the columns of the first file, as Spark infers them."""
        file, *_ = self.files_with_schema()
        text = read_header(file.path, file.storage).schema
        if INTERVAL_MARK in text:
            raise BadSpecError("the files hold intervals, which only Spark reads; use format('avro')")
        return spark_schema(parse_schema(text))
