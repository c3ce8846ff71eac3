"""The JVM behind a Spark session, for the few things that PySpark has no function for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from py4j.java_gateway import JavaClass, JavaObject
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.errors import PushdownError

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_CARRIED = 256 << 10
"""Bytes that a call carries; they cross as text."""
_PIECE = 2000
"""Characters that fit into one write, whatever they are."""


def java_class(spark: SparkSession, name: str) -> JavaClass:
    """A class of the JVM, or what is static in it, by its name with all packages; of a Scala object that ends in `$`.

    By way of the packages, as `spark._jvm.java.util.ArrayList`, the JVM would be asked about each part of the name.
    Raises PushdownError on Spark Connect, which has no JVM to talk to.
    """
    view = spark.sparkContext._jvm
    if view is None:
        raise PushdownError("this session has no JVM of its own; use a classic Spark session, not Spark Connect")
    return JavaClass(name, view._gateway_client)


def scala_object(spark: SparkSession, name: str) -> JavaObject:
    """The one instance of a Scala object, by its name with all packages, without the `$` that the JVM has after it."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def elements(collection: JavaObject) -> Iterator[JavaObject]:
    """The elements of a Scala collection."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def text_of(spark: SparkSession, thing: JavaObject) -> str:
    """The text of an object of the JVM, in pieces.

    An answer of more than 8 KiB takes the JVM two writes, and the second waits 40 ms for the first to be acknowledged
    (py4j issue 516).
    """
    text = java_class(spark, "java.lang.StringBuilder")().append(thing)
    pieces, start = [], 0
    left = int(text.codePointCount(0, text.length()))
    while left:
        end = text.offsetByCodePoints(start, min(left, _PIECE))
        pieces.append(str(text.substring(start, end)))
        start, left = end, left - min(left, _PIECE)
    return "".join(pieces)


def texts_of(spark: SparkSession, array: JavaObject) -> list[str]:
    """The elements of an array of strings, as one text: asked one by one, a thousand take a tenth of a second."""
    writer = java_class(spark, "java.io.StringWriter")()
    java_class(spark, "com.fasterxml.jackson.databind.ObjectMapper")().writeValue(writer, array)
    found: list[str] = json.loads(text_of(spark, writer))
    return found


def indexed(spark: SparkSession, objects: Sequence[JavaObject]) -> JavaObject:
    """A Scala sequence of objects."""
    gathered = java_class(spark, "java.util.ArrayList")()
    for each in objects:
        gathered.add(each)
    return java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(gathered).toIndexedSeq()


def frame_of(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """The frame of a logical plan of Spark's."""
    made = java_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, plan)
    return DataFrame(made, spark)


def arrow_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """A frame of rows at hand, whose Arrow types are those of the schema, in five calls to the JVM.

    PySpark's `createDataFrame` takes forty, 10 ms; it serves where there is more than a call should carry.
    """
    large = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    if large or not rows.num_rows or rows.nbytes > _MOST_CARRIED:
        return spark.createDataFrame(rows, schema)
    batches = java_class(spark, "java.util.ArrayList")()
    for batch in rows.combine_chunks().to_batches():
        batches.add(batch.serialize().to_pybytes())
    iterator = java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(batches.iterator())
    utils = java_class(spark, "org.apache.spark.sql.api.python.PythonSQLUtils")
    made = DataFrame(utils.toDataFrame(iterator, schema.json(), spark._jsparkSession), spark)
    # What is known need not be asked for.
    made._schema = schema
    return made


def wait_for_events(spark: SparkSession) -> None:
    """Wait until Spark's stores know all that has happened, at most ten seconds; they learn it a moment later."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)


def observed(spark: SparkSession, observation: Observation) -> dict[str, int] | None:
    """The counts of an observation; None if no action over its frame has ended.

    `Observation.get` would wait for ever where there is none, or where Spark has replaced the plan at run time.
    """
    wait_for_events(spark)
    found = observation._jo
    if found is None or not found.future().isCompleted():
        return None
    counts: dict[str, int] = observation.get
    return counts


def java_rows(spark: SparkSession) -> JavaObject:
    """An empty Java list to gather rows in without bringing them to Python."""
    return java_class(spark, "java.util.ArrayList")()


def local_frame(spark: SparkSession, rows: JavaObject, like: DataFrame) -> DataFrame:
    """A frame of gathered rows, with the schema of another frame."""
    return DataFrame(spark._jsparkSession.createDataFrame(rows, like._jdf.schema()), spark)
