"""Maps the columns of a table to those of a Parquet file, and rejects files that Spark may decode differently.

Only pairs of a stored type and a requested type that Arrow and Spark decode alike are accepted. A footer lists the leaf
columns of a file in the order of its fields; the members of a struct and the levels of lists and maps are parts of
their paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS
from pushdown_spark.formats.calendars import DATETIMES, INT96

_LIST_LEVELS = (("list", "element"), ("list", "item"), ("bag", "array_element"), ("bag", "array"))
"""Names of the two levels below a list that all readers understand as such. Lists of two levels are ambiguous."""
_MAP_LEVELS = ("key_value", "entries", "map")
"""Names of the level below a map by different writers."""
_SOUND_WRITERS = {
    "parquet-mr": (1, 10),
    "parquet-cpp-arrow": (4, 0),
    "parquet-rs": (5, 0),
    "datafusion": (0, 0),
    "DuckDB": (0, 0),
    "Polars": (0, 0),
}
"""Writers whose statistics bound all values except NaN, with the first version for which this holds.

Earlier versions of parquet-mr compare strings as signed bytes.
"""
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW"})
"""Codecs that Spark reads without further libraries."""
_VERSION = re.compile(r"(?P<name>[\w-]+)(?: version v?(?P<major>\d+)\.(?P<minor>\d+).*)?")


@dataclass(frozen=True)
class FileColumns:
    """The requested columns of one file.

    `names` has the file's name of each requested column, or None if the file lacks it. `leaves` has the indexes of the
    leaf columns of each. `in_milliseconds` are columns of timestamps in milliseconds, which the table has in
    microseconds.
    """

    names: Mapping[str, str | None]
    leaves: Mapping[str, tuple[int, ...]]
    in_milliseconds: frozenset[str]

    @property
    def leaf_indexes(self) -> tuple[int, ...]:
        """The indexes of all leaf columns."""
        return tuple(chain.from_iterable(self.leaves.values()))


def match_schema(
    footer: pq.FileMetaData,
    schema: pa.Schema,
    *,
    has_corrected_dates: bool,
    has_corrected_int96: bool,
    name_rule: NameRule,
) -> FileColumns:
    """Match the columns of a schema by name.

    `has_corrected_dates` and `has_corrected_int96` say whether Spark reads old dates and timestamps as stored, if the
    file does not name its writer. Raises UnsafeInputError for a column that only Spark decodes.
    """
    leaves_by_field = _leaves_by_field(footer)
    by_key = name_rule.group(leaves_by_field, str)
    metadata = {key.decode("utf-8", "replace"): value for key, value in (footer.metadata or {}).items()}
    matcher = _Matcher(
        DATETIMES.are_as_stored(metadata, by_option=has_corrected_dates),
        INT96.are_as_stored(metadata, by_option=has_corrected_int96),
    )
    first_group = footer.row_group(0) if footer.num_row_groups else None
    names: dict[str, str | None] = {}
    leaves: dict[str, tuple[int, ...]] = {}
    for field in schema:
        matches = by_key.get(name_rule.key(field.name), [])
        if len(matches) > 1:
            raise UnsafeInputError(f"columns {' and '.join(matches)} differ only in case")
        names[field.name] = matches[0] if matches else None
        if matches:
            leaves[field.name] = matcher.match(field, leaves_by_field[matches[0]], matches[0])
            if first_group is not None:
                _check_codecs(first_group, leaves[field.name])
    return FileColumns(names, leaves, frozenset(matcher.in_milliseconds))


def has_sound_statistics(created_by: str | None) -> bool:
    """Return whether the statistics and bloom filters of a writer may prune row groups.

    >>> has_sound_statistics("parquet-mr version 1.8.3 (build x)"), has_sound_statistics("parquet-mr version 1.13.1")
    (False, True)
    """
    match = _VERSION.match(created_by or "")
    first = None if match is None else _SOUND_WRITERS.get(match["name"])
    if match is None or first is None:
        return False
    return (int(match["major"] or 0), int(match["minor"] or 0)) >= first


def _check_codecs(group: pq.RowGroupMetaData, leaves: Iterable[int]) -> None:
    """Raise UnsafeInputError for a codec that Spark lacks. Writers use one codec for all row groups."""
    for leaf in leaves:
        chunk = group.column(leaf)
        if chunk.compression not in _CODECS:
            raise UnsafeInputError(f"column {chunk.path_in_schema} is compressed with {chunk.compression}")


@dataclass(frozen=True)
class _Leaf:
    """A leaf column: its index in the file, and its description, in which the path is joined by dots."""

    index: int
    column: pq.ColumnSchema


def _leaves_by_field(footer: pq.FileMetaData) -> dict[str, list[_Leaf]]:
    """Return the leaf columns of each field. Raises UnsafeInputError for a name that occurs twice."""
    columns = footer.schema
    index = 0
    leaves: dict[str, list[_Leaf]] = {}
    for field in columns.to_arrow_schema():
        if field.name in leaves:
            raise UnsafeInputError(f"two columns have the name {field.name}")
        leaves[field.name] = []
        for _ in range(_count_leaves(field.type)):
            leaves[field.name].append(_Leaf(index, columns.column(index)))
            index += 1
    if index != len(columns):
        raise UnsafeInputError("the fields of the file do not account for its columns")
    return leaves


def _count_leaves(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_nested(kind):
        return sum(_count_leaves(kind.field(number).type) for number in range(kind.num_fields))
    return 1


class _Matcher:
    """Compares the stored types of a file with requested types."""

    def __init__(self, has_stored_dates: bool, has_stored_int96: bool) -> None:
        self._has_stored_dates = has_stored_dates
        self._has_stored_int96 = has_stored_int96
        self.in_milliseconds: set[str] = set()

    def match(self, field: pa.Field, leaves: list[_Leaf], name: str) -> tuple[int, ...]:
        """Return the indexes of the leaf columns of a field. `name` is its name in the file."""
        by_path = {leaf.column.path: leaf for leaf in leaves}
        if len(by_path) != len(leaves):
            raise UnsafeInputError(f"two members of column {name} have the same path")
        indexes = tuple(self._leaf_indexes(field.type, name, 0, by_path))
        if any("milliseconds" in str(leaf.column.logical_type) for leaf in leaves if leaf.index in indexes):
            if not pa.types.is_timestamp(field.type):
                raise UnsafeInputError(f"column {name} has timestamps in milliseconds inside")
            self.in_milliseconds.add(field.name)
        return indexes

    def _leaf_indexes(self, kind: pa.DataType, path: str, depth: int, leaves: Mapping[str, _Leaf]) -> Iterator[int]:
        """Yield the indexes of the leaf columns of a type. `depth` is the number of lists and maps around it."""
        if pa.types.is_struct(kind):
            for member in kind:
                yield from self._leaf_indexes(member.type, f"{path}.{member.name}", depth, leaves)
        elif pa.types.is_map(kind):
            entries = next((f"{path}.{name}" for name in _MAP_LEVELS if f"{path}.{name}.key" in leaves), path)
            yield from self._leaf_indexes(kind.key_type, f"{entries}.key", depth + 1, leaves)
            yield from self._leaf_indexes(kind.item_type, f"{entries}.value", depth + 1, leaves)
        elif pa.types.is_list(kind):
            yield from self._leaf_indexes(kind.value_type, _element_path(path, leaves), depth + 1, leaves)
        else:
            leaf = leaves.get(path)
            if leaf is None or leaf.column.max_repetition_level != depth:
                raise UnsafeInputError(f"column {path} is not stored as {kind}, or under another name")
            self._check_type(leaf, kind)
            yield leaf.index

    def _check_type(self, leaf: _Leaf, kind: pa.DataType) -> None:
        column = leaf.column
        file_type = _stored_type(column)
        if file_type != kind:
            logical = "" if str(column.logical_type) == "None" else f" ({column.logical_type})"
            raise UnsafeInputError(f"column {column.path} is stored as {column.physical_type}{logical}, not as {kind}")
        is_int96 = column.physical_type == "INT96"
        is_date = pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None)
        if is_date and not (self._has_stored_int96 if is_int96 else self._has_stored_dates):
            raise UnsafeInputError(f"column {column.path} may have dates of the old calendar, which only Spark reads")


def _element_path(path: str, leaves: Mapping[str, _Leaf]) -> str:
    """Return the path of the elements of a list."""
    for middle, element in _LIST_LEVELS:
        candidate = f"{path}.{middle}.{element}"
        if any(leaf == candidate or leaf.startswith(f"{candidate}.") for leaf in leaves):
            return candidate
    raise UnsafeInputError(f"column {path} is not a list of three levels with the usual names")


_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
    "INT96": pa.timestamp("us", "UTC"),
}
"""Types of values without a logical type."""
_INTEGERS = {("INT32", 8): pa.int8(), ("INT32", 16): pa.int16(), ("INT32", 32): pa.int32(), ("INT64", 64): pa.int64()}
"""Types of signed integers by physical type and width in bits."""
_INTEGER = re.compile(r"Int\(bitWidth=(\d+), isSigned=true\)")
_TIMESTAMP = re.compile(r"Timestamp\(isAdjustedToUTC=(true|false), timeUnit=(?:milli|micro)seconds\b.*\)")


def _stored_type(column: pq.ColumnSchema) -> pa.DataType | None:
    """Return the Arrow type that both Spark and DataFusion use for a leaf column, or None if they differ."""
    physical, logical = column.physical_type, str(column.logical_type)
    if logical == "None":
        return _PLAIN.get(physical)
    if logical == "String":
        return pa.string() if physical == "BYTE_ARRAY" else None
    if logical == "Date":
        return pa.date32() if physical == "INT32" else None
    if logical.startswith("Decimal("):
        return pa.decimal128(column.precision, column.scale) if 0 < column.precision <= MAX_DECIMAL_DIGITS else None
    if match := _INTEGER.fullmatch(logical):
        return _INTEGERS.get((physical, int(match[1])))
    if match := _TIMESTAMP.fullmatch(logical):
        return pa.timestamp("us", "UTC" if match[1] == "true" else None) if physical == "INT64" else None
    return None
