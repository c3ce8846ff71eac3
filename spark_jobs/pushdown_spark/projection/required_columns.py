"""Columns and struct members that a predicate or query may read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pyspark.sql.types import ArrayType, DataType, StructType
from sqlglot import exp

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.conjuncts import nodes_of
from pushdown_spark.expressions.names import EXACT_NAMES, NameRule
from pushdown_spark.projection.field_names import FieldIndex
from pushdown_spark.projection.path_tree import ProjectionTree, merge_paths
from pushdown_spark.projection.paths import ColumnPath, Member

_WORD = re.compile(r"[^\W\d]\w*")


def required_columns(tree: exp.Expr, schema: StructType, *, name_rule: NameRule) -> ProjectionTree:
    """Return a superset of the columns and struct members that a predicate or query reads.

    The first parts of a dotted name may name the table, so the path starts at every part that is a column. It ends at
    the last part that is a struct member. `*` requires every column.
    """
    if selects_all(tree):
        return merge_paths([ColumnPath((Member(field.name),)) for field in schema.fields], name_rule=EXACT_NAMES)
    columns = FieldIndex(schema, name_rule=name_rule)
    dotted_names = [*_dotted_names(tree), *((name,) for name in function_names(tree))]
    paths = [path for names in dotted_names for path in _column_paths(names, columns, name_rule)]
    return merge_paths(paths, name_rule=name_rule)


def selects_all(tree: exp.Expr) -> bool:
    """Return whether a query needs every column: for a star, or for a pivot, which groups by all other columns."""
    return any(
        isinstance(node, exp.Pivot) or not isinstance(node.parent, exp.Count)
        for node in nodes_of(tree, exp.Pivot, exp.Star)
    )


def function_names(tree: exp.Expr) -> Iterator[str]:
    """Yield the names of functions without arguments, such as `current_date`, which may be columns instead."""
    for node in nodes_of(tree, exp.Func):
        if not any(node.args.values()):
            for name in node.sql_names():
                yield from (name, name.lower())


def words_outside_names(text: str, tree: exp.Expr) -> frozenset[str]:
    """Return the words of a query, in lower case, that are not names in its tree.

    The parser may have taken such a column name for a keyword or a unit.
    """
    names = {node.name.lower() for node in nodes_of(tree, exp.Identifier)}
    return frozenset(word for word in map(str.lower, _WORD.findall(text)) if word not in names)


def _dotted_names(tree: exp.Expr) -> Iterator[tuple[str, ...]]:
    """Yield the columns of a tree as their parts, with the members that follow."""
    for column in nodes_of(tree, exp.Column):
        names = [part.name for part in column.parts]
        node: exp.Expr = column
        while isinstance(node.parent, exp.Dot) and node.parent.this is node:
            if not isinstance(node.parent.expression, exp.Identifier):
                break
            names.append(node.parent.expression.name)
            node = node.parent
        yield tuple(names)


def _column_paths(names: Sequence[str], columns: FieldIndex, name_rule: NameRule) -> Iterator[ColumnPath]:
    for at, name in enumerate(names):
        for field in columns.all(name):
            members = _members(field.dataType, names[at + 1 :], name_rule)
            yield ColumnPath((Member(field.name), *members))


def _members(data_type: DataType, names: Sequence[str], name_rule: NameRule) -> Iterator[Member]:
    """Yield the struct members that names refer to, up to the first name that is not a member."""
    for name in names:
        inner = data_type.elementType if isinstance(data_type, ArrayType) else data_type
        if not isinstance(inner, StructType):
            return
        try:
            field = FieldIndex(inner, name_rule=name_rule).find(name)
        except BadSpecError:
            # Two members differ only in case. Spark raises the error; both are required until then.
            return
        if field is None:
            return
        yield Member(field.name)
        data_type = field.dataType
