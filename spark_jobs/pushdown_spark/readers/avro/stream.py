"""Reads a file front to back through a window that holds no more of it than is asked for at once."""

from __future__ import annotations

from pushdown_spark.relations.storage import RangeFile

WINDOW = 1 << 20
"""Bytes that are read at once; more only for a block that is larger."""
_LONGEST = 10
"""Bytes of the longest 64-bit number."""


class Stream:
    """The bytes of a file from where it stands. What `take` gives is valid until something else is asked for.

    Raises EOFError where the file ends too early, ValueError where a number is none, OSError where reading fails.
    """

    def __init__(self, raw: RangeFile) -> None:
        self._raw = raw
        self._data = bytearray(WINDOW)
        self._begin = self._end = 0
        self._offset = raw.tell()
        self.size = raw.size
        """Bytes of the whole file."""
        self.fetched = 0
        """Bytes that were read so far, ahead of what was asked for as well."""

    @property
    def position(self) -> int:
        """Offset in the file of the next byte."""
        return self._offset + self._begin

    def at_end(self) -> bool:
        """Whether there are no more bytes."""
        return not self._fill(1)

    def seek(self, offset: int) -> None:
        """Go on at an offset of the file; what is in the window is not read again."""
        if self._offset <= offset <= self._offset + self._end:
            self._begin = offset - self._offset
            return
        self._raw.seek(offset)
        self._offset, self._begin, self._end = offset, 0, 0

    def take(self, count: int) -> memoryview:
        """The next bytes."""
        if count < 0:
            raise ValueError(f"{count} bytes cannot follow")
        if count > self.size - self.position or not self._fill(count):
            raise EOFError(f"{count} bytes should follow, the file ends after {self.size - self.position}")
        begin = self._begin
        self._begin += count
        return memoryview(self._data)[begin : begin + count]

    def number(self) -> int:
        """The next zigzag number of up to 64 bits."""
        found = 0
        for place in range(_LONGEST):
            if self._begin == self._end and not self._fill(1):
                raise EOFError("the file ends within a number")
            byte = self._data[self._begin]
            self._begin += 1
            found |= (byte & 0x7F) << (7 * place)
            if found >> 64:
                break
            if byte < 0x80:
                return ((found >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(found & 1)
        raise ValueError("a number is longer than 64 bits")

    def find(self, marker: bytes) -> bool:
        """Go on behind the next occurrence of a marker; False where there is none."""
        while self._fill(len(marker)):
            place = self._data.find(marker, self._begin, self._end)
            if place >= 0:
                self._begin = place + len(marker)
                return True
            self._begin = self._end - len(marker) + 1
        return False

    def _fill(self, count: int) -> bool:
        """Have so many bytes in the window; False where the file ends before."""
        if self._end - self._begin >= count:
            return True
        self._make_room(count)
        view = memoryview(self._data)
        while self._end - self._begin < count:
            got = self._raw.readinto(view[self._end :])
            if not got:
                return False
            self._end += got
            self.fetched += got
        return True

    def _make_room(self, count: int) -> None:
        """Move what is left to the window's beginning, in the same memory: new memory costs a fifth more to fill."""
        rest = self._data[self._begin : self._end]
        self._offset += self._begin
        if count > len(self._data):
            self._data = bytearray(count)
        self._data[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)
