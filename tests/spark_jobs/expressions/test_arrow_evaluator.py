"""Predicates over Arrow batches: exact, inexact and unsupported ones."""

from __future__ import annotations

import math
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import Exactness
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import And, Comparison, InList, LikeMatch, Node, Or, StringMatch
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.set_lookup import ValueSet

SCHEMA = t.StructType(
    [
        t.StructField("tiny", t.ByteType()),
        t.StructField("i", t.IntegerType()),
        t.StructField("l", t.LongType()),
        t.StructField("f", t.FloatType()),
        t.StructField("x", t.DoubleType()),
        t.StructField("m", t.DecimalType(10, 2)),
        t.StructField("wide", t.DecimalType(38, 18)),
        t.StructField("s", t.StringType()),
        t.StructField("bin", t.BinaryType()),
        t.StructField("d", t.DateType()),
        t.StructField("ts", t.TimestampType()),
        t.StructField("b", t.BooleanType()),
        t.StructField("n", t.StructType([t.StructField("k", t.StructType([t.StructField("V", t.LongType())]))])),
        t.StructField("list", t.ArrayType(t.StringType())),
        t.StructField("padded", t.StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
        t.StructField("bounded", t.StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}),
        t.StructField("folded", t.StringType("UNICODE_CI")),
        t.StructField("standard", t.StringType(), metadata={"CURRENT_DEFAULT": "'a'"}),
    ]
)


def _bind(where: str, *, has_plain_strings: bool = True) -> Pushdown[Node]:
    tree = parse_predicate(where)
    assert tree is not None
    return bind(tree, Scope(SCHEMA, has_plain_strings=has_plain_strings))


def _filter(where: str) -> ArrowFilter:
    outcome = _bind(where)
    assert outcome.artifact is not None, outcome.reason
    return ArrowFilter(outcome.artifact)


def _mask(where: str, values: Sequence[object] | pa.Array, name: str, kind: pa.DataType | None = None) -> list[object]:
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return _filter(where).mask(pa.RecordBatch.from_arrays([array], [name])).to_pylist()


def test_comparisons_are_null_where_the_column_is() -> None:
    values = [1, 2, 3, None]
    assert _mask("i < 2", values, "i", pa.int32()) == [True, False, False, None]
    assert _mask("2 < i", values, "i", pa.int32()) == [False, False, True, None]
    assert _mask("i <> 2", values, "i", pa.int32()) == [True, False, True, None]
    assert _mask("i <=> 2", values, "i", pa.int32()) == [False, True, False, False]
    assert _mask("i IS DISTINCT FROM 2", values, "i", pa.int32()) == [True, False, True, True]
    assert _mask("i = NULL", values, "i", pa.int32()) == [None] * 4
    assert _mask("i <=> NULL", values, "i", pa.int32()) == [False, False, False, True]
    assert _mask("i BETWEEN 2 AND 3", values, "i", pa.int32()) == [False, True, True, None]


def test_null_in_a_list_makes_other_values_unknown() -> None:
    values = [1, 2, None]
    assert _mask("l IN (1, NULL)", values, "l", pa.int64()) == [True, None, None]
    assert _mask("l NOT IN (1, NULL)", values, "l", pa.int64()) == [False, None, None]
    assert _mask("l NOT IN (1, 3)", values, "l", pa.int64()) == [False, True, None]


def test_and_or_not_are_three_valued() -> None:
    batch = pa.RecordBatch.from_pylist(
        [{"b": b, "i": i} for b in (True, False, None) for i in (1, 0, None)],
        pa.schema([("b", pa.bool_()), ("i", pa.int32())]),
    )
    results = {
        where: _filter(where).mask(batch).to_pylist() for where in ("b AND i = 1", "b OR i = 1", "NOT (b AND i = 1)")
    }
    assert results["b AND i = 1"] == [True, False, None, False, False, False, None, False, None]
    assert results["b OR i = 1"] == [True, True, True, True, False, None, True, None, None]
    assert results["NOT (b AND i = 1)"] == [False, True, None, True, True, True, None, True, None]
    assert _filter("(b OR i = 1) IS NULL").mask(batch).to_pylist() == [x is None for x in results["b OR i = 1"]]
    assert _filter("(b OR i = 1) IS NOT TRUE").mask(batch).to_pylist() == [x is not True for x in results["b OR i = 1"]]


def test_keep_returns_the_mask_with_false_for_nulls() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, None, 3], pa.int32())], ["i"])
    row_filter = _filter("NOT (i = 3)")
    assert row_filter.mask(batch).to_pylist() == [True, None, False]
    assert row_filter.keep(batch).to_pylist() == [True, False, False]


