"""Turns LIKE patterns into the cheapest test that is right."""

from __future__ import annotations

from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.vector import Column, Compare, Node, Not, OneOf, Op, Pattern, Text, TextTest

_REPLACEMENT = "\ufffd"


class Wild(Enum):
    """What is not a literal in a LIKE pattern."""

    ANY = "%"
    ONE = "_"


def like(column: Column, pattern: str, escape: str) -> Node:
    """The test for `column LIKE pattern ESCAPE escape`. Raises UnsupportedError where Spark itself would raise."""
    pieces = split_pattern(pattern, escape)
    match pieces:
        case []:
            return Compare(column, Op.EQ, "")
        case [str(text)]:
            return Compare(column, Op.EQ, text)
        case [Wild.ANY]:
            return anything(column)
        case [str(text), Wild.ANY]:
            return Text(column, TextTest.PREFIX, text)
        case [Wild.ANY, str(text)]:
            return Text(column, TextTest.SUFFIX, text)
        case [Wild.ANY, str(text), Wild.ANY]:
            return Text(column, TextTest.CONTAINS, text)
    return _pattern(column, pieces)


def anything(column: Column) -> Node:
    """True for every value; null where the column is."""
    return Not(OneOf(column, ()))


def split_pattern(pattern: str, escape: str) -> list[str | Wild]:
    """The literals and wildcards of a LIKE pattern, neighbouring literals joined and repeated % as one.

    Raises UnsupportedError where Spark itself would raise.
    """
    pieces: list[str | Wild] = []
    characters = iter(pattern)
    for character in characters:
        piece: str | Wild = character
        if character == escape:
            piece = next(characters, "")
            if piece not in ("%", "_", escape) or not piece:
                raise UnsupportedError(f"the pattern {pattern!r} escapes what needs no escape")
        elif character in ("%", "_"):
            piece = Wild(character)
        last = pieces[-1] if pieces else None
        if isinstance(piece, str) and isinstance(last, str):
            pieces[-1] = last + piece
        elif not (piece is Wild.ANY and last is Wild.ANY):
            pieces.append(piece)
    return pieces


def _pattern(column: Column, pieces: list[str | Wild]) -> Pattern:
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if any(_REPLACEMENT in text for text in texts):
        raise UnsupportedError("the pattern holds U+FFFD, which malformed text turns into")
    if (
        Wild.ONE not in pieces
        and len(pieces) == 3
        and any(ord(character) > 0xFFFF for text in texts for character in text)
    ):
        raise UnsupportedError("Spark counts some characters of prefix%suffix twice")
    regex = "(?s)^" + "".join(_regex(piece) for piece in pieces) + r"\z"
    _check(regex)
    return Pattern(column, regex, _hint(column, pieces, texts))


def _regex(piece: str | Wild) -> str:
    if isinstance(piece, Wild):
        return ".*" if piece is Wild.ANY else "."
    return "".join(character if character.isalnum() else f"\\x{{{ord(character):x}}}" for character in piece)


def _check(regex: str) -> None:
    try:
        pc.match_substring_regex(pa.array(["a"]), regex)
    except pa.ArrowInvalid as problem:
        raise UnsupportedError("the pattern is too large") from problem


def _hint(column: Column, pieces: list[str | Wild], texts: list[str]) -> Text | None:
    """The test of one literal: the prefix if there is one, as it is the fastest to look for."""
    if not texts:
        return None
    if isinstance(pieces[0], str):
        return Text(column, TextTest.PREFIX, pieces[0])
    if isinstance(pieces[-1], str):
        return Text(column, TextTest.SUFFIX, pieces[-1])
    return Text(column, TextTest.CONTAINS, max(texts, key=len))
