"""Column paths merge into a tree of required columns and members."""

from __future__ import annotations

import pytest

from pushdown_spark.expressions.names import ANY_CASE, EXACT_NAMES
from pushdown_spark.projection.path_tree import merge_paths
from pushdown_spark.projection.paths import parse_paths


@pytest.mark.parametrize(
    ("columns", "tree"),
    [
        (["a", "a"], "a"),
        (["m", "m.a"], "m"),
        (["m.a", "m"], "m"),
        (["m.a", "m.b.c", "m.b.d"], "m(a, b(c, d))"),
        (["m.b", "m(a, b(c))"], "m(b, a)"),
        (["arr[1]", "arr[3]", "arr[1]"], "arr"),
        (["arr[0][1]", "arr[2][0]"], "arr"),
        (["arr[0].b", "arr[1].c"], "arr(b, c)"),
        (["arr[0].b", "arr.c"], "arr(b, c)"),
        (["b", "a", "B"], "b, a"),
        (["`odd name`.x"], "`odd name`(x)"),
        ([], ""),
        (["m['k'].x", "m['j'].y"], "m(x, y)"),
        (["m['k']", "m[0]"], "m"),
        (["a[0]['k'].x", "a[1]['j'].x"], "a(x)"),
        (["a AS x", "a.b AS y"], "a"),
    ],
)
def test_paths_merge_into_a_tree(columns: list[str], tree: str) -> None:
    assert str(merge_paths(parse_paths(columns), name_rule=ANY_CASE)) == tree


def test_paths_that_differ_in_case_are_separate_if_case_sensitive() -> None:
    assert str(merge_paths(parse_paths(["b", "B"]), name_rule=EXACT_NAMES)) == "b, B"
