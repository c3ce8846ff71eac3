"""The parts of PySpark's and Spark's internals that this package uses. ARCHITECTURE.md lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Thread
from typing import TYPE_CHECKING

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql.types import DataType, StructType

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.session_settings import RequiredSetting, is_enabled
from pushdown_spark.runtime.jvm_gateway import has_jvm, java_class, java_list, scala_map

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_ARGUMENT_BYTES = 256 << 10
"""The size limit of an argument, which py4j transfers as text."""

AVRO_CLASS = "org.apache.spark.sql.avro.AvroFileFormat"
"""The class of the source, which is part of Spark. Only the jar `spark-avro` registers its short name `avro`."""
_EXPRESSIONS = "org.apache.spark.sql.classic.ExpressionUtils"


def spark_format(name: str) -> str:
    """Return the name of a format for Spark's readers and writers. Avro's name works without the jar `spark-avro`."""
    return AVRO_CLASS if name == "avro" else name


def java_session(spark: SparkSession) -> JavaObject:
    """Return Spark's `classic.SparkSession`."""
    return spark._jsparkSession


def java_context(spark: SparkSession) -> JavaObject:
    """Return Spark's `SparkContext`."""
    return spark.sparkContext._jsc.sc()


def stop_spark(spark: SparkSession) -> None:
    """Stop Spark in a process that ends afterwards.

    If Python workers have run, PySpark's own `stop` waits up to a second for the thread that receives accumulators.
    Here, that thread ends in the background.
    """
    context = spark.sparkContext
    server = context._accumulatorServer
    # A Unix socket is a file, which has to be deleted before the process ends.
    if isinstance(server.server_address, str):
        spark.stop()
        return
    context._accumulatorServer = None  # type: ignore[assignment]
    spark.stop()
    Thread(target=server.shutdown, daemon=True).start()


def hadoop_configuration(spark: SparkSession) -> JavaObject:
    """Return Hadoop's settings of the Spark context, which change in place. Settings of the session are not in it."""
    return spark.sparkContext._jsc.hadoopConfiguration()


def reader_configuration(spark: SparkSession, options: Mapping[str, str]) -> JavaObject:
    """Return a copy of Hadoop's settings as Spark's readers see them: with those of the session and with options."""
    return session_state(spark).newHadoopConfWithOptions(scala_map(spark, options))


def check_hadoop_settings(configuration: JavaObject, required: Iterable[RequiredSetting]) -> None:
    """Raise UnsupportedError if a setting of Hadoop has another value than required. An absent setting is right.

    `configuration` are the settings that `reader_configuration` returns.
    """
    for item in required:
        value = str(configuration.get(item.key, item.value)).strip()
        if value.lower() != item.value:
            raise UnsupportedError(f"{item.key} is {value}: {item.otherwise}")


def session_state(spark: SparkSession) -> JavaObject:
    """Return Spark's `SessionState`: settings, parser, analyzer and catalogs of a session."""
    return java_session(spark).sessionState()


def sql_parser(spark: SparkSession) -> JavaObject:
    """Return Spark's parser. Its methods raise `ParseException`."""
    return session_state(spark).sqlParser()


def session_catalog(spark: SparkSession) -> JavaObject:
    """Return Spark's `SessionCatalog`, with the tables of `spark_catalog` and temporary views."""
    return session_state(spark).catalog()


def catalog_plugin(spark: SparkSession, name: str) -> JavaObject:
    """Return a catalog by its name."""
    return session_state(spark).catalogManager().catalog(name)


def analyzed_statement(spark: SparkSession, statement: str) -> JavaObject:
    """Return the analyzed plan of a statement, which does not run. Raises Spark's errors of a wrong statement."""
    analyzer = session_state(spark).analyzer()
    plan = analyzer.execute(sql_parser(spark).parsePlan(statement))
    analyzer.checkAnalysis(plan)
    return plan


def java_type(spark: SparkSession, kind: DataType) -> JavaObject:
    """Return a type in the JVM."""
    return java_session(spark).parseDataType(kind.json())


def query_execution(frame: DataFrame) -> JavaObject:
    """Return Spark's `QueryExecution` of a DataFrame, which has its plans."""
    return frame._jdf.queryExecution()


def analyzed_plan(frame: DataFrame) -> JavaObject:
    """Return the logical plan of a DataFrame with resolved names."""
    return query_execution(frame).analyzed()


