"""Byte patterns for CSV lines: fields with a value that satisfies a fact.

A line does not name its fields, so a pattern is a value between delimiters. A match in another column is harmless:
Spark parses one more line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache

from pushdown_spark.expressions.byte_patterns.facts import (
    AllOf,
    EqualsAny,
    Fact,
    HasSubstrings,
    InRange,
    NotNull,
    intervals_of,
)
from pushdown_spark.expressions.byte_patterns.ranges import Period, fixed_width_regex
from pushdown_spark.expressions.byte_patterns.spellings import (
    MAX_PERIODS,
    TIMESTAMPS,
    ZONE_DAYS,
    CalendarSyntax,
    calendar_periods,
    day_of,
    fraction_spellings,
    integer_spellings,
    whole_years,
)
from pushdown_spark.expressions.byte_patterns.text import (
    NOT_ASCII,
    BytePattern,
    Fields,
    alternation,
    character_class,
    describe,
    is_in_any_case,
    literal,
    longest_safe_part,
    patterns,
    searched_length,
    spelling,
)
from pushdown_spark.expressions.byte_patterns.times import minute_spellings
from pushdown_spark.expressions.types import FLOATING, LogicalType

_BEFORE_NUMBER = "(?:^|[^0-9])"
_NOT_DIGIT = "[^0-9]"
_WHITE = "\\x00-\\x20\\x7f"
_BOM = "\\xef\\xbb\\xbf"
_MANY_VALUES = 50
"""Lists of at least this many integers are searched for by one expression per integer, which is faster."""
_FALSE = "[fF][aA][lL](?:[sS]|\\xc5\\xbf)[eE]"
"""Java's comparison without case treats a long s as an s."""
_SAFE_SIGNS = frozenset(",;|\t\"'\\!#")
"""Separators, quotes and escapes that are not in the usual spelling of a timestamp."""
_REPLACEMENT = "\ufffd"
"""The character that invalid UTF-8 is read as."""


@dataclass(frozen=True, kw_only=True)
class CsvSyntax:
    """The options that decide how a field is written.

    `sep` has one or more characters, `quote` and `escape` have one. `empty_value` is the value of an empty quoted
    field. `trims` is True where Spark strips spaces around a field. `has_plain_numbers` is False where a format option
    declares a spelling of NaN or infinity. Timestamps near `today` have no pattern, because Spark reads a time without
    a date as a time of today.
    """

    sep: str
    quote: str
    escape: str
    empty_value: str
    trims: bool
    has_plain_numbers: bool
    today: date
    calendar: CalendarSyntax

    @property
    def before(self) -> str:
        """An expression for the byte before a field's text, which can be the end of a byte order mark."""
        return f"(?:^|[{character_class(self.sep[-1] + self.quote + self.escape)}{_WHITE}{_BOM[-4:]}])"

    @property
    def after(self) -> str:
        """An expression for the byte after a field's text."""
        return f"[{character_class(self.sep[0] + self.quote + self.escape)}{_WHITE}]"


def csv_patterns(
    facts: AllOf, syntax: CsvSyntax, columns: Sequence[str], *, many: int = _MANY_VALUES
) -> list[BytePattern]:
    """Return one pattern per usable part of the facts. Each pattern alone is a sound filter.

    `columns` are the names of a line's fields in order. Lists of at least `many` integers are searched for in their
    usual spelling first.
    """
    positions = {name: number for number, name in enumerate(columns)}

    def of_fact(fact: Fact) -> BytePattern | None:
        pattern = _fact(fact, syntax)
        position = positions.get(fact.column.path[0])
        if pattern is None or position is None or len(positions) < len(columns):
            return pattern
        if len(syntax.sep) == 1:
            quoting = (syntax.quote + syntax.escape).encode()
            pattern = replace(pattern, fields=Fields(syntax.sep.encode(), quoting, frozenset({position})))
        usual_patterns = _usual_integers(fact, syntax, is_first=position == 0, many=many)
        return replace(pattern, always=usual_patterns, general=pattern) if usual_patterns else pattern

    return patterns(facts, of_fact)


def _usual_integers(fact: Fact, syntax: CsvSyntax, *, is_first: bool, many: int) -> tuple[str, ...]:
    """Return expressions for a list of integers in their usual spelling: plain digits in fields without quotes.

    Any number in quotes, with a plus sign or with leading zeros also matches. Hyperscan finds and compiles many
    literals faster than an alternation that allows leading zeros.
    """
    if not isinstance(fact, EqualsAny) or fact.column.type is not LogicalType.INTEGER or syntax.trims:
        return ()
    positive, negative = integer_spellings(fact)
    strings = dict.fromkeys(text for text in (*positive, *("-" + n for n in negative)) if text.lstrip("-").isdigit())
    if len(strings) < many:
        return ()
    before = ["^", "\\r"] if is_first else [literal(syntax.sep[-1])]
    after = [literal(syntax.sep[0]), "\\n", "\\r"]
    usual_patterns = [start + text + end for text in strings for start in before for end in after]
    signs = ("-?0[0-9]", "\\+[0-9]", f"{literal(syntax.quote)}[0-9+\\-]")
    return (*usual_patterns, *(start + sign for start in before for sign in signs), *([_BOM] if is_first else []))


