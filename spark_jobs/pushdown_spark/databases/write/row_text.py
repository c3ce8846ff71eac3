"""Rows as text for bulk statements: CSV for COPY and LOAD DATA, and lists of literals for INSERT.

Arrow builds the text of a whole batch at once. The text of all rows is then one buffer, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEX = np.array([f"{byte:02x}".encode() for byte in range(256)], "S2").view(np.uint16)
"""The two hexadecimal digits of each byte."""


@dataclass(frozen=True)
class RowText:
    """The text form of rows in one kind of statement.

    `escapes` are replacements within quoted values, in this order. `bytes_marks` are around the hexadecimal digits of
    binary values. `true` and `false` are the booleans.
    """

    null: str
    quote: str
    escapes: tuple[tuple[str, str], ...]
    bytes_marks: tuple[str, str]
    row_marks: tuple[str, str]
    booleans: tuple[str, str]
    utc_suffix: str = ""

    def encode(self, columns: Sequence[pa.Array]) -> memoryview:
        """Return the text of all rows."""
        fields = [self._field(values) for values in columns]
        start, end = self.row_marks
        line = fields[0] if len(fields) == 1 else pc.binary_join_element_wise(*fields, ",")
        rows = pc.binary_join_element_wise(start, line, end, "")
        _, offsets, data = rows.buffers()
        size = int(np.frombuffer(offsets, np.int32)[len(rows)])
        return memoryview(data)[:size]

    def _field(self, values: pa.Array) -> pa.Array:
        """Return a column as text, with quotes where the statement needs them."""
        kind = values.type
        if pa.types.is_binary(kind):
            start, end = self.bytes_marks
            text = pc.binary_join_element_wise(start, _hex(values), end, "")
        elif pa.types.is_boolean(kind):
            text = pc.if_else(values, *self.booleans)
        elif pa.types.is_integer(kind):
            text = values.cast(pa.string())
        else:
            # Numbers, too: as literals of MySQL, 1E-7 would be a double instead of a decimal, and -0 an integer.
            text = self._quote(self._array_literals(values) if pa.types.is_list(kind) else self._string(values))
        return pc.fill_null(text, self.null)

    def _string(self, values: pa.Array) -> pa.Array:
        """Return values as text without quotes."""
        kind = values.type
        if kind == pa.float32():
            # As doubles: MySQL finds the shortest decimal of the largest float out of range.
            return values.cast(pa.float64()).cast(pa.string())
        if pa.types.is_timestamp(kind):
            text = values.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
            return pc.binary_join_element_wise(text, self.utc_suffix, "") if kind.tz and self.utc_suffix else text
        return values if pa.types.is_string(kind) else values.cast(pa.string())

    def _quote(self, text: pa.Array) -> pa.Array:
        for character, replacement in self.escapes:
            text = pc.replace_substring(text, character, replacement)
        return pc.binary_join_element_wise(self.quote, text, self.quote, "")

    def _array_literals(self, lists: pa.ListArray) -> pa.Array:
        """Return PostgreSQL's literals of arrays: `{1,NULL}` and `{"a","b"}`."""
        offsets, elements = _compact(lists)
        literals = pc.fill_null(self._element(elements), "NULL")
        lines = pc.binary_join(pa.ListArray.from_arrays(offsets, literals), ",")
        text = pc.binary_join_element_wise("{", lines, "}", "")
        return pc.if_else(lists.is_valid(), text, pa.scalar(None, pa.string()))

    def _element(self, values: pa.Array) -> pa.Array:
        kind = values.type
        if pa.types.is_boolean(kind):
            return pc.if_else(values, "true", "false")
        if pa.types.is_binary(kind):
            return pc.binary_join_element_wise('"\\\\x', _hex(values), '"', "")
        text = self._string(values)
        for character in ("\\", '"'):
            text = pc.replace_substring(text, character, f"\\{character}")
        return pc.binary_join_element_wise('"', text, '"', "")


POSTGRESQL_CSV = RowText("", '"', (('"', '""'),), ("\\x", ""), ("", "\n"), ("true", "false"), "+00")
MYSQL_CSV = RowText("NULL", '"', (('"', '""'),), ('"', '"'), ("", "\n"), ("1", "0"))
MYSQL_LITERALS = RowText("NULL", "'", (("\\", "\\\\"), ("'", "''")), ("x'", "'"), ("(", "),"), ("1", "0"))


def _compact(lists: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """Return offsets and elements of lists. A NULL counts as an empty list, and no element is outside of a list."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.array(offsets), lists.flatten()


def _hex(values: pa.Array) -> pa.Array:
    """Return binary values as strings of hexadecimal digits."""
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data if data is not None else b"", np.uint8)[starts[0] : starts[-1]]
    digits = _HEX[content]
    text = pa.StringArray.from_buffers(
        len(values), pa.py_buffer(((starts - starts[0]) * 2).astype(np.int32)), pa.py_buffer(digits)
    )
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))
