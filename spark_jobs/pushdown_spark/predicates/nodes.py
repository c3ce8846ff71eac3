"""Walks over expressions that pass over literals, so that lists of thousands of them cost next to nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeVar

from sqlglot import exp

Node = TypeVar("Node", bound=exp.Expr)


def parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node's children in order, without those that are literals: these have no children."""
    for value in node.args.values():
        for child in value if isinstance(value, list) else (value,):
            if type(child) is not exp.Literal and isinstance(child, exp.Expr):
                yield child


def nodes_of(tree: exp.Expr, *kinds: type[Node]) -> Iterator[Node]:
    """The nodes of some kinds, other than literals, each before those below it, as sqlglot's `find_all` gives them.

    >>> from sqlglot import parse_one
    >>> [node.name for node in nodes_of(parse_one("a IN (1, 2) AND b = a"), exp.Column)]
    ['a', 'b', 'a']
    """
    pending = deque([tree])
    while pending:
        node = pending.popleft()
        if isinstance(node, kinds):
            yield node
        pending.extend(parts(node))
