"""Elements of arrays and values of maps as operands, for facts about the text of a row.

`tags` is an array of strings, `items` an array of structs, and `props` a map:

    ARRAY_CONTAINS(tags, 'new')           the text has `new`
    ARRAY_CONTAINS(items.sku, 'a1')       the text has a member `sku` with the value `a1`
    EXISTS(items, i -> i.sku = 'a1')      the same
    props['color'] = 'red'                the text has a member `color` with the value `red`

The last name of a column's path is the key that stands before the value in the text. The elements that a condition of
EXISTS or a constant of ARRAY_CONTAINS is about are a column of their own: its path has the condition or the constant
before its last name. If no element satisfies a condition, nothing is known about the text, so tests of elements are in
`IsTrue`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions import coercion
from pushdown_spark.expressions.bound import (
    Column,
    Comparison,
    InList,
    IsTrue,
    Node,
    Op,
    StringMatch,
    StringTest,
    replace_leaves,
)
from pushdown_spark.expressions.conjuncts import column_path, short_sql
from pushdown_spark.expressions.literals import LiteralReader
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.operand import Operand, any_value_test
from pushdown_spark.expressions.scope import Scope, column_of_type, is_char
from pushdown_spark.expressions.types import LogicalType, Path


@dataclass(frozen=True)
class _Element:
    """A part of a row.

    `is_listed` is whether it is an element of an array, so that no key stands before it. `is_many` is whether it is a
    member of the structs in an array.
    """

    path: Path
    type: t.DataType
    is_listed: bool = False
    is_many: bool = False

    def member(self, name: str, scope: Scope) -> _Element:
        """Return a member of a struct, or of the structs in an array."""
        is_array = isinstance(self.type, t.ArrayType)
        parent = self.type.elementType if isinstance(self.type, t.ArrayType) else self.type
        field = scope.member(parent, name, (*self.path, name))
        kind = t.CharType(1) if is_char(field) else field.dataType
        return _Element((*self.path, field.name), kind, is_many=is_array or self.is_many)


def is_element(node: exp.Expr) -> bool:
    """Return whether an expression is an element of an array, a value of a map, or a struct member of one."""
    return isinstance(node, exp.Bracket) or (isinstance(node, exp.Dot) and is_element(node.this))


def element_operand(node: exp.Expr, scope: Scope) -> Operand:
    """Return an element as an operand. Raises UnsupportedError for other expressions."""
    return _operand(_element_at(node, scope))


def contains(node: exp.ArrayContains, scope: Scope) -> Node:
    """Return a test that is true where ARRAY_CONTAINS is. Raises UnsupportedError if there is none."""
    array = _element_at(node.this.unnest(), scope)
    if array.is_many:
        operand = _operand(_Element((*array.path[:-1], node.expression.sql(), array.path[-1]), array.type))
    elif isinstance(array.type, t.ArrayType) and not array.is_listed:
        operand = _operand(_Element(array.path, array.type.elementType, is_listed=True))
    else:
        raise UnsupportedError(f"{short_sql(node.this)} cannot be pushed down")
    [constant] = LiteralReader(scope).read([node.expression], operand.column.type, in_list=False)
    if constant.type is LogicalType.NULL:
        raise UnsupportedError("an array never contains NULL")
    return IsTrue(operand.resolve(coercion.compare(operand.column, Op.EQ, constant)))


def condition_of_elements(node: exp.Exists, name_rule: NameRule) -> exp.Expr:
    """Return the condition of EXISTS with the elements in place of the variable.

    Raises UnsupportedError for another form of EXISTS.
    """
    function = node.expression
    if not isinstance(function, exp.Lambda) or len(function.expressions) != 1 or function.this.find(exp.Lambda):
        raise UnsupportedError(f"{short_sql(node)} cannot be pushed down")
    [variable] = function.expressions
    element = exp.Bracket(this=node.this.copy(), expressions=[function.copy()])

    def replace_variable(part: exp.Expr) -> exp.Expr:
        is_name = isinstance(part.parent, exp.Column) or (isinstance(part.parent, exp.Dot) and part.arg_key != "this")
        is_variable = isinstance(part, exp.Identifier) and name_rule.same(part.name, variable.name)
        return element.copy() if is_variable and not is_name else part

    condition: exp.Expr = function.this.copy().transform(replace_variable)
    return condition


def _element_at(node: exp.Expr, scope: Scope) -> _Element:
    """Return the part of a row that an expression refers to. Raises UnsupportedError for other expressions."""
    match node:
        case exp.Bracket(this=outer, expressions=[exp.Literal() as key]) if key.is_string and scope.has_plain_strings:
            parent = _element_at(outer.unnest(), scope)
            if isinstance(parent.type, t.MapType) and parent.type.keyType == t.StringType() and not parent.is_many:
                return _Element((*parent.path, key.name), parent.type.valueType)
        case exp.Bracket(this=outer, expressions=[exp.Lambda() as condition]):
            parent = _element_at(outer.unnest(), scope)
            path = (*parent.path[:-1], condition.sql(), parent.path[-1])
            if parent.is_many:
                return _Element(path, parent.type)
            if isinstance(parent.type, t.ArrayType):
                return _Element(path, parent.type.elementType, is_listed=True)
        case exp.Dot(this=outer, expression=exp.Identifier() as member) if is_element(outer):
            return _element_at(outer, scope).member(member.name, scope)
        case _ if (names := column_path(node)) is not None:
            element = _Element((), scope.schema)
            for name in names:
                element = element.member(name, scope)
            return element
    raise UnsupportedError(f"{short_sql(node)} cannot be pushed down")


def _operand(element: _Element) -> Operand:
    if element.is_many:
        raise UnsupportedError("members of the structs of an array are an array")
    column = column_of_type(element.path, element.type)
    return Operand(column, lambda tree: replace_leaves(tree, _has_text)) if element.is_listed else Operand(column)


def _has_text(test: Node) -> Node:
    """Return a test for an element of an array, whose text stands anywhere after the key of the array."""
    match test:
        case Comparison(column=Column(type=LogicalType.STRING) as column, op=Op.EQ, value=str(text)) if text:
            return StringMatch(column, StringTest.CONTAINS, text)
        case InList(column=Column(type=LogicalType.STRING) as column):
            return any_value_test(column, test, lambda value: StringMatch(column, StringTest.CONTAINS, str(value)))
    raise UnsupportedError("of the elements of an array, only equal strings are pushed down")
