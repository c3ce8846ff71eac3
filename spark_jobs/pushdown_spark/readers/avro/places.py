"""Tells where a column's values lie in encoded records, and which bytes can stand beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.byte_patterns.avro import Locate
from pushdown_spark.expressions.byte_patterns.avro_encoding import EncodedColumn, Encoding, byte_class
from pushdown_spark.expressions.types import Path
from pushdown_spark.readers.avro.resolve import Names, sources, split_union
from pushdown_spark.readers.avro.schema import Kind, Type

_ANY = frozenset(range(256))
_EVEN = frozenset(range(0, 256, 2))
_ENDS = frozenset(range(128))
"""Last bytes of numbers."""
_FEW = 64
"""Branches or symbols whose numbers take one byte."""
_BOOLEANS = frozenset({0, 1})
_ENCODINGS = {
    (Kind.INT, ""): Encoding.NUMBER,
    (Kind.INT, "date"): Encoding.NUMBER,
    (Kind.LONG, ""): Encoding.NUMBER,
    (Kind.LONG, "timestamp-micros"): Encoding.NUMBER,
    (Kind.LONG, "local-timestamp-micros"): Encoding.NUMBER,
    (Kind.LONG, "timestamp-millis"): Encoding.MILLIS,
    (Kind.LONG, "local-timestamp-millis"): Encoding.MILLIS,
}
_BY_KIND = {
    Kind.INT: Encoding.NUMBER,
    Kind.LONG: Encoding.NUMBER,
    Kind.FLOAT: Encoding.FLOAT,
    Kind.DOUBLE: Encoding.DOUBLE,
    Kind.BYTES: Encoding.STRING,
    Kind.STRING: Encoding.STRING,
    Kind.FIXED: Encoding.FIXED,
    Kind.ENUM: Encoding.ENUM,
}
_SAME_BYTES = {(Kind.INT, Kind.LONG), (Kind.BYTES, Kind.STRING), (Kind.STRING, Kind.BYTES)}
_DECIMALS = {Kind.BYTES: Encoding.DECIMAL, Kind.FIXED: Encoding.FIXED_DECIMAL}


@dataclass(frozen=True)
class _Side:
    """The bytes that can stand on one side of something; with `edge`, there may be none at all."""

    bytes: frozenset[int]
    edge: bool

    def expression(self, edge: str) -> str:
        """What matches one of them; nothing where all bytes can stand there."""
        if self.bytes == _ANY:
            return ""
        one = byte_class(sorted(self.bytes))
        return f"(?:{edge}|{one})" if self.edge else one


@dataclass(frozen=True)
class _Step:
    """A value on the way to a column: its type, as written and as read, and what stands beside it."""

    writer: Type
    reader: Type
    before: _Side
    after: _Side


def locate(writer: Type, reader: Type | None, names: Names) -> Locate:
    """Where columns are in records of `writer` that are read as `reader` (None: as they were written)."""
    root = _Step(writer, reader or writer, _side([writer], _lasts, None), _side([writer], _firsts, None))

    def find(path: Path) -> EncodedColumn | None:
        step: _Step | None = root
        try:
            for name in path:
                step = _member(_inside(step), name, names) if step is not None else None
        except PushdownError:
            return None
        return _place(_inside(step)) if step is not None else None

    return find


def _inside(step: _Step | None) -> _Step | None:
    """The one branch of a union that is not null."""
    if step is None:
        return None
    reader = step.reader
    if reader.kind is Kind.UNION:
        _, others = split_union(reader)
        if len(others) != 1:
            return None
        reader = reader.branches[others[0]]
    if step.writer.kind is not Kind.UNION:
        return _Step(step.writer, reader, step.before, step.after)
    _, others = split_union(step.writer)
    if len(others) != 1 or others[0] >= _FEW:
        return None
    return _Step(step.writer.branches[others[0]], reader, _Side(frozenset({2 * others[0]}), False), step.after)


def _member(step: _Step | None, name: str, names: Names) -> _Step | None:
    if step is None or step.writer.kind is not Kind.RECORD or step.reader.kind is not Kind.RECORD:
        return None
    found = names.finder(step.reader.fields)(name)
    place = None if found is None else sources(step.writer, step.reader, "").get(found)
    if found is None or place is None:
        return None
    fields = [field.type for field in step.writer.fields]
    before = _side(reversed(fields[:place]), _lasts, step.before)
    after = _side(fields[place + 1 :], _firsts, step.after)
    return _Step(fields[place], step.reader.fields[found].type, before, after)


def _place(step: _Step | None) -> EncodedColumn | None:
    if step is None:
        return None
    writer, reader = step.writer, step.reader
    if writer.kind is not reader.kind and (writer.kind, reader.kind) not in _SAME_BYTES:
        return None
    beside = step.before.expression("\\A"), step.after.expression("\\z")
    if reader.logical == "decimal" and reader.kind in _DECIMALS:
        as_decimal = _DECIMALS[reader.kind]
        # Before the shortest form of a decimal, longer ones have bytes that repeat its sign.
        before = "" if as_decimal is Encoding.DECIMAL else beside[0]
        return EncodedColumn(as_decimal, before, beside[1], writer.size, reader.scale)
    encoding = _ENCODINGS.get((reader.kind, reader.logical), _BY_KIND.get(writer.kind))
    return None if encoding is None else EncodedColumn(encoding, *beside, writer.size, 0, writer.symbols)


_Edge = Callable[[Type], tuple[frozenset[int], bool]]
"""The bytes at one end of an encoded value, and whether it may have no bytes at all."""


def _side(types: Iterable[Type], edge: _Edge, beyond: _Side | None) -> _Side:
    """What stands there if values of these types follow, the nearest first, and then `beyond`: None for the edge."""
    chosen: frozenset[int] = frozenset()
    for each in types:
        some, may_be_empty = edge(each)
        chosen |= some
        if not may_be_empty:
            return _Side(chosen, beyond is None)
    return _Side(chosen | beyond.bytes, beyond.edge) if beyond is not None else _Side(_ANY, True)


def _firsts(of: Type) -> tuple[frozenset[int], bool]:
    match of.kind:
        case Kind.NULL:
            return frozenset(), True
        case Kind.BOOLEAN:
            return _BOOLEANS, False
        case Kind.STRING | Kind.BYTES:
            return _EVEN, False
        case Kind.ENUM:
            return _numbers(len(of.symbols)), False
        case Kind.UNION:
            return _numbers(len(of.branches)), False
        case Kind.FIXED:
            return _ANY, of.size == 0
        case Kind.RECORD:
            return _in_row([field.type for field in of.fields], _firsts)
    return _ANY, False


def _lasts(of: Type) -> tuple[frozenset[int], bool]:
    match of.kind:
        case Kind.NULL:
            return frozenset(), True
        case Kind.BOOLEAN:
            return _BOOLEANS, False
        case Kind.INT | Kind.LONG | Kind.ENUM:
            return _ENDS, False
        case Kind.ARRAY | Kind.MAP:
            return frozenset({0}), False
        case Kind.UNION:
            return _last_of_union(of), False
        case Kind.FIXED:
            return _ANY, of.size == 0
        case Kind.RECORD:
            return _in_row([field.type for field in reversed(of.fields)], _lasts)
    return _ANY, False


def _last_of_union(of: Type) -> frozenset[int]:
    found: frozenset[int] = frozenset()
    for number, branch in enumerate(of.branches):
        some, may_be_empty = _lasts(branch)
        found |= some
        if may_be_empty:
            found |= frozenset({2 * number}) if number < _FEW else _ENDS
    return found


def _in_row(types: Sequence[Type], edge: _Edge) -> tuple[frozenset[int], bool]:
    found: frozenset[int] = frozenset()
    for each in types:
        some, may_be_empty = edge(each)
        found |= some
        if not may_be_empty:
            return found, False
    return found, True


def _numbers(count: int) -> frozenset[int]:
    """First bytes of the numbers below `count`."""
    return frozenset(range(0, 2 * count, 2)) if count <= _FEW else _EVEN
