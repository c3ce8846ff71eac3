"""The line filter finds lines that may satisfy a predicate, in Python workers and, for samples, on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.json_lines import parses_alike
from pushdown_spark.formats.text.line_reader import LineReader, Window
from pushdown_spark.formats.text.metrics import TextCount, TextTask
from pushdown_spark.relations.listing import Split, Task
from pushdown_spark.runtime.worker import freeze_imports, unexpected_errors_as_unsafe_input

_BOM = b"\xef\xbb\xbf"
_BATCH_BYTES = 2 << 20
_BATCH_LINES = 16_384

Report = Callable[[int, TextTask], None]
"""Receives the number and the counts of a finished task."""


@dataclass(frozen=True)
class LineSyntax:
    """The syntax of lines: terminators, a header in each file, comments, and whether lines must be UTF-8.

    `skips_blank`: lines of spaces and control characters are not rows. `nested`: JSON with arrays, maps, structs or
    variants, whose lines must parse alike as strings and as bytes.
    """

    carriage_returns: bool = True
    header: bool = False
    comment: bytes = b""
    strict_utf8: bool = False
    strip_bom: bool = False
    skips_blank: bool = False
    nested: bool = False


@dataclass(frozen=True)
class LineFilterTask:
    """The tasks of a scan and their pattern. Spark calls it with the numbers of the tasks to run.

    `wanted` finds candidate lines. `forbidden` finds lines that may parse differently as strings. For incremental
    scans, a task returns its candidates number skip to skip + cap - 1, or all with cap None.
    """

    tasks: tuple[Task, ...]
    wanted: Searcher
    forbidden: Searcher | None
    syntax: LineSyntax
    report: Report
    skip: tuple[int, ...] = ()
    cap: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the candidate lines of the tasks with these numbers, as batches of one string column."""
        freeze_imports()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with unexpected_errors_as_unsafe_input():
                    yield from self._run(number)

    def _run(self, number: int) -> Iterator[pa.RecordBatch]:
        count = _Counter(self.skip[number] if self.skip else 0, self.cap)
        for split in self.tasks[number].splits:
            if count.is_full:
                break
            yield from self._split(split, count)
        self.report(number, count.result())

    def _split(self, split: Split, count: _Counter) -> Iterator[pa.RecordBatch]:
        reader = LineReader(split, carriage_returns=self.syntax.carriage_returns)
        find = LineMatcher(self.wanted, self.forbidden, self.syntax)
        lines: list[bytes] = []
        size = 0
        for window in reader.windows():
            for line in count.take(split.path, find.lines(window, split.path, at_start=split.start == 0)):
                lines.append(line)
                size += len(line)
            if size >= _BATCH_BYTES or len(lines) >= _BATCH_LINES:
                yield find.batch(lines, split.path)
                lines, size = [], 0
            if count.is_full:
                break
        count.add(split.path, reader)
        if lines:
            yield find.batch(lines, split.path)


class _Counter:
    """The counts of a task, and the slice of its candidates."""

    def __init__(self, skip: int, cap: int | None) -> None:
        self._skip = skip
        self._cap = cap
        self._files: dict[str, TextCount] = {}
        self._lines = 0

    @property
    def is_full(self) -> bool:
        return self._cap is not None and self._lines >= self._cap

    def take(self, path: str, lines: Sequence[bytes]) -> Sequence[bytes]:
        dropped = min(self._skip, len(lines))
        self._skip -= dropped
        room = None if self._cap is None else dropped + self._cap - self._lines
        taken = lines[dropped:room]
        self._lines += len(taken)
        count = self._of(path)
        count.candidate_lines += len(taken)
        count.candidate_bytes += sum(map(len, taken))
        return taken

    def add(self, path: str, reader: LineReader) -> None:
        count = self._of(path)
        count.bytes_read += reader.bytes_read
        count.bytes_searched += reader.bytes_searched

    def result(self) -> TextTask:
        return TextTask(self._files, not self.is_full)

    def _of(self, path: str) -> TextCount:
        return self._files.setdefault(path, TextCount())


