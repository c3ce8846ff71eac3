"""Run a lazy ORC scan's tasks: called by Spark in Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pushdown_spark.errors import MissingPathError, PushdownError, UnreadableFileError, UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.readers.faults import faults_left_to_spark
from pushdown_spark.readers.files import Split, Task
from pushdown_spark.readers.orc.columns import Reading, matched
from pushdown_spark.readers.orc.counts import OrcCount
from pushdown_spark.readers.orc.lazy import LazyStripe, Wanted
from pushdown_spark.readers.orc.prune import Pruner
from pushdown_spark.readers.orc.ranges import Purpose, Ranges
from pushdown_spark.readers.orc.stripe import Stripe
from pushdown_spark.readers.orc.tail import FileTail, ReadRange, read_tail
from pushdown_spark.readers.orc.zones import UTC, Zone
from pushdown_spark.readers.storage import Storage
from pushdown_spark.readers.worker import spare_the_collector

Report = Callable[[int, dict[str, OrcCount]], None]
"""Receives a task's number and its figures when the task is done."""


@dataclass(frozen=True)
class OrcQuery:
    """What is wanted of every file: the table's columns that are read, and their places in the table.

    `filter` is what all rows must pass, None for all rows; `partial_reads` as in `plan_reads`; `min_seek` in bytes;
    `zone` is the JVM's; `declared` as in `matched`.
    """

    schema: pa.Schema
    positions: tuple[int, ...]
    filter: ArrowFilter | None
    partial_reads: int | None
    min_seek: int
    case_sensitive: bool
    zone: Zone = UTC
    declared: int | None = None

    @property
    def filter_names(self) -> frozenset[str]:
        """Top-level columns that the filter needs."""
        return frozenset(path[0] for path in self.filter.columns) if self.filter else frozenset()

    def of(self, tail: FileTail) -> Wanted:
        """What is wanted of one file."""
        columns = matched(
            tail, list(self.schema), self.positions, case_sensitive=self.case_sensitive, declared=self.declared
        )
        return Wanted(tail, columns, self.filter, self.partial_reads, Reading(self.case_sensitive, self.zone))


class OrcFile:
    """One file, opened. Its errors name the file, and the stripe where one is to blame."""

    def __init__(self, path: str, query: OrcQuery, count: OrcCount, read: ReadRange, size: int) -> None:
        self._path = path
        self._query = query
        self._count = count
        self._ranges = Ranges(read, size, query.min_seek)
        try:
            self.tail = read_tail(self._ranges.one(Purpose.METADATA), size)
            self._wanted = query.of(self.tail)
        except PushdownError as problem:
            raise type(problem)(f"{path}: {problem}") from problem
        except (ValueError, OSError) as problem:
            raise UnreadableFileError(f"cannot read {path}: {problem}; {_REMEDY}") from problem
        self._pruner = Pruner(self.tail, self._wanted, self._ranges.one(Purpose.METADATA))

    def close(self) -> None:
        """Add up what was read."""
        self._count.bytes += self._ranges.counted
        self._count.reads += self._ranges.reads

    def stripes(self, start: int, end: int) -> list[int]:
        """Numbers of the stripes that begin in a range of bytes."""
        return [number for number, stripe in enumerate(self.tail.stripes) if start <= stripe.offset < end]

    def batches(self, stripes: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The matching rows of some stripes."""
        for number in stripes:
            with self._blamed(number):
                if not self._pruner.admits(number, self._count):
                    continue
                stripe = Stripe(self.tail, number, self._ranges.one(Purpose.INDEX))
                lazy = LazyStripe(stripe, self._wanted, self._ranges, self._count)
                yield from lazy.batches(self._pruner.groups)

    def samples(self, stripes: int, groups: int) -> Iterator[StripeSample]:
        """Judge a few row groups of a few stripes, spread over the file, by the filter alone."""
        there = range(len(self.tail.stripes))
        for number in there[:: max(1, len(there) // stripes)][:stripes]:
            with self._blamed(number):
                stripe = Stripe(self.tail, number, self._ranges.one(Purpose.INDEX))
                alive = self._pruner.groups(stripe, OrcCount()) if self._pruner.admits(number, OrcCount()) else []
                lazy = LazyStripe(stripe, self._wanted, self._ranges, OrcCount())
                tried = alive[:: max(1, len(alive) // groups)][:groups]
                judged = lazy.judged(tried)
                yield StripeSample(
                    stripe.groups,
                    len(alive),
                    len(tried),
                    sum(1 for _, passed in judged if passed),
                    sum(rows for rows, _ in judged),
                    sum(passed for _, passed in judged),
                )

    @contextmanager
    def _blamed(self, stripe: int) -> Iterator[None]:
        """Errors in here are the stripe's."""
        try:
            yield
        except UnsafeInputError as problem:
            raise UnsafeInputError(f"{self._path}, stripe {stripe}: {problem}") from problem
        except (ValueError, OSError, IndexError, KeyError) as problem:
            raise UnreadableFileError(
                f"cannot read {self._path}, stripe {stripe} at byte {self.tail.stripes[stripe].offset}: "
                f"{problem}; {_REMEDY}"
            ) from problem


@dataclass(frozen=True)
class StripeSample:
    """Of one stripe: row groups in all, alive after pruning, tried, with a matching row; rows tried and matching."""

    groups: int
    alive: int
    tried: int
    hit: int
    rows: int
    passed: int


_REMEDY = "replace the file, or leave it out of `path`"


@dataclass(frozen=True)
class OrcScan:
    """A scan's task list. Called by Spark with the numbers of the tasks to run.

    `cap` is the number of rows after which a task may stop, None for all.
    """

    tasks: tuple[Task, ...]
    query: OrcQuery
    report: Report
    cap: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of the tasks whose numbers come in."""
        # Spark runs as many tasks as there are cores; decoding in threads of its own would only get in their way.
        pa.set_cpu_count(1)
        spare_the_collector()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with faults_left_to_spark():
                    yield from self._run(number)

    def _run(self, number: int) -> Iterator[pa.RecordBatch]:
        counts: dict[str, OrcCount] = {}
        left = self.cap
        for split in self.tasks[number].splits:
            count = counts.setdefault(split.path, OrcCount())
            for batch in self._split(split, count):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                yield batch
                if left == 0:
                    break
            if left == 0:
                break
        self.report(number, counts)

    def _split(self, split: Split, count: OrcCount) -> Iterator[pa.RecordBatch]:
        with opened(split.path, split.storage, self.query, count) as file:
            yield from file.batches(file.stripes(split.start, split.end))


@contextmanager
def opened(path: str, storage: Storage, query: OrcQuery, count: OrcCount) -> Iterator[OrcFile]:
    """A file to read lazily; what is read of it is added to `count`. Raises typed errors that name the file."""
    try:
        with storage.open(path, ahead=0) as raw:

            def read(offset: int, length: int) -> bytes:
                raw.seek(offset)
                return raw.read(length)

            file = OrcFile(path, query, count, read, raw.size)
            try:
                yield file
            finally:
                file.close()
    except FileNotFoundError as problem:
        raise MissingPathError(f"{path} vanished while it was read; run the task again") from problem
    except OSError as problem:
        raise UnreadableFileError(f"cannot read {path}: {problem}; {_REMEDY}") from problem
