"""The text report of the joins of a job: the join trees of each SELECT, with estimated and actual rows."""

from __future__ import annotations

from collections.abc import Iterator

from pushdown_spark.contract.join_tree import JoinReport, JoinTree
from pushdown_spark.contract.message import shorten

_MAX_CONDITION_CHARACTERS = 120


def joins_text(report: JoinReport) -> list[str]:
    """Return the reason for the join order of one SELECT and its join trees, one node per line."""
    lines = [f"{'Reordered' if report.reordered else 'Not reordered'}: {report.reason}"]
    if report.star:
        lines.append(f"star: {report.star[0]} with {', '.join(report.star[1:])}")
    return [*lines, *join_tree_lines(report)]


def join_tree_lines(report: JoinReport) -> list[str]:
    """Return the join tree, or the trees before and after join reordering."""
    if not report.reordered:
        return list(_tree_lines(report.after, "", ""))
    return ["before", *_tree_lines(report.before, "  ", "  "), "after", *_tree_lines(report.after, "  ", "  ")]


def _tree_lines(tree: JoinTree, first: str, rest: str) -> Iterator[str]:
    yield first + describe_join(tree)
    for number, side in enumerate(tree.sides, 1):
        is_last = number == len(tree.sides)
        yield from _tree_lines(side, rest + ("└ " if is_last else "├ "), rest + ("  " if is_last else "│ "))


def describe_join(tree: JoinTree) -> str:
    """Return one line about a node of a join tree."""
    hint = f" [{tree.hint}]" if tree.hint else ""
    rows = row_counts(tree)
    counts = f" ({rows})" if rows else ""
    if tree.relation is not None:
        return f"{relation_name(tree)}{hint}{counts}"
    condition = f" ON {shorten(tree.condition, _MAX_CONDITION_CHARACTERS)}" if tree.condition else ""
    return f"{tree.kind} JOIN{hint}{condition}{counts}"


def relation_name(tree: JoinTree) -> str:
    """Return the name of a relation, after the source that it is an alias of."""
    if tree.source is None or tree.source.lower() == str(tree.relation).lower():
        return str(tree.relation)
    return f"{tree.source} AS {tree.relation}"


def estimate_ratio(tree: JoinTree) -> float | None:
    """Return the estimated rows of a node divided by the actual ones, or None if one of them is unknown."""
    if tree.estimated is None or tree.actual is None:
        return None
    return max(tree.estimated, 1.0) / max(tree.actual, 1)


def estimate_error(tree: JoinTree) -> str:
    """Return the factor between the estimated and the actual rows of a node, an empty string if it is unknown.

    >>> estimate_error(JoinTree(relation="a", estimated=30, actual=10))
    '3.0 times too high'
    """
    ratio = estimate_ratio(tree)
    if ratio is None:
        return ""
    factor = max(ratio, 1 / ratio)
    if factor < 1.05:
        return "as estimated"
    figure = f"{factor:.1f}" if factor < 100 else f"{factor:,.0f}"
    return f"{figure} times too {'high' if ratio > 1 else 'low'}"


def row_counts(tree: JoinTree) -> str:
    """Return the estimated and the actual rows of a node, an empty string if both are unknown."""
    parts = []
    if tree.estimated is not None:
        parts.append(f"estimated {round(tree.estimated):,} rows")
    if tree.actual is not None:
        parts.append(f"actual {tree.actual:,}")
    if error := estimate_error(tree):
        parts.append(error)
    return ", ".join(parts)
