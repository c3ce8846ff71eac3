"""The compiler from a writer's schema and the requested columns to bytecode and column layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.avro.avro_schema import AvroKind, AvroType
from pushdown_spark.formats.avro.column_layout import (
    ColumnLayout,
    ListLayout,
    NullLayout,
    StructLayout,
    UnionLayout,
    Validity,
    row_slots,
)
from pushdown_spark.formats.avro.interpreter import CODE_WIDTH, MAX_DEPTH, Opcode
from pushdown_spark.formats.avro.resolution import (
    READ_BY_SPARK,
    NameMatcher,
    is_leaf,
    leaf_layout,
    minimum_size,
    number_layout,
    split_nullable,
)
from pushdown_spark.projection.paths import member_path

# How a schema becomes bytecode (the instructions are in `interpreter`):
#
#   int, string, ...      One VARINT, BYTES, FIXED or WORD instruction, with slot -1 if the value is not requested. A
#                         union of null and such a type is the same instruction with the index of the null branch.
#   record                Its fields, one after another.
#   array, map            ITEMS; NEXT slot, end; the item; JUMP to NEXT; end: ...
#   union                 UNION slot, branches, first; then each branch followed by a JUMP to the end.
#
# All slots of one record, or of one item, must get the same number of values. So a branch that does not read a
# requested column appends placeholders to its slots (PAD). The null branch is compiled last, because only then the
# slots of the other branch are known. In a union of several requested branches, each branch jumps over a block of PADs
# for the others.
#
#   record {a: long, b: ["null", "string"], c: array<int>}, requested b and c:
#
#    0  VARINT -1, -1, 10       step over a
#    6  BYTES   0,  0, 10       b into slot 0; branch 0 is null
#   12  ITEMS
#   18  NEXT    1, 36, 1        the number of items into slot 1, then continue at 36
#   24  VARINT  2, -1, 5        an item into slot 2
#   30  JUMP   18
#   36  END

NO_SLOT = -1
"""The slot of values that are not requested, and the null branch of values outside of a union."""

_WIDE_TYPES = {
    frozenset({AvroKind.INT, AvroKind.LONG}): pa.int64(),
    frozenset({AvroKind.FLOAT, AvroKind.DOUBLE}): pa.float64(),
}
"""The types that Spark reads unions of two numbers as."""

_EmitCode = Callable[[], None]
_ReadColumn = Callable[[], ColumnLayout]


@dataclass(frozen=True)
class Bytecode:
    """Instructions, jump targets, and the layouts of the requested columns.

    `is_item_slot` says for each slot whether it has list items, whose number is unknown before they are read.
    """

    code: tuple[int, ...]
    jumps: tuple[int, ...]
    is_item_slot: tuple[bool, ...]
    columns: tuple[ColumnLayout, ...]


def compile_bytecode(
    writer: AvroType, fields: Sequence[pa.Field], names: NameMatcher, *, reads_to_end: bool
) -> Bytecode:
    """Compile the bytecode that reads some columns of records of `writer`.

    Without `reads_to_end`, the bytecode stops after the last requested field, so it cannot find the next record. Raises
    UnsafeInputError for types that only Spark's reader converts.
    """
    compiler = _Compiler(names)
    columns = compiler.record(writer, fields, "", reads_to_end=reads_to_end)
    out = compiler.out
    out.emit(Opcode.END)
    return Bytecode(tuple(out.code), tuple(out.jumps), tuple(out.is_item_slot), columns)


class _Compiler:
    """Compiles values that are requested, and returns their layouts. `path` is the path of a value, for messages."""

    def __init__(self, names: NameMatcher) -> None:
        self.out = _Emitter()
        self._names = names

    def record(
        self, writer: AvroType, fields: Sequence[pa.Field], path: str, *, reads_to_end: bool = True
    ) -> tuple[ColumnLayout, ...]:
        """Read the requested members of a record, and step over the others. Return the layouts in their order."""
        if writer.kind is not AvroKind.RECORD:
            raise UnsafeInputError(f"{path or 'the schema'} is {writer.kind}, not a record; {READ_BY_SPARK}")
        find = self._names.finder(writer.fields)
        requested_by_source: dict[int, list[int]] = {}
        layouts: dict[int, ColumnLayout] = {}
        for number, field in enumerate(fields):
            source = find(field.name)
            if source is None:
                layouts[number] = NullLayout(field.type)
            else:
                requested_by_source.setdefault(source, []).append(number)
        last = len(writer.fields) if reads_to_end else max(requested_by_source, default=-1) + 1
        for source, writer_field in enumerate(writer.fields[:last]):
            numbers = requested_by_source.get(source)
            if not numbers:
                self.out.skip(writer_field.type)
                continue
            field = fields[numbers[0]]
            layout = self.value(writer_field.type, field.type, member_path(path, field.name))
            layouts.update((number, layout) for number in numbers)
        return tuple(layouts[number] for number in range(len(fields)))

    def value(self, writer: AvroType, target: pa.DataType, path: str) -> ColumnLayout:
        """Read one value."""
        if writer.kind is AvroKind.NULL:
            return NullLayout(target)
        if writer.kind is AvroKind.UNION:
            return self._union(writer, target, path)
        if is_leaf(writer):
            layout = leaf_layout(writer, target, self.out.new_slot(), path)
            self.out.leaf(writer, layout.slot)
            return layout
        if writer.kind is AvroKind.RECORD and pa.types.is_struct(target):
            return StructLayout(target, self.record(writer, list(target), path))
        if writer.kind is AvroKind.ARRAY and pa.types.is_list(target):
            return self._list(writer, target, path)
        if writer.kind is AvroKind.MAP and pa.types.is_map(target):
            raise UnsafeInputError(
                f"{path} is a map, whose entries Avro's library orders by their hashes; {READ_BY_SPARK}"
            )
        raise UnsafeInputError(f"{path} is stored as {writer}, which only Spark converts to {target}; {READ_BY_SPARK}")

    def _list(self, writer: AvroType, target: pa.ListType, path: str) -> ColumnLayout:
        slot = self.out.new_slot()
        items: list[ColumnLayout] = []
        path = member_path(path, "element")
        self.out.loop(writer, slot, lambda: items.append(self.value(writer.content, target.value_type, path)))
        return ListLayout(target, slot, items[0])

    def _union(self, writer: AvroType, target: pa.DataType, path: str) -> ColumnLayout:
        null, others = split_nullable(writer)
        if not others:
            self.out.switch(NO_SLOT, [lambda: None for _ in writer.branches])
            return NullLayout(target)
        if len(others) > 1:
            return self._several_branches(writer, null, others, target, path)
        branch = writer.branches[others[0]]
        if null is not None and is_leaf(branch):
            layout = leaf_layout(branch, target, self.out.new_slot(), path)
            self.out.leaf(branch, layout.slot, null)
            return layout
        return self._nullable(writer, null, lambda: self.value(branch, target, path))

    def _nullable(self, writer: AvroType, null: int | None, read_value: _ReadColumn) -> ColumnLayout:
        """Read a union of null and one composite type, or of one type alone."""
        slot = self.out.new_slot() if null is not None else NO_SLOT
        layouts: list[ColumnLayout] = []
        (other,) = (index for index in range(len(writer.branches)) if index != null)
        emitters: dict[int, _EmitCode] = {other: lambda: layouts.append(read_value())}
        if null is not None:
            emitters[null] = lambda: self.out.pad(layouts)
        self.out.switch(slot, [emitters[index] for index in range(len(writer.branches))], last=null)
        layout = layouts[0]
        if null is None or not isinstance(layout, StructLayout | ListLayout):
            return layout
        return replace(layout, validity=Validity(slot, null, True))

    def _several_branches(
        self, writer: AvroType, null: int | None, others: Sequence[int], target: pa.DataType, path: str
    ) -> ColumnLayout:
        """Read a union of several types: numbers as their wider type, other types as a struct with one member each."""
        branches = [writer.branches[index] for index in others]
        kinds = frozenset(branch.kind for branch in branches)
        is_plain = len(branches) == len(kinds) and not any(branch.logical for branch in branches)
        if is_plain and target == _WIDE_TYPES.get(kinds):
            readers = [partial(self._number, branch, target) for branch in branches]
        elif pa.types.is_struct(target) and [f.name for f in target] == [f"member{n}" for n in range(len(others))]:
            readers = [
                partial(self.value, branch, field.type, member_path(path, field.name))
                for branch, field in zip(branches, target, strict=True)
            ]
        else:
            raise UnsafeInputError(f"{path} is a union, which only Spark converts to {target}; {READ_BY_SPARK}")
        slot = self.out.new_slot()
        layouts = self._exclusive_branches(slot, writer, others, readers)
        # Leaves have their own validity flags.
        members = [
            replace(layout, validity=Validity(slot, index, False))
            if isinstance(layout, StructLayout | ListLayout)
            else layout
            for index, layout in zip(others, layouts, strict=True)
        ]
        if pa.types.is_struct(target):
            return StructLayout(target, tuple(members), Validity(slot, NO_SLOT if null is None else null, True))
        return UnionLayout(slot, tuple(members))

    def _number(self, writer: AvroType, target: pa.DataType) -> ColumnLayout:
        layout = number_layout(writer, target, self.out.new_slot())
        self.out.leaf(writer, layout.slot)
        return layout

    def _exclusive_branches(
        self, slot: int, writer: AvroType, others: Sequence[int], readers: Sequence[_ReadColumn]
    ) -> list[ColumnLayout]:
        """Read one branch, and append placeholders to the slots of the others.

        These slots are known only after all branches are compiled, so the placeholders are emitted after them.
        """
        layouts: list[ColumnLayout] = []
        number_of = {index: number for number, index in enumerate(others)}
        jumps_to_pads: list[tuple[int, int | None]] = []

        def emit_branch(index: int) -> None:
            number = number_of.get(index)
            if number is not None:
                layouts.append(readers[number]())
            jumps_to_pads.append((self.out.emit(Opcode.JUMP, 0), number))

        self.out.switch(slot, [partial(emit_branch, index) for index in range(len(writer.branches))])
        end = self.out.emit(Opcode.JUMP, 0)
        for jump, number in jumps_to_pads:
            self.out.set_target(jump)
            self.out.pad([layout for other, layout in enumerate(layouts) if other != number])
            self.out.emit(Opcode.JUMP, end)
        self.out.set_target(end)
        return layouts


class _Emitter:
    """Emits instructions: steps over values, branches of unions, and items of arrays and maps."""

    def __init__(self) -> None:
        self.code: list[int] = []
        self.jumps: list[int] = []
        self.is_item_slot: list[bool] = []
        self._depth = 0

    def emit(self, opcode: Opcode, *arguments: int) -> int:
        """Append an instruction. Return its index in the code."""
        start = len(self.code)
        self.code += [opcode, *arguments, *([0] * (CODE_WIDTH - 1 - len(arguments)))]
        return start

    def set_target(self, jump: int) -> None:
        """Make a jump continue at the end of the code so far."""
        self.code[jump + 1] = len(self.code)

    def new_slot(self) -> int:
        """Return a new slot, for the items of the current loop or, outside of loops, for records."""
        self.is_item_slot.append(self._depth > 0)
        return len(self.is_item_slot) - 1

    def leaf(self, writer: AvroType, slot: int, null: int = NO_SLOT) -> None:
        """Read a value without parts. `null` is the index of the null branch if the value is in a union with null."""
        if writer.kind in (AvroKind.INT, AvroKind.ENUM):
            self.emit(Opcode.VARINT, slot, null, 5)
        elif writer.kind is AvroKind.LONG:
            self.emit(Opcode.VARINT, slot, null, 10)
        elif writer.kind is AvroKind.FIXED:
            self.emit(Opcode.FIXED, slot, null, writer.size)
        elif writer.kind in (AvroKind.BYTES, AvroKind.STRING):
            self.emit(Opcode.BYTES, slot, null, 10)
        else:
            self.emit(Opcode.WORD, slot, null, minimum_size(writer))

    def skip(self, writer: AvroType) -> None:
        """Step over a value."""
        if writer.kind is AvroKind.NULL:
            return
        if is_leaf(writer):
            self.leaf(writer, NO_SLOT)
        elif writer.kind is AvroKind.RECORD:
            for field in writer.fields:
                self.skip(field.type)
        elif writer.kind is AvroKind.UNION:
            self._skip_union(writer)
        else:
            self.loop(writer, NO_SLOT, lambda: self._skip_item(writer))

    def _skip_item(self, writer: AvroType) -> None:
        if writer.kind is AvroKind.MAP:
            self.skip(AvroType(kind=AvroKind.STRING))
        self.skip(writer.content)

    def _skip_union(self, writer: AvroType) -> None:
        null, others = split_nullable(writer)
        if null is not None and len(others) == 1 and is_leaf(writer.branches[others[0]]):
            self.leaf(writer.branches[others[0]], NO_SLOT, null)
            return
        self.switch(NO_SLOT, [partial(self.skip, branch) for branch in writer.branches])

    def pad(self, layouts: Sequence[ColumnLayout]) -> None:
        """Append placeholders to all slots of some layouts."""
        for slot in row_slots(layouts):
            self.emit(Opcode.PAD, slot)

    def switch(self, slot: int, branches: Sequence[_EmitCode], last: int | None = None) -> None:
        """Emit a union. The branch `last` is compiled after the others."""
        first = len(self.jumps)
        self.jumps += [0] * len(branches)
        self.emit(Opcode.UNION, slot, len(branches), first)
        ends = []
        for index in sorted(range(len(branches)), key=lambda index: index == last):
            self.jumps[first + index] = len(self.code)
            branches[index]()
            ends.append(self.emit(Opcode.JUMP, 0))
        for end in ends:
            self.set_target(end)

    def loop(self, writer: AvroType, slot: int, emit_item: _EmitCode) -> None:
        """Emit a loop over the items of an array or a map. Raises UnsafeInputError above `MAX_DEPTH` nested loops."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnsafeInputError(f"arrays and maps are nested more than {MAX_DEPTH} deep; {READ_BY_SPARK}")
        self.emit(Opcode.ITEMS)
        minimum = minimum_size(writer.content) + (1 if writer.kind is AvroKind.MAP else 0)
        head = self.emit(Opcode.NEXT, slot, 0, minimum)
        emit_item()
        self.emit(Opcode.JUMP, head)
        self.code[head + 2] = len(self.code)
        self._depth -= 1
