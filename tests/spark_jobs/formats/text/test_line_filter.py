"""Candidate lines are complete, ordered and unique. Headers are skipped, and ambiguous lines raise."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.byte_patterns.text import BytePattern, Fields
from pushdown_spark.formats.scan_task import sum_metrics
from pushdown_spark.formats.text.ambiguous_lines import unquoted_string_values
from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_filter import LineFilterTask, LineMatcher, LineQuery, LineSyntax, TextMetrics
from pushdown_spark.formats.text.line_reader import LineReader, Window
from pushdown_spark.scan.packing import Task
from pushdown_spark.sources.stores.listing import Compression, Split

PATTERN = BytePattern(("x[^0-9]",))


def _candidates(content: bytes, syntax: LineSyntax | None = None, pattern: BytePattern = PATTERN) -> list[bytes]:
    window = Window()
    window.data[: len(content)] = content
    window.length = len(content)
    return LineMatcher(Searcher(pattern), None, syntax or LineSyntax()).lines(window, "file", at_start=True)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"ax\nb\nx\n", [b"ax", b"x"]),
        (b"x x x\n", [b"x x x"]),
        (b"x\nx\nx\n", [b"x", b"x", b"x"]),
        (b"x\r\ny\r\nx\r\n", [b"x", b"x"]),
        (b"x\ry\rx\r", [b"x", b"x"]),
        (b"y\n", []),
        (b"\n\nx \n\n", [b"x "]),
        (b"x5\nx\n", [b"x"]),
    ],
)
def test_each_line_with_a_match_is_returned_once(content: bytes, lines: list[bytes]) -> None:
    assert [line for line in _candidates(content) if line] == lines


def test_a_match_counts_only_in_its_field() -> None:
    pattern = BytePattern(("x[^0-9]",), fields=Fields(b",", b"'\\", frozenset({1})))
    lines = [b"x,y,x", b"y,x,y", b"y,x", b"x,x", b"'y,z',x", b"y\\,y,x", b"y,y,x,'", b"xx", b",x", b"x,"]
    other_lines = [b"y,x,y", b"y,x", b"x,x", b"'y,z',x", b"y\\,y,x", b",x"]
    for end in (b"\n", b"\r\n", b"\r"):
        actual = _candidates(b"".join(line + end for line in lines), pattern=pattern)
        assert [line for line in actual if line] == other_lines


def test_alternatives_match_in_their_own_fields_or_anywhere() -> None:
    one = BytePattern(("x",), fields=Fields(b",", b"'", frozenset({0})))
    two = BytePattern(("y",), fields=Fields(b",", b"'", frozenset({2})))
    assert _candidates(b"x,,\n,x,\n,,y\n,y,\n", pattern=one | two) == [b"x,,", b",,y"]
    assert _candidates(b",x,\n,z,\n", pattern=one | BytePattern(("z",))) == [b",x,", b",z,"]


def test_only_the_first_line_of_a_file_is_skipped_as_header() -> None:
    syntax = LineSyntax(has_header=True)
    assert _candidates(b"x \nx \ny\nx \n", syntax) == [b"x ", b"x "]
    assert _candidates(b"\n  \n#x \nx \nx \n", LineSyntax(has_header=True, comment=b"#")) == [b"x "]


def test_a_nul_byte_raises() -> None:
    with pytest.raises(UnsafeInputError, match="NUL"):
        _candidates(b"a\x00\nx\n")


def test_conditional_expressions_are_searched_only_where_they_can_match() -> None:
    pattern = BytePattern(("never",), ("\\\\u0041",), ("[\\xc0\\xc1]",))
    assert _candidates(b'a\n"\\u0041"\nb\xc1\n', pattern=pattern) == [b'"\\u0041"', b"b\xc1"]


def _schema() -> t.StructType:
    return t.StructType(
        [
            t.StructField("s", t.StringType()),
            t.StructField("i", t.IntegerType()),
            t.StructField("a/b", t.StringType()),
            t.StructField("list", t.ArrayType(t.StringType())),
            t.StructField("map", t.MapType(t.StringType(), t.StringType())),
        ]
    )


@pytest.mark.parametrize(
    "line",
    [
        b'{"s":1.0}',
        b'{"s":1e2}',
        b'{"s":-0}',
        b'{"s": {"k" : 1}}',
        b'{"s":[ 1 ]}',
        b'{"s":NaN}',
        b"{'s':1.5}",
        b'{"\\u0073":1.5}',
        b'{"a\\/b":1.5}',
        b'{"list":["a", 1.5]}',
        b'{"list":[{}]}',
        b'{"map":{"k":1.5}}',
        b'{"s":"\xff"}',
        b'{"s":"\xc1\x81"}',
    ],
)
def test_lines_that_parse_differently_as_strings_raise(line: bytes) -> None:
    forbidden = unquoted_string_values(_schema())
    assert forbidden
    finder = LineMatcher(Searcher(PATTERN), Searcher(forbidden), LineSyntax(requires_utf8=True, strips_bom=True))
    with pytest.raises(UnsafeInputError, match="file"):
        finder.batch([b'{"s":"fine"}', line], "file")


@pytest.mark.parametrize(
    "line", [b'{"s":"1.0"}', b'{"i":1.5}', b'{"s":5}', b'{"s":true}', b'{"s":null}', b'{"list":["a","b"]}', b'{"t":{}}']
)
def test_lines_that_parse_alike_are_accepted(line: bytes) -> None:
    forbidden = unquoted_string_values(_schema())
    assert forbidden
    finder = LineMatcher(Searcher(PATTERN), Searcher(forbidden), LineSyntax(requires_utf8=True, strips_bom=True))
    assert finder.batch([line], "file").column(0).to_pylist() == [line.decode()]


def _scan(
    path: Path, tasks: int, skip: tuple[int, ...] = (), cap: int | None = None
) -> tuple[list[str], list[TextMetrics]]:
    """Return the candidates of a file that is cut into tasks, and the counts of the tasks."""
    size = path.stat().st_size
    step = -(-size // tasks)
    cut = tuple(
        Task((Split(str(path), start, min(start + step, size), Compression.NONE),)) for start in range(0, size, step)
    )
    counts: dict[int, dict[str, TextMetrics]] = {}
    scan = LineFilterTask(cut, LineQuery(Searcher(PATTERN), None, LineSyntax()), counts.__setitem__, cap, skip)

    def numbers() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": list(range(len(cut)))})

    lines = [line for batch in scan(numbers()) for line in batch.column(0).to_pylist()]
    return lines, [counts[number][str(path)] for number in range(len(cut))]


def _number_lines(tmp_path: Path, count: int) -> Path:
    path = tmp_path / "data"
    path.write_bytes(b"".join(b"%d %s\n" % (n, b"x" if n % 3 == 0 else b"y") for n in range(count)))
    return path


def test_workers_exclude_imported_modules_from_garbage_collection(spark: SparkSession, tmp_path: Path) -> None:
    path = _number_lines(tmp_path, 3)
    task = Task((Split(str(path), 0, path.stat().st_size, Compression.NONE),))
    scan = LineFilterTask((task,), LineQuery(Searcher(PATTERN), None, LineSyntax()), lambda _, __: None)

    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from scan(batches)
        yield pa.RecordBatch.from_arrays([pa.array([f"{gc.get_freeze_count()}"])], ["value"])

    actual = [row.value for row in spark.range(0, 1, 1, 1).mapInArrow(frozen, "value string").collect()]
    assert actual[:-1] == ["0 x"]
    assert int(actual[-1]) > 10_000


@pytest.mark.parametrize("tasks", [1, 2, 7, 50])
def test_a_scan_returns_every_line_once_and_counts_bytes_and_lines(tmp_path: Path, tasks: int) -> None:
    path = _number_lines(tmp_path, 300)
    actual, counts = _scan(path, tasks)
    assert actual == [f"{n} x" for n in range(0, 300, 3)]
    total = sum_metrics(counts)
    assert (total.rows_decoded, total.rows_returned) == (100, 100)
    assert total.candidate_bytes == sum(map(len, actual))
    assert total.bytes_searched == path.stat().st_size


def test_slices_of_a_task_are_disjoint_and_complete(tmp_path: Path) -> None:
    path = _number_lines(tmp_path, 300)
    whole, _ = _scan(path, 1)
    lines: list[str] = []
    is_complete = False
    while not is_complete:
        part, (count,) = _scan(path, 1, skip=(len(lines),), cap=7)
        lines += part
        is_complete = count.rows_decoded < 7
    assert lines == whole


def test_pickled_searchers_find_the_same_matches(tmp_path: Path) -> None:

    path = _number_lines(tmp_path, 30)
    split = Split(str(path), 0, path.stat().st_size, Compression.NONE)
    copy = pickle.loads(pickle.dumps(Searcher(PATTERN)))
    (window,) = LineReader(split).windows()
    assert copy.hits(window.data, window.length) == Searcher(PATTERN).hits(window.data, window.length) != []
