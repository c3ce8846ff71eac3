"""Search for lines that may satisfy a predicate, in Python workers and, for samples, on the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json import JSONDecoder
from typing import TYPE_CHECKING

import pyarrow as pa

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.scan_task import FileMetrics, ScanTask
from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_reader import BOM, JAVA_BLANKS, LineReader, Window, is_row
from pushdown_spark.sources.stores.listing import Split

if TYPE_CHECKING:
    from pushdown_spark.contract import Skipped

_BATCH_BYTES = 2 << 20
_BATCH_LINES = 16_384
_JSON_BLANKS = " \t\r"
_ESCAPE = r"""\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})"""
JSON_TOKENS = (
    r"(?:[ \t\r\n{}\[\]:,]"
    rf"""|"(?:[^"\\\x00-\x1f]|{_ESCAPE})*+(?:"|$)"""
    rf"""|'(?:[^'\\\x00-\x1f]|{_ESCAPE})*+(?:'|$)"""
    r"|(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN)(?=[ \t\r,\]}]|$)"
    r")*+"
)
"""An expression for lines of well-formed tokens, which may end early. Python and Java read it alike."""
_ONLY_TOKENS = re.compile(JSON_TOKENS)
_JSON_DECODER = JSONDecoder()


@dataclass
class TextMetrics(FileMetrics):
    """Counts of one file in one task: stored bytes, searched bytes, and the lines that are passed to Spark's parser."""

    bytes_read: int = 0
    bytes_searched: int = 0
    rows_decoded: int = 0
    candidate_bytes: int = 0

    @property
    def rows_returned(self) -> int:
        """Number of candidate lines."""
        return self.rows_decoded

    def count_skipped(self, bytes_total: int) -> dict[Skipped, int]:
        """Return the bytes of the other lines, which are read and searched."""
        # Imported here, because workers do not need it.
        from pushdown_spark.contract import Skipped

        return {Skipped.BYTES_NEVER_PARSED: self.bytes_searched - self.candidate_bytes}

    @property
    def details(self) -> dict[str, object]:
        """The bytes that were searched."""
        return {"bytes_searched": self.bytes_searched}


@dataclass(frozen=True)
class LineSyntax:
    """The syntax of lines: terminators, a header in each file, comments, and whether lines must be UTF-8.

    With `skips_blank`, lines of spaces and control characters are not rows. `has_nested_types` is set for JSON with
    arrays, maps, structs or variants, whose lines must parse alike as strings and as bytes.
    """

    ends_at_returns: bool = True
    has_header: bool = False
    comment: bytes = b""
    requires_utf8: bool = False
    strips_bom: bool = False
    skips_blank: bool = False
    has_nested_types: bool = False


@dataclass(frozen=True)
class LineQuery:
    """The search of a scan.

    `searcher` finds candidate lines. `ambiguous` finds lines that may parse differently as strings.
    """

    searcher: Searcher
    ambiguous: Searcher | None
    syntax: LineSyntax


