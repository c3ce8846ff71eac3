"""The positions of the nodes of a join tree: the root on top, sides as close to each other as their outlines allow."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pushdown_spark.contract.join_report_text import estimate_error, relation_name
from pushdown_spark.contract.join_tree import JoinTree

CHARACTER = 7.4
"""The largest width of a character of the drawing's monospace fonts at its font size, in pixels."""
LINE = 16
"""The height of a line of text."""
PADDING = 10
"""The space around the text of a box."""
LEVEL_GAP = 54
"""The space between two levels, which the conditions share with the edges."""
MAX_CHARACTERS = 34
"""The length from which a line is shortened. The whole text is in the tree as text."""
_GAP = 22.0


@dataclass(frozen=True, kw_only=True)
class Box:
    """A node with its lines of text, the top center of its box, its size, and the boxes of its sides."""

    tree: JoinTree
    lines: tuple[str, ...]
    condition: str
    center: float
    top: float
    width: float
    height: float
    sides: tuple[Box, ...]

    def boxes(self) -> Iterator[Box]:
        """Yield the box and all boxes below it."""
        yield self
        for side in self.sides:
            yield from side.boxes()

    def move(self, right: float, down: float) -> Box:
        """Return the box and those below it at another place."""
        sides = tuple(side.move(right, down) for side in self.sides)
        return replace(self, center=self.center + right, top=self.top + down, sides=sides)

    @property
    def left(self) -> float:
        """The left edge of the box."""
        return self.center - self.width / 2


def layout(tree: JoinTree, *, has_run: bool) -> tuple[Box, float, float]:
    """Return the boxes of a tree, from 0 to a width and a height. Only a tree that has run has actual rows."""
    root = _place(tree, has_run=has_run)
    reach = [_reach(box) for box in root.boxes()]
    left, right = min(start for start, _ in reach), max(end for _, end in reach)
    root = root.move(-left, 0.0)
    return root, right - left, max(box.top + box.height for box in root.boxes())


def shorten_label(text: str, longest: int = MAX_CHARACTERS) -> str:
    """Return a string that is at most `longest` characters wide.

    >>> shorten_label("a_rather_long_name", 10)
    'a_rathe...'
    """
    if cells(text) <= longest:
        return text
    while text and cells(text) > longest - 3:
        text = text[:-1]
    return f"{text}..."


def cells(text: str) -> int:
    """Return the width of a string in characters. A character of an East Asian script counts as two.

    >>> cells("ab"), cells("表")
    (2, 4)
    """
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    # A font for them may be wider than two characters of the monospace font.
    return len(text) + 2 * wide + bool(wide)


def _place(tree: JoinTree, *, has_run: bool) -> Box:
    """Return the boxes of a tree, with the left edge of its outline at any position and the root at 0."""
    lines = tuple(map(shorten_label, _lines(tree, has_run=has_run)))
    width = max(map(cells, lines)) * CHARACTER + 2 * PADDING
    height = len(lines) * LINE + PADDING
    condition = shorten_label(tree.condition or "", MAX_CHARACTERS + 6)
    sides = [_place(side, has_run=has_run).move(0.0, height + LEVEL_GAP) for side in tree.sides]
    if len(sides) == 2:
        distance = _distance(sides[0], sides[1])
        sides[1] = sides[1].move(distance, 0.0)
    center = sum(side.center for side in sides) / len(sides) if sides else 0.0
    return Box(
        tree=tree,
        lines=lines,
        condition=condition,
        center=center,
        top=0.0,
        width=width,
        height=height,
        sides=tuple(sides),
    )


def _lines(tree: JoinTree, *, has_run: bool) -> list[str]:
    """Return the lines of a node: its name or kind, then its rows."""
    hint = f" [{tree.hint.lower()}]" if tree.hint else ""
    name = relation_name(tree) if tree.relation is not None else f"{tree.kind} JOIN"
    lines = [name + hint]
    if tree.estimated is not None:
        lines.append(f"estimated {round(tree.estimated):,}")
    if has_run:
        lines.append(f"actual    {tree.actual:,}" if tree.actual is not None else "actual    unknown")
    if has_run and (error := estimate_error(tree)):
        lines.append(error)
    return lines


def _reach(box: Box) -> tuple[float, float]:
    """Return the left and right end of a box, including the condition under it."""
    half = max(box.width, cells(box.condition) * CHARACTER + PADDING if box.condition else 0.0) / 2
    return box.center - half, box.center + half


def _distance(left: Box, right: Box) -> float:
    """Return how far the right side must move so that no box of it is next to one of the left side."""
    return max(
        _reach(one)[1] + _GAP - _reach(other)[0]
        for one in left.boxes()
        for other in right.boxes()
        if _share_height(one, other)
    )


def _share_height(one: Box, other: Box) -> bool:
    """Return whether two boxes are next to each other, with the edges and the condition under them."""
    return one.top < other.top + other.height + LEVEL_GAP and other.top < one.top + one.height + LEVEL_GAP
