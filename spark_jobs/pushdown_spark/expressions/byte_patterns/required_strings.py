"""Strings that every match of a byte pattern contains, for readers that search for strings but not for expressions.

The expression of `tailnum = 'N328AA'` in JSON is `["']tailnum["'][ \\t\\r]*:[ \\t\\r]*["']?N328AA(?:["']|...)`. Each of
its matches contains the bytes `N328AA`, so a line without these bytes cannot match. Code search engines derive such
strings from regular expressions in the same way (Cox, "Regular Expression Matching with a Trigram Index", 2012).

For each part of an expression, from left to right, the parser computes two things:

- `exact`: all strings that the part matches, if there are only a few (`[nN]ull` matches two), else None;
- `required`: strings of which each match contains at least one, or None if there are no such strings.

The exact strings of adjacent parts are concatenated for as long as they stay few. What has been concatenated until then
is a candidate for the required strings of the whole. The last candidate wins, because in all patterns the value comes
after the name of its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_MAX_EXACT = 16
"""Maximum number of exact strings of a part of an expression."""
_MAX_CLASS = 4
"""Maximum number of members of a character class whose members are exact strings."""
_MAX_EXPRESSION = 20_000
"""Length of an expression from which it would take too long to parse it, in characters."""
_MANY_ENDINGS = 8
"""Number of strings that differ only in their last byte from which their common start is searched for instead."""
_ESCAPES = {"t": b"\t", "r": b"\r", "n": b"\n"}


def required_strings(expressions: Sequence[str], limit: int) -> tuple[bytes, ...] | None:
    """Return strings of which every match of every expression contains at least one.

    Returns None if there are no such strings, or more than `limit`.

    >>> required_strings(["[\\"']k[\\"'][ ]*:[ ]*(?:abc|xyz)[^0-9]"], 10)
    (b'abc', b'xyz')
    """
    strings: set[bytes] = set()
    for expression in expressions:
        if len(expression) > _MAX_EXPRESSION:
            return None
        required = _ExpressionParser(expression).parse().required
        if required is None:
            return None
        strings |= required
    # A match may end with the terminator of a line.
    shortest = _shortest(_without_endings(text.rstrip(b"\r\n") for text in strings))
    return tuple(sorted(shortest)) if 0 < len(shortest) <= limit and b"" not in shortest else None


@dataclass(frozen=True)
class _Part:
    """What is known about a part of an expression."""

    exact: frozenset[bytes] | None
    required: frozenset[bytes] | None


_EMPTY = _Part(frozenset({b""}), None)
_ANYTHING = _Part(None, None)


class _ExpressionParser:
    """A recursive descent parser of the syntax that the byte patterns use."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._position = 0

    def parse(self) -> _Part:
        """Return the strings of the whole expression."""
        part = self._alternatives()
        assert self._position == len(self._text), f"cannot parse {self._text[self._position :]!r}"
        return part

    def _alternatives(self) -> _Part:
        branches = [self._sequence()]
        while self._accept("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else _either(branches)

    def _sequence(self) -> _Part:
        parts = []
        while self._position < len(self._text) and self._text[self._position] not in "|)":
            parts.append(self._quantify(self._atom()))
        return _concatenate(parts)

    def _atom(self) -> _Part:
        character = self._next()
        if character == "(":
            assert self._accept("?:"), "only groups without a number are supported"
            part = self._alternatives()
            assert self._accept(")")
            return part
        if character == "[":
            return self._class()
        if character in "^$":
            return _EMPTY
        if character == ".":
            return _ANYTHING
        return _only([self._escape() if character == "\\" else character.encode("ascii")])

    def _quantify(self, part: _Part) -> _Part:
        """Apply the quantifier that follows a part, if there is one."""
        if self._accept("*"):
            self._accept("+")
            return _ANYTHING
        if self._accept("?"):
            return _Part(None if part.exact is None else part.exact | {b""}, None)
        if self._accept("+"):
            return _Part(None, part.required)
        if self._accept("{"):
            self._position = self._text.index("}", self._position) + 1
            return _ANYTHING
        return part

    def _class(self) -> _Part:
        """Read a character class. Its members are exact strings if it lists only a few."""
        is_negated = self._accept("^")
        members: list[bytes] = []
        has_range = False
        while not self._accept("]"):
            character = self._next()
            has_range = has_range or (character == "-" and bool(members) and self._text[self._position] != "]")
            members.append(self._escape() if character == "\\" else character.encode("ascii"))
        return _ANYTHING if is_negated or has_range or len(members) > _MAX_CLASS else _only(members)

    def _escape(self) -> bytes:
        """Read the rest of an escape: `\\x41`, `\\n` or a character that stands for itself."""
        character = self._next()
        if character == "x":
            self._position += 2
            return bytes([int(self._text[self._position - 2 : self._position], 16)])
        if character in _ESCAPES:
            return _ESCAPES[character]
        assert not character.isalnum(), f"escape \\{character} is not supported"
        return character.encode("ascii")

    def _next(self) -> str:
        self._position += 1
        return self._text[self._position - 1]

    def _accept(self, token: str) -> bool:
        """Skip a token if it comes next."""
        is_next = self._text.startswith(token, self._position)
        self._position += len(token) * is_next
        return is_next


def _only(strings: Iterable[bytes]) -> _Part:
    """Return a part that matches only these strings."""
    exact = frozenset(strings)
    return _Part(exact, exact)


def _concatenate(parts: Iterable[_Part]) -> _Part:
    """Return the strings of a sequence. `run` has the concatenated exact strings of the last parts."""
    required: frozenset[bytes] | None = None
    run: frozenset[bytes] = frozenset({b""})
    is_exact = True
    for part in parts:
        if part.exact is not None and len(run) * len(part.exact) <= _MAX_EXACT:
            run = frozenset(before + after for before in run for after in part.exact)
            continue
        required = _usable(run) or required
        is_exact = False
        run = frozenset({b""})
        if part.exact is not None and len(part.exact) <= _MAX_EXACT:
            run = part.exact
        else:
            required = part.required or required
    return _Part(run if is_exact else None, _usable(run) or required)


def _either(branches: Sequence[_Part]) -> _Part:
    exact: set[bytes] | None = set()
    required: set[bytes] | None = set()
    for branch in branches:
        exact = None if exact is None or branch.exact is None else exact | branch.exact
        required = None if required is None or branch.required is None else required | branch.required
    return _Part(
        None if exact is None else frozenset(exact),
        None if required is None else _shortest(required),
    )


def _usable(strings: frozenset[bytes]) -> frozenset[bytes] | None:
    """Return the strings that are required, or None if one of them is empty."""
    return None if b"" in strings else _shortest(strings)


def _without_endings(strings: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the strings, and the common start of those that differ only in their last byte if there are many."""
    by_start: dict[bytes, list[bytes]] = {}
    for text in strings:
        by_start.setdefault(text[:-1], []).append(text)
    for start, group in by_start.items():
        yield from [start] if start and len(group) >= _MANY_ENDINGS else group


def _shortest(strings: Iterable[bytes]) -> frozenset[bytes]:
    """Return the strings without those that contain another one."""
    required: list[bytes] = []
    for text in sorted(strings, key=lambda text: (len(text), text)):
        if not any(shorter in text for shorter in required):
            required.append(text)
    return frozenset(required)
