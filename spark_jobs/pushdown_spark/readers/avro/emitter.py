"""Writes the instructions of programs for `walk`: walking over values, branches of unions, items of arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.readers.avro.leaves import is_leaf, least_size
from pushdown_spark.readers.avro.resolve import READ_BY_SPARK, split_union
from pushdown_spark.readers.avro.schema import Kind, Type
from pushdown_spark.readers.avro.shapes import Shape, slots
from pushdown_spark.readers.avro.walk import MAX_DEPTH, WIDTH, Op

NOWHERE = -1
"""The slot of values that nobody wants, and the null branch of what is in no union."""

Step = Callable[[], None]
"""Writes the instructions of a part."""


class Emitter:
    """Instructions and jump targets so far, and for each slot whether it belongs to items."""

    def __init__(self) -> None:
        self.code: list[int] = []
        self.jumps: list[int] = []
        self.nested: list[bool] = []
        self._depth = 0

    def emit(self, op: Op, *arguments: int) -> int:
        """Append an instruction; returns where it is."""
        place = len(self.code)
        self.code += [op, *arguments, *([0] * (WIDTH - 1 - len(arguments)))]
        return place

    def skip(self, writer: Type) -> None:
        """Walk over a value."""
        if writer.kind is Kind.NULL:
            return
        if is_leaf(writer):
            self.leaf(writer, NOWHERE)
        elif writer.kind is Kind.RECORD:
            for field in writer.fields:
                self.skip(field.type)
        elif writer.kind is Kind.UNION:
            self._skip_union(writer)
        else:
            self.loop(writer, NOWHERE, lambda: self._skip_item(writer))

    def _skip_item(self, writer: Type) -> None:
        if writer.kind is Kind.MAP:
            self.skip(Type(Kind.STRING))
        self.skip(writer.content)

    def _skip_union(self, writer: Type) -> None:
        null, others = split_union(writer)
        if null is not None and len(others) == 1 and is_leaf(writer.branches[others[0]]):
            self.leaf(writer.branches[others[0]], NOWHERE, null)
            return
        self.switch(NOWHERE, [lambda b=branch: self.skip(b) for branch in writer.branches])  # type: ignore[misc]

    def pad(self, shapes: Sequence[Shape]) -> None:
        """Put place-holders into all slots of some shapes."""
        for slot in slots(shapes):
            self.emit(Op.PAD, slot)

    def slot(self) -> int:
        """A new slot, of the items that are being written or of records."""
        self.nested.append(self._depth > 0)
        return len(self.nested) - 1

    def leaf(self, writer: Type, slot: int, null: int = NOWHERE) -> None:
        """Read a value that has no parts into a slot; `null` is its union's number for null, if it is in one."""
        if writer.kind in (Kind.INT, Kind.ENUM):
            self.emit(Op.VARINT, slot, null, 5)
        elif writer.kind is Kind.LONG:
            self.emit(Op.VARINT, slot, null, 10)
        elif writer.kind is Kind.FIXED:
            self.emit(Op.FIXED, slot, null, writer.size)
        elif writer.kind in (Kind.BYTES, Kind.STRING):
            self.emit(Op.BYTES, slot, null, 10)
        else:
            self.emit(Op.WORD, slot, null, least_size(writer))

    def switch(self, slot: int, branches: Sequence[Step], last: int | None = None) -> None:
        """Do what the branch of a union says; `last` is compiled behind all others."""
        first = len(self.jumps)
        self.jumps += [0] * len(branches)
        self.emit(Op.UNION, slot, len(branches), first)
        ends = []
        for place in sorted(range(len(branches)), key=lambda place: place == last):
            self.jumps[first + place] = len(self.code)
            branches[place]()
            ends.append(self.emit(Op.JUMP, 0))
        for end in ends:
            self.code[end + 1] = len(self.code)

    def loop(self, writer: Type, slot: int, item: Step) -> None:
        """Walk over all items of an array or a map. Raises UnsafeInputError where too many lie within each other."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnsafeInputError(f"arrays and maps lie more than {MAX_DEPTH} deep; {READ_BY_SPARK}")
        self.emit(Op.ITEMS)
        least = least_size(writer.content) + (1 if writer.kind is Kind.MAP else 0)
        head = self.emit(Op.NEXT, slot, 0, least)
        item()
        self.emit(Op.JUMP, head)
        self.code[head + 2] = len(self.code)
        self._depth -= 1
