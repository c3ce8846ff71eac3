"""The JVM behind a Spark session, for the few things that PySpark has no function for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from py4j.java_gateway import JavaObject, JVMView
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.errors import PushdownError

_PIECE = 2000
"""Characters that fit into one write, whatever they are."""


def jvm(spark: SparkSession) -> JVMView:
    """The JVM's packages. Raises PushdownError on Spark Connect, which has no JVM to talk to."""
    view = spark.sparkContext._jvm
    if view is None:
        raise PushdownError("this session has no JVM of its own; use a classic Spark session, not Spark Connect")
    return view


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
    text = jvm(spark).java.lang.StringBuilder().append(thing)
    pieces, start = [], 0
    left = int(text.codePointCount(0, text.length()))
    while left:
        end = text.offsetByCodePoints(start, min(left, _PIECE))
        pieces.append(str(text.substring(start, end)))
        start, left = end, left - min(left, _PIECE)
    return "".join(pieces)


def texts_of(spark: SparkSession, array: JavaObject) -> list[str]:
    """The elements of an array of strings, as one text: asked one by one, a thousand take a tenth of a second."""
    writer = jvm(spark).java.io.StringWriter()
    jvm(spark).com.fasterxml.jackson.databind.ObjectMapper().writeValue(writer, array)
    found: list[str] = json.loads(text_of(spark, writer))
    return found


def indexed(spark: SparkSession, objects: Sequence[JavaObject]) -> JavaObject:
    """A Scala sequence of objects."""
    gathered = jvm(spark).java.util.ArrayList()
    for each in objects:
        gathered.add(each)
    return jvm(spark).scala.jdk.javaapi.CollectionConverters.asScala(gathered).toIndexedSeq()


def frame_of(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """The frame of a logical plan of Spark's."""
    return DataFrame(jvm(spark).org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def wait_for_events(spark: SparkSession) -> None:
    """Wait until Spark's stores know all that has happened, at most ten seconds; they learn it a moment later."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)


def java_rows(spark: SparkSession) -> JavaObject:
    """An empty Java list to gather rows in without bringing them to Python."""
    return jvm(spark).java.util.ArrayList()


def local_frame(spark: SparkSession, rows: JavaObject, like: DataFrame) -> DataFrame:
    """A frame of gathered rows, with the schema of another frame."""
    return DataFrame(spark._jsparkSession.createDataFrame(rows, like._jdf.schema()), spark)
