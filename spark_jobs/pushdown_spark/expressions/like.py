"""Translates LIKE patterns into the cheapest equivalent test."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import (
    Column,
    Comparison,
    LikeMatch,
    Node,
    Op,
    StringMatch,
    StringTest,
    Wildcard,
    true_unless_null,
)

_REPLACEMENT = "\ufffd"


def like_test(column: Column, pattern: str, escape: str) -> Node:
    """Return the test for `column LIKE pattern ESCAPE escape`. Raises UnsupportedError where Spark would raise."""
    pieces = _split_pattern(pattern, escape)
    match pieces:
        case []:
            return Comparison(column, Op.EQ, "")
        case [str(text)]:
            return Comparison(column, Op.EQ, text)
        case [Wildcard.ANY]:
            return true_unless_null(column)
        case [str(text), Wildcard.ANY]:
            return StringMatch(column, StringTest.PREFIX, text)
        case [Wildcard.ANY, str(text)]:
            return StringMatch(column, StringTest.SUFFIX, text)
        case [Wildcard.ANY, str(text), Wildcard.ANY]:
            return StringMatch(column, StringTest.CONTAINS, text)
    return _like_match(column, pieces)


def _split_pattern(pattern: str, escape: str) -> list[str | Wildcard]:
    """Split a LIKE pattern into literals and wildcards. Repeated `%` count as one.

    Raises UnsupportedError where Spark would raise.
    """
    pieces: list[str | Wildcard] = []
    characters = iter(pattern)
    for character in characters:
        piece: str | Wildcard = character
        if character == escape:
            piece = next(characters, "")
            if piece not in ("%", "_", escape) or not piece:
                raise UnsupportedError(f"the pattern {pattern!r} escapes a character that needs no escape")
        elif character in ("%", "_"):
            piece = Wildcard(character)
        last = pieces[-1] if pieces else None
        if isinstance(piece, str) and isinstance(last, str):
            pieces[-1] = last + piece
        elif not (piece is Wildcard.ANY and last is Wildcard.ANY):
            pieces.append(piece)
    return pieces


def _like_match(column: Column, pieces: list[str | Wildcard]) -> LikeMatch:
    literals = tuple(piece for piece in pieces if isinstance(piece, str))
    if any(_REPLACEMENT in text for text in literals):
        raise UnsupportedError("the pattern contains U+FFFD, which replaces invalid UTF-8")
    if (
        Wildcard.ONE not in pieces
        and len(pieces) == 3
        and any(ord(character) > 0xFFFF for text in literals for character in text)
    ):
        raise UnsupportedError("Spark miscounts characters beyond U+FFFF in patterns like prefix%suffix")
    regex = "(?s)^" + "".join(_regex(piece) for piece in pieces) + r"\z"
    _check_regex(regex)
    return LikeMatch(column, regex, _hint(column, pieces, literals), tuple(pieces))


def _regex(piece: str | Wildcard) -> str:
    if isinstance(piece, Wildcard):
        return ".*" if piece is Wildcard.ANY else "."
    return "".join(character if character.isalnum() else f"\\x{{{ord(character):x}}}" for character in piece)


def _check_regex(regex: str) -> None:
    try:
        pc.match_substring_regex(pa.array(["a"]), regex)
    except pa.ArrowInvalid as problem:
        raise UnsupportedError("the pattern is too long for Arrow") from problem


def _hint(column: Column, pieces: list[str | Wildcard], literals: tuple[str, ...]) -> StringMatch | None:
    """Return a test for one literal: the prefix if there is one, because it is the fastest to find."""
    if not literals:
        return None
    if isinstance(pieces[0], str):
        return StringMatch(column, StringTest.PREFIX, pieces[0])
    if isinstance(pieces[-1], str):
        return StringMatch(column, StringTest.SUFFIX, pieces[-1])
    return StringMatch(column, StringTest.CONTAINS, max(literals, key=len))
