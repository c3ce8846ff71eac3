"""Which parts of a table an expression reads: the predicate's share of the projection tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pyspark.sql.types import ArrayType, DataType, StructType
from sqlglot import exp

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.conjuncts import nodes_of
from pushdown_spark.projection.names import FieldIndex
from pushdown_spark.projection.paths import ColumnPath, Member
from pushdown_spark.projection.tree import ProjectionTree, merge_paths

_WORD = re.compile(r"[^\W\d]\w*")


def needed(tree: exp.Expr, schema: StructType, *, case_sensitive: bool) -> ProjectionTree:
    """The parts of a table that a predicate or query may read, rather too much than too little.

    A dotted name counts from every part on that names a column, because the parts before it may be the table's name; it
    counts down to the member that it names, and wholly from whatever is no struct on. `*` is everything.
    """
    if takes_all(tree):
        return merge_paths([ColumnPath((Member(field.name),)) for field in schema.fields], case_sensitive=True)
    columns = FieldIndex(schema, case_sensitive=case_sensitive)
    dotted = [*_dotted(tree), *((name,) for name in named_by_functions(tree))]
    paths = [path for names in dotted for path in _readings(names, columns, case_sensitive)]
    return merge_paths(paths, case_sensitive=case_sensitive)


def takes_all(tree: exp.Expr) -> bool:
    """Whether a query wants every column: by a star, or by a pivot, which groups by all that it does not name."""
    return any(
        isinstance(node, exp.Pivot) or not isinstance(node.parent, exp.Count)
        for node in nodes_of(tree, exp.Pivot, exp.Star)
    )


def named_by_functions(tree: exp.Expr) -> Iterator[str]:
    """Names that may be columns, though they were read as functions without arguments: `current_date`."""
    for node in nodes_of(tree, exp.Func):
        if not any(node.args.values()):
            for name in node.sql_names():
                yield from (name, name.lower())


def lost_words(text: str, tree: exp.Expr) -> frozenset[str]:
    """Lower-case words of a query's text that no name in its tree is: what was read as a unit, or left out."""
    names = {node.name.lower() for node in nodes_of(tree, exp.Identifier)}
    return frozenset(word for word in map(str.lower, _WORD.findall(text)) if word not in names)


def _dotted(tree: exp.Expr) -> Iterator[tuple[str, ...]]:
    """The dotted names in a tree, each with the members that follow it."""
    for column in nodes_of(tree, exp.Column):
        names = [part.name for part in column.parts]
        node: exp.Expr = column
        while isinstance(node.parent, exp.Dot) and node.parent.this is node:
            if not isinstance(node.parent.expression, exp.Identifier):
                break
            names.append(node.parent.expression.name)
            node = node.parent
        yield tuple(names)


def _readings(names: Sequence[str], columns: FieldIndex, case_sensitive: bool) -> Iterator[ColumnPath]:
    for at, name in enumerate(names):
        for field in columns.all(name):
            members = _members(field.dataType, names[at + 1 :], case_sensitive)
            yield ColumnPath((Member(field.name), *members))


def _members(data_type: DataType, names: Sequence[str], case_sensitive: bool) -> Iterator[Member]:
    """The struct members that some names lead to, up to the first that is none."""
    for name in names:
        inner = data_type.elementType if isinstance(data_type, ArrayType) else data_type
        if not isinstance(inner, StructType):
            return
        try:
            field = FieldIndex(inner, case_sensitive=case_sensitive).find(name)
        except BadSpecError:
            # Two members that differ in case alone: Spark itself says so, and until then both are needed.
            return
        if field is None:
            return
        yield Member(field.name)
        data_type = field.dataType
