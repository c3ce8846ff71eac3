"""Classes and objects of the JVM of a Spark session, for operations that PySpark does not offer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from py4j.java_gateway import JavaClass, JavaObject, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from pushdown_spark.errors import PushdownError

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


def start_jvm() -> None:
    """Start a JVM for this process, unless spark-submit or a session has started one."""
    SparkContext._ensure_initialized()


def class_of_process(name: str) -> JavaClass:
    """Return a class of the JVM of this process, for which no session has to run."""
    view = SparkContext._jvm
    if view is None:
        raise PushdownError("this Python has no JVM of its own; submit the job with spark-submit")
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


def scala_map(spark: SparkSession, mapping: Mapping[str, str] | Mapping[JavaObject, JavaObject]) -> JavaObject:
    """Return an immutable map of Scala, which is a partial function too."""
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


def is_instance(instance: JavaObject, name: str) -> bool:
    """Return whether a JVM object has a class or interface by its full name."""
    return bool(is_instance_of(SparkContext._gateway, instance, name))


def string_map(mapping: JavaObject) -> dict[str, str]:
    """Return a Scala map of strings."""
    return {str(entry._1()): str(entry._2()) for entry in elements(mapping)}


def java_string(spark: SparkSession, value: JavaObject) -> str:
    """Return the string of a JVM object, transferred in chunks.

    The JVM sends more than 8 KiB in two writes. The second waits 40 ms for an acknowledgment (py4j issue 516).
    """
    text = java_class(spark, "java.lang.StringBuilder")().append(value)
    if text.length() <= _CHUNK_CHARACTERS:
        return str(text.toString())
    chunks, start = [], 0
    rest = int(text.codePointCount(0, text.length()))
    while rest:
        end = text.offsetByCodePoints(start, min(rest, _CHUNK_CHARACTERS))
        chunks.append(str(text.substring(start, end)))
        start, rest = end, rest - min(rest, _CHUNK_CHARACTERS)
    return "".join(chunks)


def java_strings(spark: SparkSession, array: JavaObject) -> list[str]:
    """Return the elements of a JVM array of strings, transferred as one JSON string instead of one by one."""
    return cast("list[str]", scala_value(spark, array))


def scala_value(spark: SparkSession, value: JavaObject) -> object:
    """Return an object of data, such as a case class or a map, as Spark's history server writes it in JSON.

    This takes one call instead of one for each field.
    """
    writer = java_class(spark, "java.io.StringWriter")()
    scala_object(spark, "org.apache.spark.util.JsonProtocol").mapper().writeValue(writer, value)
    return json.loads(java_string(spark, writer))


def java_list(spark: SparkSession) -> JavaObject:
    """Return an empty Java list."""
    return java_class(spark, "java.util.ArrayList")()


def java_array(kind: JavaClass, items: Sequence[object]) -> JavaObject:
    """Return a Java array of a class."""
    gateway = SparkContext._gateway
    assert gateway is not None
    array = gateway.new_array(kind, len(items))
    for number, item in enumerate(items):
        array[number] = item
    return array


def scala_seq(spark: SparkSession, objects: Sequence[JavaObject]) -> JavaObject:
    """Return a Scala sequence of objects."""
    java_objects = java_list(spark)
    for item in objects:
        java_objects.add(item)
    return java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(java_objects).toIndexedSeq()
