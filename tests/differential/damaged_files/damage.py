"""Damaged files, read in a separate process, because a crash of a decoder ends only that process.

The module of a format, `orc_damage` for example, is the script of that process: it calls `print_outcomes`. Its test
has a `DamagedFormat`, which starts the script.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Column, Comparison, Op, Or
from pushdown_spark.expressions.types import LogicalType

SECONDS = 60
"""A file that takes longer hangs."""
MEMORY = 2 << 30
"""Bytes of address space that reading small files may take on top of what the process has already."""
QUERIES = "queries.pickle"
ROW = Column(("row",), LogicalType.INTEGER, pa.int64())
A = Column(("a",), LogicalType.INTEGER, pa.int32())
FILTER = ArrowFilter(Or((Comparison(ROW, Op.GE, 150), Comparison(A, Op.EQ, 5))))
Regions = Mapping[str, tuple[int, int]]
Rows = tuple[str, ...]
Read = Callable[[Path, Any], list[pa.RecordBatch]]
"""Reads a file with a query of its format."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of reading a file: rows as strings, or the class of an error (empty for rows) and its message."""

    rows: Rows
    error: str = ""
    message: str = ""


def plain(table: pa.Table) -> pa.Table:
    """Return strings as bytes and times as integers, because damaged values may be invalid."""
    return table.cast(pa.schema([field.with_type(_plain(field.type)) for field in table.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind


def expected_rows(rows: Sequence[Mapping[str, object]], query: str) -> Rows:
    """Return the rows that a query keeps, as strings. All queries except `all` have the filter `FILTER`."""
    return tuple(sorted(repr(row) for row in rows if query == "all" or _passes(row)))


def _passes(row: Mapping[str, object]) -> bool:
    number = row["row"]
    return (isinstance(number, int) and number >= 150) or row["a"] == 5


def flip_bits(rng: random.Random, content: bytes, regions: Regions, times: int) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files with one flipped bit. The name starts with the region."""
    for region, (begin, end) in regions.items():
        for number in range(times):
            damaged_content = bytearray(content)
            damaged_content[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
            yield f"{region.replace(' ', '_')}-{number}", bytes(damaged_content)


def overwrite_ranges(rng: random.Random, content: bytes, regions: Regions) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files with a range of zeros, ones or noise. The name starts with the region."""
    for region, (begin, end) in regions.items():
        for number in range(25):
            start = rng.randrange(begin, end)
            length = min(rng.choice((2, 8, 50, 1000)), end - start)
            noise = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length)))
            yield f"{region.replace(' ', '_')}-{number}", content[:start] + noise + content[start + length :]


