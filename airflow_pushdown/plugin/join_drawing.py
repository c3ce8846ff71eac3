"""SVG drawings of join trees, before and after join reordering, with the nodes that moved marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from airflow_pushdown.plugin.join_layout import CHARACTER, LINE, PADDING, Box, cells, layout
from airflow_pushdown.plugin.join_steps import JoinStep, is_far_off, join_steps
from pushdown_spark.contract.join_report_text import describe_join
from pushdown_spark.contract.join_tree import JoinReport, JoinTree

_SIZES = {"tiny": 440, "small": 560, "medium": 800, "large": 1400}
"""The width below which a drawing has a size, in pixels. The style sheet has the narrowest window of each size."""


@dataclass(frozen=True)
class TreeDrawing:
    """The drawing of one tree: the content of an SVG, its size in pixels, and the number of nodes that moved.

    `steps` is the same tree as a list.
    """

    title: str
    content: str
    width: int
    height: int
    move_count: int
    steps: tuple[JoinStep, ...]


def tree_drawings(report: JoinReport) -> tuple[TreeDrawing, ...]:
    """Return the drawings of the join trees of one SELECT: before and after if they differ."""
    if not report.reordered:
        return (_draw("As written and as run", report.after, frozenset(), has_run=True),)
    after = moved_nodes(report.after, report.before)
    # The same relations are marked in both trees, although other ones may explain the new order as well.
    are_relations = all(len(node) == 1 for node in after)
    before = after if are_relations else moved_nodes(report.before, report.after)
    return (_draw("Before", report.before, before, has_run=False), _draw("After", report.after, after, has_run=True))


def drawing_size(drawings: Sequence[TreeDrawing]) -> str:
    """Return the name of the size of the widest drawing."""
    width = max(drawing.width for drawing in drawings)
    return next((name for name, limit in _SIZES.items() if width < limit), "huge")


def moved_nodes(tree: JoinTree, other: JoinTree) -> frozenset[frozenset[str]]:
    """Return the nodes of a tree, as sets of relations, that have another position in the other tree.

    These are the fewest relations whose move makes both orders equal. If the orders are equal, they are the joins of
    relations that the other tree does not join.
    """
    order, positions = _leaves(tree), {name: number for number, name in enumerate(_leaves(other))}
    stay = set(_longest_increasing([name for name in order if name in positions], positions))
    moves = {frozenset((name,)) for name in order if name not in stay}
    return frozenset(moves or _joins(tree) - _joins(other))


def _leaves(tree: JoinTree) -> list[str]:
    return [node.relation for node in tree.nodes() if node.relation is not None]


def _joins(tree: JoinTree) -> set[frozenset[str]]:
    return {node.relations for node in tree.nodes() if node.sides}


def _longest_increasing(names: Sequence[str], positions: Mapping[str, int]) -> tuple[str, ...]:
    """Return the longest part of a sequence whose positions rise.

    >>> _longest_increasing("adbc", {"a": 0, "b": 1, "c": 2, "d": 3})
    ('a', 'b', 'c')
    """
    ends: list[tuple[str, ...]] = []
    for name in names:
        before = (end for end in ends if positions[end[-1]] < positions[name])
        ends.append((*max(before, key=len, default=()), name))
    return max(ends, key=len, default=())


def _draw(title: str, tree: JoinTree, moves: frozenset[frozenset[str]], *, has_run: bool) -> TreeDrawing:
    root, width, height = layout(tree, has_run=has_run)
    boxes = list(root.boxes())
    content = "".join(map(_edges, boxes)) + "".join(_box(box, is_moved=box.tree.relations in moves) for box in boxes)
    count = sum(box.tree.relations in moves for box in boxes)
    return TreeDrawing(title, content, round(width) + 2, round(height) + 2, count, join_steps(tree, moves))


def _edges(box: Box) -> str:
    """Return the lines to the sides of a join, and its condition on them."""
    bottom = box.top + box.height
    lines = "".join(
        f'<path class="edge" d="M{box.center:.1f} {bottom:.1f}C{box.center:.1f} {side.top - 8:.1f} '
        f'{side.center:.1f} {bottom + 26:.1f} {side.center:.1f} {side.top:.1f}"/>'
        for side in box.sides
    )
    if not box.condition:
        return lines
    width = cells(box.condition) * CHARACTER + PADDING
    return lines + (
        f'<g class="condition"><rect x="{box.center - width / 2:.1f}" y="{bottom + 8:.1f}" width="{width:.1f}" '
        f'height="{LINE + 4}" rx="4"/><text x="{box.center:.1f}" y="{bottom + 22:.1f}" text-anchor="middle">'
        f"{escape(box.condition)}</text></g>"
    )


def _box(box: Box, *, is_moved: bool) -> str:
    kind = "join-node" if box.tree.sides else "relation"
    classes = f"node {kind}{' moved' if is_moved else ''}{' wrong' if is_far_off(box.tree) else ''}"
    labels = "".join(
        f'<text class="line{number}" x="{box.left + PADDING:.1f}" y="{box.top + 17 + number * LINE:.1f}" '
        f'xml:space="preserve">{escape(line)}</text>'
        for number, line in enumerate(box.lines)
    )
    tag = f'<circle class="mark" cx="{box.left + box.width:.1f}" cy="{box.top:.1f}" r="6"/>' if is_moved else ""
    title = f"{describe_join(box.tree)}{', moved' if is_moved else ''}"
    return (
        f'<g class="{classes}"><title>{escape(title)}</title>'
        f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6"/>'
        f"{labels}{tag}</g>"
    )
