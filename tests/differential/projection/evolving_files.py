"""Writers of single files in any format and schema, without Spark."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from arrow_schemas import utc_arrow_schema
from pyarrow import orc
from pyspark.sql import types as t

Row = tuple[object, ...]
_AVRO: Mapping[type[t.DataType], object] = {
    t.BooleanType: "boolean",
    t.IntegerType: "int",
    t.LongType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.StringType: "string",
    t.BinaryType: "bytes",
    t.DateType: {"type": "int", "logicalType": "date"},
    t.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    t.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def write_file(source_format: str, path: Path, schema: str, rows: Sequence[Row]) -> None:
    """Write a file with the columns of a DDL. Structs in rows are dictionaries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _WRITERS[source_format](path, t.StructType.fromDDL(schema), rows)


def _records(schema: t.StructType, rows: Sequence[Row]) -> list[dict[str, object]]:
    return [dict(zip(schema.fieldNames(), row, strict=True)) for row in rows]


def _csv(path: Path, schema: t.StructType, rows: Sequence[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(schema.fieldNames())
        writer.writerows(rows)


def _json(path: Path, schema: t.StructType, rows: Sequence[Row]) -> None:
    path.write_text("".join(json.dumps(record, default=str) + "\n" for record in _records(schema, rows)))


def _table(schema: t.StructType, rows: Sequence[Row]) -> pa.Table:
    records = [_entries(record, schema) for record in _records(schema, rows)]
    return pa.Table.from_pylist(records, utc_arrow_schema(schema))


def _entries(value: object, kind: t.DataType) -> object:
    """Return the value with maps as lists of entries, as Arrow expects them."""
    match value, kind:
        case dict(), t.StructType():
            return {field.name: _entries(value.get(field.name), field.dataType) for field in kind.fields}
        case dict(), t.MapType():
            return [(key, _entries(item, kind.valueType)) for key, item in value.items()]
        case list(), t.ArrayType():
            return [_entries(item, kind.elementType) for item in value]
    return value


def _orc(path: Path, schema: t.StructType, rows: Sequence[Row]) -> None:
    orc.write_table(_table(schema, rows), path)


def _parquet(path: Path, schema: t.StructType, rows: Sequence[Row]) -> None:
    pq.write_table(_table(schema, rows), path)


def _avro(path: Path, schema: t.StructType, rows: Sequence[Row]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(_avro_type(schema, "row")), _records(schema, rows))


def _avro_type(kind: t.DataType, name: str) -> object:
    match kind:
        case t.StructType():
            fields = [
                {"name": f.name, "type": ["null", _avro_type(f.dataType, f"{name}_{f.name}")]} for f in kind.fields
            ]
            return {"type": "record", "name": name, "fields": fields}
        case t.ArrayType():
            return {"type": "array", "items": ["null", _avro_type(kind.elementType, f"{name}_item")]}
        case t.MapType():
            return {"type": "map", "values": ["null", _avro_type(kind.valueType, f"{name}_value")]}
        case t.DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _AVRO[type(kind)]


_WRITERS: Mapping[str, Callable[[Path, t.StructType, Sequence[Row]], None]] = {
    "csv": _csv,
    "json": _json,
    "orc": _orc,
    "parquet": _parquet,
    "avro": _avro,
}
