"""The plans that Spark ran, with their metrics, from its SQL status store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

ROW_METRIC = "number of output rows"


class _Metric(TypedDict):
    name: str
    accumulatorId: int


class _Node(TypedDict, total=False):
    """Spark's `SparkPlanGraphNode` as JSON. Only a group of nodes with common generated code has `nodes`."""

    id: int
    name: str
    desc: str
    metrics: list[_Metric]
    nodes: list[_Node]


class _Edge(TypedDict):
    fromId: int
    toId: int


class PlanGraph(TypedDict):
    """Spark's `SparkPlanGraph` as JSON. Edges lead from inputs to consumers."""

    nodes: list[_Node]
    edges: list[_Edge]


@dataclass
class PlanNode:
    """A node of an executed plan: its name, Spark's description, its metrics and its inputs.

    The values of metrics are as Spark prints them, or empty strings for those that no task has updated.
    """

    name: str
    description: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    inputs: list[PlanNode] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The first word of the name."""
        word = re.match(r"\w+", self.name)
        return word[0] if word else ""

    @property
    def rows(self) -> int | None:
        """The output rows, or None if Spark did not count them."""
        return self.count(ROW_METRIC)

    def count(self, metric: str) -> int | None:
        """Return the value of a metric, or None if it is missing or not an integer."""
        digits = self.metrics.get(metric, "").replace(",", "")
        return int(digits) if digits.isdecimal() else None

    def nodes(self) -> Iterator[PlanNode]:
        """Yield the node and all nodes below it."""
        yield self
        for node in self.inputs:
            yield from node.nodes()


def plan_roots(graph: PlanGraph, values: Mapping[str, str]) -> list[PlanNode]:
    """Return the roots of a plan graph. `values` are printed values of metrics, by the numbers of accumulators.

    >>> metric = {"name": "number of output rows", "accumulatorId": 7}
    >>> scan = {"id": 2, "name": "Scan orc", "desc": "", "metrics": [metric]}
    >>> group = {"id": 3, "name": "WholeStageCodegen", "desc": "", "metrics": [], "nodes": [scan]}
    >>> join = {"id": 1, "name": "SortMergeJoin", "desc": "", "metrics": []}
    >>> roots = plan_roots({"nodes": [join, group], "edges": [{"fromId": 2, "toId": 1}]}, {"7": "1,200"})
    >>> [(root.kind, [(node.kind, node.rows) for node in root.inputs]) for root in roots]
    [('SortMergeJoin', [('Scan', 1200)])]
    """
    nodes = {node["id"]: _plan_node(node, values) for node in _single_nodes(graph["nodes"])}
    inputs = set()
    for edge in graph["edges"]:
        if edge["fromId"] in nodes and edge["toId"] in nodes:
            nodes[edge["toId"]].inputs.append(nodes[edge["fromId"]])
            inputs.add(edge["fromId"])
    return [node for number, node in nodes.items() if number not in inputs]


def _single_nodes(nodes: Sequence[_Node]) -> Iterator[_Node]:
    for node in nodes:
        if "nodes" in node:
            yield from _single_nodes(node["nodes"])
        else:
            yield node


def _plan_node(node: _Node, values: Mapping[str, str]) -> PlanNode:
    metrics = {metric["name"]: values.get(str(metric["accumulatorId"]), "") for metric in node["metrics"]}
    return PlanNode(node["name"], node["desc"], metrics)
