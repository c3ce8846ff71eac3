"""Byte patterns for JSON lines: a key followed by a value that satisfies a fact.

Searching raw bytes before parsing is Sparser's idea (Palkar et al., VLDB 2018). A pattern matches the canonical
spellings of the allowed values and every spelling that is not canonical. Spark then parses the unusual spellings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa

from pushdown_spark.expressions.byte_patterns.facts import AllOf, EqualsAny, Fact, HasSubstrings, InRange, NotNull
from pushdown_spark.expressions.byte_patterns.ranges import Period, fixed_width_regex
from pushdown_spark.expressions.byte_patterns.spellings import (
    MAX_PERIODS,
    CalendarSyntax,
    Offsets,
    calendar_periods,
    form_differences,
    form_regex,
    fraction_spellings,
    integer_spellings,
    whole_years,
)
from pushdown_spark.expressions.byte_patterns.text import (
    NOT_ASCII,
    BytePattern,
    alternation,
    describe,
    is_in_any_case,
    literal,
    longest_safe_part,
    patterns,
    searched_length,
    spelling,
    value_summary,
)
from pushdown_spark.expressions.byte_patterns.times import minute_spellings
from pushdown_spark.expressions.types import FLOATING, LogicalType

_SPACE = "[ \\t\\r]*"
_NOT_DIGIT = "[^0-9]"
_QUOTE = "[\"']"
_UNSAFE = frozenset("\"'\\/\x7f") | frozenset(map(chr, range(0x20)))
"""Characters that delimit a JSON string, or that it can or must write as a short escape."""
_CANONICAL_DATE = "nnnn-nn-nn"
OVERLONG = (
    "[\\xc0\\xc1\\xf5-\\xf7\\xff]",
    "\\xe0[\\x80-\\x9f]",
    "\\xf0[\\x80-\\x8f]",
    "\\xf4[\\x90-\\xbf]",
)
"""Invalid UTF-8 that Spark's JSON parser accepts: overlong forms, code points beyond Unicode (read as two question
marks), and a byte that it may skip in a key."""
_SURROGATE = "\\\\u[dD][89a-fA-F]"
"""Half of a surrogate pair, which alone is read as a question mark."""
_BYTE_VALUES = 256


def json_patterns(facts: AllOf, calendar: CalendarSyntax) -> list[BytePattern]:
    """Return one pattern per usable part of the facts. Each pattern alone is a sound filter."""
    return patterns(facts, lambda fact: _fact(fact, calendar))


def _fact(fact: Fact, calendar: CalendarSyntax) -> BytePattern | None:
    key = fact.column.path[-1]
    if not key or any(c in _UNSAFE for c in key):
        return None
    values = _values(fact, calendar)
    if values is None:
        return _pattern(key, ["[^n \\t\\r]", "n[^u]"], key, f"has {key}")
    if values.follows_key:
        pattern = _pattern(key, values.spellings, key + values.text, f"{key}: {values.label}")
    else:
        expression = spelling(values.text, fact)
        pattern = BytePattern((expression,), _escapes(values.text), OVERLONG, f"{key}: {values.label!r}")
    if not is_in_any_case(fact):
        return pattern
    # An escape may spell any character, also one whose other case is ASCII.
    label = f"{pattern.label} in any case"
    return replace(pattern, on_backslash=("\\\\u",), on_non_ascii=(NOT_ASCII,), label=label)


def _values(fact: Fact, calendar: CalendarSyntax) -> _Values | None:
    kind = fact.column.type
    if isinstance(fact, NotNull):
        return None
    if isinstance(fact, HasSubstrings):
        return _substrings(fact)
    if kind is LogicalType.STRING:
        return _strings(fact) if isinstance(fact, EqualsAny) else None
    if kind is LogicalType.BOOLEAN:
        return _booleans(fact) if isinstance(fact, EqualsAny) else None
    if kind is LogicalType.INTEGER:
        return _Values(_with_terminator(*integer_spellings(_with_unsigned_bytes(fact))), describe(fact))
    if kind is LogicalType.DECIMAL or kind in FLOATING:
        return _fractions(fact)
    return _dates(fact, calendar.offsets) if kind in calendar.types else None


@dataclass(frozen=True)
class _Values:
    """Spellings of a value after its key. `text` has the characters that escapes could spell.

    If not `follows_key`, `text` is a string to search for anywhere in the line.
    """

    spellings: list[str]
    label: str
    text: str = ""
    follows_key: bool = True


def _pattern(key: str, spellings: list[str], escapable: str, label: str) -> BytePattern:
    head = f"{_QUOTE}{literal(key)}{_QUOTE}{_SPACE}:{_SPACE}"
    return BytePattern(tuple(head + group for group in alternation(spellings)), _escapes(escapable), OVERLONG, label)


def _escapes(text: str) -> tuple[str, ...]:
    """Return Unicode escapes of the text's characters. A line with one of them may spell the text with escapes."""
    units = sorted({unit for c in text for unit in _utf16(c)})
    groups = alternation(["".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in unit) for unit in units])
    return (*("\\\\u" + group for group in groups), *([_SURROGATE] if "?" in text else []))


