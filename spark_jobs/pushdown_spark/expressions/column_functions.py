"""Functions of a column whose comparisons with constants are tests of the column itself.

`LEFT(name, 3) = 'abc'` is a prefix of `name`, and `COALESCE(n, 0) > 5` is `n > 5`.
"""

from __future__ import annotations

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
from pushdown_spark.expressions.date_functions import date_operand
from pushdown_spark.expressions.literals import LiteralReader
from pushdown_spark.expressions.operand import Operand, any_value_test, argument_of, string_operand
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.types import LogicalType

_DEFAULTS = frozenset({LogicalType.BOOLEAN, LogicalType.INTEGER, LogicalType.STRING})
"""Types of which COALESCE has the type of its column, if the default has it too."""


def operand_of(node: exp.Expr, scope: Scope) -> Operand:
    """Return a column, or a function of a column, as an operand. Raises UnsupportedError for other expressions."""
    node = node.unnest()
    path = column_path(node)
    if path is not None:
        return Operand(scope.column(path))
    function = date_operand(node, scope)
    if function is not None:
        return function
    match node:
        case exp.Left(this=argument, expression=length):
            return _prefix(argument, length, scope)
        case exp.Substring(this=argument) if _is_one(node.args.get("start")):
            return _prefix(argument, node.args.get("length"), scope)
        case exp.Coalesce(this=argument, expressions=[default]):
            return _with_default(argument, default, scope)
        case exp.Lower(this=argument) | exp.Upper(this=argument) if scope.is_for_text:
            return _in_one_case(argument, scope)
        case exp.Trim() if scope.is_for_text:
            return _without_blanks(node, scope)
    raise UnsupportedError(f"{short_sql(node)} cannot be pushed down")


def _prefix(node: exp.Expr, length: exp.Expr | None, scope: Scope) -> Operand:
    """Return the first characters of a string."""
    argument = argument_of(node, scope)
    if argument.type is not LogicalType.STRING or not isinstance(length, exp.Literal) or not length.is_int:
        raise UnsupportedError("only the first characters of a string column are pushed down")
    count = int(length.name)

    def starts_with(text: str) -> Node:
        if len(text) == count:
            return StringMatch(argument, StringTest.PREFIX, text) if text else true_unless_null(argument)
        return Comparison(argument, Op.EQ, text) if len(text) < count else InList(argument, ())

    return string_operand(argument, argument, starts_with)


def _in_one_case(node: exp.Expr, scope: Scope) -> Operand:
    """Return LOWER or UPPER of a string, for facts about its text.

    Only ASCII letters have a known other case: which other characters become ASCII depends on the locale of the JVM.
    """
    argument = argument_of(node, scope)
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
                return any_value_test(argument, leaf, lambda value: in_any_case(str(value), prefix=True))
        raise UnsupportedError("only equality and LIKE of LOWER and UPPER are pushed down")

    return Operand(argument, lambda tree: replace_leaves(tree, test))


def _without_blanks(node: exp.Trim, scope: Scope) -> Operand:
    """Return TRIM of a string, for facts about its text."""
    argument = argument_of(node.this, scope)

    def has(text: str) -> Node:
        if argument.type is not LogicalType.STRING or not text or node.expression is not None:
            raise UnsupportedError("only the equality of TRIM with strings that are not empty is pushed down")
        return StringMatch(argument, StringTest.CONTAINS, text)

    return string_operand(argument, argument, has)


def _with_default(node: exp.Expr, default: exp.Expr, scope: Scope) -> Operand:
    """Return COALESCE of a column and a constant."""
    argument = argument_of(node, scope)
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


def _is_one(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name == "1"
