"""Byte patterns for blocks of encoded Avro records: bytes that a block contains if one of its records passes.

Searching raw bytes before decoding is Sparser's idea (Palkar et al., VLDB 2018). It suits Avro: a value has one
encoding, and the schema says which bytes can precede and follow it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pushdown_spark.expressions.bound import (
    NEGATED,
    And,
    BooleanConstant,
    Column,
    Comparison,
    InList,
    IsTrue,
    LikeMatch,
    Node,
    Not,
    Op,
    Or,
    StringMatch,
    StringTest,
)
from pushdown_spark.expressions.byte_patterns.avro_encoding import (
    MICROS_PER_MILLI,
    EncodedColumn,
    Encoding,
    encoded_string,
    encodings,
    exact_bytes,
    interval,
)
from pushdown_spark.expressions.byte_patterns.text import alternation
from pushdown_spark.expressions.types import GREGORIAN_DAY, GREGORIAN_MICROS, LogicalType, Path, Value

_MAX_VALUES = 20_000
_MAX_SIZE = 600_000
"""Characters of all expressions of a pattern. Larger patterns take more time to compile than they save."""
_MIN_BITS = 14.0
"""Patterns with fewer bits match in nearly every block of random bytes."""
_ENOUGH_BITS = 24.0
"""Patterns with more bits omit the class of bytes that may follow, which makes Hyperscan faster."""
_MAX_SHIFT = 2 * 86_400 * 1_000_000
"""An upper bound of the shift of a time by local mean time, in microseconds."""
_FIRST_UNSHIFTED = {LogicalType.DATE: GREGORIAN_DAY, LogicalType.TIMESTAMP: GREGORIAN_MICROS + _MAX_SHIFT}
"""From these values on, Spark reads values as written, and shifts no earlier value into this range."""
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


def block_patterns(root: Node, locate: Locate, *, takes_ancient: bool) -> tuple[BlockPattern, ...]:
    """Return patterns that all match in a block that contains a passing record, the rarest first.

    Without patterns, every block may contain one. A pattern without expressions means that no record passes. Unless
    `takes_ancient` is set, Spark may shift dates and times from before the calendars agreed, so that their bytes prove
    nothing.
    """
    visitor = _PatternVisitor(locate, {} if takes_ancient else _FIRST_UNSHIFTED)
    usable = [pattern for pattern in visitor.patterns(root, True) if pattern.is_usable]
    return tuple(sorted(usable, key=lambda pattern: -pattern.bits))


_NEVER = BlockPattern((), math.inf, "")
_INTEGERS = frozenset({LogicalType.INTEGER, LogicalType.DATE, LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ})
_TYPES: dict[Encoding, frozenset[LogicalType]] = {
    Encoding.NUMBER: _INTEGERS,
    Encoding.MILLIS: frozenset({LogicalType.TIMESTAMP, LogicalType.TIMESTAMP_NTZ}),
    Encoding.FLOAT: frozenset({LogicalType.FLOAT}),
    Encoding.DOUBLE: frozenset({LogicalType.DOUBLE}),
    Encoding.STRING: frozenset({LogicalType.STRING, LogicalType.BINARY}),
    Encoding.FIXED: frozenset({LogicalType.BINARY}),
    Encoding.ENUM: frozenset({LogicalType.STRING}),
    Encoding.DECIMAL: frozenset({LogicalType.DECIMAL}),
    Encoding.FIXED_DECIMAL: frozenset({LogicalType.DECIMAL}),
}


class _PatternVisitor:
    """Collects the patterns of a bound tree."""

    def __init__(self, locate: Locate, first_unshifted: Mapping[LogicalType, int]) -> None:
        self._locate = locate
        self._first_unshifted = first_unshifted

    def patterns(self, node: Node, truth: bool) -> list[BlockPattern]:
        """Return the patterns of blocks that have a record where a node has a truth value."""
        match node:
            case BooleanConstant(value=value):
                return [] if value is truth else [_NEVER]
            case Not(part=part):
                return self.patterns(part, not truth)
            case IsTrue(part=part) if truth:
                return self.patterns(part, True)
            case And(parts=parts) | Or(parts=parts):
                return self._all(parts, truth) if isinstance(node, And) is truth else self._any(parts, truth)
            case Comparison(column=column, op=Op.EQ, value=value):
                return self._in_list(column, [value]) if truth else []
            case Comparison() if (bound := _bound(node, truth)) is not None:
                return self._between(*bound)
            case InList(column=column, values=values, has_nan=has_nan) if truth:
                return [] if has_nan else self._in_list(column, values)
            case StringMatch() if truth:
                return self._string_match(node)
            case LikeMatch(hint=hint) if truth and hint is not None:
                return self._string_match(hint)
        return []

    def _all(self, parts: Sequence[Node], truth: bool) -> list[BlockPattern]:
        """Require the truth value of all parts. The bounds of one column are intersected."""
        bounds: dict[Column, tuple[int, int]] = {}
        patterns: list[BlockPattern] = []
        for part in _flat(parts, And if truth else Or):
            bound = _bound(part, truth)
            if bound is None:
                patterns += self.patterns(part, truth)
                continue
            column, low, high = bound
            other = bounds.get(column, (low, high))
            bounds[column] = max(other[0], low), min(other[1], high)
        for column, (low, high) in bounds.items():
            patterns += self._between(column, low, high)
        return patterns

    def _any(self, parts: Sequence[Node], truth: bool) -> list[BlockPattern]:
        """Require the truth value of one part: the rarest pattern of each part, if all parts have patterns."""
        combined = _NEVER
        for part in parts:
            usable = self.patterns(part, truth)
            if not usable:
                return []
            combined |= max(usable, key=lambda pattern: pattern.bits)
        return [combined]

    def _between(self, column: Column, low: int, high: int) -> list[BlockPattern]:
        """Return the pattern of the integers from `low` to `high`, inclusive."""
        encoded = self._find_encoding(column)
        if (
            encoded is None
            or encoded.encoding not in (Encoding.NUMBER, Encoding.MILLIS)
            or self._may_shift(column, low)
        ):
            return []
        first, last = low, high
        if encoded.encoding is Encoding.MILLIS:
            first, last = -(-low // MICROS_PER_MILLI), high // MICROS_PER_MILLI
        label = f"{'.'.join(column.path)}: {low} to {high}"
        return [_pattern(encoded, interval(first, last), label) if first <= last else _NEVER]

    def _in_list(self, column: Column, values: Sequence[Value]) -> list[BlockPattern]:
        """Return the pattern of some values."""
        encoded = self._find_encoding(column)
        if not values:
            return [_NEVER]
        if encoded is None or len(values) > _MAX_VALUES or any(self._may_shift(column, value) for value in values):
            return []
        expressions: list[str] = []
        for value in values:
            alternatives = encodings(encoded, value)
            if alternatives is None:
                return []
            expressions += alternatives
        label = f"{'.'.join(column.path)}: " + (str(values[0]) if len(values) == 1 else f"one of {len(values)}")
        return [_pattern(encoded, expressions, label) if expressions else _NEVER]

    def _string_match(self, node: StringMatch) -> list[BlockPattern]:
        """Return the pattern of the bytes that every matching string contains."""
        encoded = self._find_encoding(node.column)
        if encoded is None or not node.text:
            return []
        if encoded.encoding is Encoding.ENUM:
            return self._in_list(node.column, [symbol for symbol in encoded.symbols if _matches(symbol, node)])
        text = encoded_string(node.text)
        if encoded.encoding is not Encoding.STRING or text is None:
            return []
        label = f"{'.'.join(node.column.path)} {node.test} {node.text!r}"
        if node.test is StringTest.SUFFIX:
            return [_pattern(EncodedColumn(encoded.encoding, "", encoded.after), [exact_bytes(text)], label)]
        before = _LENGTH_END if node.test is StringTest.PREFIX else ""
        return [_pattern(EncodedColumn(encoded.encoding, before, ""), [exact_bytes(text)], label)]

    def _may_shift(self, column: Column, least: Value) -> bool:
        """Return whether Spark may read another stored value as this value or a later one."""
        return isinstance(least, int) and least < self._first_unshifted.get(column.type, least)

    def _find_encoding(self, column: Column) -> EncodedColumn | None:
        encoded = self._locate(column.path)
        return encoded if encoded is not None and column.type in _TYPES[encoded.encoding] else None


def _flat(parts: Iterable[Node], kind: type[And | Or]) -> Iterator[Node]:
    """Yield the parts of a conjunction or disjunction, and those of its parts of the same kind."""
    for part in parts:
        if isinstance(part, And | Or) and isinstance(part, kind):
            yield from _flat(part.parts, kind)
        else:
            yield part


def _bound(node: Node, truth: bool) -> tuple[Column, int, int] | None:
    """Return the column of integers that a comparison bounds, and its interval."""
    if not isinstance(node, Comparison) or node.op is Op.EQ or not isinstance(node.value, int):
        return None
    if node.column.type not in _INTEGERS:
        return None
    op = node.op if truth else NEGATED[node.op]
    limit = 2 ** (node.column.storage.bit_width - 1)
    if op in (Op.LT, Op.LE):
        return node.column, -limit, node.value - (op is Op.LT)
    return node.column, node.value + (op is Op.GT), limit - 1


def _matches(symbol: str, node: StringMatch) -> bool:
    test = {
        StringTest.PREFIX: symbol.startswith,
        StringTest.SUFFIX: symbol.endswith,
        StringTest.CONTAINS: symbol.__contains__,
    }
    return bool(test[node.test](node.text))


def _pattern(encoded: EncodedColumn, values: Sequence[str], label: str) -> BlockPattern:
    bits = _bits_of_any([_bits(value) for value in values]) + _bits(encoded.before)
    after = encoded.after if bits < _ENOUGH_BITS else ""
    expressions = tuple(encoded.before + group + after for group in alternation(values))
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
    least = min(bits)
    return least if math.isinf(least) else least - math.log2(sum(2.0 ** (least - pattern) for pattern in bits))