def _utf16(character: str) -> list[str]:
    hex_digits = character.encode("utf-16-be", "surrogatepass").hex()
    return [hex_digits[i : i + 4] for i in range(0, len(hex_digits), 4)]


def _strings(fact: EqualsAny) -> _Values | None:
    strings = [str(v) for v in fact.values]
    if all(text and not any(c in _UNSAFE for c in text) for text in strings):
        # A string column also stores numbers, booleans and objects as written, so the quotes are optional.
        length = searched_length(len(strings))
        characters = "".join(sorted(set("".join(strings))))
        return _Values([_string_regex(text, length) for text in strings], value_summary(strings), characters)
    return _safe_part(strings) if len(strings) == 1 else None


def _string_regex(text: str, length: int) -> str:
    """Return an expression for a string up to its end, or for the start of a long one."""
    end = f"(?:{_QUOTE}|[ \\t\\r\\n,}}\\]])" if len(text) <= length else ""
    return f"{_QUOTE}?{literal(text[:length])}{end}"


def _substrings(fact: HasSubstrings) -> _Values | None:
    first = fact.substrings[0]
    if fact.is_prefix and not any(c in _UNSAFE for c in first):
        first = first[: searched_length(1)]
        return _Values([f"{_QUOTE}?{spelling(first, fact)}"], f"{first}%", first)
    return _safe_part(fact.substrings)


def _safe_part(strings: Sequence[str]) -> _Values | None:
    run = longest_safe_part(strings, _UNSAFE)
    return None if run is None else _Values([], run, run, follows_key=False)


def _booleans(fact: EqualsAny) -> _Values:
    words = ["true" if value else "false" for value in fact.values]
    return _Values(words, "/".join(words))


def _with_unsigned_bytes(fact: EqualsAny | InRange) -> EqualsAny | InRange:
    """Add the numbers 128..255 for 8-bit columns: Spark's JSON parser reads them as -128..-1."""
    if fact.column.storage != pa.int8():
        return fact
    if isinstance(fact, EqualsAny):
        numbers = [v for v in fact.values if isinstance(v, Decimal)]
        return EqualsAny(fact.column, (*numbers, *(v + _BYTE_VALUES for v in numbers if v < 0)))
    low, high = fact.low, fact.high
    if not isinstance(high, Decimal) or (isinstance(low, Decimal) and low >= 0):
        return fact
    return InRange(fact.column, low, max(high, Decimal(_BYTE_VALUES)))


def _with_terminator(positive: list[str], negative: list[str]) -> list[str]:
    """Return digits with their terminator. Each JSON integer has one spelling, except zero.

    Long lists share one terminator per group, which compiles to a much smaller automaton.
    """
    groups = [group + _NOT_DIGIT for group in alternation(positive, 10_000)]
    return groups + [f"-{group}{_NOT_DIGIT}" for group in alternation(negative, 10_000)]


def _fractions(fact: EqualsAny | InRange) -> _Values | None:
    """Match plain decimals by their integer part. Anything with an exponent or in quotes may be any number."""
    integer_parts = fraction_spellings(fact)
    if integer_parts is None:
        return None
    unusual = [f"{_QUOTE}", "-?[0-9]+(?:\\.[0-9]*)?[eE]", "[^0-9\"'\\- \\t\\rn]", "-[^0-9]", "n[^u]"]
    return _Values(_with_terminator(*integer_parts) + unusual, describe(fact))


def _dates(fact: EqualsAny | InRange, offsets: Offsets) -> _Values | None:
    """Match dates in canonical spelling by their prefix. Every other spelling may be any date."""
    periods = calendar_periods(fact)
    minutes = minute_spellings(fact, periods, offsets, "\"'")
    if minutes is not None:
        return _Values([*(_QUOTE + minute for minute in minutes), *_unusual_dates()], describe(fact))
    years, spans = whole_years(periods)
    if len(spans) > MAX_PERIODS:
        return None
    spellings = [_QUOTE + fixed_width_regex(first, last, 4) + "-" for first, last in years]
    return _Values([*spellings, *(_QUOTE + _period(span) for span in spans), *_unusual_dates()], describe(fact))


def _period(span: Period) -> str:
    if span.day is None:
        return f"{span.year:04d}-{span.month:02d}-"
    return f"{span.year:04d}-{span.month:02d}-{span.day:02d}{_NOT_DIGIT}"


def _unusual_dates() -> list[str]:
    """Return expressions for all values that differ from the form "nnnn-nn-nn", one per position of the difference."""
    longer = f"{_QUOTE}{form_regex(_CANONICAL_DATE)}[0-9]"
    return ["[^\"' \\t\\rn]", "n[^u]", *form_differences(_QUOTE, _CANONICAL_DATE), longer]
