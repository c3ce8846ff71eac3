"""Byte patterns for JSON lines: which spellings of a key and its value can satisfy a fact.

The idea of searching raw bytes before parsing is Sparser's (Palkar et al., VLDB 2018). A value pattern accepts the
canonical spellings of the allowed values, and every spelling that is not canonical at all, so that whatever Spark's
parser may make of an odd spelling is left to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from pushdown_spark.predicates.facts import AllOf, Between, Contains, Fact, Family, OneOf, Present
from pushdown_spark.predicates.pattern import BytePattern, alternation, literal, patterns, searched_length
from pushdown_spark.predicates.ranges import Period, fixed_width_regex
from pushdown_spark.predicates.spelling import (
    MAX_PERIODS,
    calendar_periods,
    describe,
    fraction_spellings,
    integer_spellings,
    some,
    whole_years,
)

_SPACE = "[ \\t\\r]*"
_NOT_DIGIT = "[^0-9]"
_QUOTE = "[\"']"
_UNSAFE = frozenset("\"'\\/\x7f") | frozenset(map(chr, range(0x20)))
"""Characters that a JSON string may or must write with a short escape, or that delimit it."""
_MIN_RUN = 3
_CANONICAL_DATE = "nnnn-nn-nn"
_OVERLONG = (
    "[\\xc0\\xc1\\xf5-\\xf7\\xff]",
    "\\xe0[\\x80-\\x9f]",
    "\\xf0[\\x80-\\x8f]",
    "\\xf4[\\x90-\\xbf]",
)
"""What is no UTF-8 and yet read by Spark's JSON parser: long forms of short characters, numbers beyond Unicode's as two
question marks, and a byte that it may skip in a key."""
_SURROGATE = "\\\\u[dD][89a-fA-F]"
"""Half of a pair: standing alone it reads as a question mark."""
_WRAP = 256


def json_patterns(facts: AllOf, *, plain_dates: bool = True, plain_timestamps: bool = True) -> list[BytePattern]:
    """One pattern per usable part; any one of them is a sound filter by itself.

    `plain_dates` and `plain_timestamps` are False where a format option decides the spelling.
    """
    calendar = {Family.DATE: plain_dates, Family.TIMESTAMP: plain_timestamps}
    return patterns(facts, lambda fact: _fact(fact, calendar))


def _fact(fact: Fact, calendar: Mapping[Family, bool]) -> BytePattern | None:
    key = fact.target.path[-1]
    if not key or any(c in _UNSAFE for c in key):
        return None
    values = _values(fact, calendar)
    if values is None:
        return _pattern(key, ["[^n \\t\\r]", "n[^u]"], key, f"has {key}")
    if not values.anchored:
        return BytePattern((literal(values.text),), _escapes(values.text), _OVERLONG, f"{key}: {values.label!r}")
    return _pattern(key, values.spellings, key + values.text, f"{key}: {values.label}")


def _values(fact: Fact, calendar: Mapping[Family, bool]) -> _Values | None:
    family = fact.target.family
    if isinstance(fact, Present):
        return None
    if isinstance(fact, Contains):
        return _contains(fact)
    if family is Family.STRING:
        return _strings(fact) if isinstance(fact, OneOf) else None
    if family is Family.BOOLEAN:
        return _booleans(fact) if isinstance(fact, OneOf) else None
    if family is Family.INTEGER:
        return _Values(_factored(*integer_spellings(_wrapped(fact))), describe(fact))
    if family in (Family.DECIMAL, Family.FLOAT, Family.DOUBLE):
        return _fractions(fact)
    return _dates(fact) if calendar.get(family) else None


@dataclass(frozen=True)
class _Values:
    """Spellings of a value behind its key; `text` holds the characters that escapes could spell.

    Not anchored: `text` is a run to search for anywhere in the line.
    """

    spellings: list[str]
    label: str
    text: str = ""
    anchored: bool = True


def _pattern(key: str, spellings: list[str], escapable: str, label: str) -> BytePattern:
    head = f"{_QUOTE}{literal(key)}{_QUOTE}{_SPACE}:{_SPACE}"
    return BytePattern(tuple(head + group for group in alternation(spellings)), _escapes(escapable), _OVERLONG, label)


def _escapes(text: str) -> tuple[str, ...]:
    """Unicode escapes of the text's characters: a line that spells one of them so might spell the text so."""
    units = sorted({unit for c in text for unit in _utf16(c)})
    groups = alternation(["".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in unit) for unit in units])
    return (*("\\\\u" + group for group in groups), *([_SURROGATE] if "?" in text else []))