def optimized_plan(frame: DataFrame) -> JavaObject:
    """Return the logical plan of a DataFrame after Spark's optimizer. Partitions are pruned."""
    return query_execution(frame).optimizedPlan()


def physical_plan(frame: DataFrame) -> JavaObject:
    """Return the physical plan of a DataFrame, before Spark prepares it for execution."""
    return query_execution(frame).sparkPlan()


def collect_rows(frame: DataFrame) -> JavaObject:
    """Run a DataFrame, and return its rows as a Java list that Python does not convert."""
    return frame._jdf.collectAsList()


def java_expression(spark: SparkSession, column: Column) -> JavaObject:
    """Return Catalyst's expression of a column."""
    return java_class(spark, _EXPRESSIONS).expression(column._jc)


def expression_column(spark: SparkSession, expression: JavaObject) -> Column:
    """Return a column of one of Catalyst's expressions."""
    return Column(java_class(spark, _EXPRESSIONS).column(expression))


def set_schema(reader: DataFrameReader, schema: JavaObject) -> None:
    """Set the schema of a reader to one of the JVM."""
    reader._jreader.schema(schema)


def executed_dataframe(frame: DataFrame) -> DataFrame:
    """Return a DataFrame of the rows of another one, in whose plan Spark counts the rows of each node."""
    spark = frame.sparkSession
    rows = query_execution(frame).toRdd()
    return DataFrame(java_session(spark).internalCreateDataFrame(rows, frame._jdf.schema(), False), spark)


def relation_dataframe(spark: SparkSession, relation: JavaObject) -> DataFrame:
    """Return a DataFrame of a `BaseRelation`."""
    return DataFrame(java_session(spark).baseRelationToDataFrame(relation), spark)


def read_lines(reader: DataFrameReader, file_format: str, lines: DataFrame) -> DataFrame:
    """Return lines of JSON or CSV as a reader of Spark parses them. PySpark 4.0 cannot pass it a DataFrame of lines."""
    spark = reader._spark
    strings = getattr(lines._jdf, "as")(java_class(spark, "org.apache.spark.sql.Encoders").STRING())
    return DataFrame(getattr(reader._jreader, file_format)(strings), spark)


def plan_dataframe(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """Return a DataFrame of one of Spark's logical plans."""
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(java_session(spark), plan)
    return DataFrame(dataset, spark)


def arrow_dataframe(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return a DataFrame of an Arrow table whose types are those of the schema, with few calls to the JVM.

    PySpark's `createDataFrame` needs forty calls. It is used for tables above the size limit of an argument.
    """
    large = is_enabled(spark, "spark.sql.execution.arrow.useLargeVarTypes")
    if large or not rows.num_rows or rows.nbytes > _MAX_ARGUMENT_BYTES:
        # PySpark cannot convert the arrays of a table without any batch.
        return spark.createDataFrame(rows if rows.num_rows else rows.schema.empty_table(), schema)
    batches = java_list(spark)
    for batch in rows.combine_chunks().to_batches():
        batches.add(batch.serialize().to_pybytes())
    iterator = java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(batches.iterator())
    utils = java_class(spark, "org.apache.spark.sql.api.python.PythonSQLUtils")
    frame = DataFrame(utils.toDataFrame(iterator, schema.json(), java_session(spark)), spark)
    # The schema is known, so PySpark need not ask the JVM for it.
    frame._schema = schema
    return frame


def wait_for_events(spark: SparkSession) -> None:
    """Wait until Spark's status stores have processed all events, at most ten seconds."""
    java_context(spark).listenerBus().waitUntilEmpty(10_000)


def observation_counts(spark: SparkSession, observation: Observation) -> dict[str, int] | None:
    """Return the counts of an observation, or None if no action over its DataFrame has completed.

    `Observation.get` would wait forever for such an action, and after Spark has replaced the plan at run time.
    """
    if not has_jvm(spark):
        return dict(observation.get) or None
    wait_for_events(spark)
    java_observation = observation._jo
    if java_observation is None or not java_observation.future().isCompleted():
        return None
    counts: dict[str, int] = observation.get
    return counts


def local_dataframe(spark: SparkSession, rows: JavaObject, like: DataFrame) -> DataFrame:
    """Return a DataFrame of a Java list of rows, with the schema of another DataFrame."""
    return DataFrame(java_session(spark).createDataFrame(rows, like._jdf.schema()), spark)
