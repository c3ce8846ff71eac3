"""Drawings of join trees are well-formed SVG, have a box for each node, and fit the width."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from airflow_pushdown.plugin.join_drawing import joins_svg
from pushdown_spark.contract import JoinReport, JoinTree

SVG = "{http://www.w3.org/2000/svg}"


def joined(left: JoinTree, right: JoinTree, **facts: object) -> JoinTree:
    return JoinTree.model_validate({"kind": "INNER", "left": left, "right": right, **facts})


A, B, C = (JoinTree(relation=name) for name in ("a", "b", "c<d>"))
BEFORE = joined(joined(A, B, estimated=7e6), C, condition="b.x < c.y", estimated=12.0)
AFTER = joined(joined(B, C, actual=3), A, condition="b.x < c.y", estimated=12.0, actual=11)
REPORT = JoinReport(before=BEFORE, after=AFTER, reason="fewer rows & less", reordered=True, star=("b", "a", "c"))


def drawn(report: JoinReport, width: int) -> ElementTree.Element:
    content, _ = joins_svg(report, width)
    return ElementTree.fromstring(f'<svg xmlns="{SVG[1:-1]}">{content}</svg>')


def test_the_picture_has_a_box_for_each_node_and_no_script() -> None:
    root = drawn(REPORT, 640)
    assert len(list(root.iter(f"{SVG}rect"))) == 2 * 5
    assert len(list(root.iter(f"{SVG}line"))) == 2 * 4
    assert not list(root.iter(f"{SVG}script"))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"before", "after", "a", "b", "c<d>", "estimated 12 rows, actual 11", "actual 3"} <= set(texts)


@pytest.mark.parametrize("relations", [2, 5, 12])
def test_the_drawing_fits_the_width(relations: int) -> None:
    tree = A
    for _ in range(relations - 1):
        tree = joined(tree, B)
    report = JoinReport(before=tree, after=tree, reason="as it was")
    root = drawn(report, 640)
    drawings = [group for group in root.iter(f"{SVG}g") if "scale(" in group.get("transform", "")]
    assert drawings
    for drawing in drawings:
        scale = float(drawing.get("transform", "").partition("scale(")[2].rstrip(")"))
        right = max(float(box.get("x", "")) + float(box.get("width", "")) for box in drawing.iter(f"{SVG}rect"))
        assert right * scale <= 640