def test_nan_equals_itself_and_is_the_largest() -> None:
    values = [math.nan, math.inf, 0.0, -0.0, None]
    assert _mask("x > 1e300", values, "x") == [True, True, False, False, None]
    assert _mask("x >= 1e300", values, "x") == [True, True, False, False, None]
    assert _mask("x < 1e300", values, "x") == [False, False, True, True, None]
    assert _mask("x = 0", values, "x") == [False, False, True, True, None]
    assert _mask("x IN (0, 7)", values, "x") == [False, False, True, True, None]
    assert _mask("x <> 0", values, "x") == [True, True, False, False, None]
    assert _mask("isnan(x)", values, "x") == [True, False, False, False, False]


def test_float_columns_are_compared_with_nan_as_the_largest() -> None:
    schema = t.StructType([t.StructField("p", t.DoubleType()), t.StructField("q", t.DoubleType())])
    pairs = [(1.0, math.nan), (math.nan, 1.0), (math.nan, math.nan), (1.0, 2.0), (None, math.nan)]
    batch = pa.RecordBatch.from_arrays([pa.array(list(side)) for side in zip(*pairs, strict=True)], ["p", "q"])
    expected = {
        "p < q": [True, False, False, True, None],
        "p <= q": [True, False, True, True, None],
        "p > q": [False, True, False, False, None],
        "p >= q": [False, True, True, False, None],
        "p = q": [False, False, True, False, None],
        "p <=> q": [False, False, True, False, False],
    }
    for where, results in expected.items():
        tree = parse_predicate(where)
        assert tree is not None
        outcome = bind(tree, Scope(schema, has_plain_strings=True))
        assert outcome.artifact is not None
        assert ArrowFilter(outcome.artifact).mask(batch).to_pylist() == results, where


def test_integers_are_compared_with_fractions_and_larger_numbers() -> None:
    values = [-128, 1, 2, 127, None]
    assert _mask("tiny = 1.5", values, "tiny", pa.int8()) == [False, False, False, False, None]
    assert _mask("tiny < 1.5", values, "tiny", pa.int8()) == [True, True, False, False, None]
    assert _mask("tiny <= 300", values, "tiny", pa.int8()) == [True, True, True, True, None]
    assert _mask("tiny IN (2, 300, 1.0)", values, "tiny", pa.int8()) == [False, True, True, False, None]
    assert _mask("tiny = '2'", values, "tiny", pa.int8()) == [False, False, True, False, None]


def test_decimal_beyond_bigint_decides_without_the_column() -> None:
    values = [1, None]
    assert _mask("l < 99999999999999999999", values, "l", pa.int64()) == [True, True]
    assert _mask("l >= 99999999999999999999", values, "l", pa.int64()) == [False, False]
    assert _mask("l = 99999999999999999999", values, "l", pa.int64()) == [False, None]


def test_bigints_are_rounded_for_comparison_with_doubles() -> None:
    values = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3]
    assert _mask("l = 9007199254740992D", values, "l") == [False, True, True, False, False]
    assert _mask("l > 9007199254740992D", values, "l") == [False, False, False, True, True]
    assert _mask("l <= 9007199254740992e0", values, "l") == [True, True, True, False, False]
    assert _mask("l IN (9007199254740992e0, 5)", values, "l") == [False, True, True, False, False]


def test_decimals_of_other_scales_are_compared_exactly() -> None:
    values = [Decimal("1.50"), Decimal("1.51"), None]
    kind = pa.decimal128(10, 2)
    assert _mask("m = 1.5", values, "m", kind) == [True, False, None]
    assert _mask("m > 1.509", values, "m", kind) == [False, True, None]
    assert _mask("m = 1.505", values, "m", kind) == [False, False, None]
    assert _mask("m < 99999999999", values, "m", kind) == [True, True, None]
    assert _mask("m = 1.51e0", values, "m", kind) == [False, True, None]
    assert _mask("m IN (1.51, 7)", values, "m", kind) == [False, True, None]