def _fact(fact: Fact, syntax: CsvSyntax) -> BytePattern | None:
    kind = fact.column.type
    if isinstance(fact, NotNull) or len(fact.column.path) > 1 or syntax.empty_value:
        return None
    if kind is LogicalType.STRING:
        return _strings(fact, syntax)
    if isinstance(fact, HasSubstrings):
        return None
    if kind is LogicalType.BOOLEAN and isinstance(fact, EqualsAny):
        words = ["[tT][rR][uU][eE]" if value else _FALSE for value in fact.values]
        return _fields_of(words, describe(fact), syntax)
    if kind is LogicalType.INTEGER:
        return BytePattern(_numbers(*integer_spellings(fact)), (), _other_digits(), _label(fact))
    if kind is LogicalType.DECIMAL or kind in FLOATING:
        return _fractions(fact, syntax)
    if kind is LogicalType.DATE or kind in TIMESTAMPS:
        return _dates(fact, syntax)
    return None


def _label(fact: Fact) -> str:
    return f"{'.'.join(fact.column.path)}: {describe(fact)}"


def _fields_of(spellings: list[str], label: str, syntax: CsvSyntax) -> BytePattern:
    groups = alternation(spellings)
    return BytePattern(tuple(f"{syntax.before}{group}{syntax.after}" for group in groups), (), (), label)


def _strings(fact: Fact, syntax: CsvSyntax) -> BytePattern | None:
    unsafe = frozenset({syntax.quote, syntax.escape, "\r", "\n", "\x00", _REPLACEMENT})
    strings: Sequence[str] = fact.substrings if isinstance(fact, HasSubstrings) else ()
    if isinstance(fact, EqualsAny):
        strings = [str(v) for v in fact.values]
        if all(text and not any(c in unsafe for c in text) for text in strings):
            return _equal_or_start(strings, _label(fact), syntax)
        strings = strings if len(strings) == 1 else ()
    run = longest_safe_part(strings, unsafe)
    if run is None:
        return None
    if is_in_any_case(fact):
        return BytePattern((spelling(run, fact),), (), (NOT_ASCII,), f"{run!r} in any case")
    return BytePattern((literal(run),), label=repr(run))


def _equal_or_start(strings: list[str], label: str, syntax: CsvSyntax) -> BytePattern:
    """Match fields that equal one of the strings, or start like one of the long ones."""
    length = searched_length(len(strings))
    exact = alternation(literal(text) for text in strings if len(text) <= length)
    starts = alternation(literal(text[:length]) for text in strings if len(text) > length)
    fields = [f"{syntax.before}{group}{syntax.after}" for group in exact]
    return BytePattern((*fields, *(syntax.before + group for group in starts)), (), (), label)


def _numbers(positive: list[str], negative: list[str]) -> tuple[str, ...]:
    """Match integers between bytes that are not digits. Spark accepts leading zeros and a plus sign."""
    groups = [f"{_BEFORE_NUMBER}0*{group}{_NOT_DIGIT}" for group in alternation(positive, 10_000)]
    return (*groups, *(f"-0*{group}{_NOT_DIGIT}" for group in alternation(negative, 10_000)))


def _fractions(fact: EqualsAny | InRange, syntax: CsvSyntax) -> BytePattern | None:
    """Match plain decimals by their integer part, and all numbers with an exponent, in hexadecimal or with commas."""
    integer_parts = fraction_spellings(fact)
    is_open = isinstance(fact, InRange) and (fact.low is None or fact.high is None)
    if integer_parts is None or "." in syntax.sep or (is_open and not syntax.has_plain_numbers):
        return None
    unusual = ["[0-9.][eE][+\\-]?[0-9]", "0[xX]", f"{_BEFORE_NUMBER}\\.[0-9]"]
    if fact.column.type is LogicalType.DECIMAL:
        # Spark removes all commas. If commas separate fields, a number with commas is in quotes.
        signs = "[+\\-0-9.eE]"
        unusual.append(f"{signs}," if syntax.sep != "," else f"\\x{ord(syntax.quote):02x}{signs}*,[0-9,.]*")
    elif is_open:
        unusual += ["NaN", "Inf"]
    return BytePattern((*_numbers(*integer_parts), *unusual), (), _other_digits(), _label(fact))


