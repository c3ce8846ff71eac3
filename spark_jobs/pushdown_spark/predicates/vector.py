"""Evaluates a compiled predicate over whole Arrow batches, three-valued as Spark does.

Python workers evaluate what the driver compiled (`pushdown_spark.predicates.compile`), so this module needs neither
Spark nor a parser. All constants are already values of their column's type: nothing is cast here.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.predicates.lookup import Lookup, scatter, with_nulls_of, without_nulls

Path = tuple[str, ...]
Value = bool | int | float | Decimal | str | bytes
"""Constants by kind: dates are days and timestamps microseconds since 1970-01-01 (UTC, or without a zone)."""

_ROWS_FOR_REPEATED_EQUAL = 16_384
_VALUES_FOR_REPEATED_EQUAL = 4
"""Comparing so few values one by one beats hashing, but only over batches that make up for the calls."""
_ROWS_TO_NARROW = 4_096
_NARROW_SHARE = 16
"""The rest of an AND is evaluated on the rows that are left where these are fewer than one in so many."""


class Kind(StrEnum):
    """Types by the way their values compare."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    OTHER = "other"


FLOATING = frozenset({Kind.FLOAT, Kind.DOUBLE})


class Op(StrEnum):
    """Comparisons; every other one is one of these with NOT or with sides changed."""

    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class TextTest(StrEnum):
    """Where a string holds another."""

    PREFIX = "starts with"
    SUFFIX = "ends with"
    CONTAINS = "contains"


@dataclass(frozen=True)
class Column:
    """A column or struct member by its names as in the schema, and the Arrow type in which its values are compared."""

    path: Path
    kind: Kind
    storage: pa.DataType


class Rows:
    """The columns of one batch, each looked up once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._found: dict[Path, pa.Array] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def array(self, path: Path) -> pa.Array:
        """The values at a path; a null parent makes its members null. Raises KeyError where there is no such name."""
        if path not in self._found:
            self._found[path] = self._find(path)
        return self._found[path]

    def _find(self, path: Path) -> pa.Array:
        head, name = path[:-1], path[-1]
        index = self.array(head).type.get_field_index(name) if head else self._batch.schema.get_field_index(name)
        if index < 0:
            raise KeyError(f"the batch has no column {'.'.join(path)}, or more than one")
        return pc.struct_field(self.array(head), indices=[index]) if head else self._batch.column(index)

    def narrowed(self, indices: pa.Array) -> Rows:
        """Some of these rows only."""
        return _SomeRows(self, indices)

    def test(self, column: Column, test: Callable[[pa.Array], pa.BooleanArray]) -> pa.BooleanArray:
        """A test of each value; of each different value where the column is dictionary-encoded."""
        array = self.array(column.path)
        if not pa.types.is_dictionary(array.type):
            return test(_stored(array, column))
        if len(array.dictionary) > len(array):
            return test(_stored(array.dictionary_decode(), column))
        return test(_stored(array.dictionary, column)).take(array.indices)


class _SomeRows(Rows):
    def __init__(self, rows: Rows, indices: pa.Array) -> None:
        self._rows = rows
        self._indices = indices
        self._found = {}

    def __len__(self) -> int:
        return len(self._indices)

    def _find(self, path: Path) -> pa.Array:
        return self._rows.array(path).take(self._indices)


def _stored(array: pa.Array, column: Column) -> pa.Array:
    """Dates and timestamps as the integers they are, everything else as it is."""
    is_time = column.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
    return array.view(column.storage) if is_time else array


class Node(ABC):
    """A part of a compiled predicate."""

    @abstractmethod
    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """True, false or null for each row; `lenient` allows null and false to be mixed up, which saves time."""

    def __getstate__(self) -> dict[str, object]:
        """What is computed from the fields stays in this process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Leaf(Node):
    """A test of one column's values."""

    column: Column

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """By `test`, of each value."""
        return rows.test(self.column, self.test)

    @abstractmethod
    def test(self, array: pa.Array) -> pa.BooleanArray:
        """True, false or null for each value."""


@dataclass(frozen=True)
class _Of(Node):
    """Something about another part."""

    part: Node


