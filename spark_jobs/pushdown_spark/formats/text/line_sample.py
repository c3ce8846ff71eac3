"""Samples of lines: how long they are, how many values they have, and which fractions of them a search matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from pushdown_spark.expressions.byte_patterns.string_filter import StringFilter
from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_filter import LineMatcher, LineSyntax
from pushdown_spark.formats.text.line_reader import LineReader, Window
from pushdown_spark.sources.stores.listing import InputFile, Split, map_files, spread_splits

_BLOCK_BYTES = 64 << 10
"""Number of bytes read at each position."""
_MAX_BLOCKS = 8
"""Number of sampled positions, spread over all files."""
_FIRST_BLOCKS = 2
"""Number of sampled positions that are enough if every search matches most of their lines."""


@dataclass(frozen=True)
class LineMarks:
    """The bytes that show the number of values in a line: `value` occurs once for each value, `quote` twice if quoted.

    For JSON, `value` is the end of a key.
    """

    value: bytes
    quote: bytes = b""


@dataclass(frozen=True, kw_only=True)
class LineSample:
    """The number of sampled lines, their mean length in bytes, and the fractions of lines that match.

    `fractions` are those of the byte patterns, `filter_fractions` those of the string filters. `hits` are the mean
    numbers of matches of the byte patterns in a line. `inflation` is the number of searched bytes per stored byte,
    above 1 for compressed files. `key_positions` has the mean position of each key as a fraction of its line. `values`
    and `quoted_values` are the mean numbers of values and of quoted CSV values in a line.
    """

    lines: int
    line_bytes: float
    fractions: tuple[float, ...]
    hits: tuple[float, ...]
    filter_fractions: tuple[float, ...]
    inflation: float
    key_positions: tuple[float, ...]
    values: float
    quoted_values: float


@dataclass(frozen=True)
class LineSearches:
    """The searches to compare in a sample: byte patterns of workers, and string filters of the JVM.

    `ambiguous` finds lines that only Spark can read. `keys` are keys of JSON lines whose positions are measured.
    """

    searchers: Sequence[Searcher] = ()
    ambiguous: Searcher | None = None
    filters: Sequence[StringFilter] = ()
    keys: Sequence[str] = ()


class LineSampler:
    """Samples of the lines of files. Each block is read once, however many samples need it."""

    def __init__(self, files: Sequence[InputFile], syntax: LineSyntax, marks: LineMarks) -> None:
        self._files = files
        self._syntax = syntax
        self._marks = marks
        self._block_by_split: dict[Split, _Block] = {}

    def sample(self, searches: LineSearches = LineSearches(), *, blocks: int = _MAX_BLOCKS) -> LineSample:
        """Count what the searches match at `blocks` positions.

        Raises PushdownError if a block shows that the files cannot be searched.
        """
        counter = _LineCounter(self._syntax, self._marks, searches)
        splits = _sampled_blocks(self._files, blocks)
        for some in (splits[:_FIRST_BLOCKS], splits[_FIRST_BLOCKS:]):
            for block in self._blocks(some):
                counter.add(block)
            if counter.matches_most_lines:
                break
        return counter.sample()

    def _blocks(self, splits: Sequence[Split]) -> list[_Block]:
        read = partial(_read_block, ends_at_returns=self._syntax.ends_at_returns)
        new_splits = dict.fromkeys(split for split in splits if split not in self._block_by_split)
        for block in map_files(read, list(new_splits)):
            self._block_by_split[block.split] = block
        return [self._block_by_split[split] for split in splits]


@dataclass(frozen=True)
class _Block:
    """The first lines of a split, and the number of stored bytes that have them. `window` is None without a line."""

    split: Split
    window: Window | None
    stored_size: int


def _read_block(split: Split, *, ends_at_returns: bool) -> _Block:
    reader = LineReader(split, ends_at_returns=ends_at_returns)
    window = next(reader.windows(), None)
    return _Block(split, window, max(reader.bytes_read, 1))


class _LineCounter:
    """Counts of lines, and of what the searches match in them."""

    def __init__(self, syntax: LineSyntax, marks: LineMarks, searches: LineSearches) -> None:
        self._syntax = syntax
        self._marks = marks
        self._searches = searches
        self._quoted_keys = [f'"{key}"'.encode() for key in searches.keys]
        self._lines = self._size = self._stored_size = 0
        self._values = self._quotes = 0
        self._matches = [0] * len(searches.searchers)
        self._hits = [0] * len(searches.searchers)
        self._filter_matches = [0] * len(searches.filters)
        self._bytes_before_keys = [0] * len(searches.keys)

    @property
    def matches_most_lines(self) -> bool:
        """Whether each search matches more than half of the lines."""
        return min((*self._matches, *self._filter_matches), default=0) > self._lines / 2

    def add(self, block: _Block) -> None:
        """Count the lines of a block. Raises PushdownError for lines that only Spark can read."""
        window, split = block.window, block.split
        if window is None:
            return
        content = bytes(window.view)
        lines = content.splitlines()
        self._lines += len(lines)
        self._size += len(content)
        self._stored_size += block.stored_size
        self._values += content.count(self._marks.value)
        self._quotes += content.count(self._marks.quote) if self._marks.quote else 0
        for index, searcher in enumerate(self._searches.searchers):
            matcher = LineMatcher(searcher, self._searches.ambiguous, self._syntax)
            candidates = matcher.lines(window, split.path, at_start=split.start == 0)
            matcher.batch(candidates, split.path)
            self._matches[index] += len(candidates)
            self._hits[index] += matcher.hits
        for index, string_filter in enumerate(self._searches.filters):
            self._filter_matches[index] += sum(map(string_filter.matches, lines))
        for index, key in enumerate(self._quoted_keys):
            self._bytes_before_keys[index] += sum(len(line.partition(key)[0]) for line in lines)

    def sample(self) -> LineSample:
        """Return the counts as means and fractions of the lines."""
        lines, size = max(self._lines, 1), max(self._size, 1)
        return LineSample(
            lines=self._lines,
            line_bytes=self._size / lines,
            fractions=tuple(count / lines for count in self._matches),
            hits=tuple(count / lines for count in self._hits),
            filter_fractions=tuple(count / lines for count in self._filter_matches),
            inflation=self._size / max(self._stored_size, 1),
            key_positions=tuple(count / size for count in self._bytes_before_keys),
            values=self._values / lines,
            quoted_values=self._quotes / 2 / lines,
        )


def _sampled_blocks(files: Sequence[InputFile], number: int) -> list[Split]:
    """Return evenly spread blocks, weighted by file size: the first, the one in the middle, then the others.

    In compressed files, they are at the start.
    """
    step = max(sum(file.size for file in files) // number, 1)
    blocks = list(islice(spread_splits(files, step, _BLOCK_BYTES), number))
    if blocks:
        blocks.insert(1, blocks.pop(len(blocks) // 2))
    return blocks
