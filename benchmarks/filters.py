"""Design choices of the columnar filter: Arrow against row filter, predicates as written against normal forms.

The predicates have the shapes of ORC's own benchmarks of its lazy filter: IN over one bigint column, and an OR of ANDs,
whose conjunctive normal form doubles with each AND. The row filter is Python code over the same compiled tree. Every
round times all variants in turn. Results are medians over the rounds. Slow variants run only in the first round.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import pyarrow as pa
from pyspark.sql import types as t

from benchmarks.result_files import write_page
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import And, Comparison, InList, Node, Op, Or
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope

_ROUNDS = 9
_SECONDS = 0.02
"""How long one variant runs in one round, at least."""
_SLOW = 0.3
"""A variant that takes so many seconds is timed in the first round alone."""
_BATCHES = (1_024, 65_536)
_IN_SIZES = (4, 8, 16, 32, 256)
_OR_SIZES = (2, 4, 8)
_NEAR = 100_000
"""Numbers below this lie close together; the others are spread over 62 bits."""
_RESULT = Path(__file__).parent / "results" / "filters.md"
_SCHEMA = t.StructType([t.StructField(name, t.LongType()) for name in ("f1", "f2")])

Row = tuple[int | None, ...]
RowTest = Callable[[Row], bool | None]


def main() -> None:
    """Measure, print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=_RESULT, help="markdown file to write")
    output: Path = parser.parse_args().output
    about = f"CPU microseconds for each batch, medians of {_ROUNDS} interleaved rounds, pyarrow {pa.__version__}."
    lines = [*_in_table(), "", *_normal_form_table()]
    print(about, "", *lines, sep="\n")
    write_page(output, "Row filter and vector filter, compact and normalized", about, lines)


def _in_table() -> Iterator[str]:
    yield "`f1 IN (...)` over a bigint column: values that lie close together, and values from all over the 64 bits."
    yield ""
    yield "| rows | values | row | vector | faster by | row, spread | vector, spread | faster by |"
    yield "|---|---|---|---|---|---|---|---|"
    for rows in _BATCHES:
        for size in _IN_SIZES:
            figures: list[str] = []
            for limit in (_NEAR, 2**62):
                row, vector = _measure(_variants(_in_filter(size, limit), _batch(rows, limit)))
                figures += [f"{row:,.1f}", f"{vector:,.1f}", f"{1 - vector / row:.1%}"]
            yield f"| {rows:,} | {size} | {' | '.join(figures)} |"


def _normal_form_table() -> Iterator[str]:
    yield "An OR of ANDs of two comparisons, as written and in conjunctive normal form, by the number of ANDs."
    yield ""
    yield "| rows | ANDs | leaves | leaves, normal | row | row, normal | vector | vector, normal | compact faster by |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for rows in _BATCHES:
        for size in _OR_SIZES:
            compact = _or_of_ands(size)
            normal = ArrowFilter(_normal_form(compact.root))
            batch = _batch(rows, _NEAR)
            assert compact.keep(batch).equals(normal.keep(batch))
            figures = _measure([*_variants(compact, batch), *_variants(normal, batch)])
            row, vector, row_normal, vector_normal = figures
            leaves = f"{_leaves(compact.root)} | {_leaves(normal.root):,}"
            times = f"{row:,.1f} | {row_normal:,.1f} | {vector:,.1f} | {vector_normal:,.1f}"
            yield f"| {rows:,} | {size} | {leaves} | {times} | {1 - vector / vector_normal:.1%} |"


def _batch(rows: int, limit: int) -> pa.RecordBatch:
    rng = random.Random(rows)
    columns = [pa.array([rng.randrange(limit) for _ in range(rows)], pa.int64()) for _ in _SCHEMA.fields]
    return pa.RecordBatch.from_arrays(columns, _SCHEMA.fieldNames())


def _in_filter(size: int, limit: int) -> ArrowFilter:
    rng = random.Random(size)
    return _compile_filter(f"f1 IN ({', '.join(str(rng.randrange(limit)) for _ in range(size))})")