def _utf16(character: str) -> list[str]:
    encoded = character.encode("utf-16-be", "surrogatepass").hex()
    return [encoded[i : i + 4] for i in range(0, len(encoded), 4)]


def _strings(fact: OneOf) -> _Values | None:
    texts = [str(v) for v in fact.values]
    if all(text and not any(c in _UNSAFE for c in text) for text in texts):
        # A string column also takes numbers, booleans and objects as they are written, so the quotes are optional.
        length = searched_length(len(texts))
        return _Values([_string(text, length) for text in texts], some(texts), "".join(sorted(set("".join(texts)))))
    if len(texts) == 1:
        return _longest_run((texts[0],))
    return None


def _string(text: str, length: int) -> str:
    """The value up to its end, or just the start of a long one."""
    end = f"(?:{_QUOTE}|[ \\t\\r\\n,}}\\]])" if len(text) <= length else ""
    return f"{_QUOTE}?{literal(text[:length])}{end}"


def _contains(fact: Contains) -> _Values | None:
    first = fact.runs[0]
    if fact.prefix and not any(c in _UNSAFE for c in first):
        first = first[: searched_length(1)]
        return _Values([f"{_QUOTE}?{literal(first)}"], f"{first}%", first)
    return _longest_run(fact.runs)


def _longest_run(texts: tuple[str, ...]) -> _Values | None:
    runs = [run for text in texts for run in _safe_runs(text)]
    best = max(runs, key=lambda run: len(run.encode("utf-8")), default="")[: searched_length(1)]
    return _Values([], best, best, anchored=False) if len(best) >= _MIN_RUN else None


def _safe_runs(text: str) -> list[str]:
    return "".join("\x00" if c in _UNSAFE else c for c in text).split("\x00")


def _booleans(fact: OneOf) -> _Values:
    words = ["true" if value else "false" for value in fact.values]
    return _Values(words, "/".join(words))


def _wrapped(fact: OneOf | Between) -> OneOf | Between:
    """For 8-bit columns also the numbers 128..255, which Spark's JSON parser reads as -128..-1."""
    if not fact.target.one_byte:
        return fact
    if isinstance(fact, OneOf):
        numbers = [v for v in fact.values if isinstance(v, Decimal)]
        return OneOf(fact.target, (*numbers, *(v + _WRAP for v in numbers if v < 0)))
    low, high = fact.low, fact.high
    if not isinstance(high, Decimal) or (isinstance(low, Decimal) and low >= 0):
        return fact
    return Between(fact.target, low, max(high, Decimal(_WRAP)))


def _factored(positive: list[str], negative: list[str]) -> list[str]:
    """Digits with their terminator. JSON integers have one spelling each (zero has two): quoted ones are no integers.

    Long lists share one terminator per group, which compiles to a much smaller automaton.
    """
    groups = [group + _NOT_DIGIT for group in alternation(positive, 10_000)]
    return groups + [f"-{group}{_NOT_DIGIT}" for group in alternation(negative, 10_000)]


def _fractions(fact: OneOf | Between) -> _Values | None:
    """Plain decimals by their whole part; anything with an exponent or in quotes may be any number."""
    whole = fraction_spellings(fact)
    if whole is None:
        return None
    odd = [f"{_QUOTE}", "-?[0-9]+(?:\\.[0-9]*)?[eE]", "[^0-9\"'\\- \\t\\rn]", "-[^0-9]", "n[^u]"]
    return _Values(_factored(*whole) + odd, describe(fact))


def _dates(fact: OneOf | Between) -> _Values | None:
    """Dates in their canonical spelling, by prefix; every other spelling may be any date."""
    years, spans = whole_years(calendar_periods(fact))
    if len(spans) > MAX_PERIODS:
        return None
    spellings = [_QUOTE + fixed_width_regex(first, last, 4) + "-" for first, last in years]
    return _Values([*spellings, *(_QUOTE + _period(span) for span in spans), *_odd_dates()], describe(fact))


def _period(span: Period) -> str:
    if span.day is None:
        return f"{span.year:04d}-{span.month:02d}-"
    return f"{span.year:04d}-{span.month:02d}-{span.day:02d}{_NOT_DIGIT}"


def _odd_dates() -> list[str]:
    """Everything that leaves the form "nnnn-nn-nn" somewhere, as one expression per place where it leaves it."""
    odd = ["[^\"' \\t\\rn]", "n[^u]"]
    prefix = _QUOTE
    for place in _CANONICAL_DATE:
        expected = "0-9" if place == "n" else "\\-"
        odd.append(f"{prefix}[^{expected}]")
        prefix += f"[{expected}]"
    return [*odd, f"{prefix}[0-9]"]