def test_decimals_without_a_common_type_are_unsupported() -> None:
    assert "no common decimal type" in str(_bind("wide = 123456789012345678901").reason)
    assert _bind("wide = 12345678901234567890").artifact is not None


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("ab%", {"abc", "ab", "ab\nc"}),
        ("%c", {"abc", "ab\nc", "a.c"}),
        ("%b%", {"abc", "ab", "ab\nc"}),
        ("a%c", {"abc", "ab\nc", "a.c"}),
        ("a_c", {"abc", "a.c"}),
        ("a__c", {"ab\nc"}),
        ("_", {"é", "%", "日"}),
        ("/%", {"%"}),
        ("%", {"abc", "ab", "ab\nc", "é", "%", "", "日", "a.c"}),
        ("", {""}),
        ("a.c", {"a.c"}),
        ("ab", {"ab"}),
        ("%%b%", {"abc", "ab", "ab\nc"}),
    ],
)
def test_like_matches_every_kind_of_pattern(pattern: str, matches: set[str]) -> None:
    values = ["abc", "ab", "ab\nc", "é", "%", "", "日", "a.c"]
    expected = [value in matches for value in values]
    assert _mask(f"s LIKE '{pattern}' ESCAPE '/'", [*values, None], "s") == [*expected, None]
    assert _mask(f"s NOT LIKE '{pattern}' ESCAPE '/'", values, "s") == [not result for result in expected]


def test_like_uses_the_cheapest_test() -> None:
    roots = [_filter(f"s LIKE '{pattern}'").root for pattern in ("abc", "abc%", "%abc", "%abc%", "a%bcd%e")]
    assert [type(root) for root in roots] == [Comparison, StringMatch, StringMatch, StringMatch, LikeMatch]
    assert isinstance(roots[4], LikeMatch)
    assert roots[4].hint is not None
    assert roots[4].hint.text == "a"


def test_invalid_patterns_are_unsupported() -> None:
    assert "escapes a character that needs no escape" in str(_bind("s LIKE '/a' ESCAPE '/'").reason)
    assert "escapes a character that needs no escape" in str(_bind("s LIKE 'a/' ESCAPE '/'").reason)
    assert "one character" in str(_bind("s LIKE 'a' ESCAPE 'xy'").reason)


def test_invalid_utf8_is_matched_as_the_jvm_decodes_it(spark: SparkSession) -> None:
    rng = random.Random(5)
    nasty = b"a\x80\xa0\xbf\xc0\xc3\xe0\xe2\xed\xef\xf0\xf4\xf5\xff\x90"
    values = [bytes(rng.choices(nasty, k=rng.randint(1, 5))) for _ in range(400)]
    rows = spark.createDataFrame(pa.table({"r": list(range(len(values))), "raw": pa.array(values, pa.binary())}))
    array = pa.array(values, pa.binary()).view(pa.string())
    patterns = ("_", "__", "___", "____", "%a_", "_a%", "a%", "%a", "%_a_%", "a%a", "%\u00e2%")
    columns = [f"decoded LIKE '{pattern}' AS p{number}" for number, pattern in enumerate(patterns)]
    texts = rows.selectExpr("r", "CAST(raw AS STRING) AS decoded")
    expected = zip(*[tuple(row)[1:] for row in texts.selectExpr("r", *columns).orderBy("r").collect()], strict=True)
    for pattern, results in zip(patterns, expected, strict=True):
        assert dict(zip(values, _mask(f"s LIKE '{pattern}'", array, "s"), strict=True)) == dict(
            zip(values, results, strict=True)
        ), pattern


def test_members_of_a_null_struct_are_null() -> None:
    kind = pa.struct([("k", pa.struct([("V", pa.int64())]))])
    values = [{"k": {"V": 1}}, {"k": None}, None, {"k": {"V": None}}]
    assert _mask("N.K.v = 1", values, "n", kind) == [True, None, None, None]
    assert _mask("n.k.v IS NULL", values, "n", kind) == [False, True, True, True]
    assert _mask("n.k IS NULL", values, "n", kind) == [False, True, True, False]
    assert _filter("n.k.v = 1 OR i = 1 OR n.k.v = 2").columns == (("n", "k", "V"), ("i",))


def test_values_of_each_type_are_compared_with_a_literal() -> None:
    assert _mask("bin < X'80'", [b"\x7f", b"\x80", b""], "bin", pa.binary()) == [True, False, True]
    assert _mask("s > 'é'", ["z", "é", "日"], "s") == [False, False, True]
    assert _mask("bounded = 'ab'", ["ab", "ab "], "bounded") == [True, False]
    days = pa.array([-719162, 0, 20], pa.int32()).view(pa.date32())
    assert _mask("d <= DATE '0001-01-01'", days, "d") == [True, False, False]
    assert _mask("d IN ('1970-01-01', DATE '1970-01-21')", days, "d") == [False, True, True]
    assert _mask("b", [True, False, None], "b") == [True, False, None]
    assert _mask("NOT b", [True, False, None], "b") == [False, True, None]