class LineMatcher:
    """Finds candidate lines in the windows of one split, in file order."""

    def __init__(self, wanted: Searcher, forbidden: Searcher | None, syntax: LineSyntax) -> None:
        self._wanted = wanted
        self._forbidden = forbidden
        self._syntax = syntax
        self._header_pending = syntax.header

    def lines(self, window: Window, path: str, *, at_start: bool) -> list[bytes]:
        """Return the candidate lines of a window, without terminators.

        Raises UnsafeInputError if the window has a NUL byte, because Spark might read it as UTF-16 or UTF-32.
        """
        data, length = window.data, window.length
        if data.find(b"\x00", 0, length) >= 0:
            raise UnsafeInputError(f"{path} has a NUL byte and may not be UTF-8; read it with reader='spark'")
        begin = self._header_end(window) if at_start and self._header_pending else 0
        hits = self._wanted.hits(data, length)
        return self._lines_at(hits, data, length, begin)

    def _lines_at(self, hits: Sequence[int], data: bytearray, length: int, begin: int) -> list[bytes]:
        returns = bool(hits) and self._syntax.carriage_returns and data.find(b"\r", 0, length) >= 0
        fields = self._wanted.pattern.fields
        lines: list[bytes] = []
        done = begin
        # This loop runs a million times for a frequent pattern, so the field test of `Fields` is inlined.
        sep, guards, numbers = (fields.sep, tuple(fields.guards), fields.numbers) if fields else (b"", (), None)
        find, rfind, count = data.find, data.rfind, data.count
        for end in hits:
            if end <= done:
                continue
            last = end - 1
            start = rfind(b"\n", done, last) + 1 or done
            if returns:
                start = max(rfind(b"\r", start, last) + 1, start)
            if numbers is not None and count(sep, start, last) not in numbers:
                for guard in guards:
                    if find(guard, start, last) >= 0:
                        break
                else:
                    continue
            stop = find(b"\n", last, length)
            if returns:
                bound = length if stop < 0 else stop
                early = find(b"\r", last, bound)
                stop = early if early >= 0 else bound
            elif stop < 0:
                stop = length
            lines.append(bytes(data[start:stop]))
            done = stop + 1
        return lines

    def _header_end(self, window: Window) -> int:
        """Return the position after the header, which is the first line that is neither blank nor a comment."""
        position = 0
        while position < window.length:
            stop = _line_end(window.data, position, window.length, self._syntax.carriage_returns)
            line = bytes(window.data[position:stop])
            position = stop + 1
            comment = self._syntax.comment
            if line.strip(_JAVA_BLANKS) and not (comment and line.startswith(comment)):
                self._header_pending = False
                break
        return position

    def batch(self, lines: Sequence[bytes], path: str) -> pa.RecordBatch:
        """Return lines as a batch for Spark. Raises UnsafeInputError if one may parse differently as a string."""
        if self._syntax.strip_bom:
            lines = [line.removeprefix(_BOM) for line in lines]
        if self._syntax.skips_blank:
            lines = [line for line in lines if line.strip(_JAVA_BLANKS)]
        if self._forbidden is not None:
            self._check_forbidden(self._forbidden, lines, path)
        if self._syntax.nested:
            _check_tokens(lines, path)
        values = pa.array(lines, pa.binary())
        if not self._syntax.strict_utf8:
            return pa.RecordBatch.from_arrays([values.view(pa.string())], ["value"])
        try:
            return pa.RecordBatch.from_arrays([values.cast(pa.string())], ["value"])
        except pa.ArrowInvalid as problem:
            raise UnsafeInputError(f"{path} has bytes that are not UTF-8; read it with reader='spark'") from problem

    def _check_forbidden(self, forbidden: Searcher, lines: Sequence[bytes], path: str) -> None:
        joined = bytearray(b"\n".join(lines) + b"\n")
        hits = forbidden.hits(joined, len(joined))
        if hits:
            start = joined.rfind(b"\n", 0, hits[0] - 1) + 1
            shown = joined[start : start + 60].partition(b"\n")[0].decode("utf-8", "replace")
            odd = " or ".join(forbidden.pattern.label.split(" | "))
            raise UnsafeInputError(
                f"{path} has a line ({shown!r}...) that Spark may parse differently when it reads the file "
                f"(found: {odd}); read it with reader='spark'"
            )


def _check_tokens(lines: Sequence[bytes], path: str) -> None:
    odd = next((line for line in lines if not parses_alike(line)), None)
    if odd is not None:
        shown = odd[:60].decode("utf-8", "replace")
        raise UnsafeInputError(
            f"{path} has a line that is not JSON ({shown!r}...), which Spark's file reader may parse in part; "
            "read it with reader='spark'"
        )


_JAVA_BLANKS = bytes(range(0x21))
"""The characters that Java's String.trim removes."""


def _line_end(data: bytearray, start: int, length: int, returns: bool) -> int:
    stop = data.find(b"\n", start, length)
    stop = length if stop < 0 else stop
    early = data.find(b"\r", start, stop) if returns else -1
    return early if early >= 0 else stop
