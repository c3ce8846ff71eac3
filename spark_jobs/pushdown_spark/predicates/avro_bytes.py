"""Byte patterns for blocks of encoded Avro records: what a block must contain if one of its records passes a filter.

The idea of searching raw bytes before decoding is Sparser's (Palkar et al., VLDB 2018). Avro makes it exact: a value
has one encoding, and the schema tells which bytes can stand right before and behind it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pushdown_spark.predicates.avro_values import (
    GREGORIAN_DAY,
    GREGORIAN_MICROS,
    MICROS,
    Encoding,
    Place,
    encoded_text,
    plain,
    spellings,
)
from pushdown_spark.predicates.pattern import alternation
from pushdown_spark.predicates.varint import interval
from pushdown_spark.predicates.vector import (
    And,
    Column,
    Compare,
    Constant,
    IsTrue,
    Kind,
    Node,
    Not,
    OneOf,
    Op,
    Or,
    Path,
    Pattern,
    Text,
    TextTest,
    Value,
)

_MAX_VALUES = 20_000
_MAX_SIZE = 600_000
"""Characters of all expressions of a pattern; a larger one costs more to compile than it saves."""
_MIN_BITS = 14.0
"""A pattern that random bytes match more often than once in 2 to the power of this is in every block."""
_ENOUGH_BITS = 24.0
"""Patterns as rare as this go without the class of bytes that may follow: Hyperscan is three times as fast without."""
_MOVED_BY = 2 * 86_400 * 1_000_000
"""More microseconds than a zone's local mean time can be off: so far beyond 1900 a moved time may come to lie."""
_CERTAIN = {Kind.DATE: GREGORIAN_DAY, Kind.TIMESTAMP: GREGORIAN_MICROS + _MOVED_BY}
"""From here on values are what they seem in any calendar, and nothing earlier is moved here."""
_LENGTH_END = "[\\x00-\\x7f]"
"""The last byte of a length."""
_BYTE = re.compile(r"\[([^\]]*)\]|(\\x[0-9a-f]{2})")
_SPAN = re.compile(r"\\x([0-9a-f]{2})(?:-\\x([0-9a-f]{2}))?")


Locate = Callable[[Path], Place | None]
"""Tells where a column or struct member is; None where its bytes prove nothing."""


@dataclass(frozen=True)
class BlockPattern:
    """Expressions (Hyperscan's syntax, over bytes) of which a block must match at least one.

    `bits` tells how rarely random bytes match: once in 2 ** bits places.
    """

    expressions: tuple[str, ...]
    bits: float
    label: str

    def __or__(self, other: BlockPattern) -> BlockPattern:
        return BlockPattern(
            tuple(dict.fromkeys(self.expressions + other.expressions)),
            _together([self.bits, other.bits]),
            " | ".join(dict.fromkeys(label for label in (self.label, other.label) if label)),
        )

    @property
    def is_usable(self) -> bool:
        """Whether searching for it can pay at all."""
        return self.bits >= _MIN_BITS and sum(map(len, self.expressions)) <= _MAX_SIZE


def block_patterns(root: Node, locate: Locate, *, takes_ancient: bool) -> tuple[BlockPattern, ...]:
    """What a block with a record that passes must contain: a match of each of these patterns, the rarest first.

    No patterns say nothing, a pattern without expressions says that no record passes. Without `takes_ancient` Spark may
    move dates and times from before the calendars agreed: their bytes prove nothing, a block must be decoded for them.
    """
    certain = {} if takes_ancient else _CERTAIN
    found = [pattern for pattern in _Search(locate, certain).needs(root, True) if pattern.is_usable]
    return tuple(sorted(found, key=lambda pattern: -pattern.bits))


_NEVER = BlockPattern((), math.inf, "")
_FLIPPED = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}
_NUMBERS = frozenset({Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
_KINDS: dict[Encoding, frozenset[Kind]] = {
    Encoding.NUMBER: _NUMBERS,
    Encoding.MILLIS: frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}),
    Encoding.FLOAT: frozenset({Kind.FLOAT}),
    Encoding.DOUBLE: frozenset({Kind.DOUBLE}),
    Encoding.TEXT: frozenset({Kind.STRING, Kind.BINARY}),
    Encoding.FIXED: frozenset({Kind.BINARY}),
    Encoding.SYMBOL: frozenset({Kind.STRING}),
    Encoding.DECIMAL: frozenset({Kind.DECIMAL}),
    Encoding.FIXED_DECIMAL: frozenset({Kind.DECIMAL}),
}


