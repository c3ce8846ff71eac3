"""Take rows apart that a database wrote as CSV: NULL is nothing at all, an empty text two quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as csv


@dataclass(frozen=True)
class CsvRows:
    """The columns of the rows, as they are read; `booleans` are the words for true and false.

    With `begins_empty` every row has an empty column in front, which is left out.
    """

    columns: Sequence[pa.Field]
    booleans: tuple[str, str]
    begins_empty: bool = False

    def batches(self, lines: bytes | bytearray | memoryview) -> Iterator[pa.RecordBatch]:
        """Some whole rows. Raises pyarrow's errors for values that their columns cannot be."""
        names = [field.name for field in self.columns]
        # No column's name is empty. In one block: a row must not be longer than a block.
        before = [""] if self.begins_empty else []
        read = csv.ReadOptions(column_names=[*before, *names], use_threads=False, block_size=len(lines))
        parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        true, false = self.booleans
        convert = csv.ConvertOptions(
            include_columns=names,
            column_types={field.name: field.type for field in self.columns},
            null_values=[""],
            true_values=[true],
            false_values=[false],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        table = csv.read_csv(pa.BufferReader(pa.py_buffer(lines)), read, parse, convert)
        yield from table.combine_chunks().to_batches()
