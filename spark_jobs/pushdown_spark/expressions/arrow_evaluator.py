"""Evaluates bound trees over Arrow batches, with Spark's three-valued logic.

A tree is prepared once: each node becomes a function from the columns of a batch to a mask, which is true, false or
null for each row. Constants, hash tables and regular expressions are made at that time. Python workers import this
module, so it needs neither Spark nor the parser.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.expressions.bound import (
    And,
    BooleanConstant,
    Column,
    ColumnComparison,
    Comparison,
    InList,
    IsNull,
    IsTrue,
    IsUnknown,
    LikeMatch,
    Node,
    Not,
    Op,
    Or,
    StringMatch,
    StringTest,
    columns_of,
    walk,
)
from pushdown_spark.expressions.set_lookup import ValueSet, scatter, with_nulls_of, without_nulls
from pushdown_spark.expressions.types import FLOATING, TEMPORAL, LogicalType, Path

_KERNELS: dict[Op, Callable[..., pa.BooleanArray]] = {
    Op.EQ: pc.equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


@dataclass(frozen=True)
class ArrowFilter:
    """A bound tree as a filter of record batches."""

    root: Node

    def __getstate__(self) -> dict[str, object]:
        """Pickle the tree alone; the receiving process prepares it again."""
        return {"root": self.root}

    @cached_property
    def columns(self) -> tuple[Path, ...]:
        """The columns and struct members that the filter reads, in the order of the tree."""
        return columns_of(self.root)

    @cached_property
    def list_lengths(self) -> tuple[int, ...]:
        """The lengths of the IN lists."""
        return tuple(len(node.values) for node in walk(self.root) if isinstance(node, InList))

    @cached_property
    def _evaluate(self) -> _Evaluate:
        return _prepare(self.root)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return the predicate's value for each row, null where it is unknown.

        The batch has at least the filter's `columns`, with the Arrow types of the schema that the predicate was bound
        to (strings may be large or dictionary-encoded). Raises KeyError for a missing column.
        """
        return self._evaluate(BatchColumns(batch), False)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return whether each row passes, without nulls. This is faster than `mask`."""
        return without_nulls(self._evaluate(BatchColumns(batch), True))


def filter_fields(arrow_filter: ArrowFilter | None, fields: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the fields that a filter reads. Structs have only the members in the filter."""
    return _fields_of(fields, arrow_filter.columns) if arrow_filter else []


def _fields_of(fields: Iterable[pa.Field], paths: Sequence[Path]) -> list[pa.Field]:
    members = [(field, [path[1:] for path in paths if path[0] == field.name]) for field in fields]
    return [field.with_type(_type_of(field.type, inner)) for field, inner in members if inner]


def _type_of(kind: pa.DataType, paths: Sequence[Path]) -> pa.DataType:
    return kind if () in paths else pa.struct(_fields_of(kind, paths))


