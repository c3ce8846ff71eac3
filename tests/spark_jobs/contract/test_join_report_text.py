"""The text report of join trees, before and after join reordering."""

from __future__ import annotations

from pushdown_spark.contract import JobResult, JoinReport, JoinTree
from pushdown_spark.contract.join_report_text import joins_text


def join_tree(left: JoinTree, right: JoinTree, **facts: object) -> JoinTree:
    return JoinTree.model_validate({"kind": "INNER", "left": left, "right": right, **facts})


A, B, C = (JoinTree(relation=name) for name in ("a", "b", "c<d>"))
BEFORE = join_tree(join_tree(A, B, estimated=7e6), C, condition="b.x < c.y", estimated=12.0)
AFTER = join_tree(join_tree(B, C, actual=3), A, condition="b.x < c.y", estimated=12.0, actual=11)
REPORT = JoinReport(before=BEFORE, after=AFTER, reason="fewer rows & less", reordered=True, star=("b", "a", "c"))


def test_both_trees_are_shown_line_by_line() -> None:
    assert joins_text(REPORT) == [
        "Reordered: fewer rows & less",
        "star: b with a, c",
        "before",
        "  INNER JOIN ON b.x < c.y (estimated 12 rows)",
        "  ├ INNER JOIN (estimated 7,000,000 rows)",
        "  │ ├ a",
        "  │ └ b",
        "  └ c<d>",
        "after",
        "  INNER JOIN ON b.x < c.y (estimated 12 rows, actual 11, 1.1 times too high)",
        "  ├ INNER JOIN (actual 3)",
        "  │ ├ b",
        "  │ └ c<d>",
        "  └ a",
    ]


def test_join_reports_survive_serialization() -> None:
    result = JobResult(joins=(REPORT,))
    assert JobResult.model_validate_json(result.model_dump_json()) == result
    assert [node.relation for node in REPORT.after.nodes()] == [None, None, "b", "c<d>", "a"]
