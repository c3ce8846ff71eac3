"""Drawings of join trees are well-formed SVG, have a box for each node, and mark what moved."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from airflow_pushdown.plugin.join_drawing import TreeDrawing, drawing_size, moved_nodes, tree_drawings
from airflow_pushdown.plugin.join_layout import Box, cells, layout, shorten_label
from airflow_pushdown.plugin.join_steps import JoinStep, join_steps
from pushdown_spark.contract import JoinReport, JoinTree

MANY = "abcdefghijklmnopqrst"
SVG = "{http://www.w3.org/2000/svg}"


def join(left: JoinTree, right: JoinTree, **facts: object) -> JoinTree:
    return JoinTree.model_validate({"kind": "INNER", "left": left, "right": right, **facts})


def left_deep(names: str) -> JoinTree:
    first, *others = (JoinTree(relation=name) for name in names)
    tree = first
    for other in others:
        tree = join(tree, other, condition=f"a.key = {other.relation}.key")
    return tree


A, B, C = (JoinTree(relation=name, source=source) for name, source in (("a", "flights"), ("b", "B"), ("c<d>", None)))
BEFORE = join(join(A, B, estimated=7e6), C, condition="b.x < c.y", estimated=12.0)
AFTER = join(join(B, C, actual=3), A, condition="b.x < c.y", estimated=12.0, actual=240)
REPORT = JoinReport(before=BEFORE, after=AFTER, reason="fewer rows & less", reordered=True, star=("b", "a", "c"))


def parse(drawing: TreeDrawing) -> ElementTree.Element:
    return ElementTree.fromstring(f'<svg xmlns="{SVG[1:-1]}">{drawing.content}</svg>')


def labels(root: ElementTree.Element, name: str = "text") -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}{name}")]


def test_each_tree_has_its_nodes_conditions_and_rows() -> None:
    before, after = map(parse, tree_drawings(REPORT))
    for root in (before, after):
        assert len([group for group in root.iter(f"{SVG}g") if "node" in group.get("class", "")]) == 5
        assert len(list(root.iter(f"{SVG}path"))) == 4
        assert not list(root.iter(f"{SVG}script"))
        assert {"flights AS a", "b", "c<d>", "b.x < c.y"} <= set(labels(root))
    assert {"estimated 12", "actual    240", "20.0 times too low"} <= set(labels(after))
    assert not any("actual" in text for text in labels(before)), "only the tree that ran has actual rows"
    assert "fewer rows" not in "".join(after.itertext()), "the page says the reason"


def test_an_estimate_that_is_far_off_is_marked() -> None:
    wrong = [group for group in parse(tree_drawings(REPORT)[1]).iter(f"{SVG}g") if "wrong" in group.get("class", "")]
    assert [labels(group)[0] for group in wrong] == ["INNER JOIN"]


def test_the_fewest_relations_that_explain_the_new_order_are_marked_as_moved() -> None:
    assert moved_nodes(left_deep("fabcde"), left_deep("feabcd")) == {frozenset("e")}
    assert moved_nodes(left_deep("feabcd"), left_deep("fabcde")) == {frozenset("e")}
    bushy = join(left_deep("ab"), left_deep("cd"))
    assert moved_nodes(bushy, left_deep("abcd")) == {frozenset("cd")}
    drawing = parse(tree_drawings(REPORT)[1])
    assert sum("moved" in group.get("class", "") for group in drawing.iter(f"{SVG}g")) == 1


def test_one_tree_is_drawn_if_the_order_stayed() -> None:
    (drawing,) = tree_drawings(JoinReport(before=BEFORE, after=BEFORE, reason="no order is better"))
    assert drawing.move_count == 0


@pytest.mark.parametrize("relations", [2, 8, 20])
def test_boxes_do_not_overlap_and_stay_inside(relations: int) -> None:
    chain = left_deep("abcdefghijklmnopqrstuvwxyz"[:relations])
    for tree in (chain, join(chain, chain, condition="a.long_name_of_a_key = b.another_long_name AND c.x = d.y")):
        root, width, height = layout(tree, has_run=True)
        boxes = list(root.boxes())
        assert not [(one, other) for one in boxes for other in boxes if one is not other and overlap(one, other)]
        assert min(box.left for box in boxes) >= 0
        assert max(box.left + box.width for box in boxes) <= width + 0.1
        assert max(box.top + box.height for box in boxes) == height


def overlap(one: Box, other: Box) -> bool:
    apart = one.left + one.width <= other.left or other.left + other.width <= one.left
    return not apart and one.top < other.top + other.height and other.top < one.top + one.height


def test_a_tree_is_also_a_list_of_steps() -> None:
    first, second, third = tree_drawings(REPORT)[1].steps
    assert (first.name, first.join, first.after) == ("b", "", None)
    assert (second.name, second.join, second.condition) == ("c<d>", "INNER JOIN", "")
    assert (third.name, third.condition, third.is_moved) == ("flights AS a", "b.x < c.y", True)
    assert third.after is not None
    assert third.after.text == "estimated 12 rows, actual 240, 20.0 times too low"
    assert third.after.is_wrong


def test_steps_within_steps_are_the_smaller_side_of_a_join() -> None:
    steps = join_steps(join(left_deep("ab"), join(left_deep("cde"), left_deep("fg"), kind="LEFT")), ())
    assert [step.join for step in steps[3:]] == ["LEFT JOIN", "INNER JOIN with the left side"]
    assert names(steps) == ["c", "d", "e", ["f", "g"], ["a", "b"]]


def names(steps: tuple[JoinStep, ...]) -> list[object]:
    return [names(step.steps) if step.steps else step.name for step in steps]


def test_twenty_relations_have_steps_of_one_level_and_the_largest_size() -> None:
    (drawing,) = tree_drawings(JoinReport(before=left_deep(MANY), after=left_deep(MANY), reason="few rows"))
    assert names(drawing.steps) == list(MANY)
    assert (drawing_size([drawing]), drawing_size(tree_drawings(REPORT))) == ("huge", "tiny")


def test_long_names_are_shortened_by_their_width() -> None:
    assert shorten_label("a" * 40) == "a" * 31 + "..."
    assert cells(shorten_label("\N{CJK UNIFIED IDEOGRAPH-8868}" * 40)) <= 34
