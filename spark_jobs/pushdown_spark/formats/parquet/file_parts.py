"""Parts of Parquet files. DataFusion divides a file into parts of equal size, so splits have equal sizes as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pushdown_spark.sources.stores.listing import ContainerFile, InputFile


@dataclass(frozen=True)
class FilePart:
    """Part `number` of the `count` parts of a file."""

    number: int
    count: int


class ParquetInput(ContainerFile):
    """A file that is divided into splits of equal size."""

    def split_size(self, limit: int) -> int:
        """Return the largest size of equal splits up to a limit."""
        return _ceil(self.size, _ceil(self.size, limit))


def parquet_inputs(files: Sequence[InputFile]) -> tuple[ParquetInput, ...]:
    """Return listed files as Parquet files."""
    return tuple(ParquetInput.of(file) for file in files)


def part_of(start: int, end: int, size: int) -> FilePart:
    """Return the part of a file of `size` bytes that is a byte range. Raises ValueError for any other range.

    >>> part_of(8, 10, 10)
    FilePart(number=2, count=3)
    """
    if start == 0:
        step = end
    elif end < size:
        step = end - start
    else:
        # The last part may be smaller. Any number of parts with this last part will do.
        steps = (_ceil(size, count) for count in range(2, size + 1))
        step = next((step for step in steps if start % step == 0 and start + step >= size), 0)
    count = _ceil(size, step) if step else 0
    if not count or start % step or min(start + step, size) != end or _ceil(size, count) != step:
        raise ValueError(f"bytes {start} to {end} are not a part of {size} bytes")
    return FilePart(start // step, count)


def _ceil(size: int, count: int) -> int:
    return -(-size // count)
