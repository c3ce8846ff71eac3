"""The schema of each JSON file, inferred by one Spark job over all files."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from pushdown_spark.projection.file_locations import location
from pushdown_spark.projection.schema_merge import FileSchema
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.listing import decoded, escaped, input_uris

_UNCHECKED = ("primitivesasstring", "prefersdecimal", "dropfieldifallnull", "samplingratio", "encoding", "charset")
_OBJECT = re.compile(r"`(?:[^`]|``)*`|OBJECT<")
_LONGEST = 18
"""Digits of integers that always fit 64 bits. Spark infers a decimal for more digits."""


class NoSchemasError(Exception):
    """The schemas of single files cannot be inferred. The message is the reason."""


def json_schemas(
    spark: SparkSession, source: Source, native: DataFrame, texts: t.StructType | None
) -> tuple[FileSchema, ...]:
    """Return the schema of each file, or only the columns of `texts`, made by `texts_of`.

    Records without keys and malformed records have no columns, but they are rows. Raises NoSchemasError if options or
    records do not allow an inference.
    """
    if unchecked := [option for option in _UNCHECKED if option in source.options]:
        raise NoSchemasError(f"the option {unchecked[0]} does not allow an inference for one file")
    options = {**source.options, "mode": "PERMISSIVE"}
    paths = [escaped(decoded(uri)) for uri in input_uris(native)]
    reader = spark.read.format("json").options(**options)
    try:
        if texts is None:
            records = reader.option("singleVariantColumn", "record").load(paths)
        else:
            records = reader.schema(texts).load(paths)
        record = "record" if texts is None else "to_variant_object(struct(*))"
        # A column of the records may be called like Spark's own of files.
        file = records.metadataColumn("_metadata").getField("file_path").alias("file_path")
        by_file = records.select(f.expr(record).alias("record"), file).groupBy("file_path")
        rows = by_file.agg(f.expr("schema_of_variant_agg(record)").alias("schema")).collect()
    except PySparkException as problem:
        raise NoSchemasError(f"Spark cannot infer the types of one file: {str(problem).splitlines()[0]}") from problem
    found = (FileSchema(location(decoded(row["file_path"])), _plain(row["schema"])) for row in rows)
    return tuple(sorted(found, key=lambda file: file.file))


def texts_of(table: t.StructType, corrupt: str) -> t.StructType:
    """Return the string columns and members of a table as variants. Spark infers a string for values of several types.

    `corrupt` is the column of corrupt records.
    """
    fields = ((field.name, _texts(field.dataType)) for field in table.fields if field.name != corrupt)
    return t.StructType([t.StructField(name, kind) for name, kind in fields if kind is not None])


def _texts(kind: t.DataType) -> t.DataType | None:
    match kind:
        case t.StringType():
            return t.VariantType()
        case t.StructType():
            inner = texts_of(kind, "")
            return inner if inner.fields else None
        case t.ArrayType():
            element = _texts(kind.elementType)
            return None if element is None else t.ArrayType(element)
    return None


def _plain(text: str) -> t.StructType:
    """Return the type that Spark's JSON inference has for the schema of a variant."""
    ddl = _OBJECT.sub(lambda match: "STRUCT<" if match.group() == "OBJECT<" else match.group(), text)
    kind = _inferred(t.DataType.fromDDL(ddl))
    return kind if isinstance(kind, t.StructType) else t.StructType()


def _inferred(kind: t.DataType) -> t.DataType:
    match kind:
        case t.StructType():
            fields = [t.StructField(field.name, _inferred(field.dataType)) for field in kind.fields]
            return t.StructType(fields) if fields else t.NullType()
        case t.ArrayType():
            return t.ArrayType(_inferred(kind.elementType))
        case t.DecimalType():
            # Variants drop trailing zeros: 1.0 is a decimal of one digit.
            return t.DoubleType() if kind.scale or kind.precision <= _LONGEST else kind
        case t.VariantType():
            # Spark infers a string for several types within one file.
            return t.StringType()
    return kind
