"""Byte patterns for blocks of encoded Avro records: bytes that a block contains if one of its records passes.

Searching raw bytes before decoding is Sparser's idea (Palkar et al., VLDB 2018). It suits Avro: a value has one
encoding, and the schema says which bytes can precede and follow it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from pushdown_spark.expressions.bound import Column, Node
from pushdown_spark.expressions.byte_patterns.avro_encoding import (
    MICROS_PER_MILLI,
    EncodedColumn,
    Encoding,
    encoded_string,
    encodings,
    exact_bytes,
    interval,
)
from pushdown_spark.expressions.byte_patterns.facts import (
    AllOf,
    AnyOf,
    EqualsAny,
    Fact,
    HasSubstrings,
    InRange,
    Scalar,
    facts_of,
)
from pushdown_spark.expressions.byte_patterns.text import alternation
from pushdown_spark.expressions.types import (
    EPOCH_ORDINAL,
    GREGORIAN_DAY,
    GREGORIAN_MICROS,
    TEMPORAL,
    LogicalType,
    Path,
    Value,
)

_MAX_SIZE = 600_000
"""Characters of all expressions of a pattern. Larger patterns take more time to compile than they save."""
_MIN_BITS = 14.0
"""Patterns with fewer bits match in nearly every block of random bytes."""
_ENOUGH_BITS = 24.0
"""Patterns with more bits omit the class of bytes that may follow, which makes Hyperscan faster."""
_MAX_SHIFT = 2 * 86_400 * 1_000_000
"""An upper bound of the shift of a time by local mean time, in microseconds."""
_FIRST_STABLE_VALUES = {LogicalType.DATE: GREGORIAN_DAY, LogicalType.TIMESTAMP: GREGORIAN_MICROS + _MAX_SHIFT}
"""From these values on, Spark reads values as written, and shifts no earlier value into this range."""
_EPOCH = datetime(1970, 1, 1)
_LENGTH_END = "[\\x00-\\x7f]"
"""The last byte of a length."""
_BYTE = re.compile(r"\[([^\]]*)\]|(\\x[0-9a-f]{2})")
_SPAN = re.compile(r"\\x([0-9a-f]{2})(?:-\\x([0-9a-f]{2}))?")


Locate = Callable[[Path], EncodedColumn | None]
"""Returns the encoding of a column or struct member; None where its bytes prove nothing."""


@dataclass(frozen=True)
class BlockPattern:
    """Expressions (Hyperscan's syntax, over bytes) of which a block must match at least one.

    Random bytes match at one in 2 ** `bits` positions.
    """

    expressions: tuple[str, ...]
    bits: float
    label: str

    def __or__(self, other: BlockPattern) -> BlockPattern:
        return BlockPattern(
            tuple(dict.fromkeys(self.expressions + other.expressions)),
            _bits_of_any([self.bits, other.bits]),
            " | ".join(dict.fromkeys(label for label in (self.label, other.label) if label)),
        )

    @property
    def is_usable(self) -> bool:
        """Whether a search for the pattern can save time."""
        return self.bits >= _MIN_BITS and sum(map(len, self.expressions)) <= _MAX_SIZE


def block_patterns(root: Node, locate: Locate, *, includes_shifted_dates: bool) -> tuple[BlockPattern, ...]:
    """Return patterns that all match in a block that contains a passing record, the rarest first.

    Without patterns, every block may contain one. A pattern without expressions means that no record passes. Without
    `includes_shifted_dates`, dates and times from before the calendars agreed have none, because Spark may shift them.
    """
    writer = _PatternWriter(locate, {} if includes_shifted_dates else _FIRST_STABLE_VALUES)
    usable = [pattern for pattern in writer.patterns(facts_of(root)) if pattern.is_usable]
    return tuple(sorted(usable, key=lambda pattern: -pattern.bits))


_NEVER = BlockPattern((), math.inf, "")
_TYPES: dict[Encoding, frozenset[LogicalType]] = {
    Encoding.NUMBER: frozenset({LogicalType.INTEGER, *TEMPORAL}),
    Encoding.MILLIS: frozenset({LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ}),
    Encoding.FLOAT: frozenset({LogicalType.FLOAT}),
    Encoding.DOUBLE: frozenset({LogicalType.DOUBLE}),
    Encoding.STRING: frozenset({LogicalType.STRING, LogicalType.BINARY}),
    Encoding.FIXED: frozenset({LogicalType.BINARY}),
    Encoding.ENUM: frozenset({LogicalType.STRING}),
    Encoding.DECIMAL: frozenset({LogicalType.DECIMAL}),
    Encoding.FIXED_DECIMAL: frozenset({LogicalType.DECIMAL}),
}


class _PatternWriter:
    """Writes the patterns of facts."""

    def __init__(self, locate: Locate, first_stable_values: Mapping[LogicalType, int]) -> None:
        self._locate = locate
        self._first_stable_values = first_stable_values

    def patterns(self, facts: AllOf) -> list[BlockPattern]:
        """Return the patterns of blocks that have a record with these facts."""
        parts = (self._any(part) if isinstance(part, AnyOf) else self._fact(part) for part in facts.parts)
        return [pattern for patterns in parts for pattern in patterns]

    def _any(self, fact: AnyOf) -> list[BlockPattern]:
        """Require the rarest pattern of one branch, if all branches have patterns."""
        union = _NEVER
        for branch in fact.branches:
            usable = self.patterns(branch)
            if not usable:
                return []
            union |= max(usable, key=lambda pattern: pattern.bits)
        return [union]

    def _fact(self, fact: Fact) -> list[BlockPattern]:
        column, encoded_column = fact.column, self._locate(fact.column.path)
        if encoded_column is None or column.type not in _TYPES[encoded_column.encoding]:
            return []
        match fact:
            case InRange(low=low, high=high) if encoded_column.encoding in (Encoding.NUMBER, Encoding.MILLIS):
                limit = 2 ** (column.storage.bit_width - 1)
                first = -limit if low is None else int(_file_value(column, low))
                return self._between(
                    column, encoded_column, first, limit - 1 if high is None else int(_file_value(column, high))
                )
            case EqualsAny():
                return self._in_list(column, encoded_column, [_file_value(column, value) for value in fact.values])
            case HasSubstrings():
                return self._substrings(fact, encoded_column)
        return []

    def _between(self, column: Column, encoded_column: EncodedColumn, low: int, high: int) -> list[BlockPattern]:
        """Return the pattern of the integers from `low` to `high`, inclusive."""
        if self._may_shift(column, low):
            return []
        first, last = low, high
        if encoded_column.encoding is Encoding.MILLIS:
            first, last = -(-low // MICROS_PER_MILLI), high // MICROS_PER_MILLI
        label = f"{'.'.join(column.path)}: {low} to {high}"
        return [_pattern(encoded_column, interval(first, last), label) if first <= last else _NEVER]

    def _in_list(self, column: Column, encoded_column: EncodedColumn, values: Sequence[Value]) -> list[BlockPattern]:
        """Return the pattern of some values."""
        if any(self._may_shift(column, value) for value in values):
            return []
        expressions: list[str] = []
        for value in values:
            alternatives = encodings(encoded_column, value)
            if alternatives is None:
                return []
            expressions += alternatives
        label = f"{'.'.join(column.path)}: " + (str(values[0]) if len(values) == 1 else f"one of {len(values)}")
        return [_pattern(encoded_column, expressions, label) if expressions else _NEVER]

    def _substrings(self, fact: HasSubstrings, encoded_column: EncodedColumn) -> list[BlockPattern]:
        """Return the patterns of the bytes that every matching string contains."""
        if encoded_column.encoding is Encoding.ENUM:
            return self._in_list(
                fact.column, encoded_column, [symbol for symbol in encoded_column.symbols if _matches(symbol, fact)]
            )
        if encoded_column.encoding is not Encoding.STRING:
            return []
        patterns = []
        for number, text in enumerate(fact.substrings):
            is_start = fact.is_prefix and number == 0
            if data := encoded_string(text):
                label = f"{'.'.join(fact.column.path)} {'starts with' if is_start else 'contains'} {text!r}"
                column = EncodedColumn(encoded_column.encoding, _LENGTH_END if is_start else "")
                patterns.append(_pattern(column, [exact_bytes(data)], label))
        return patterns

    def _may_shift(self, column: Column, value: Value) -> bool:
        """Return whether Spark may read another stored value as this value or a later one."""
        return isinstance(value, int) and value < self._first_stable_values.get(column.type, value)


def _file_value(column: Column, fact_value: Scalar) -> Value:
    """Return the value that stands for the value of a fact in files."""
    if isinstance(fact_value, datetime):
        return (fact_value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(fact_value, date):
        return fact_value.toordinal() - EPOCH_ORDINAL
    if isinstance(fact_value, Decimal) and column.type is not LogicalType.DECIMAL:
        return int(fact_value) if column.type is LogicalType.INTEGER else float(fact_value)
    return fact_value


def _matches(symbol: str, fact: HasSubstrings) -> bool:
    starts = not fact.is_prefix or symbol.startswith(fact.substrings[0])
    return starts and all(text in symbol for text in fact.substrings)


def _pattern(encoded_column: EncodedColumn, values: Sequence[str], label: str) -> BlockPattern:
    bits = _bits_of_any([_bits(value) for value in values]) + _bits(encoded_column.before)
    after = encoded_column.after if bits < _ENOUGH_BITS else ""
    expressions = tuple(encoded_column.before + group + after for group in alternation(values))
    return BlockPattern(expressions, bits + _bits(after), label)


def _bits(expression: str) -> float:
    """Return the information in an expression of single bytes and classes, in bits."""
    return sum(8 - math.log2(_members(byte)) for byte in _BYTE.finditer(expression))


def _members(byte: re.Match[str]) -> int:
    """Return the number of bytes in a class."""
    spans = _SPAN.finditer(byte[1]) if byte[1] is not None else ()
    return sum(int(span[2] or span[1], 16) - int(span[1], 16) + 1 for span in spans) or 1


def _bits_of_any(bits: Sequence[float]) -> float:
    """Return the information in a match of any of several patterns."""
    fewest = min(bits)
    return fewest if math.isinf(fewest) else fewest - math.log2(sum(2.0 ** (fewest - pattern) for pattern in bits))