@dataclass(frozen=True)
class LineFilterTask(ScanTask[LineQuery, TextMetrics]):
    """The tasks of a scan of lines, which yield candidate lines as batches of one string column.

    In incremental scans, a task skips its first `skip` candidates and returns the next `cap` candidates.
    """

    skip: tuple[int, ...] = ()

    def run(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the candidate lines of one task."""
        candidates = _CandidateSlice(self.skip[number] if self.skip else 0, self.cap)
        metrics: dict[str, TextMetrics] = {}
        for split in self.tasks[number].splits:
            if candidates.is_full:
                break
            yield from self._search(split, candidates, metrics.setdefault(split.path, TextMetrics()))
        self.add_counts(number, metrics)

    def _search(self, split: Split, candidates: _CandidateSlice, metrics: TextMetrics) -> Iterator[pa.RecordBatch]:
        """Yield the candidate lines of one split in batches."""
        query = self.query
        reader = LineReader(split, ends_at_returns=query.syntax.ends_at_returns)
        matcher = LineMatcher(query.searcher, query.ambiguous, query.syntax)
        lines: list[bytes] = []
        size = 0
        for window in reader.windows():
            candidate_lines = candidates.take(matcher.lines(window, split.path, at_start=split.start == 0))
            candidate_bytes = sum(map(len, candidate_lines))
            metrics.rows_decoded += len(candidate_lines)
            metrics.candidate_bytes += candidate_bytes
            lines += candidate_lines
            size += candidate_bytes
            if size >= _BATCH_BYTES or len(lines) >= _BATCH_LINES:
                yield matcher.batch(lines, split.path)
                lines, size = [], 0
            if candidates.is_full:
                break
        metrics.bytes_read += reader.bytes_read
        metrics.bytes_searched += reader.bytes_searched
        if lines:
            yield matcher.batch(lines, split.path)


class _CandidateSlice:
    """The candidates that a task returns: after the first `skip`, the next `cap` (None for all)."""

    def __init__(self, skip: int, cap: int | None) -> None:
        self._skip = skip
        self._room = cap

    @property
    def is_full(self) -> bool:
        """Whether the task has all its candidates."""
        return self._room == 0

    def take(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Return the candidates among the next lines that belong to the slice."""
        count = min(self._skip, len(lines))
        self._skip -= count
        candidates = lines[count : None if self._room is None else count + self._room]
        if self._room is not None:
            self._room -= len(candidates)
        return candidates


class LineMatcher:
    """A search for candidate lines in the windows of one split, in file order."""

    def __init__(self, searcher: Searcher, ambiguous: Searcher | None, syntax: LineSyntax) -> None:
        self._searcher = searcher
        self._ambiguous = ambiguous
        self._syntax = syntax
        self._skips_header = syntax.has_header
        self.hits = 0
        """Number of matches so far. A line may have several, also in fields that do not count."""

    def lines(self, window: Window, path: str, *, at_start: bool) -> list[bytes]:
        """Return the candidate lines of a window, without terminators.

        Raises UnsafeInputError if the window has a NUL byte, because Spark might read it as UTF-16 or UTF-32.
        """
        data, length = window.data, window.length
        if data.find(b"\x00", 0, length) >= 0:
            raise UnsafeInputError(f"{path} has a NUL byte and may not be UTF-8; read it with reader='spark'")
        begin = self._header_end(window) if at_start and self._skips_header else 0
        hits = self._searcher.hits(data, length)
        self.hits += len(hits)
        return self._lines_at(hits, data, length, begin)

    def _lines_at(self, hits: Sequence[int], data: bytearray, length: int, begin: int) -> list[bytes]:
        """Return the lines around the hits, which are end offsets of matches, from the position `begin` on."""
        has_returns = bool(hits) and self._syntax.ends_at_returns and data.find(b"\r", 0, length) >= 0
        fields = self._searcher.pattern.fields
        lines: list[bytes] = []
        position = begin
        # This loop runs a million times for a frequent pattern, so the field test of `Fields` is inlined.
        sep, quoting, numbers = (fields.sep, tuple(fields.quoting), fields.numbers) if fields else (b"", (), None)
        find, rfind, count = data.find, data.rfind, data.count
        for end in hits:
            if end <= position:
                continue
            last = end - 1
            start = rfind(b"\n", position, last) + 1 or position
            if has_returns:
                start = max(rfind(b"\r", start, last) + 1, start)
            if numbers is not None and count(sep, start, last) not in numbers:
                for byte in quoting:
                    if find(byte, start, last) >= 0:
                        break
                else:
                    continue
            stop = find(b"\n", last, length)
            if stop < 0:
                stop = length
            if has_returns and (carriage_return := find(b"\r", last, stop)) >= 0:
                stop = carriage_return
            lines.append(bytes(data[start:stop]))
            position = stop + 1
        return lines

    def _header_end(self, window: Window) -> int:
        """Return the position after the header, which is the first line that is neither blank nor a comment."""
        position = 0
        while position < window.length:
            stop = _line_end(window.data, position, window.length, self._syntax.ends_at_returns)
            line = bytes(window.data[position:stop])
            position = stop + 1
            if is_row(line, self._syntax.comment):
                self._skips_header = False
                break
        return position

    def batch(self, lines: Sequence[bytes], path: str) -> pa.RecordBatch:
        """Return lines as a batch for Spark. Raises UnsafeInputError if one may parse differently as a string."""
        if self._syntax.strips_bom:
            lines = [line.removeprefix(BOM) for line in lines]
        if self._syntax.skips_blank:
            lines = [line for line in lines if line.strip(JAVA_BLANKS)]
        if self._ambiguous is not None:
            _check_ambiguous(self._ambiguous, lines, path)
        if self._syntax.has_nested_types:
            _check_tokens(lines, path)
        values = pa.array(lines, pa.binary())
        if not self._syntax.requires_utf8:
            return pa.RecordBatch.from_arrays([values.view(pa.string())], ["value"])
        try:
            return pa.RecordBatch.from_arrays([values.cast(pa.string())], ["value"])
        except pa.ArrowInvalid as problem:
            raise UnsafeInputError(f"{path} has bytes that are not UTF-8; read it with reader='spark'") from problem


def _check_ambiguous(ambiguous: Searcher, lines: Sequence[bytes], path: str) -> None:
    """Raise UnsafeInputError for the first line that matches the ambiguous pattern."""
    text = bytearray(b"\n".join(lines) + b"\n")
    hits = ambiguous.hits(text, len(text))
    if hits:
        start = text.rfind(b"\n", 0, hits[0] - 1) + 1
        excerpt = text[start : start + 60].partition(b"\n")[0].decode("utf-8", "replace")
        causes = " or ".join(ambiguous.pattern.label.split(" | "))
        raise UnsafeInputError(
            f"{path} has a line ({excerpt!r}...) that Spark may parse differently when it reads the file "
            f"(found: {causes}); read it with reader='spark'"
        )


def parses_alike(line: bytes) -> bool:
    """Return whether Spark parses a JSON line alike as a string and as bytes, for any schema.

    Spark parses lines of files as bytes, and lines of a string column with another parser of Jackson. Both return the
    same for JSON. After a malformed token (`1.`, `nul`, a digit before a letter), Spark keeps the array, map or struct
    that it has and continues with the next token, and the two parsers continue at different characters.
    """
    text = line.decode("utf-8", "replace")
    try:
        _JSON_DECODER.raw_decode(text.lstrip(_JSON_BLANKS))
    except (ValueError, RecursionError):
        return _ONLY_TOKENS.fullmatch(text) is not None
    return True


def _check_tokens(lines: Sequence[bytes], path: str) -> None:
    """Raise UnsafeInputError for the first line that Spark may parse differently as a string."""
    bad_line = next((line for line in lines if not parses_alike(line)), None)
    if bad_line is not None:
        excerpt = bad_line[:60].decode("utf-8", "replace")
        raise UnsafeInputError(
            f"{path} has a line that is not JSON ({excerpt!r}...), which Spark's file reader may parse in part; "
            "read it with reader='spark'"
        )


def _line_end(data: bytearray, start: int, length: int, ends_at_returns: bool) -> int:
    """Return the position of the terminator of the line that starts at `start`."""
    newline = data.find(b"\n", start, length)
    stop = length if newline < 0 else newline
    carriage_return = data.find(b"\r", start, stop) if ends_at_returns else -1
    return carriage_return if carriage_return >= 0 else stop
