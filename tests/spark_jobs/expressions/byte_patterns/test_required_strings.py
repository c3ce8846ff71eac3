"""Required strings: every match of an expression contains one of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushdown_spark.expressions.byte_patterns.required_strings import required_strings


@pytest.mark.parametrize(
    ("expressions", "strings"),
    [
        (["abc"], {b"abc"}),
        (["(?:^|[^0-9])0*12345[^0-9]"], {b"12345"}),
        (["[\"']key[\"'][ \\t]*:[ \\t]*[\"']?N328AA[^a-z]"], {b"N328AA"}),
        (["(?:abc|xyz)+"], {b"abc", b"xyz"}),
        (["1995-0?1[^0-9]", "GMT"], {b"1995-01", b"1995-1", b"GMT"}),
        (["\\x41\\x62\\.c"], {b"Ab.c"}),
        (["[nN]ull"], {b"null", b"Null"}),
        (["ab{2}c"], {b"c"}),
        (["abc\\n", "abc\\r", "abc,"], {b"abc"}),
        (["long", "along"], {b"long"}),
    ],
)
def test_every_match_contains_one_of_the_required_strings(expressions: list[str], strings: set[bytes]) -> None:
    actual = required_strings(expressions, 10)
    assert actual is not None
    assert set(actual) == strings


@pytest.mark.parametrize("expression", ["[0-9]+", "a*", "(?:abc|[0-9])", "(?:abc)?", "[^x]", ".", "\\n"])
def test_optional_parts_of_an_expression_are_not_required(expression: str) -> None:
    assert required_strings([expression], 10) is None


def test_more_required_strings_than_the_limit_are_no_requirement() -> None:
    assert required_strings([f"{number}" for number in range(100, 200)], 5) is None


_ATOMS = st.sampled_from(["a", "b", "\\x63", "[ab]", "[^a]", "[a-c]", ".", "\\."])
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "?", "+", "{2}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS, st.lists(st.sampled_from("abcd."), max_size=8).map("".join))
def test_every_match_contains_a_required_string(expression: str, line: str) -> None:
    strings = required_strings([expression], 1_000)
    match = re.search(expression.encode(), line.encode(), re.DOTALL)
    if strings is not None and match is not None:
        assert any(string in match.group() for string in strings)
