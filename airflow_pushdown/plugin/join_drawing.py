"""SVG drawings of join trees, before and after join reordering."""

from __future__ import annotations

from html import escape

from pushdown_spark.contract.join_tree import JoinReport, JoinTree
from pushdown_spark.contract.report_text import describe_join, row_counts

_LEAF_WIDTH = 150
_LEVEL_HEIGHT = 58
_BOX = (132, 34)
_TITLE_HEIGHT = 22
_JOIN_FILL = "#fbe3d6"
_RELATION_FILL = "#dfe9f5"
_MAX_LABEL = 22


def joins_svg(report: JoinReport, width: int) -> tuple[str, int]:
    """Return the content of an SVG with the join trees of one SELECT, and its height. All sizes are in pixels."""
    trees = [("before", report.before), ("after", report.after)] if report.reordered else [("as written", report.after)]
    drawn, top = f'<text x="0" y="14">{escape(f"Joins: {report.reason}"[:110])}</text>', _TITLE_HEIGHT
    for title, tree in trees:
        drawn += f'<text x="0" y="{top + 12}" font-size="10">{title}</text>'
        scale = min(1.0, width / (_LEAF_WIDTH * _leaves(tree)))
        content, height = _drawn(tree)
        drawn += f'<g transform="translate(0,{top + 18}) scale({scale:.3f})">{content}</g>'
        top += 24 + round(height * scale)
    return drawn, top


def _leaves(tree: JoinTree) -> int:
    return sum(_leaves(side) for side in tree.sides) or 1


def _depth(tree: JoinTree) -> int:
    return 1 + max((_depth(side) for side in tree.sides), default=0)


def _drawn(tree: JoinTree) -> tuple[str, int]:
    """Return the drawing of a tree with its root on top, and its height."""
    drawn, _ = _node(tree, 0, 0)
    return drawn, _depth(tree) * _LEVEL_HEIGHT


def _node(tree: JoinTree, left: int, level: int) -> tuple[str, float]:
    """Return the drawing of a tree whose leaves start at `left`, and the center of its root."""
    top = level * _LEVEL_HEIGHT
    lines, boxes, middles = "", "", []
    for side in tree.sides:
        content, middle = _node(side, left, level + 1)
        left += _leaves(side)
        boxes += content
        middles.append(middle)
    middle = sum(middles) / len(middles) if middles else (left + 0.5) * _LEAF_WIDTH
    for below in middles:
        lines += (
            f'<line x1="{middle:.0f}" y1="{top + _BOX[1]}" x2="{below:.0f}" y2="{top + _LEVEL_HEIGHT}" '
            'stroke="#888888"/>'
        )
    return lines + _box(tree, middle, top) + boxes, middle


def _box(tree: JoinTree, middle: float, top: int) -> str:
    fill = _JOIN_FILL if tree.relation is None else _RELATION_FILL
    title = tree.relation if tree.relation is not None else f"{tree.kind} JOIN"
    hint = f" [{tree.hint.lower()}]" if tree.hint else ""
    rows = row_counts(tree)
    return (
        f"<g><title>{escape(describe_join(tree))}</title>"
        f'<rect x="{middle - _BOX[0] / 2:.0f}" y="{top}" width="{_BOX[0]}" height="{_BOX[1]}" rx="4" fill="{fill}"/>'
        f'<text x="{middle:.0f}" y="{top + 14}" text-anchor="middle" font-size="11">'
        f"{escape(_shorten(title + hint))}</text>"
        f'<text x="{middle:.0f}" y="{top + 27}" text-anchor="middle" font-size="8">{escape(rows)}</text></g>'
    )


def _shorten(label: str) -> str:
    return label if len(label) <= _MAX_LABEL else f"{label[: _MAX_LABEL - 3]}..."