def _dates(fact: EqualsAny | InRange, syntax: CsvSyntax) -> BytePattern | None:
    """Match dates and timestamps by years, months and days, and those of a short interval by minutes."""
    timestamps = fact.column.type in TIMESTAMPS
    if fact.column.type not in syntax.calendar.types or "-" in syntax.sep + syntax.quote:
        return None
    periods = calendar_periods(fact)
    years, spans = whole_years(periods)
    if len(spans) > MAX_PERIODS or (timestamps and _is_near_today(fact, syntax.today)):
        return None
    spellings = [fixed_width_regex(first, last, 4) + _NOT_DIGIT for first, last in years]
    minutes = _minutes(fact, periods, syntax)
    spellings += [spelling for span in spans for spelling in _period(span)] if minutes is None else minutes
    groups = [f"{_BEFORE_NUMBER}0*{group}" for group in alternation(list(dict.fromkeys(spellings)))]
    # Spark removes "GMT" from a date that it cannot parse otherwise.
    return BytePattern((*groups, *_far_years(fact, syntax), "GMT"), (), (), _label(fact))


def _minutes(fact: EqualsAny | InRange, periods: Sequence[Period], syntax: CsvSyntax) -> list[str] | None:
    """Return spellings of the timestamps of a short interval, or None if the fact has none."""
    if not set(syntax.sep + syntax.quote + syntax.escape) <= _SAFE_SIGNS:
        return None
    ends = character_class(syntax.sep[0] + syntax.quote + "\n\r")
    spellings = minute_spellings(fact, periods, syntax.calendar.offsets, ends)
    if spellings is None:
        return None
    return [*spellings, *dict.fromkeys(other for day in periods for other in _unusual_days(day))]


def _far_years(fact: EqualsAny | InRange, syntax: CsvSyntax) -> list[str]:
    """Match years before 0 and after 9999, if an interval is unbounded or a time zone can lead there."""
    margin = timedelta(days=ZONE_DAYS if fact.column.type in TIMESTAMPS else 0)
    before = any(low is None for low, _ in intervals_of(fact))
    after = any((last := day_of(high)) is None or date.max - last < margin for _, high in intervals_of(fact))
    return [f"{syntax.before}-[0-9]{{4}}"] * before + [f"{syntax.before}\\+?[0-9]{{5,7}}(?:-|{syntax.after})"] * after


def _is_near_today(fact: EqualsAny | InRange, today: date) -> bool:
    margin = timedelta(days=4)
    days = [(day_of(low) or date.min, day_of(high) or date.max) for low, high in intervals_of(fact)]
    return any(today + margin >= first and today - margin <= last for first, last in days)


def _period(span: Period) -> list[str]:
    """Return spellings of a month or day: with and without leading zeros, and without a first day or month."""
    assert span.month is not None
    year, end = f"{span.year:04d}", "[^0-9\\-]"
    month = f"{year}-{_two_digits(span.month)}"
    bare_year = [year + end] if span.month == 1 and span.day in (None, 1) else []
    if span.day is None:
        return [month + _NOT_DIGIT, *bare_year]
    bare_month = [month + end] if span.day == 1 else []
    return [f"{month}-{_two_digits(span.day)}{_NOT_DIGIT}", *bare_month, *bare_year]


def _two_digits(number: int) -> str:
    """Return an expression for a number of one or two digits, with or without a leading zero."""
    return str(number) if number >= 10 else f"0?{number}"


def _unusual_days(span: Period) -> list[str]:
    """Return the spellings of a day other than the usual one, which has two digits for the month and the day."""
    assert span.month is not None
    assert span.day is not None
    _, *bare = _period(span)
    short_month = [f"{span.year:04d}-{span.month}-0?{span.day}{_NOT_DIGIT}"] if span.month < 10 else []
    short_day = [f"{span.year:04d}-0?{span.month}-{span.day}{_NOT_DIGIT}"] if span.day < 10 else []
    return [*short_month, *short_day, *bare]


@cache
def _other_digits() -> tuple[str, ...]:
    """Match decimal digits outside ASCII, which Java accepts in numbers."""
    by_prefix: dict[bytes, list[int]] = defaultdict(list)
    for digit in re.findall(r"\d", "".join(map(chr, range(0x80, 0x20000)))):
        digit_bytes = digit.encode("utf-8")
        by_prefix[digit_bytes[:-1]].append(digit_bytes[-1])
    return tuple(
        alternation(
            "".join(f"\\x{b:02x}" for b in prefix) + "[" + "".join(f"\\x{b:02x}" for b in last) + "]"
            for prefix, last in by_prefix.items()
        )
    )