@dataclass(frozen=True)
class _Junction(Node):
    """Several parts, in the order in which they are asked."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Constant(Node):
    """The same answer for every row."""

    value: bool | None

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """The constant, for each row."""
        return pa.repeat(pa.scalar(self.value, pa.bool_()), len(rows))


@dataclass(frozen=True)
class Compare(_Leaf):
    """A column against a constant; null where the column is.

    Among floats NaN is the largest, and it is compared with EQ alone; so are booleans.
    """

    op: Op
    value: Value

    @cached_property
    def _scalar(self) -> pa.Scalar:
        return pa.scalar(self.value, self.column.storage)

    def test(self, array: pa.Array) -> pa.BooleanArray:
        """By Arrow's kernels, with Spark's order of floats."""
        if self.column.kind is Kind.BOOLEAN:
            return array if self.value else pc.invert(array)
        if self.column.kind in FLOATING:
            return self._floating(array)
        return _KERNELS[self.op](array, self._scalar)

    def _floating(self, array: pa.Array) -> pa.BooleanArray:
        """Arrow's comparisons are false for NaN, so `>` is asked as the opposite of `<=`."""
        if isinstance(self.value, float) and math.isnan(self.value):
            return pc.is_nan(array)
        if self.op in (Op.GT, Op.GE):
            return pc.invert(_KERNELS[Op.LE if self.op is Op.GT else Op.LT](array, self._scalar))
        return _KERNELS[self.op](array, self._scalar)


