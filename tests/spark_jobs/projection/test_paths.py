"""The parser of column paths: steps, errors with their position, and the text that parses back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushdown_spark.errors import BadSpecError
from pushdown_spark.projection.paths import ColumnPath, Elements, Entry, Group, Member, Star, parse_path, parse_paths


def path(*steps: object) -> ColumnPath:
    return ColumnPath(steps)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", path(Member("a"))),
        (" a ", path(Member("a"))),
        ("m.b.c", path(Member("m"), Member("b"), Member("c"))),
        ("arr[2]", path(Member("arr"), Elements((2,)))),
        ("arr[3, 1,3]", path(Member("arr"), Elements((1, 3)))),
        ("arr[0][1].x", path(Member("arr"), Elements((0,)), Elements((1,)), Member("x"))),
        ("*", path(Star())),
        ("a(b)", path(Member("a"), Group((path(Member("b")),)))),
        (
            "a( b , c(d), b)",
            path(Member("a"), Group((path(Member("b")), path(Member("c"), Group((path(Member("d")),)))))),
        ),
        ("`a.b``c d`.`*`", path(Member("a.b`c d"), Member("*"))),
        ("größe-1", path(Member("größe-1"))),
        ("m['k']", path(Member("m"), Entry(("k",)))),
        ("m[ 'it''s', \"b\"\"c\" ].x", path(Member("m"), Entry(("it's", 'b"c')), Member("x"))),
        ("a['x'][0]", path(Member("a"), Entry(("x",)), Elements((0,)))),
        ("a AS b", ColumnPath((Member("a"),), "b")),
        ("a.b  as  `b c`", ColumnPath((Member("a"), Member("b")), "b c")),
        ("a(b AS x) AS y", ColumnPath((Member("a"), Group((ColumnPath((Member("b"),), "x"),))), "y")),
        ("AS", path(Member("AS"))),
    ],
)
def test_paths_parse_to_steps(text: str, expected: ColumnPath) -> None:
    assert parse_path(text) == expected


@pytest.mark.parametrize(
    ("text", "position", "actual"),
    [
        ("", 1, "the end"),
        ("a.", 3, "the end"),
        (".a", 1, "'.'"),
        ("a b", 3, "'b'"),
        ("a[x]", 3, "'x'"),
        ("a[-1]", 3, "'-'"),
        ("a[]", 3, "']'"),
        ("a[1", 4, "the end"),
        ("a[99999999999]", 3, "'9'"),
        ("a(b", 4, "the end"),
        ("a()", 3, "')'"),
        ("a(*)", 3, "'*'"),
        ("a(b).c", 5, "'.'"),
        ("a.*", 3, "'*'"),
        ("*, a", 2, "','"),
        ("`a", 1, "'`'"),
        ("a)", 2, "')'"),
        ("m['k]", 3, '"\'"'),
        ("a['k', 1]", 8, "'1'"),
        ("a AS", 3, "'A'"),
        ("a AS b.c", 7, "'.'"),
        ("* AS x", 3, "'A'"),
    ],
)
def test_errors_have_the_position(text: str, position: int, actual: str) -> None:
    with pytest.raises(BadSpecError) as error:
        parse_path(text)
    message = str(error.value)
    assert message.startswith("columns:")
    assert f"at character {position}:" in message
    assert message.endswith(f"found {actual}")
    assert "\n" not in message


def test_paths_with_the_same_steps_are_one() -> None:
    assert parse_paths(["a", "`a`", " m.b", "m.`b`", "x[1,0]", "x[0, 1]"]) == tuple(
        map(parse_path, ["a", "m.b", "x[0,1]"])
    )


def test_string_instead_of_list_raises() -> None:
    with pytest.raises(BadSpecError, match="give a list"):
        parse_paths("abc")


names = st.text(min_size=1, max_size=6).map(Member)
elements = st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=3).map(lambda found: Elements(tuple(sorted(found))))


def group_strategy(inner: st.SearchStrategy[ColumnPath]) -> st.SearchStrategy[ColumnPath]:
    groups = st.lists(inner, min_size=1, max_size=3, unique=True).map(lambda paths: Group(tuple(paths)))
    return st.tuples(plain, groups).map(lambda pair: ColumnPath((*pair[0].steps, pair[1])))


plain = st.tuples(names, st.lists(names | elements, max_size=3)).map(lambda pair: ColumnPath((pair[0], *pair[1])))


@given(st.recursive(plain, group_strategy, max_leaves=5))
def test_rendered_path_parses_to_itself(path: ColumnPath) -> None:
    assert parse_path(str(path)) == path
