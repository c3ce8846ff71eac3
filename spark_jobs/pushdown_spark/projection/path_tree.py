"""Trees of required columns and struct members, merged from column paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pushdown_spark.expressions.names import ANY_CASE, NameRule
from pushdown_spark.projection.paths import ColumnPath, Elements, Entry, Group, Member, Step, render_steps


@dataclass(frozen=True)
class ProjectionNode:
    """The required parts of one column or struct member.

    `members` are the required members, or an empty tuple for all. An array or a map has the members of its structs.
    """

    name: str
    members: tuple[ProjectionNode, ...] = ()

    def __str__(self) -> str:
        text = render_steps([Member(self.name)])
        return f"{text}({', '.join(map(str, self.members))})" if self.members else text


@dataclass(frozen=True)
class ProjectionTree:
    """The required parts of a table: a node for each top-level column, in the order of the first request."""

    nodes: tuple[ProjectionNode, ...]
    name_rule: NameRule = ANY_CASE

    def __str__(self) -> str:
        return ", ".join(map(str, self.nodes))

    def merge(self, other: ProjectionTree) -> ProjectionTree:
        """Return the parts that either of two trees requires."""
        return replace(self, nodes=self._merge_nodes([*self.nodes, *other.nodes]))

    def prune(self, schema: StructType) -> StructType:
        """Return the required columns with their required members, in the order and spelling of the table."""
        return self._prune_struct(schema, self.nodes)

    def _merge_nodes(self, nodes: Iterable[ProjectionNode]) -> tuple[ProjectionNode, ...]:
        by_name: dict[str, ProjectionNode] = {}
        for node in nodes:
            normal = replace(node, members=self._merge_nodes(node.members))
            key = self.name_rule.key(node.name)
            by_name[key] = self._union(by_name[key], normal) if key in by_name else normal
        return tuple(by_name.values())

    def _union(self, left: ProjectionNode, right: ProjectionNode) -> ProjectionNode:
        both_narrow = bool(left.members and right.members)
        return ProjectionNode(left.name, self._merge_nodes([*left.members, *right.members]) if both_narrow else ())

    def _prune_struct(self, schema: StructType, nodes: Sequence[ProjectionNode]) -> StructType:
        fields = []
        node_by_key = {self.name_rule.key(node.name): node for node in reversed(nodes)}
        for field in schema.fields:
            node = node_by_key.get(self.name_rule.key(field.name))
            if node is not None:
                data_type = self._prune_type(field.dataType, node.members)
                fields.append(StructField(field.name, data_type, field.nullable, field.metadata))
        return StructType(fields)

    def _prune_type(self, data_type: DataType, members: Sequence[ProjectionNode]) -> DataType:
        """Return a type with only some struct members. The members of an array or map are those of its structs."""
        if not members:
            return data_type
        if isinstance(data_type, StructType):
            struct = self._prune_struct(data_type, members)
            return struct if struct.fields else data_type
        if isinstance(data_type, ArrayType):
            return ArrayType(self._prune_type(data_type.elementType, members), data_type.containsNull)
        if isinstance(data_type, MapType):
            value = self._prune_type(data_type.valueType, members)
            return MapType(data_type.keyType, value, data_type.valueContainsNull)
        return data_type


def merge_paths(paths: Iterable[ColumnPath], *, name_rule: NameRule) -> ProjectionTree:
    """Merge paths without wildcards into a tree.

    A path to a whole column includes all paths into it. Positions of arrays and keys of maps do not matter.
    """
    return ProjectionTree((), name_rule).merge(ProjectionTree(tuple(_node(path.steps) for path in paths)))


def _node(steps: Sequence[Step]) -> ProjectionNode:
    first, *rest = (step for step in steps if not isinstance(step, Elements | Entry))
    assert isinstance(first, Member)
    if not rest:
        return ProjectionNode(first.name)
    members = rest[0].members if isinstance(rest[0], Group) else [ColumnPath(tuple(rest))]
    return ProjectionNode(first.name, tuple(_node(path.steps) for path in members))
