"""Reads the nodes of one of Spark's trees from its text: to ask each of them takes a while.

Spark numbers the nodes of a tree by the lines of its text, those of sub-queries included: `tree.apply(number)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from py4j.java_gateway import JavaObject

from pushdown_spark.runtime.jvm_gateway import elements

_INDENT = re.compile(r"(?:[ :]  )*(?:[:+]- )?")
_STEP = 3
_FIELDS = 25
"""Columns that Spark tells of a node before it says how many there are besides."""


@dataclass(frozen=True)
class Line:
    """A node: how deep it stands, and what it says of itself.

    Children stand one step deeper than their parent, the plans of sub-queries two.
    """

    depth: int
    text: str


def outline(tree: JavaObject, text: str) -> list[Line]:
    """The nodes of a tree by their numbers; `text` is what `treeString` gives of it.

    Where that has more lines than nodes, because of a constant in it, all nodes are asked.
    """
    lines = text.removesuffix("\n").split("\n")
    if tree.apply(len(lines) - 1) is None:
        return list(_asked(tree, 0))
    return [_line(each) for each in lines]


def children(lines: list[Line]) -> list[list[int]]:
    """For each node the numbers of its children."""
    return _below(lines, 1)


def queries(lines: list[Line]) -> list[list[int]]:
    """For each node the numbers of the plans of the sub-queries in its expressions, in the order of these."""
    return _below(lines, 2)


def _below(lines: list[Line], steps: int) -> list[list[int]]:
    """For each node the numbers of what stands so many steps deeper, with no other node between."""
    found: list[list[int]] = [[] for _ in lines]
    above: list[int] = []
    for number, line in enumerate(lines):
        while above and lines[above[-1]].depth >= line.depth:
            above.pop()
        if above and lines[above[-1]].depth == line.depth - steps:
            found[above[-1]].append(number)
        above.append(number)
    return found


def _line(text: str) -> Line:
    indent = _INDENT.match(text)
    length = 0 if indent is None else indent.end()
    return Line(length // _STEP, text[length:])


def _asked(tree: JavaObject, depth: int) -> Iterator[Line]:
    yield Line(depth, str(tree.simpleString(_FIELDS)))
    for query in elements(tree.innerChildren()):
        yield from _asked(query, depth + 2)
    for child in elements(tree.children()):
        yield from _asked(child, depth + 1)