_KERNELS: dict[Op, Callable[..., pa.BooleanArray]] = {
    Op.EQ: pc.equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


@dataclass(frozen=True)
class OneOf(_Leaf):
    """A column against a list; `nan` and `null` tell whether the list holds those.

    `values` ascend without repeats. Without any value it is false wherever the column is not null.
    """

    values: tuple[Value, ...]
    null: bool = False
    nan: bool = False

    @cached_property
    def _lookup(self) -> Lookup:
        zeros = [0.0, -0.0] if self.column.kind in FLOATING and 0.0 in self.values else []
        values = [value for value in self.values if value != 0.0] if zeros else list(self.values)
        return Lookup(pa.array([*values, *zeros], self.column.storage))

    @cached_property
    def _scalars(self) -> tuple[pa.Scalar, ...]:
        return tuple(pa.scalar(value, self.column.storage) for value in self.values)

    def test(self, array: pa.Array) -> pa.BooleanArray:
        """By hash; where the list holds a null, what is not found is unknown."""
        mask = self._found(array)
        if self.nan:
            mask = pc.or_(mask, pc.is_nan(array))
        return pc.if_else(mask, mask, pa.scalar(None, pa.bool_())) if self.null else mask

    def _found(self, array: pa.Array) -> pa.BooleanArray:
        few = 0 < len(self.values) <= _VALUES_FOR_REPEATED_EQUAL and len(array) >= _ROWS_FOR_REPEATED_EQUAL
        if not few or self.column.kind in (Kind.STRING, Kind.BINARY, Kind.DECIMAL):
            return with_nulls_of(array, self._lookup.find(array))
        mask = pc.equal(array, self._scalars[0])
        for scalar in self._scalars[1:]:
            mask = pc.or_(mask, pc.equal(array, scalar))
        return mask


@dataclass(frozen=True)
class Text(_Leaf):
    """A string column that holds a string somewhere."""

    how: TextTest
    text: str

    def test(self, array: pa.Array) -> pa.BooleanArray:
        """Compares bytes, so that malformed text is no obstacle."""
        if self.how is TextTest.PREFIX:
            return pc.starts_with(array, self.text)
        if self.how is TextTest.SUFFIX:
            return pc.ends_with(array, self.text)
        return pc.match_substring(array, self.text)


@dataclass(frozen=True)
class Pattern(_Leaf):
    """A string column against a LIKE pattern of any shape.

    `regex` is the pattern in RE2's syntax, anchored at both ends; `hint` is a cheaper test that every match passes.
    """

    regex: str
    hint: Text | None

    def test(self, array: pa.Array) -> pa.BooleanArray:
        """The hint first, the regular expression on what passes it."""
        if self.hint is None:
            return self._match(array)
        hinted = self.hint.test(array)
        indices = pc.indices_nonzero(hinted)
        matched = self._match(array.take(indices))
        return with_nulls_of(array, scatter(len(array), indices, matched))

    def _match(self, array: pa.Array) -> pa.BooleanArray:
        return pc.match_substring_regex(_well_formed(array), self.regex)


def _well_formed(array: pa.Array) -> pa.Array:
    """The strings with U+FFFD for malformed bytes, as the JVM decodes them; RE2 would not match those bytes at all."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in array.cast(_BINARY[array.type]).to_pylist()], array.type)
    return array


_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_BINARY = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def _decoded(value: bytes | None) -> str | None:
    """Like Python's decoder, but an encoded surrogate is one wrong character to the JVM and not two or three."""
    return None if value is None else _SURROGATE.sub(b"\xef\xbf\xbd", value).decode("utf-8", "replace")


@dataclass(frozen=True)
class IsNull(Node):
    """A column of any type is null."""

    column: Column

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """Never null itself."""
        array = rows.array(self.column.path)
        if not pa.types.is_dictionary(array.type):
            return array.is_null()
        return pc.fill_null(array.dictionary.is_null().take(array.indices), True)


@dataclass(frozen=True)
class Pair(Node):
    """Two columns of the same kind against each other; null where either is. The operator is EQ, LT or LE."""

    op: Op
    left: Column
    right: Column

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """By Arrow's kernels, with Spark's order of floats."""
        left, right = (_plain(rows.array(column.path), column) for column in (self.left, self.right))
        mask = _KERNELS[self.op](left, right)
        if self.left.kind not in FLOATING:
            return mask
        # NaN is the largest value: whatever is on the left is at most NaN, and equal only to it.
        largest = pc.is_nan(right)
        if self.op is Op.EQ:
            largest = pc.and_(largest, pc.is_nan(left))
        if self.op is Op.LT:
            largest = pc.and_(largest, pc.invert(pc.is_nan(left)))
        return pc.or_(mask, largest)


def _plain(array: pa.Array, column: Column) -> pa.Array:
    return _stored(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array, column)


@dataclass(frozen=True)
class And(_Junction):
    """All parts hold. It stops as soon as nothing is left."""

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """Part by part, on the rows that are left once these are few."""
        mask = self.parts[0].evaluate(rows, lenient)
        for number, part in enumerate(self.parts[1:], 1):
            left = mask.true_count
            if left == 0 and (lenient or mask.null_count == 0):
                return mask
            if lenient and len(rows) >= _ROWS_TO_NARROW and left * _NARROW_SHARE < len(rows):
                indices = pc.indices_nonzero(mask)
                return scatter(len(rows), indices, And(self.parts[number:]).evaluate(rows.narrowed(indices), lenient))
            mask = pc.and_kleene(mask, part.evaluate(rows, lenient))
        return mask


@dataclass(frozen=True)
class Or(_Junction):
    """Any part holds. It stops as soon as every row is in."""

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """Part by part."""
        mask = self.parts[0].evaluate(rows, lenient)
        for part in self.parts[1:]:
            if mask.true_count == len(mask):
                break
            mask = pc.or_kleene(mask, part.evaluate(rows, lenient))
        return mask


@dataclass(frozen=True)
class Not(_Of):
    """The opposite; null stays null."""

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """Asks the part strictly: here null and false are not the same."""
        return pc.invert(self.part.evaluate(rows, False))


@dataclass(frozen=True)
class IsTrue(_Of):
    """Whether the part is true: false where it is null."""

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """Never null."""
        return without_nulls(self.part.evaluate(rows, True))


@dataclass(frozen=True)
class IsUnknown(_Of):
    """Whether the part is null."""

    def evaluate(self, rows: Rows, lenient: bool) -> pa.BooleanArray:
        """Never null."""
        return self.part.evaluate(rows, False).is_null()


def _columns(node: Node) -> Iterator[Column]:
    match node:
        case Pair(left=left, right=right):
            yield from (left, right)
        case _Leaf(column=column) | IsNull(column=column):
            yield column
        case _Of(part=part):
            yield from _columns(part)
        case _Junction(parts=parts):
            for part in parts:
                yield from _columns(part)


def _lists(node: Node) -> Iterator[int]:
    match node:
        case OneOf(values=values):
            yield len(values)
        case _Of(part=part):
            yield from _lists(part)
        case _Junction(parts=parts):
            for part in parts:
                yield from _lists(part)


@dataclass(frozen=True)
class VectorFilter:
    """A compiled predicate. `left_out` says in words which parts of it are not in the tree, empty where it is exact."""

    root: Node
    left_out: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether it keeps just the rows that Spark keeps; else it may keep more."""
        return not self.left_out

    @cached_property
    def columns(self) -> tuple[Path, ...]:
        """The columns and struct members that `mask` reads, in the order of the tree."""
        return tuple(dict.fromkeys(column.path for column in _columns(self.root)))

    @cached_property
    def lists(self) -> tuple[int, ...]:
        """The lengths of the lists that columns are looked up in."""
        return tuple(_lists(self.root))

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """The predicate's value for each row, null where it is unknown.

        The batch holds at least `columns`, with the Arrow types of the schema the predicate was compiled for (strings
        may be large or dictionary-encoded). Raises KeyError for a column that is not there.
        """
        return self.root.evaluate(Rows(batch), False)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether each row is kept, without nulls; faster than `mask`."""
        return without_nulls(self.root.evaluate(Rows(batch), True))