def test_spark_reads_times_in_the_session_time_zone(spark: SparkSession) -> None:
    def fold(sql: str) -> object:
        row = spark.sql(f"SELECT {sql}").head()
        return None if row is None else row[0]

    tree = parse_predicate("ts = '2020-01-01 00:00:00'")
    assert tree is not None
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        outcome = bind(tree, Scope(SCHEMA, has_plain_strings=True, fold=fold))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert isinstance(outcome.artifact, Comparison)
    assert outcome.artifact.value == 1_577_854_800_000_000
    assert "Spark does not evaluate" in str(_bind("ts = '2020-01-01 00:00:00'").reason)


def test_many_constants_need_one_query() -> None:
    evaluations: list[str] = []

    def fold(sql: str) -> object:
        evaluations.append(sql)
        return None

    tree = parse_predicate("ts > '2020-01-01' AND ts < '2021-01-01' AND ts <> '2020-06-01'")
    assert tree is not None
    bind(tree, Scope(SCHEMA, has_plain_strings=True, fold=fold))
    assert evaluations[0].startswith("struct(")
    assert all(day in evaluations[0] for day in ("2020-01-01", "2021-01-01", "2020-06-01"))


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("s RLIKE 'a'", "RLIKE 'a' cannot be pushed down"),
        ("s = 5", "would be cast for a constant of type integer"),
        ("i = true", "would be cast for a constant of type boolean"),
        ("d = 5", "would be cast for a constant of type integer"),
        ("list = array('a')", "cannot be pushed down|not compared here|neither a column"),
        ("padded = 'ab'", "char"),
        ("folded = 'ab'", "has a collation"),
        ("standard = 'a'", "default"),
        ("i + 1 = 2", "i + 1 cannot be pushed down"),
        ("2 = i + 1", "i + 1 cannot be pushed down"),
        ("upper(s) = 'A'", "UPPER(s) cannot be pushed down"),
        ("nowhere = 1", "not the name of exactly one struct member"),
        ("i = 1 IS NULL", "may apply IS only to the right side"),
        ("l = float('5')", "does not evaluate"),
        ("i = l + 1", "neither a column nor a constant"),
        ("i IN (SELECT 1)", "subquery"),
        ("i = x", "different or nested types"),
        ("i IN (1, '2')", "numbers and strings"),
        ("s LIKE s", "cannot be pushed down"),
        ("i", "not of type boolean"),
    ],
)
def test_unsupported_predicates_have_a_reason(where: str, reason: str) -> None:
    outcome = _bind(where)
    assert outcome.artifact is None
    assert any(part in str(outcome.reason) for part in reason.split("|")), outcome.reason


def test_strings_are_unsupported_where_parsers_may_differ() -> None:
    assert _bind("s = 'a'", has_plain_strings=False).artifact is None
    assert _bind("i = 1", has_plain_strings=False).artifact is not None


def test_unsupported_part_is_left_out_only_where_that_keeps_more_rows() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, None], pa.int32())], ["i"])
    for where, kept in {
        "i = 1 AND s RLIKE 'a'": [True, False, False],
        "NOT (i = 1 OR s RLIKE 'a')": [False, True, False],
        "(i = 1 AND s RLIKE 'a') OR i = 2": [True, True, False],
    }.items():
        row_filter, outcome = _filter(where), _bind(where)
        assert outcome.exactness is Exactness.INEXACT
        assert "RLIKE" in str(outcome.reason)
        assert row_filter.keep(batch).to_pylist() == kept, where
    assert _bind("i = 1 OR s RLIKE 'a'").artifact is None
    assert _bind("NOT (i = 1 AND s RLIKE 'a')").artifact is None
    assert _bind("(i = 1 AND s RLIKE 'a') IS NULL").artifact is None


def test_predicates_are_not_expanded() -> None:
    ors = [" OR ".join(f"l = {8 * row + column}" for column in range(8)) for row in range(8)]
    row_filter = _filter(" AND ".join(f"({part})" for part in ors))
    assert isinstance(row_filter.root, And)
    assert [len(part.parts) for part in row_filter.root.parts if isinstance(part, Or)] == [8] * 8


