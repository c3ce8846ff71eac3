"""The bound tree: a predicate whose columns are resolved and whose constants have their column's type.

Nothing is cast when a bound tree is evaluated. Python workers receive bound trees, so this module needs neither Spark
nor the parser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

import pyarrow as pa

from pushdown_spark.expressions.types import FLOATING, LogicalType, Path, Value


class Op(StrEnum):
    """Comparison operators. `<>` is EQ under NOT."""

    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


FLIPPED = {Op.EQ: Op.EQ, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
"""The operator that means the same when both sides are exchanged."""
NEGATED = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}
"""The operator that is true for the other values that are not null."""


class Wildcard(Enum):
    """Wildcards of LIKE patterns."""

    ANY = "%"
    ONE = "_"


class StringTest(StrEnum):
    """Ways to search a string for another one."""

    PREFIX = "starts with"
    SUFFIX = "ends with"
    CONTAINS = "contains"


@dataclass(frozen=True)
class Column:
    """A column or struct member, with its names in the schema and the Arrow type of its values in comparisons."""

    path: Path
    type: LogicalType
    storage: pa.DataType


class Node:
    """A part of a bound tree: true, false or null for each row."""


@dataclass(frozen=True)
class BooleanConstant(Node):
    """The same value for every row."""

    value: bool | None


@dataclass(frozen=True)
class Comparison(Node):
    """A column compared with a constant. It is null where the column is.

    NaN is the largest float. NaN and booleans are compared with EQ only.
    """

    column: Column
    op: Op
    value: Value


@dataclass(frozen=True)
class InList(Node):
    """A column compared with a list.

    `values` are ascending and distinct; `has_null` and `has_nan` say whether the list has those as well. The value is
    null where the column is, and where the list has a null and not the column's value. An empty list is false wherever
    the column is not null.
    """

    column: Column
    values: tuple[Value, ...]
    has_null: bool = False
    has_nan: bool = False


@dataclass(frozen=True)
class StringMatch(Node):
    """A string column searched for a string. It is null where the column is."""

    column: Column
    test: StringTest
    text: str


@dataclass(frozen=True)
class LikeMatch(Node):
    """A string column compared with a LIKE pattern of any shape. It is null where the column is.

    `pieces` are the pattern's literals and wildcards, in order. `regex` is the pattern in RE2's syntax, anchored at
    both ends. `hint` is a cheaper test that every match passes.
    """

    column: Column
    regex: str
    hint: StringMatch | None
    pieces: tuple[str | Wildcard, ...]

    @property
    def literals(self) -> tuple[str, ...]:
        """The strings between the wildcards."""
        return tuple(piece for piece in self.pieces if isinstance(piece, str))


@dataclass(frozen=True)
class CaselessMatch(Node):
    """A string column that contains some ASCII strings in any case, or a character that is not ASCII.

    With `is_prefix`, it starts with the first string. The test is null where the column is. It is only for facts about
    the text of a row.
    """

    column: Column
    literals: tuple[str, ...]
    is_prefix: bool


@dataclass(frozen=True)
class IsNull(Node):
    """Whether a column of any type is null."""

    column: Column


@dataclass(frozen=True)
class ColumnComparison(Node):
    """Two columns of one type compared. It is null where either column is. The operator is EQ, LT or LE."""

    op: Op
    left: Column
    right: Column


@dataclass(frozen=True)
class And(Node):
    """A conjunction, with the cheapest parts first."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or(Node):
    """A disjunction, with the cheapest parts first."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Not(Node):
    """The opposite of a part. Null stays null."""

    part: Node


@dataclass(frozen=True)
class IsTrue(Node):
    """Whether a part is true: false where the part is null."""

    part: Node


@dataclass(frozen=True)
class IsUnknown(Node):
    """Whether a part is null."""

    part: Node


TRUE = BooleanConstant(True)


def children(node: Node) -> tuple[Node, ...]:
    """Return the parts of a node."""
    match node:
        case And(parts=parts) | Or(parts=parts):
            return parts
        case Not(part=part) | IsTrue(part=part) | IsUnknown(part=part):
            return (part,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it, from left to right."""
    yield node
    for part in children(node):
        yield from walk(part)


