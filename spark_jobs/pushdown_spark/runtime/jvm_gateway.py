"""Access to the JVM of a Spark session, for operations that PySpark does not offer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from py4j.java_gateway import JavaClass, JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.session_settings import is_enabled

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_ARGUMENT_BYTES = 256 << 10
"""The size limit of an argument, which py4j transfers as text."""
_CHUNK_CHARACTERS = 2000
"""The number of characters that always fit into one write of the JVM."""


def has_jvm(spark: SparkSession) -> bool:
    """Return whether Python can call the JVM of a session. Spark Connect has no gateway to it."""
    return hasattr(spark, "_jsparkSession")


def java_class(spark: SparkSession, name: str) -> JavaClass:
    """Return a class of the JVM by its full name. The class of a Scala object has a `$` at the end.

    `spark._jvm.java.util.ArrayList` would call the JVM for each part of the name. Raises PushdownError with Spark
    Connect, which offers no JVM.
    """
    view = spark.sparkContext._jvm
    if view is None:
        raise PushdownError("this session has no JVM of its own; use a classic Spark session, not Spark Connect")
    return JavaClass(name, view._gateway_client)


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether a class is on Spark's class path, including the jars of packages."""
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    try:
        return loader.loadClass(name) is not None
    except Py4JJavaError:
        return False


def scala_object(spark: SparkSession, name: str) -> JavaObject:
    """Return the instance of a Scala object by its full name without the final `$`."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def scala_map(spark: SparkSession, mapping: Mapping[str, str]) -> JavaObject:
    """Return an immutable map of Scala."""
    entries = java_class(spark, "java.util.HashMap")()
    for key, value in mapping.items():
        entries[key] = value
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap(entries)


def elements(collection: JavaObject) -> Iterator[JavaObject]:
    """Yield the elements of a Scala collection."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def tree_nodes(tree: JavaObject) -> Iterator[JavaObject]:
    """Yield all nodes of a plan or an expression, each before its children."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(list(elements(node.children())))


def class_name(instance: JavaObject) -> str:
    """Return the name of the class of a JVM object, without its package."""
    return str(instance.getClass().getSimpleName())


def string_map(mapping: JavaObject) -> dict[str, str]:
    """Return a Scala map of strings."""
    return {str(entry._1()): str(entry._2()) for entry in elements(mapping)}


def java_string(spark: SparkSession, value: JavaObject) -> str:
    """Return the string of a JVM object, transferred in chunks.

    The JVM sends more than 8 KiB in two writes. The second waits 40 ms for an acknowledgment (py4j issue 516).
    """
    text = java_class(spark, "java.lang.StringBuilder")().append(value)
    chunks, start = [], 0
    left = int(text.codePointCount(0, text.length()))
    while left:
        end = text.offsetByCodePoints(start, min(left, _CHUNK_CHARACTERS))
        chunks.append(str(text.substring(start, end)))
        start, left = end, left - min(left, _CHUNK_CHARACTERS)
    return "".join(chunks)


def java_strings(spark: SparkSession, array: JavaObject) -> list[str]:
    """Return the elements of a JVM array of strings, transferred as one JSON string instead of one by one."""
    writer = java_class(spark, "java.io.StringWriter")()
    java_class(spark, "com.fasterxml.jackson.databind.ObjectMapper")().writeValue(writer, array)
    strings: list[str] = json.loads(java_string(spark, writer))
    return strings


def scala_value(spark: SparkSession, value: JavaObject) -> object:
    """Return a Scala object of data, such as a case class or a map, as Spark's history server writes it in JSON."""
    writer = java_class(spark, "java.io.StringWriter")()
    scala_object(spark, "org.apache.spark.util.JsonProtocol").mapper().writeValue(writer, value)
    return json.loads(java_string(spark, writer))


def scala_seq(spark: SparkSession, objects: Sequence[JavaObject]) -> JavaObject:
    """Return a Scala sequence of objects."""
    java_objects = java_list(spark)
    for item in objects:
        java_objects.add(item)
    return java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(java_objects).toIndexedSeq()


def read_lines(reader: DataFrameReader, file_format: str, lines: DataFrame) -> DataFrame:
    """Return lines of JSON or CSV as a reader of Spark parses them. PySpark 4.0 cannot pass it a DataFrame of lines."""
    spark = reader._spark
    strings = getattr(lines._jdf, "as")(java_class(spark, "org.apache.spark.sql.Encoders").STRING())
    return DataFrame(getattr(reader._jreader, file_format)(strings), spark)


def plan_dataframe(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """Return a DataFrame of one of Spark's logical plans."""
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, plan)
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
    frame = DataFrame(utils.toDataFrame(iterator, schema.json(), spark._jsparkSession), spark)
    # The schema is known, so PySpark need not ask the JVM for it.
    frame._schema = schema
    return frame


def wait_for_events(spark: SparkSession) -> None:
    """Wait until Spark's status stores have processed all events, at most ten seconds."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)


def observation_counts(spark: SparkSession, observation: Observation) -> dict[str, int] | None:
    """Return the counts of an observation, None if no action over its DataFrame has completed.

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


def java_list(spark: SparkSession) -> JavaObject:
    """Return an empty Java list."""
    return java_class(spark, "java.util.ArrayList")()


def local_dataframe(spark: SparkSession, rows: JavaObject, like: DataFrame) -> DataFrame:
    """Return a DataFrame of a Java list of rows, with the schema of another DataFrame."""
    return DataFrame(spark._jsparkSession.createDataFrame(rows, like._jdf.schema()), spark)