def test_cheap_parts_come_first_and_costly_ones_see_remaining_rows_only() -> None:
    row_filter = _filter("s LIKE '%a_c%' AND i = 1")
    assert isinstance(row_filter.root, And)
    assert [type(part) for part in row_filter.root.parts] == [Comparison, LikeMatch]
    rows = 5_000
    batch = pa.RecordBatch.from_arrays(
        [pa.array([int(n % 1000 == 0) for n in range(rows)], pa.int32()), pa.array(["xabcx", "no"] * (rows // 2))],
        ["i", "s"],
    )
    assert [n for n, is_kept in enumerate(row_filter.keep(batch).to_pylist()) if is_kept] == [0, 1000, 2000, 3000, 4000]
    nothing = batch.slice(1, 900).drop_columns(["s"])
    assert row_filter.keep(nothing).true_count == 0, "the second column is not evaluated"


def test_dictionaries_and_large_strings_are_evaluated() -> None:
    values = ["ab", None, "cd", "ab"]
    for array in (pa.array(values).dictionary_encode(), pa.array(values, pa.large_string())):
        assert _mask("s = 'ab'", array, "s") == [True, None, False, True]
        assert _mask("s IN ('cd', 'x')", array, "s") == [False, None, True, False]
        assert _mask("s LIKE '_b'", array, "s") == [True, None, False, True]
        assert _mask("s IS NULL", array, "s") == [False, True, False, False]
    null_inside = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["ab", None]))
    assert _mask("s = 'ab'", null_inside, "s") == [True, None, None]
    assert _mask("s IS NULL", null_inside, "s") == [False, True, True]


def test_a_missing_column_raises_an_error_with_its_name() -> None:
    with pytest.raises(KeyError, match=r"no column n\.k"):
        _filter("n.k.v = 1").mask(pa.RecordBatch.from_arrays([pa.array([{"j": 1}])], ["n"]))


def test_the_constant_end_of_a_range_filters_inexactly() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 5, None], pa.int32())], ["i"])
    for where, kept in {
        "i BETWEEN 3 AND abs(i)": [False, True, False],
        "i BETWEEN abs(i) AND 3": [True, False, False],
        "NOT (i NOT BETWEEN 3 AND abs(i))": [False, True, False],
    }.items():
        assert _bind(where).exactness is Exactness.INEXACT, where
        assert _filter(where).keep(batch).to_pylist() == kept, where
    for where in ("i NOT BETWEEN 3 AND abs(i)", "NOT (i BETWEEN 3 AND abs(i))", "i BETWEEN abs(i) AND abs(i)"):
        assert _bind(where).artifact is None, where


def test_pickled_filters_have_no_cached_state() -> None:
    row_filter = _filter(f"l IN ({', '.join(map(str, range(0, 3000, 3)))})")
    before = pickle.dumps(row_filter)
    batch = pa.RecordBatch.from_arrays([pa.array([3, 4])], ["l"])
    assert row_filter.mask(batch).to_pylist() == [True, False]
    assert len(pickle.dumps(row_filter)) == len(before)
    assert pickle.loads(before) == row_filter


def test_workers_need_neither_spark_nor_the_parser(project: Path) -> None:
    code = (
        "import sys\nfrom pushdown_spark.expressions import arrow_evaluator, names, statistics_evaluator\n"
        "from pushdown_spark.expressions.byte_patterns import avro\nprint(sorted(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    assert "'pyarrow.compute'" in run.stdout
    assert not [name for name in ("'pyspark'", "'sqlglot'", "'pydantic'") if name in run.stdout]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
@pytest.mark.parametrize("spread", [1, 40, 3_000_000_000])
def test_all_lookup_methods_agree(kind: pa.DataType, spread: int) -> None:
    low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    members = sorted({max(low, min(high, number * spread)) for number in range(-20, 20)})
    near = [number + step for number in members for step in (-1, 0, 1)]
    hits = pa.array([None, *(number for number in near if low <= number <= high), low, high, 0], kind)
    misses = pa.array([number for number in range(-100, 100) if number not in members], kind)
    lookup = ValueSet(pa.array(members, kind))
    for few, many in ((hits, misses), (misses, hits)):
        array = pa.concat_arrays([few, *[many] * (1 + 20_000 // len(many)), few])
        for part in (array, array.slice(5), array.slice(3, 40), array.slice(0, 0)):
            actual = zip(lookup.contains(part).to_pylist(), part.to_pylist(), strict=True)
            assert all(result == (value in members) for result, value in actual if value is not None)


def test_long_list_is_one_lookup() -> None:
    row_filter = _filter(f"l IN ({', '.join(str(number * 7919) for number in range(5000))})")
    assert isinstance(row_filter.root, InList)
    assert row_filter.mask(pa.RecordBatch.from_arrays([pa.array([7919, 7920])], ["l"])).to_pylist() == [True, False]


def test_literals_of_a_built_tree_are_not_unescaped() -> None:
    tree = exp.Like(this=exp.column("s"), expression=exp.Literal.string("a\\%%"))
    outcome = bind(tree, Scope(SCHEMA, has_plain_strings=True))
    assert outcome.artifact is not None
    batch = pa.RecordBatch.from_arrays([pa.array(["a%b", "ab"])], ["s"])
    assert ArrowFilter(outcome.artifact).mask(batch).to_pylist() == [True, False]