class _Search:
    def __init__(self, locate: Locate, certain: Mapping[Kind, int]) -> None:
        self._locate = locate
        self._certain = certain

    def needs(self, node: Node, truth: bool) -> list[BlockPattern]:
        """Patterns that a block needs in order to hold a record for which the node has that truth value."""
        match node:
            case Constant(value=value):
                return [] if value is truth else [_NEVER]
            case Not(part=part):
                return self.needs(part, not truth)
            case IsTrue(part=part) if truth:
                return self.needs(part, True)
            case And(parts=parts) | Or(parts=parts):
                return self._all(parts, truth) if isinstance(node, And) is truth else self._any(parts, truth)
            case Compare(column=column, op=op, value=value):
                return self._compare(column, op, value, truth)
            case OneOf(column=column, values=values, nan=nan) if truth:
                return [] if nan else self._one_of(column, values)
            case Text() if truth:
                return self._text(node)
            case Pattern(hint=hint) if truth and hint is not None:
                return self._text(hint)
        return []

    def _all(self, parts: Sequence[Node], truth: bool) -> list[BlockPattern]:
        """All parts have the truth value; the bounds of one column are taken together."""
        bounds: dict[Column, tuple[int, int]] = {}
        found: list[BlockPattern] = []
        for part in _flat(parts, And if truth else Or):
            bound = _bound(part, truth)
            if bound is None:
                found += self.needs(part, truth)
                continue
            column, low, high = bound
            known = bounds.get(column, (low, high))
            bounds[column] = max(known[0], low), min(known[1], high)
        return found + [each for column, (low, high) in bounds.items() for each in self._between(column, low, high)]

    def _any(self, parts: Sequence[Node], truth: bool) -> list[BlockPattern]:
        """One part has the truth value: the rarest pattern of each, and none where one part has none."""
        whole = _NEVER
        for part in parts:
            usable = self.needs(part, truth)
            if not usable:
                return []
            whole |= max(usable, key=lambda pattern: pattern.bits)
        return [whole]

    def _compare(self, column: Column, op: Op, value: Value, truth: bool) -> list[BlockPattern]:
        if op is Op.EQ:
            return self._one_of(column, [value]) if truth else []
        bound = _bounds(column, op if truth else _FLIPPED[op], value)
        return [] if bound is None else self._between(column, *bound)

    def _between(self, column: Column, low: int, high: int) -> list[BlockPattern]:
        place = self._place(column)
        if place is None or place.encoding not in (Encoding.NUMBER, Encoding.MILLIS) or self._may_move(column, low):
            return []
        first, last = low, high
        if place.encoding is Encoding.MILLIS:
            first, last = -(-low // MICROS), high // MICROS
        label = f"{'.'.join(column.path)}: {low} to {high}"
        return [_pattern(place, interval(first, last), label) if first <= last else _NEVER]

    def _one_of(self, column: Column, values: Sequence[Value]) -> list[BlockPattern]:
        place = self._place(column)
        if not values:
            return [_NEVER]
        if place is None or len(values) > _MAX_VALUES or any(self._may_move(column, value) for value in values):
            return []
        written = [spellings(place, value) for value in values]
        if any(each is None for each in written):
            return []
        found = [each for some in written for each in some or ()]
        label = f"{'.'.join(column.path)}: " + (str(values[0]) if len(values) == 1 else f"one of {len(values)}")
        return [_pattern(place, found, label) if found else _NEVER]

    def _text(self, node: Text) -> list[BlockPattern]:
        place = self._place(node.column)
        if place is None or not node.text:
            return []
        if place.encoding is Encoding.SYMBOL:
            return self._one_of(node.column, [symbol for symbol in place.symbols if _holds(symbol, node)])
        encoded = encoded_text(node.text)
        if place.encoding is not Encoding.TEXT or encoded is None:
            return []
        label = f"{'.'.join(node.column.path)} {node.how} {node.text!r}"
        if node.how is TextTest.SUFFIX:
            return [_pattern(Place(place.encoding, "", place.after), [plain(encoded)], label)]
        before = _LENGTH_END if node.how is TextTest.PREFIX else ""
        return [_pattern(Place(place.encoding, before, ""), [plain(encoded)], label)]

    def _may_move(self, column: Column, least: Value) -> bool:
        """Whether what Spark reads as this value, or as a later one, may be written as another."""
        return isinstance(least, int) and least < self._certain.get(column.kind, least)

    def _place(self, column: Column) -> Place | None:
        place = self._locate(column.path)
        return place if place is not None and column.kind in _KINDS[place.encoding] else None


def _flat(parts: Iterable[Node], kind: type[And | Or]) -> Iterator[Node]:
    for part in parts:
        if isinstance(part, And | Or) and isinstance(part, kind):
            yield from _flat(part.parts, kind)
        else:
            yield part


def _bound(node: Node, truth: bool) -> tuple[Column, int, int] | None:
    """The column that a comparison bounds, and the interval in which it must lie."""
    if not isinstance(node, Compare) or node.op is Op.EQ:
        return None
    bounds = _bounds(node.column, node.op if truth else _FLIPPED[node.op], node.value)
    return None if bounds is None else (node.column, *bounds)


def _bounds(column: Column, op: Op, value: Value) -> tuple[int, int] | None:
    if column.kind not in _NUMBERS or not isinstance(value, int):
        return None
    limit = 2 ** (column.storage.bit_width - 1)
    if op in (Op.LT, Op.LE):
        return -limit, value - (op is Op.LT)
    return value + (op is Op.GT), limit - 1


def _holds(symbol: str, node: Text) -> bool:
    test = {
        TextTest.PREFIX: symbol.startswith,
        TextTest.SUFFIX: symbol.endswith,
        TextTest.CONTAINS: symbol.__contains__,
    }
    return bool(test[node.how](node.text))


def _pattern(place: Place, values: Sequence[str], label: str) -> BlockPattern:
    bits = _together([_rarity(value) for value in values]) + _rarity(place.before)
    after = place.after if bits < _ENOUGH_BITS else ""
    expressions = tuple(place.before + each + after for each in alternation(values))
    return BlockPattern(expressions, bits + _rarity(after), label)


def _rarity(expression: str) -> float:
    """How rarely random bytes match an expression of single bytes and classes, in bits."""
    return sum(8 - math.log2(_members(found)) for found in _BYTE.finditer(expression))


def _members(byte: re.Match[str]) -> int:
    """How many bytes a class has."""
    spans = _SPAN.finditer(byte[1]) if byte[1] is not None else ()
    return sum(int(span[2] or span[1], 16) - int(span[1], 16) + 1 for span in spans) or 1


def _together(bits: Sequence[float]) -> float:
    """How rarely one of several patterns is matched."""
    least = min(bits)
    return least if math.isinf(least) else least - math.log2(sum(2.0 ** (least - each) for each in bits))
