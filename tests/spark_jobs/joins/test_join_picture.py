"""The trees of joins are drawn before and after, with estimates and counts, as text and as well-formed SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from spark_jobs.contract import JobResult
from spark_jobs.join_spec import JoinReport, JoinTree
from spark_jobs.joins.picture import joins_text
from spark_jobs.report import render_svg

SVG = "{http://www.w3.org/2000/svg}"


def joined(left: JoinTree, right: JoinTree, **facts: object) -> JoinTree:
    return JoinTree.model_validate({"kind": "INNER", "left": left, "right": right, **facts})


A, B, C = (JoinTree(relation=name) for name in ("a", "b", "c<d>"))
BEFORE = joined(joined(A, B, estimated=7e6), C, condition="b.x < c.y", estimated=12.0)
AFTER = joined(joined(B, C, actual=3), A, condition="b.x < c.y", estimated=12.0, actual=11)
REPORT = JoinReport(before=BEFORE, after=AFTER, reason="fewer rows & less", reordered=True, star=("b", "a", "c"))


def test_both_trees_are_told_line_by_line() -> None:
    assert joins_text(REPORT) == [
        "Reordered: fewer rows & less",
        "star: b with a, c",
        "before",
        "  INNER JOIN ON b.x < c.y (about 12 rows)",
        "  ├ INNER JOIN (about 7,000,000 rows)",
        "  │ ├ a",
        "  │ └ b",
        "  └ c<d>",
        "after",
        "  INNER JOIN ON b.x < c.y (about 12 rows, 11 counted)",
        "  ├ INNER JOIN (3 counted)",
        "  │ ├ b",
        "  │ └ c<d>",
        "  └ a",
    ]


def test_the_picture_has_a_box_for_each_node_and_no_script() -> None:
    picture = render_svg(JobResult(joins=(REPORT,)))
    root = ElementTree.fromstring(picture)
    assert len(list(root.iter(f"{SVG}rect"))) == 2 * 5
    assert len(list(root.iter(f"{SVG}line"))) == 2 * 4
    assert "script" not in picture
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"before", "after", "a", "b", "c<d>", "about 12 rows, 11 counted", "3 counted"} <= set(texts)


@pytest.mark.parametrize("relations", [2, 5, 12])
def test_a_picture_is_never_wider_than_the_report(relations: int) -> None:
    tree = A
    for _ in range(relations - 1):
        tree = joined(tree, B)
    report = JoinReport(before=tree, after=tree, reason="as it was")
    root = ElementTree.fromstring(render_svg(JobResult(joins=(report,))))
    drawings = [group for group in root.iter(f"{SVG}g") if "scale(" in group.get("transform", "")]
    assert drawings
    for drawing in drawings:
        scale = float(drawing.get("transform", "").partition("scale(")[2].rstrip(")"))
        right = max(float(box.get("x", "")) + float(box.get("width", "")) for box in drawing.iter(f"{SVG}rect"))
        assert right * scale <= float(root.get("width", ""))


def test_a_report_survives_the_way_to_the_other_side() -> None:
    result = JobResult(joins=(REPORT,))
    assert JobResult.model_validate_json(result.model_dump_json()) == result
    assert [node.relation for node in REPORT.after.nodes()] == [None, None, "b", "c<d>", "a"]