def truncate(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files that end too early: most near the start or the end."""
    size = len(content)
    for length in {*range(1, 40), *range(size - 40, size), *random.Random(1).sample(range(size), 60)}:
        yield f"cut-{length}", content[:length]


def region_of(name: str) -> str:
    """Return the region of a damaged file, `sound` for the intact file."""
    return Path(name).stem.split("-")[0].replace("_", " ")


def count_outcome(tally: Counter[str], name: str, kind: str) -> None:
    """Count the kind of an outcome of a file, in all and by region."""
    tally.update((kind, f"{region_of(name)}: {kind}"))


@dataclass(frozen=True)
class DamagedFormat:
    """A format whose files are damaged.

    `script` reads the files of a directory and `sound` writes an intact one, given its codec. `regions` returns its
    parts, `errors` are the classes of the errors that damage may raise.
    """

    script: str
    suffix: str
    sound: Callable[[random.Random, str, Path], bytes]
    regions: Callable[[Path], Regions]
    queries: Mapping[str, object]
    errors: Collection[str]

    def flip(self, rng: random.Random, codec: str, times: int, directory: Path) -> dict[str, dict[str, Outcome]]:
        """Write an intact file and copies with one flipped bit in each region. Return the outcomes by file and query.

        Raises AssertionError for an error without the name of the file, or of another class than `errors`.
        """
        path = self._sound_path(directory)
        content = self.sound(rng, codec, path)
        self._write(directory, flip_bits(rng, content, self.regions(path), times))
        outcomes = self._outcomes(directory)
        for name, results in outcomes.items():
            for outcome in results.values():
                is_expected = outcome.error in self.errors and name in outcome.message
                assert not outcome.error or is_expected, f"{name}: {outcome}"
        return outcomes

    def check_truncated(
        self, codec: str, directory: Path, *, is_whole: Callable[[bytes], bool] = lambda _: False
    ) -> None:
        """Check that files that end too early raise, unless their remaining bytes are `is_whole`."""
        path = self._sound_path(directory)
        content = self.sound(random.Random(codec), codec, path)
        self._write(directory, ((name, start) for name, start in truncate(content) if not is_whole(start)))
        for name, outcomes in self._outcomes(directory).items():
            errors = {outcome.error for outcome in outcomes.values()}
            assert errors == ({""} if name == path.name else {"UnreadableFileError"}), (name, outcomes)

    def check_overwritten(self, codec: str, directory: Path) -> None:
        """Check that files with zeros, ones or noise in a region raise one of the errors, or yield any rows."""
        rng, path = random.Random(codec), self._sound_path(directory)
        content = self.sound(rng, codec, path)
        self._write(directory, overwrite_ranges(rng, content, self.regions(path)))
        outcomes = self._outcomes(directory)
        errors = [outcome.error for each in outcomes.values() for outcome in each.values()]
        assert set(errors) <= {"", *self.errors}
        assert errors.count("UnreadableFileError") > len(errors) * 0.3

    def _sound_path(self, directory: Path) -> Path:
        return directory / f"sound{self.suffix}"

    def _write(self, directory: Path, files: Iterable[tuple[str, bytes]]) -> None:
        for name, content in files:
            (directory / f"{name}{self.suffix}").write_bytes(content)

    def _outcomes(self, directory: Path) -> dict[str, dict[str, Outcome]]:
        """Return the outcome of each query by file name. Raises AssertionError if the process crashed."""
        (directory / QUERIES).write_bytes(pickle.dumps(dict(self.queries)))
        # Arrow's usual allocator reserves address space ahead.
        env = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.run(
            [sys.executable, self.script, str(directory)], capture_output=True, text=True, env=env, check=False
        )
        outcomes = {}
        for line in process.stdout.splitlines():
            name, results = json.loads(line)
            outcomes[name] = {query: Outcome(tuple(rows), *problem) for query, (rows, *problem) in results.items()}
        unread = [path.name for path in _files(directory) if path.name not in outcomes]
        assert not unread, (
            f"reading {unread[0]} ended the process with status {process.returncode}: {process.stderr[-2000:]}"
        )
        return outcomes


def print_outcomes(read: Read, *, full: bool = True) -> None:
    """Read the files of the script's directory one by one, and print each outcome as a line of JSON.

    `full` says whether the values of rows are validated too.
    """
    directory = Path(sys.argv[1])
    queries = pickle.loads((directory / QUERIES).read_bytes())
    for path in _files(directory):
        signal.alarm(SECONDS)
        outcomes = {name: _outcome(read, path, query, full=full) for name, query in queries.items()}
        print(json.dumps([path.name, outcomes]), flush=True)


def limit_memory() -> None:
    """Let an allocation of a damaged size fail in this process."""
    pa.set_cpu_count(1)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name != QUERIES)


def _outcome(read: Read, path: Path, query: Any, *, full: bool) -> tuple[Rows, str, str]:
    try:
        batches = read(path, query)
        for batch in batches:
            plain(pa.Table.from_batches([batch])).validate(full=full)
    except PushdownError as problem:
        return (), type(problem).__name__, str(problem)
    rows = plain(pa.Table.from_batches(batches, query.schema)).to_pylist()
    return tuple(sorted(map(repr, rows))), "", ""