def _or_of_ands(size: int) -> ArrowFilter:
    """Return intervals that together contain a tenth of the rows."""
    step = _NEAR // size
    parts = [f"(f1 >= {number * step} AND f2 < {(number + 1) * step // 10})" for number in range(size)]
    return _compile_filter(" OR ".join(parts))


def _compile_filter(where: str) -> ArrowFilter:
    tree = parse_predicate(where)
    assert tree is not None
    bound = bind(tree, Scope(_SCHEMA, has_plain_strings=True))
    assert bound.artifact is not None, bound.reason
    return ArrowFilter(bound.artifact)


def _normal_form(node: Node) -> Node:
    """Return the conjunctive normal form of an OR of ANDs: every choice of one part of each AND."""
    assert isinstance(node, Or)
    return And(tuple(Or(choice) for choice in product(*(part.parts for part in node.parts if isinstance(part, And)))))


def _leaves(node: Node) -> int:
    return sum(map(_leaves, node.parts)) if isinstance(node, And | Or) else 1


def _variants(compiled: ArrowFilter, batch: pa.RecordBatch) -> list[Callable[[], object]]:
    """Return the row filter over existing rows, and the Arrow filter."""
    test = _row_test(compiled.root, batch.schema.names)
    rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    assert compiled.keep(batch).to_pylist()[:1_000] == [test(row) is True for row in rows[:1_000]]
    return [lambda: [test(row) is True for row in rows], lambda: compiled.keep(batch)]


def _measure(variants: Sequence[Callable[[], object]]) -> list[float]:
    """Return the microseconds of each variant."""
    times: list[list[float]] = [[] for _ in variants]
    for _ in range(_ROUNDS):
        for variant, seconds in zip(variants, times, strict=True):
            if not seconds or seconds[0] < _SLOW:
                seconds.append(_time_run(variant))
    return [statistics.median(seconds) * 1e6 for seconds in times]


def _time_run(run: Callable[[], object]) -> float:
    """Return the CPU seconds of one run, averaged over enough runs to fill the time. All code is single-threaded."""
    runs, elapsed = 0, 0.0
    start = time.thread_time()
    while elapsed < _SECONDS:
        run()
        runs += 1
        elapsed = time.thread_time() - start
    return elapsed / runs


def _row_test(node: Node, names: Sequence[str]) -> RowTest:
    """Return the tree as a function of a row with three-valued logic."""
    match node:
        case And(parts=parts):
            return _all([_row_test(part, names) for part in parts])
        case Or(parts=parts):
            return _any([_row_test(part, names) for part in parts])
        case InList(column=column, values=values):
            return _in(names.index(column.path[0]), frozenset(values))
        case Comparison(column=column, op=op, value=value):
            assert isinstance(value, int)
            return _comparison(names.index(column.path[0]), op, value)
    raise AssertionError(f"no predicate of this benchmark has a {type(node).__name__}")


def _all(tests: Sequence[RowTest]) -> RowTest:
    def test(row: Row) -> bool | None:
        answer: bool | None = True
        for part in tests:
            truth = part(row)
            if truth is False:
                return False
            if truth is None:
                answer = None
        return answer

    return test


def _any(tests: Sequence[RowTest]) -> RowTest:
    def test(row: Row) -> bool | None:
        answer: bool | None = False
        for part in tests:
            truth = part(row)
            if truth is True:
                return True
            if truth is None:
                answer = None
        return answer

    return test


def _in(place: int, values: frozenset[object]) -> RowTest:
    return lambda row: None if row[place] is None else row[place] in values


def _comparison(place: int, op: Op, value: int) -> RowTest:
    def test(row: Row) -> bool | None:
        cell = row[place]
        if cell is None:
            return None
        if op is Op.EQ:
            return cell == value
        if op in (Op.LT, Op.LE):
            return cell < value or (op is Op.LE and cell == value)
        return cell > value or (op is Op.GE and cell == value)

    return test


if __name__ == "__main__":
    main()
