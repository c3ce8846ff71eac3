"""Schemas of single ORC files, read by pyorc, as Spark infers them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from pyspark.sql import types as t

from pushdown_spark.errors import BadSchemaError, UnreadableFileError, UnsafeInputError
from pushdown_spark.expressions.types import DECLARED_TYPE
from pushdown_spark.formats.orc.column_mapping import CATALYST_TYPE
from pushdown_spark.sources.stores.storage import REMEDY, Storage, name_storage_errors

if TYPE_CHECKING:
    from pyorc.typedescription import TypeDescription

_ATOMS: dict[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "tinyint": t.ByteType(),
    "smallint": t.ShortType(),
    "int": t.IntegerType(),
    "bigint": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamp with local time zone": t.TimestampType(),
    "char": t.StringType(),
    "varchar": t.StringType(),
}


def read_schema(path: str, storage: Storage) -> tuple[t.StructType, int]:
    """Return the schema that Spark infers for a file, and the number of its rows.

    Raises UnreadableFileError for a file that is not an ORC file, and BadSchemaError or UnsafeInputError for types that
    only Spark supports.
    """
    # Imported here because scans do not need it.
    import pyorc

    with name_storage_errors(path), storage.open(path, ahead=0) as raw:
        try:
            reader = pyorc.Reader(cast(BinaryIO, raw))
        except (pyorc.ParseError, RuntimeError, ValueError) as problem:
            raise UnreadableFileError(f"cannot read {path}: {problem}; {REMEDY}") from problem
        with suppress(IndexError):
            # pyorc keeps one of the members of a struct that have one name, and numbers the columns that it kept.
            reader[reader.schema.set_column_id(0) + 1]
            raise UnsafeInputError(f"{path} has two columns of one name; read it with reader='spark'")
        if not isinstance(reader.schema, pyorc.Struct):
            raise BadSchemaError(f"{path} has values without columns; leave the file out")
        # Spark's metadata has the declared type of a column that has a length, or a part with one.
        columns = [
            t.StructField(name, _spark_type(node), metadata={DECLARED_TYPE: str(node)} if _has_length(node) else None)
            for name, node in reader.schema.fields.items()
        ]
        return t.StructType(columns), len(reader)


def _has_length(node: TypeDescription) -> bool:
    import pyorc

    if isinstance(node, pyorc.Struct):
        return any(map(_has_length, node.fields.values()))
    if isinstance(node, pyorc.Map):
        return _has_length(node.key) or _has_length(node.value)
    return _has_length(node.type) if isinstance(node, pyorc.Array) else node.name in ("char", "varchar")


def _spark_type(node: TypeDescription) -> t.DataType:
    import pyorc

    if isinstance(node, pyorc.Struct):
        return t.StructType([t.StructField(name, _spark_type(member)) for name, member in node.fields.items()])
    if isinstance(node, pyorc.Array):
        return t.ArrayType(_spark_type(node.type))
    if isinstance(node, pyorc.Map):
        return t.MapType(_spark_type(node.key), _spark_type(node.value))
    if isinstance(node, pyorc.Decimal):
        return t.DecimalType(node.precision, node.scale)
    spark_name = node.attributes.get(CATALYST_TYPE, "")
    if spark_name == "timestamp_ntz":
        return t.TimestampNTZType()
    if node.name not in _ATOMS or spark_name.startswith("interval"):
        raise BadSchemaError(
            f"column {node.column_id} has type {spark_name or node.name}, which only Spark's reader supports"
        )
    return _ATOMS[node.name]