class BatchColumns:
    """The columns of a batch by path. Each is looked up once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._arrays: dict[Path, pa.Array] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def array(self, path: Path) -> pa.Array:
        """Return the values at a path; a null parent makes its members null. Raises KeyError for a missing column."""
        if path not in self._arrays:
            self._arrays[path] = self._look_up(path)
        return self._arrays[path]

    def _look_up(self, path: Path) -> pa.Array:
        head, name = path[:-1], path[-1]
        index = self.array(head).type.get_field_index(name) if head else self._batch.schema.get_field_index(name)
        if index < 0:
            raise KeyError(f"the batch has no column {'.'.join(path)}, or more than one")
        return pc.struct_field(self.array(head), indices=[index]) if head else self._batch.column(index)


_Evaluate = Callable[[BatchColumns, bool], pa.BooleanArray]
"""Evaluates a node. The flag allows it to return false for null, and null for false, which saves time."""
_Test = Callable[[pa.Array], pa.BooleanArray]
"""Tests the values of one column."""


def _prepare(node: Node) -> _Evaluate:
    match node:
        case BooleanConstant(value=value):
            return lambda batch, is_lenient: pa.repeat(pa.scalar(value, pa.bool_()), len(batch))
        case Comparison(column=column) | InList(column=column) | StringMatch(column=column) | LikeMatch(column=column):
            return partial(_test_column, column, _prepare_test(node))
        case IsNull(column=column):
            return lambda batch, is_lenient: _without_dictionary(batch.array(column.path)).is_null()
        case ColumnComparison():
            return lambda batch, is_lenient: _compare_columns(node, batch)
        case And(parts=parts):
            return partial(_all_true, [_prepare(part) for part in parts])
        case Or(parts=parts):
            return partial(_any_true, [_prepare(part) for part in parts])
        case Not(part=part):
            return partial(_invert, _prepare(part))
        case IsTrue(part=part):
            return partial(_is_true, _prepare(part))
        case IsUnknown(part=part):
            return partial(_is_unknown, _prepare(part))
    raise TypeError(f"not a bound node: {node!r}")


def _prepare_test(node: Comparison | InList | StringMatch | LikeMatch) -> _Test:
    match node:
        case Comparison():
            return _comparison(node)
        case InList():
            return _in_list(node)
        case StringMatch():
            return partial(_string_match, node)
        case LikeMatch():
            return partial(_like_match, node)


def _invert(part: _Evaluate, batch: BatchColumns, is_lenient: bool) -> pa.BooleanArray:
    """Invert a part, which must not exchange null and false."""
    return pc.invert(part(batch, False))


def _is_true(part: _Evaluate, batch: BatchColumns, is_lenient: bool) -> pa.BooleanArray:
    return without_nulls(part(batch, True))


def _is_unknown(part: _Evaluate, batch: BatchColumns, is_lenient: bool) -> pa.BooleanArray:
    return part(batch, False).is_null()


def _test_column(column: Column, test: _Test, batch: BatchColumns, is_lenient: bool) -> pa.BooleanArray:
    return test(_storage_values(batch, column))


def _storage_values(batch: BatchColumns, column: Column) -> pa.Array:
    """Return the values of a column. Dates and timestamps are the integers that they are stored as."""
    array = _without_dictionary(batch.array(column.path))
    return array.view(column.storage) if column.type in TEMPORAL else array


def _without_dictionary(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _comparison(node: Comparison) -> _Test:
    op, column, value = node.op, node.column, node.value
    if column.type is LogicalType.BOOLEAN:
        return lambda array: array if value else pc.invert(array)
    if isinstance(value, float) and math.isnan(value):
        return lambda array: pc.is_nan(array)
    scalar = pa.scalar(value, column.storage)
    if column.type in FLOATING and op in (Op.GT, Op.GE):
        # Arrow's comparisons are false for NaN, which is the largest value: `>` is evaluated as NOT `<=`.
        opposite = _KERNELS[Op.LE if op is Op.GT else Op.LT]
        return lambda array: pc.invert(opposite(array, scalar))
    kernel = _KERNELS[op]
    return lambda array: kernel(array, scalar)


def _in_list(node: InList) -> _Test:
    column, values = node.column, node.values
    has_zero = column.type in FLOATING and 0.0 in values
    members = [*(value for value in values if value != 0.0), 0.0, -0.0] if has_zero else list(values)
    lookup = ValueSet(pa.array(members, column.storage))

    def test(array: pa.Array) -> pa.BooleanArray:
        mask = with_nulls_of(array, lookup.contains(array))
        if node.has_nan:
            mask = pc.or_(mask, pc.is_nan(array))
        return pc.if_else(mask, mask, pa.scalar(None, pa.bool_())) if node.has_null else mask

    return test


def _string_match(node: StringMatch, array: pa.Array) -> pa.BooleanArray:
    """Compare bytes, so that invalid UTF-8 needs no special treatment."""
    if node.test is StringTest.PREFIX:
        return pc.starts_with(array, node.text)
    if node.test is StringTest.SUFFIX:
        return pc.ends_with(array, node.text)
    return pc.match_substring(array, node.text)


def _like_match(node: LikeMatch, array: pa.Array) -> pa.BooleanArray:
    """Apply the cheaper hint first, and the regular expression to the values that pass."""
    if node.hint is None:
        return pc.match_substring_regex(_valid_utf8(array), node.regex)
    candidates = _string_match(node.hint, array)
    indexes = pc.indices_nonzero(candidates)
    matches = pc.match_substring_regex(_valid_utf8(array.take(indexes)), node.regex)
    return with_nulls_of(array, scatter(len(array), indexes, matches))


_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_BINARY = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def _valid_utf8(array: pa.Array) -> pa.Array:
    """Replace invalid bytes with U+FFFD, as the JVM does; RE2 would not match invalid bytes at all."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_decode_utf8(value) for value in array.cast(_BINARY[array.type]).to_pylist()], array.type)
    return array


def _decode_utf8(value: bytes | None) -> str | None:
    """Decode as the JVM does: an encoded surrogate is one invalid character; Python counts two or three."""
    return None if value is None else _SURROGATE.sub(b"\xef\xbf\xbd", value).decode("utf-8", "replace")


def _compare_columns(node: ColumnComparison, batch: BatchColumns) -> pa.BooleanArray:
    left, right = _storage_values(batch, node.left), _storage_values(batch, node.right)
    mask = _KERNELS[node.op](left, right)
    if node.left.type not in FLOATING:
        return mask
    # NaN is the largest value: everything is at most NaN, and only NaN equals it.
    largest = pc.is_nan(right)
    if node.op is Op.EQ:
        largest = pc.and_(largest, pc.is_nan(left))
    if node.op is Op.LT:
        largest = pc.and_(largest, pc.invert(pc.is_nan(left)))
    return pc.or_(mask, largest)


def _all_true(parts: Sequence[_Evaluate], batch: BatchColumns, is_lenient: bool) -> pa.BooleanArray:
    """Evaluate part by part. Stop when no row remains."""
    mask = parts[0](batch, is_lenient)
    for part in parts[1:]:
        if mask.true_count == 0 and (is_lenient or mask.null_count == 0):
            break
        mask = pc.and_kleene(mask, part(batch, is_lenient))
    return mask


def _any_true(parts: Sequence[_Evaluate], batch: BatchColumns, is_lenient: bool) -> pa.BooleanArray:
    """Evaluate part by part. Stop when every row passes."""
    mask = parts[0](batch, is_lenient)
    for part in parts[1:]:
        if mask.true_count == len(mask):
            break
        mask = pc.or_kleene(mask, part(batch, is_lenient))
    return mask
