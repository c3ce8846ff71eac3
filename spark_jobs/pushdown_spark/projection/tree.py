"""Merges column paths into one tree that says which parts of a table have to be read at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pushdown_spark.expressions.names import name_key
from pushdown_spark.projection.paths import ColumnPath, Elements, Entry, Group, Member, Step, render_steps

Selector = Elements | Entry
"""What narrows one dimension of a column: some positions of an array, or some keys of a map."""


@dataclass(frozen=True)
class ProjectionNode:
    """What is wanted of one column or struct member.

    `members` lists the wanted members, empty for all of them. `selectors` has one entry per array or map dimension that
    is narrowed; no entry means every element.
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
    """The wanted parts of a table, one node per top-level column, in the order first asked for."""

    nodes: tuple[ProjectionNode, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level columns."""
        return tuple(node.name for node in self.nodes)

    def __str__(self) -> str:
        return ", ".join(map(str, self.nodes))

    def merged_with(self, other: ProjectionTree, *, case_sensitive: bool) -> ProjectionTree:
        """What is wanted by either of two trees."""
        return ProjectionTree(_merged([*self.nodes, *other.nodes], case_sensitive))

    def pruned(self, schema: StructType, *, case_sensitive: bool) -> StructType:
        """The wanted columns of a table, with just their wanted members, in the table's own order and spelling."""
        return _pruned_struct(schema, self.nodes, case_sensitive)


def merge_paths(paths: Iterable[ColumnPath], *, case_sensitive: bool = False) -> ProjectionTree:
    """Merges paths (without wildcards) into a tree.

    A column wanted whole swallows paths into it, array positions and map keys coalesce, duplicates merge. Names that
    differ in case alone are the same column unless `case_sensitive`.
    """
    return ProjectionTree(_merged([_node(path.steps) for path in paths], case_sensitive))


def same_name(left: str, right: str, *, case_sensitive: bool) -> bool:
    """Whether two names mean the same column."""
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


def _merged(nodes: Iterable[ProjectionNode], case_sensitive: bool) -> tuple[ProjectionNode, ...]:
    by_name: dict[str, ProjectionNode] = {}
    for node in nodes:
        normal = replace(node, members=_merged(node.members, case_sensitive))
        key = name_key(node.name, case_sensitive=case_sensitive)
        by_name[key] = _union(by_name[key], normal, case_sensitive) if key in by_name else normal
    return tuple(by_name.values())


def _union(left: ProjectionNode, right: ProjectionNode, case_sensitive: bool) -> ProjectionNode:
    both_narrow = bool(left.members and right.members)
    members = _merged([*left.members, *right.members], case_sensitive) if both_narrow else ()
    coalesced = (_coalesced(mine, theirs) for mine, theirs in zip(left.selectors, right.selectors, strict=False))
    selectors = tuple(both for both in takewhile(lambda both: both is not None, coalesced) if both is not None)
    return ProjectionNode(left.name, members, selectors)


def _coalesced(left: Selector, right: Selector) -> Selector | None:
    """Both selections of one dimension; None for those of different kinds, of which nothing can be left out."""
    if isinstance(left, Elements) and isinstance(right, Elements):
        return Elements(tuple(sorted({*left.positions, *right.positions})))
    if isinstance(left, Entry) and isinstance(right, Entry):
        return Entry(tuple(dict.fromkeys((*left.keys, *right.keys))))
    return None


def _pruned_struct(schema: StructType, nodes: Sequence[ProjectionNode], case_sensitive: bool) -> StructType:
    fields = []
    wanted = {name_key(node.name, case_sensitive=case_sensitive): node for node in reversed(nodes)}
    for field in schema.fields:
        node = wanted.get(name_key(field.name, case_sensitive=case_sensitive))
        if node is not None:
            kept = _pruned(field.dataType, node.members, case_sensitive)
            fields.append(StructField(field.name, kept, field.nullable, field.metadata))
    return StructType(fields)


def _pruned(data_type: DataType, members: Sequence[ProjectionNode], case_sensitive: bool) -> DataType:
    """Arrays and maps are passed through to what they hold: a tree's members are those of the structs in them."""
    if not members:
        return data_type
    if isinstance(data_type, StructType):
        kept = _pruned_struct(data_type, members, case_sensitive)
        return kept if kept.fields else data_type
    if isinstance(data_type, ArrayType):
        return ArrayType(_pruned(data_type.elementType, members, case_sensitive), data_type.containsNull)
    if isinstance(data_type, MapType):
        value = _pruned(data_type.valueType, members, case_sensitive)
        return MapType(data_type.keyType, value, data_type.valueContainsNull)
    return data_type
