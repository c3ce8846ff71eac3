"""Functions of a column whose comparisons with constants are tests of the column itself.

`DATE(at) = '2026-01-01'` is a range of `at`, `LEFT(name, 3) = 'abc'` a prefix of `name`, and `COALESCE(n, 0) > 5` is
`n > 5`. The binder binds the comparison as if the function were a column with the function's type. `resolve` of the
operand then replaces the tests of this column by tests of the argument. They have the same value for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date
from functools import partial

import pyarrow as pa
from sqlglot import exp

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import (
    BooleanConstant,
    CaselessMatch,
    Column,
    Comparison,
    InList,
    IsNull,
    LikeMatch,
    Node,
    Not,
    Op,
    StringMatch,
    StringTest,
    conjunction,
    disjunction,
    replace_leaves,
    true_unless_null,
)
from pushdown_spark.expressions.conjuncts import column_path, short_sql
from pushdown_spark.expressions.literals import LiteralReader
from pushdown_spark.expressions.scope import Fold, Scope
from pushdown_spark.expressions.types import EPOCH_ORDINAL, MICROSECONDS_PER_DAY, LogicalType

_MAX_VALUES = 32
"""Maximum number of values of a list. Each becomes a range or a prefix."""
_DEFAULTS = frozenset({LogicalType.BOOLEAN, LogicalType.INTEGER, LogicalType.STRING})
"""Types of which COALESCE has the type of its column, if the default has it too."""

FirstValues = Callable[[Sequence[int]], Sequence[int]]
"""Returns the least values of an argument for which a function reaches given results."""


@dataclass(frozen=True)
class Operand:
    """The operand of a comparison: a column, or a function that is bound like a column. See the module."""

    column: Column
    resolve: Callable[[Node], Node] = lambda test: test


def operand_of(node: exp.Expr, scope: Scope) -> Operand:
    """Return a column, or a function of a column, as an operand. Raises UnsupportedError for other expressions."""
    node = node.unnest()
    path = column_path(node)
    if path is not None:
        return Operand(scope.column(path))
    match node:
        case exp.Cast() | exp.TsOrDsToDate() if _is_day(node):
            return _day(node.this, scope)
        case exp.Year(this=argument):
            return _year(argument, scope)
        case exp.Extract(this=unit, expression=argument) if unit.name.upper() == "YEAR":
            return _year(argument, scope)
        case exp.Left(this=argument, expression=length):
            return _prefix(argument, length, scope)
        case exp.Substring(this=argument) if _is_number(node.args.get("start"), 1):
            return _prefix(argument, node.args.get("length"), scope)
        case exp.Coalesce(this=argument, expressions=[default]):
            return _with_default(argument, default, scope)
        case exp.Lower(this=argument) | exp.Upper(this=argument) if scope.for_text:
            return _in_one_case(argument, scope)
        case exp.Trim() if scope.for_text:
            return _without_blanks(node, scope)
    raise UnsupportedError(f"{short_sql(node)} cannot be pushed down")


def _argument(node: exp.Expr, scope: Scope) -> Column:
    path = column_path(node.unnest())
    if path is None:
        raise UnsupportedError(f"{short_sql(node)} is not a column")
    return scope.column(path)


def _is_day(node: exp.Cast | exp.TsOrDsToDate) -> bool:
    return node.to.this is exp.DType.DATE if isinstance(node, exp.Cast) else not node.args.get("format")


def _day(node: exp.Expr, scope: Scope) -> Operand:
    """Return the day of a date or a timestamp."""
    argument = _argument(node, scope)
    if argument.type is LogicalType.DATE:
        return Operand(argument)
    day = Column(argument.path, LogicalType.DATE, pa.int32())
    return _step(argument, day, _first_moments(argument, scope.fold))


def _year(node: exp.Expr, scope: Scope) -> Operand:
    """Return the year of a date or a timestamp."""
    argument = _argument(node.this if isinstance(node, exp.TsOrDsToDate) else node, scope)
    year = Column(argument.path, LogicalType.INTEGER, pa.int32())
    if argument.type is LogicalType.DATE:
        return _step(argument, year, _first_days)
    first_moments = _first_moments(argument, scope.fold)
    return _step(argument, year, lambda years: first_moments(_first_days(years)))


def _first_days(years: Sequence[int]) -> list[int]:
    if not all(MINYEAR <= year <= MAXYEAR for year in years):
        raise UnsupportedError(f"only years from {MINYEAR} to {MAXYEAR} are pushed down")
    return [date(year, 1, 1).toordinal() - EPOCH_ORDINAL for year in years]


def _first_moments(argument: Column, fold: Fold | None) -> FirstValues:
    """Return the function that returns the first moments of days, for a timestamp column."""
    if argument.type is LogicalType.TIMESTAMP_NTZ:
        return lambda days: [day * MICROSECONDS_PER_DAY for day in days]
    if argument.type is not LogicalType.TIMESTAMP or fold is None:
        raise UnsupportedError(f"{'.'.join(argument.path)} is not a date or a timestamp")
    return partial(_first_moments_in_zone, fold)


def _first_moments_in_zone(fold: Fold, days: Sequence[int]) -> list[int]:
    """Return the first moments of days in the session's time zone.

    Raises UnsupportedError if clocks go back over midnight there, because the day before then returns for some time.
    """
    moments = fold(f"array({', '.join(map(_first_moment, days))})")
    if not isinstance(moments, list):
        raise UnsupportedError("Spark does not know when a day begins")
    if None in moments:
        raise UnsupportedError("the session time zone sets clocks back over midnight")
    return [int(str(moment)) for moment in moments]


def _first_moment(day: int) -> str:
    """Return SQL for the first moment of a day in microseconds, or NULL if some later minute is of an earlier day."""
    date_sql = f"DATE_FROM_UNIX_DATE({day})"
    start = f"CAST({date_sql} AS TIMESTAMP_LTZ)"
    minutes = f"sequence({start} - INTERVAL '1' DAY, {start} + INTERVAL '1' DAY, INTERVAL '1' MINUTE)"
    return f"IF(forall({minutes}, m -> (m >= {start}) = (CAST(m AS DATE) >= {date_sql})), unix_micros({start}), NULL)"


def _step(argument: Column, result: Column, first_values: FirstValues) -> Operand:
    """Return a function with whole results that never decreases when its argument grows."""

    def compare(op: Op, value: int) -> Node:
        match op:
            case Op.EQ:
                low, next_low = first_values([value, value + 1])
                return conjunction([Comparison(argument, Op.GE, low), Comparison(argument, Op.LE, next_low - 1)])
            case Op.GE | Op.GT:
                [low] = first_values([value + (op is Op.GT)])
                return Comparison(argument, Op.GE, low)
        [low] = first_values([value + (op is Op.LE)])
        return Comparison(argument, Op.LE, low - 1)

    def test(leaf: Node) -> Node:
        match leaf:
            case Comparison(op=op, value=int(value)):
                return compare(op, value)
            case InList():
                return test_any(argument, leaf, lambda value: compare(Op.EQ, int(str(value))))
        raise UnsupportedError("only comparisons of the function with constants are pushed down")

    return Operand(result, lambda tree: replace_leaves(tree, test))


def _prefix(node: exp.Expr, length: exp.Expr | None, scope: Scope) -> Operand:
    """Return the first characters of a string."""
    argument = _argument(node, scope)
    if argument.type is not LogicalType.STRING or not isinstance(length, exp.Literal) or not length.is_int:
        raise UnsupportedError("only the first characters of a string column are pushed down")
    count = int(length.name)

    def starts_with(text: str) -> Node:
        if len(text) == count:
            return StringMatch(argument, StringTest.PREFIX, text) if text else true_unless_null(argument)
        return Comparison(argument, Op.EQ, text) if len(text) < count else InList(argument, ())

    return Operand(argument, lambda tree: replace_leaves(tree, partial(_test_equality, argument, starts_with)))


def _test_equality(argument: Column, equals: Callable[[str], Node], leaf: Node) -> Node:
    """Return a test of the argument for a function that is equal to a constant."""
    match leaf:
        case Comparison(op=Op.EQ, value=str(text)):
            return equals(text)
        case InList():
            return test_any(argument, leaf, lambda value: equals(str(value)))
    raise UnsupportedError("only the equality of the function with constants is pushed down")


def _in_one_case(node: exp.Expr, scope: Scope) -> Operand:
    """Return LOWER or UPPER of a string, for facts about its text.

    Only ASCII letters have a known other case: which other characters become ASCII depends on the locale of the JVM.
    """
    argument = _argument(node, scope)
    if argument.type is not LogicalType.STRING:
        raise UnsupportedError(f"{short_sql(node)} is not a string column")

    def in_any_case(*strings: str, prefix: bool) -> Node:
        if not all(string.isascii() for string in strings):
            raise UnsupportedError("only ASCII strings are searched for in any case")
        return CaselessMatch(argument, strings, prefix)

    def test(leaf: Node) -> Node:
        match leaf:
            case Comparison(op=Op.EQ, value=str(text)) if text:
                return in_any_case(text, prefix=True)
            case StringMatch(test=kind, text=text):
                return in_any_case(text, prefix=kind is StringTest.PREFIX)
            case LikeMatch(literals=strings) if strings:
                return in_any_case(*strings, prefix=False)
            case InList():
                return test_any(argument, leaf, lambda value: in_any_case(str(value), prefix=True))
        raise UnsupportedError("only equality and LIKE of LOWER and UPPER are pushed down")

    return Operand(argument, lambda tree: replace_leaves(tree, test))


def _without_blanks(node: exp.Trim, scope: Scope) -> Operand:
    """Return TRIM of a string, for facts about its text."""
    argument = _argument(node.this, scope)

    def has(text: str) -> Node:
        if argument.type is not LogicalType.STRING or not text or node.expression is not None:
            raise UnsupportedError("only the equality of TRIM with strings that are not empty is pushed down")
        return StringMatch(argument, StringTest.CONTAINS, text)

    return Operand(argument, lambda tree: replace_leaves(tree, partial(_test_equality, argument, has)))


def _with_default(node: exp.Expr, default: exp.Expr, scope: Scope) -> Operand:
    """Return COALESCE of a column and a constant."""
    argument = _argument(node, scope)
    if argument.type not in _DEFAULTS:
        raise UnsupportedError("COALESCE is pushed down for booleans, integers and strings")
    [constant] = LiteralReader(scope).read([default], argument.type, in_list=False)
    if constant.type is not argument.type:
        raise UnsupportedError(f"the default {short_sql(default)} has another type than its column")
    row = _row_with(argument, constant.value)

    def resolve(tree: Node) -> Node:
        of_default = BooleanConstant(ArrowFilter(tree).mask(row)[0].as_py())
        is_null = IsNull(argument)
        return disjunction([conjunction([Not(is_null), tree]), conjunction([is_null, of_default])])

    return Operand(argument, resolve)


def _row_with(column: Column, value: object) -> pa.RecordBatch:
    """Return a row with a value of a column or struct member. Raises UnsupportedError if it is out of range."""
    try:
        values = pa.array([value], column.storage)
    except (pa.ArrowException, OverflowError) as problem:
        raise UnsupportedError(f"the default {value!r} is out of the range of its column") from problem
    for name in reversed(column.path[1:]):
        values = pa.StructArray.from_arrays([values], [name])
    return pa.record_batch([values], [column.path[0]])


def test_any(argument: Column, values: InList, test: Callable[[object], Node]) -> Node:
    """Return a test of each value of a list. Like the list, it is null where the column is.

    Raises UnsupportedError if the list is long.
    """
    if len(values.values) > _MAX_VALUES:
        raise UnsupportedError(f"the list has more than {_MAX_VALUES} values")
    tests = [test(value) for value in values.values] or [InList(argument, ())]
    return disjunction([*tests, BooleanConstant(None)] if values.has_null else tests)


def _is_number(node: exp.Expr | None, number: int) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name == str(number)
