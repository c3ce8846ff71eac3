"""Trees of required columns and struct members, merged from column paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pushdown_spark.expressions.names import name_key
from pushdown_spark.projection.paths import ColumnPath, Elements, Entry, Group, Member, Step, render_steps

Selector = Elements | Entry
"""A selection in one dimension of a column: positions of an array, or keys of a map."""


@dataclass(frozen=True)
class ProjectionNode:
    """The required parts of one column or struct member.

    `members` are the required members, empty for all. `selectors` has an entry for each array or map dimension of which
    only some elements are required.
    """

    name: str
    members: tuple[ProjectionNode, ...] = ()
    selectors: tuple[Selector, ...] = ()

    def __str__(self) -> str:
        steps: list[Step] = [Member(self.name), *self.selectors]
        text = render_steps(steps)
        return f"{text}({', '.join(map(str, self.members))})" if self.members else text


@dataclass(frozen=True)
class ProjectionTree:
    """The required parts of a table: a node for each top-level column, in the order of the first request."""

    nodes: tuple[ProjectionNode, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the top-level columns."""
        return tuple(node.name for node in self.nodes)

    def __str__(self) -> str:
        return ", ".join(map(str, self.nodes))

    def merge(self, other: ProjectionTree, *, case_sensitive: bool) -> ProjectionTree:
        """Return the parts that either of two trees requires."""
        return ProjectionTree(_merge_nodes([*self.nodes, *other.nodes], case_sensitive))

    def prune(self, schema: StructType, *, case_sensitive: bool) -> StructType:
        """Return the required columns with their required members, in the order and spelling of the table."""
        return _prune_struct(schema, self.nodes, case_sensitive)


def merge_paths(paths: Iterable[ColumnPath], *, case_sensitive: bool = False) -> ProjectionTree:
    """Merge paths without wildcards into a tree.

    A path to a whole column includes all paths into it. Array positions and map keys of the same dimension are united.
    Names that differ only in case are the same column unless `case_sensitive`.
    """
    return ProjectionTree(_merge_nodes([_node(path.steps) for path in paths], case_sensitive))


def same_name(left: str, right: str, *, case_sensitive: bool) -> bool:
    """Return whether two names are the same column."""
    return name_key(left, case_sensitive=case_sensitive) == name_key(right, case_sensitive=case_sensitive)


def _node(steps: Sequence[Step]) -> ProjectionNode:
    first, *rest = steps
    assert isinstance(first, Member)
    selectors = tuple(step for step in takewhile(_narrows, rest) if isinstance(step, Selector))
    rest = rest[len(selectors) :]
    members: tuple[ProjectionNode, ...] = ()
    if rest and isinstance(rest[0], Group):
        members = tuple(_node(path.steps) for path in rest[0].members)
    elif rest:
        members = (_node(rest),)
    return ProjectionNode(first.name, members, selectors)


def _narrows(step: Step) -> bool:
    return isinstance(step, Selector)


def _merge_nodes(nodes: Iterable[ProjectionNode], case_sensitive: bool) -> tuple[ProjectionNode, ...]:
    by_name: dict[str, ProjectionNode] = {}
    for node in nodes:
        normal = replace(node, members=_merge_nodes(node.members, case_sensitive))
        key = name_key(node.name, case_sensitive=case_sensitive)
        by_name[key] = _union(by_name[key], normal, case_sensitive) if key in by_name else normal
    return tuple(by_name.values())


def _union(left: ProjectionNode, right: ProjectionNode, case_sensitive: bool) -> ProjectionNode:
    both_narrow = bool(left.members and right.members)
    members = _merge_nodes([*left.members, *right.members], case_sensitive) if both_narrow else ()
    united = (_unite(one, other) for one, other in zip(left.selectors, right.selectors, strict=False))
    selectors = tuple(both for both in takewhile(lambda both: both is not None, united) if both is not None)
    return ProjectionNode(left.name, members, selectors)


def _unite(left: Selector, right: Selector) -> Selector | None:
    """Return the union of two selections; None if one has positions and the other keys, so that all is required."""
    if isinstance(left, Elements) and isinstance(right, Elements):
        return Elements(tuple(sorted({*left.positions, *right.positions})))
    if isinstance(left, Entry) and isinstance(right, Entry):
        return Entry(tuple(dict.fromkeys((*left.keys, *right.keys))))
    return None


def _prune_struct(schema: StructType, nodes: Sequence[ProjectionNode], case_sensitive: bool) -> StructType:
    fields = []
    required = {name_key(node.name, case_sensitive=case_sensitive): node for node in reversed(nodes)}
    for field in schema.fields:
        node = required.get(name_key(field.name, case_sensitive=case_sensitive))
        if node is not None:
            pruned = _prune_type(field.dataType, node.members, case_sensitive)
            fields.append(StructField(field.name, pruned, field.nullable, field.metadata))
    return StructType(fields)


def _prune_type(data_type: DataType, members: Sequence[ProjectionNode], case_sensitive: bool) -> DataType:
    """Return a type with only some struct members. The members of an array or map are those of the structs in it."""
    if not members:
        return data_type
    if isinstance(data_type, StructType):
        pruned = _prune_struct(data_type, members, case_sensitive)
        return pruned if pruned.fields else data_type
    if isinstance(data_type, ArrayType):
        return ArrayType(_prune_type(data_type.elementType, members, case_sensitive), data_type.containsNull)
    if isinstance(data_type, MapType):
        value = _prune_type(data_type.valueType, members, case_sensitive)
        return MapType(data_type.keyType, value, data_type.valueContainsNull)
    return data_type
