"""Turns a writer's schema and the wanted columns into a program for `walk` and the shapes of what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.formats.avro.column_layout import (
    Constant,
    Either,
    Leaf,
    ListOf,
    Shape,
    Struct,
    Validity,
    slots,
)
from pushdown_spark.formats.avro.interpreter import MAX_DEPTH, WIDTH, Op
from pushdown_spark.formats.avro.resolution import (
    READ_BY_SPARK,
    Names,
    default_value,
    dotted,
    is_leaf,
    leaf,
    least_size,
    only_branch,
    sources,
    split_union,
)
from pushdown_spark.formats.avro.schema import Kind, Type


@dataclass(frozen=True)
class Program:
    """Instructions, jump targets, and for each slot whether it belongs to items, of which nobody knows how many.

    `whole` tells that the program walks records to their end.
    """

    code: tuple[int, ...]
    jumps: tuple[int, ...]
    slots: tuple[bool, ...]
    columns: tuple[Shape, ...]
    whole: bool


def compile_program(
    writer: Type, reader: Type | None, wanted: Sequence[pa.Field], names: Names, *, whole: bool = True
) -> Program:
    """A program that reads some columns of records of `writer`, as `reader` has them (None: as they were written).

    Without `whole` it stops behind the last wanted field, which does not tell where the record ends. Raises
    UnsafeInputError for types that only Spark's reader converts, and SchemaConflictError where the schemas do not
    resolve.
    """
    compiler = _Compiler(names)
    columns = compiler.record(writer, reader or writer, wanted, "", whole=whole)
    compiler.out.emit(Op.END)
    return Program(tuple(compiler.out.code), tuple(compiler.out.jumps), tuple(compiler.out.nested), columns, whole)


class _Compiler:
    def __init__(self, names: Names) -> None:
        self.out = Emitter()
        self._names = names

    def record(
        self, writer: Type, reader: Type, wanted: Sequence[pa.Field], at: str, *, whole: bool = True
    ) -> tuple[Shape, ...]:
        """The wanted members of a record, in the order wanted; the others are walked over."""
        if writer.kind is not Kind.RECORD or reader.kind is not Kind.RECORD:
            raise UnsafeInputError(f"{at or 'the schema'} is {writer.kind}, not a record; {READ_BY_SPARK}")
        known = sources(writer, reader, at)
        find = self._names.finder(reader.fields)
        places: dict[int, list[int]] = {}
        shapes: dict[int, Shape] = {}
        for number, want in enumerate(wanted):
            found = find(want.name)
            if found is None:
                shapes[number] = Constant(want.type, pa.scalar(None, want.type))
            elif found in known:
                places.setdefault(known[found], []).append(number)
            else:
                shapes[number] = Constant(
                    want.type, default_value(reader.fields[found], want.type, dotted(at, want.name))
                )
        targets = {source: reader.fields[found] for found, source in known.items()}
        last = len(writer.fields) if whole else max(places, default=-1) + 1
        for place, field in enumerate(writer.fields[:last]):
            numbers = places.get(place)
            if not numbers:
                self.out.skip(field.type)
                continue
            want = wanted[numbers[0]]
            shape = self.value(field.type, targets[place].type, want.type, dotted(at, want.name))
            shapes.update((number, shape) for number in numbers)
        return tuple(shapes[number] for number in range(len(wanted)))

    def value(self, writer: Type, reader: Type, wanted: pa.DataType, at: str) -> Shape:
        """Read a value that is always there."""
        if writer.kind is Kind.NULL:
            return _nulls(reader, wanted, at)
        if writer.kind is Kind.UNION or reader.kind is Kind.UNION:
            return self._union(writer, reader, wanted, at)
        if is_leaf(writer):
            shape = leaf(writer, reader, wanted, self.out.slot(), at)
            self.out.leaf(writer, shape.slot)
            return shape
        if writer.kind is not reader.kind:
            raise SchemaConflictError(f"{at} is {writer} in the file and {reader} in the reader's schema")
        if writer.kind is Kind.RECORD and pa.types.is_struct(wanted):
            return Struct(wanted, self.record(writer, reader, list(wanted), at))
        if writer.kind is Kind.ARRAY and pa.types.is_list(wanted):
            return self._list(writer, reader, wanted, at)
        if writer.kind is Kind.MAP and pa.types.is_map(wanted):
            raise UnsafeInputError(
                f"{at} is a map, whose entries Avro's library orders by their hashes; {READ_BY_SPARK}"
            )
        raise UnsafeInputError(f"{at} is stored as {writer}, which only Spark may turn into {wanted}; {READ_BY_SPARK}")

    def _list(self, writer: Type, reader: Type, wanted: pa.ListType, at: str) -> Shape:
        slot = self.out.slot()
        found: list[Shape] = []
        at = dotted(at, "element")
        self.out.loop(
            writer, slot, lambda: found.append(self.value(writer.content, reader.content, wanted.value_type, at))
        )
        return ListOf(wanted, slot, found[0])

    def _union(self, writer: Type, reader: Type, wanted: pa.DataType, at: str) -> Shape:
        if writer.kind is not Kind.UNION:
            return self.value(writer, only_branch(writer, reader, at), wanted, at)
        null, others = split_union(writer)
        if len(others) > 1 and writer != reader:
            raise UnsafeInputError(f"{at} is a union that the reader's schema has otherwise; {READ_BY_SPARK}")
        if not others:
            self.out.switch(NOWHERE, [_nothing for _ in writer.branches])
            return _nulls(reader, wanted, at)
        if len(others) > 1:
            return self._branches(writer, null, others, wanted, at)
        if null is not None:
            _check_null(reader, at)
        branch = writer.branches[others[0]]
        inner = only_branch(branch, reader, at) if reader.kind is Kind.UNION else reader
        if null is not None and is_leaf(branch):
            shape: Shape = leaf(branch, inner, wanted, self.out.slot(), at)
            assert isinstance(shape, Leaf)
            self.out.leaf(branch, shape.slot, null)
            return shape
        return self._nullable(writer, null, lambda: self.value(branch, inner, wanted, at))

    def _nullable(self, writer: Type, null: int | None, read: _Read) -> Shape:
        """A union of null and a type that is made of others, or of one type alone."""
        slot = self.out.slot() if null is not None else NOWHERE
        found: list[Shape] = []
        order = [place for place in range(len(writer.branches)) if place != null]
        steps: dict[int, Step] = {order[0]: lambda: found.append(read())}
        if null is not None:
            steps[null] = lambda: self.out.pad(found)
        # The null branch comes last: its place-holders are those of what the other branch reads.
        self.out.switch(slot, [steps[place] for place in range(len(writer.branches))], last=null)
        shape = found[0]
        if null is None or not isinstance(shape, Struct | ListOf):
            return shape
        return replace(shape, validity=Validity(slot, null, True))

    def _branches(self, writer: Type, null: int | None, others: Sequence[int], wanted: pa.DataType, at: str) -> Shape:
        """A union of several types: one of its numbers' common type, or a struct with a member for each branch."""
        kinds = {writer.branches[place].kind for place in others}
        plain = not any(writer.branches[place].logical for place in others)
        if plain and kinds in ({Kind.INT, Kind.LONG}, {Kind.FLOAT, Kind.DOUBLE}) and len(others) == 2:
            wide = Type(Kind.LONG if Kind.INT in kinds else Kind.DOUBLE)
            wants = [(wide, wanted, at)] * len(others)
        elif pa.types.is_struct(wanted) and [f.name for f in wanted] == [f"member{n}" for n in range(len(others))]:
            wants = [
                (writer.branches[place], field.type, dotted(at, field.name))
                for place, field in zip(others, wanted, strict=True)
            ]
        else:
            raise UnsafeInputError(f"{at} is a union, which only Spark turns into {wanted}; {READ_BY_SPARK}")
        slot = self.out.slot()
        members: list[Shape] = []
        readers: list[_Read] = []
        for place, want in zip(others, wants, strict=True):
            readers.append(lambda b=writer.branches[place], w=want: self.value(b, *w))  # type: ignore[misc]
        self._exclusive(slot, writer, others, readers, members)
        valid = [_when(shape, Validity(slot, place, False)) for place, shape in zip(others, members, strict=True)]
        if pa.types.is_struct(wanted):
            return Struct(wanted, tuple(valid), Validity(slot, NOWHERE if null is None else null, True))
        return Either(wanted, slot, tuple(valid))

    def _exclusive(
        self, slot: int, writer: Type, others: Sequence[int], readers: Sequence[_Read], members: list[Shape]
    ) -> None:
        """One branch is read, the others' slots get place-holders; these are known once all branches are compiled."""
        place_of = {place: number for number, place in enumerate(others)}
        gaps: list[tuple[int, int | None]] = []

        def step(place: int) -> None:
            number = place_of.get(place)
            if number is not None:
                members.append(readers[number]())
            gaps.append((self.out.emit(Op.JUMP, 0), number))

        self.out.switch(slot, [lambda p=place: step(p) for place in range(len(writer.branches))])  # type: ignore[misc]
        behind = len(self.out.code)
        over = self.out.emit(Op.JUMP, 0)
        for place, number in gaps:
            self.out.code[place + 1] = len(self.out.code)
            self.out.pad([shape for other, shape in enumerate(members) if other != number])
            self.out.emit(Op.JUMP, behind)
        self.out.code[over + 1] = len(self.out.code)


_Read = Callable[[], Shape]


def _nulls(reader: Type, wanted: pa.DataType, at: str) -> Shape:
    """What is null in every record."""
    _check_null(reader, at)
    return Constant(wanted, pa.scalar(None, wanted))


def _check_null(reader: Type, at: str) -> None:
    """Raises UnsafeInputError where nulls of the file have no place: Spark fails at the first, if there is one."""
    if reader.kind is not Kind.NULL and all(branch.kind is not Kind.NULL for branch in reader.branches):
        raise UnsafeInputError(f"{at} may be null in the file and not in the reader's schema; {READ_BY_SPARK}")


def _nothing() -> None:
    """A branch that has no bytes."""


def _when(shape: Shape, validity: Validity) -> Shape:
    """A shape that is there only in one branch; leaves have flags of their own."""
    return replace(shape, validity=validity) if isinstance(shape, Struct | ListOf) else shape


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