def replace_leaves(node: Node, replacement: Callable[[Node], Node]) -> Node:
    """Return a tree with other leaves. Constants stay."""
    match node:
        case BooleanConstant():
            return node
        case And(parts=parts):
            return conjunction([replace_leaves(part, replacement) for part in parts])
        case Or(parts=parts):
            return disjunction([replace_leaves(part, replacement) for part in parts])
        case Not(part=part):
            return negation(replace_leaves(part, replacement))
        case IsTrue(part=part):
            return IsTrue(replace_leaves(part, replacement))
        case IsUnknown(part=part):
            return IsUnknown(replace_leaves(part, replacement))
    return replacement(node)


def columns_of(root: Node) -> tuple[Path, ...]:
    """Return the columns and struct members that a tree reads, in the order of the tree."""
    paths: dict[Path, None] = {}
    for node in walk(root):
        match node:
            case ColumnComparison(left=left, right=right):
                paths |= {left.path: None, right.path: None}
            case (
                Comparison(column=column)
                | InList(column=column)
                | StringMatch(column=column)
                | LikeMatch(column=column)
                | IsNull(column=column)
            ):
                paths[column.path] = None
    return tuple(paths)


def floating_comparisons(root: Node) -> Iterator[tuple[Op, Value]]:
    """Yield the comparisons of floating-point columns with constants. A list has an equality for each constant."""
    for node in walk(root):
        match node:
            case Comparison(column=column, op=op, value=value) if column.type in FLOATING:
                yield op, value
            case InList(column=column, values=values, has_nan=has_nan) if column.type in FLOATING:
                yield from ((Op.EQ, value) for value in ((*values, math.nan) if has_nan else values))


def true_unless_null(column: Column) -> Node:
    """Return a test that is true for every value, and null where the column is."""
    return Not(InList(column, ()))


def negation(part: Node) -> Node:
    """Return the opposite of a part, without double negations."""
    if isinstance(part, BooleanConstant):
        return BooleanConstant(None if part.value is None else not part.value)
    return part.part if isinstance(part, Not) else Not(part)


def conjunction(parts: Sequence[Node]) -> Node:
    """Join parts with AND: TRUE without any, FALSE if one is. The cheapest parts come first."""
    return _junction(parts, True)


def disjunction(parts: Sequence[Node]) -> Node:
    """Join parts with OR: FALSE without any, TRUE if one is. The cheapest parts come first."""
    return _junction(parts, False)


def _junction(parts: Sequence[Node], is_and: bool) -> Node:
    if BooleanConstant(not is_and) in parts:
        return BooleanConstant(not is_and)
    rest = sorted((part for part in parts if part != BooleanConstant(is_and)), key=_cost)
    if len(rest) < 2:
        return rest[0] if rest else BooleanConstant(is_and)
    return And(tuple(rest)) if is_and else Or(tuple(rest))


_WIDE_TYPES = (LogicalType.STRING, LogicalType.BINARY, LogicalType.DECIMAL)
"""Types whose comparison takes several instructions."""


def _cost(node: Node) -> float:
    """Estimate the evaluation time of a node, in nanoseconds per row."""
    match node:
        case And(parts=parts) | Or(parts=parts):
            return sum(map(_cost, parts))
        case Not(part=part) | IsTrue(part=part) | IsUnknown(part=part):
            return _cost(part)
        case Comparison(column=column):
            return 6.0 if column.type in _WIDE_TYPES else 1.0
        case InList(column=column):
            return 20.0 if column.type in _WIDE_TYPES else 5.0
        case LikeMatch():
            return 60.0
        case StringMatch():
            return 8.0
    return 1.0
