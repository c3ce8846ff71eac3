"""The schema of each JSON file, inferred by one Spark job over all files."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.projection.file_locations import location
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.projection.schema_merge import FileSchema
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.stores.listing import Listing, decode_uri

_UNSUPPORTED_OPTIONS = (
    "primitivesasstring",
    "prefersdecimal",
    "dropfieldifallnull",
    "samplingratio",
    "encoding",
    "charset",
)
_OBJECT = re.compile(r"`(?:[^`]|``)*`|OBJECT<")
_WHOLE_RECORD = "_whole_record"
"""A column of whole records. Partition columns are unlikely to have this name."""
_MAX_DIGITS = 18
"""Number of digits of integers that always fit 64 bits. Spark infers a decimal for more digits."""


def json_schemas(
    spark: SparkSession, source: Source, listing: Listing, variants: t.StructType | None
) -> tuple[FileSchema, ...]:
    """Return the schema of each file with records, or only the columns of `variants`.

    `strings_as_variants` returns `variants`. Records without keys and malformed records have no columns, but they are
    rows. Raises UnsupportedError if options or records do not allow an inference.
    """
    if unsupported_options := [option for option in _UNSUPPORTED_OPTIONS if option in source.options]:
        raise UnsupportedError(f"the option {unsupported_options[0]} does not allow an inference for one file")
    options = {**source.options, "mode": "PERMISSIVE"}
    # Given the paths of single files, Spark would check and list each of them.
    paths = list(source.paths)
    reader = spark.read.format("json").options(**options)
    try:
        if variants is None:
            records = reader.option("singleVariantColumn", _WHOLE_RECORD).load(paths)
        else:
            records = reader.schema(variants).load(paths)
        names = [] if variants is None else map(quote_name, variants.fieldNames())
        record = _WHOLE_RECORD if variants is None else f"to_variant_object(struct({', '.join(names)}))"
        # A column of the records may have the name of Spark's metadata column.
        file = records.metadataColumn("_metadata").getField("file_path").alias("file_path")
        by_file = records.select(f.expr(record).alias("record"), file).groupBy("file_path")
        rows = by_file.agg(f.expr("schema_of_variant_agg(record)").alias("schema")).collect()
    except PySparkException as problem:
        raise UnsupportedError(f"Spark cannot infer the types of one file: {str(problem).splitlines()[0]}") from problem
    schemas: dict[str, t.StructType] = {}
    for row in rows:
        ddl = _OBJECT.sub(lambda match: "STRUCT<" if match.group() == "OBJECT<" else match.group(), row["schema"])
        kind = _json_type(t.DataType.fromDDL(ddl))
        schemas[location(decode_uri(row["file_path"]))] = kind if isinstance(kind, t.StructType) else t.StructType()
    # The listing has a file several times if Spark reads it several times.
    files = sorted(location(decode_uri(uri)) for uri in listing.uris)
    return tuple(FileSchema(file, schemas[file]) for file in files if file in schemas)


def strings_as_variants(table: t.StructType, corrupt: str) -> t.StructType:
    """Return the string columns and members of a table as variants. Spark infers a string for values of several types.

    `corrupt` is the column of corrupt records.
    """
    fields = ((field.name, _string_as_variant(field.dataType)) for field in table.fields if field.name != corrupt)
    return t.StructType([t.StructField(name, kind) for name, kind in fields if kind is not None])


def _string_as_variant(kind: t.DataType) -> t.DataType | None:
    match kind:
        case t.StringType():
            return t.VariantType()
        case t.StructType():
            inner = strings_as_variants(kind, "")
            return inner if inner.fields else None
        case t.ArrayType():
            element = _string_as_variant(kind.elementType)
            return None if element is None else t.ArrayType(element)
    return None


def _json_type(kind: t.DataType) -> t.DataType:
    """Return the type that Spark's JSON inference has for the type of a variant's schema."""
    match kind:
        case t.StructType():
            fields = [t.StructField(field.name, _json_type(field.dataType)) for field in kind.fields]
            return t.StructType(fields) if fields else t.NullType()
        case t.ArrayType():
            return t.ArrayType(_json_type(kind.elementType))
        case t.DecimalType():
            # Variants drop trailing zeros: 1.0 is a decimal of one digit.
            return t.DoubleType() if kind.scale or kind.precision <= _MAX_DIGITS else kind
        case t.VariantType():
            # Spark infers a string for several types within one file.
            return t.StringType()
    return kind
