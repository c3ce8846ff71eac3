"""Byte patterns for CSV lines: how a field that satisfies a fact can be written, wherever in the line it stands.

Fields have no names on the line, so patterns are about values between delimiters; a match in another column only costs
the parsing of one more line.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

from spark_jobs.predicates.facts import AllOf, Between, Contains, Fact, Family, OneOf, Present
from spark_jobs.predicates.pattern import BytePattern, alternation, byte_class, literal, patterns
from spark_jobs.predicates.ranges import Period
from spark_jobs.predicates.spelling import (
    MAX_PERIODS,
    calendar_periods,
    describe,
    fraction_spellings,
    integer_spellings,
    some,
)

_BEFORE_NUMBER = "(?:^|[^0-9])"
_NOT_DIGIT = "[^0-9]"
_WHITE = "\\x00-\\x20\\x7f"
_MIN_RUN = 3
_REPLACEMENT = "\ufffd"
"""What bytes that are no UTF-8 are read as."""


@dataclass(frozen=True)
class CsvSyntax:
    """The options that decide how a field is written: `sep` of one or more characters, `quote` and `escape` of one.

    `empty_value` is what an empty quoted field reads as. `plain_dates` and `plain_timestamps` are False where a format
    option decides the spelling; `today` is excluded from timestamps because Spark reads a bare time as today's.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    empty_value: str = ""
    plain_dates: bool = True
    plain_timestamps: bool = True
    today: date = date.min

    @property
    def before(self) -> str:
        """What may stand before a field's text."""
        return f"(?:^|[{byte_class(self.sep[-1] + self.quote + self.escape)}{_WHITE}])"

    @property
    def after(self) -> str:
        """What may stand behind a field's text."""
        return f"[{byte_class(self.sep[0] + self.quote + self.escape)}{_WHITE}]"


def csv_patterns(facts: AllOf, syntax: CsvSyntax) -> list[BytePattern]:
    """One pattern per usable part; any one of them is a sound filter by itself."""
    return patterns(facts, lambda fact: _fact(fact, syntax))


def _fact(fact: Fact, syntax: CsvSyntax) -> BytePattern | None:
    family = fact.target.family
    if isinstance(fact, Present) or len(fact.target.path) > 1 or syntax.empty_value:
        return None
    if family is Family.STRING:
        return _strings(fact, syntax)
    if isinstance(fact, Contains):
        return None
    if family is Family.BOOLEAN and isinstance(fact, OneOf):
        words = ["[tT][rR][uU][eE]" if value else "[fF][aA][lL][sS][eE]" for value in fact.values]
        return _bounded(words, describe(fact), syntax)
    if family is Family.INTEGER:
        return BytePattern(_numbers(*integer_spellings(fact)), (), _other_digits(), _label(fact))
    if family in (Family.DECIMAL, Family.FLOAT, Family.DOUBLE):
        return _fractions(fact, syntax)
    if family in (Family.DATE, Family.TIMESTAMP):
        return _dates(fact, syntax)
    return None


def _label(fact: Fact) -> str:
    return f"{'.'.join(fact.target.path)}: {describe(fact)}"


def _bounded(spellings: list[str], label: str, syntax: CsvSyntax) -> BytePattern:
    groups = alternation(spellings)
    return BytePattern(tuple(f"{syntax.before}{group}{syntax.after}" for group in groups), (), (), label)


def _strings(fact: Fact, syntax: CsvSyntax) -> BytePattern | None:
    unsafe = frozenset({syntax.quote, syntax.escape, "\r", "\n", "\x00", _REPLACEMENT})
    if isinstance(fact, OneOf):
        texts = [str(v) for v in fact.values]
        if all(text and not any(c in unsafe for c in text) for text in texts):
            return _bounded([literal(text) for text in texts], _label(fact), syntax)
        return _longest_run(texts, unsafe) if len(texts) == 1 else None
    return _longest_run(list(fact.runs), unsafe) if isinstance(fact, Contains) else None


def _longest_run(texts: list[str], unsafe: frozenset[str]) -> BytePattern | None:
    runs = [run for text in texts for run in "".join("\n" if c in unsafe else c for c in text).split("\n")]
    best = max(runs, key=lambda run: len(run.encode("utf-8")), default="")
    return BytePattern((literal(best),), (), (), some([repr(best)])) if len(best) >= _MIN_RUN else None


def _numbers(positive: list[str], negative: list[str]) -> tuple[str, ...]:
    """Whole numbers between anything but digits; Spark takes leading zeros and a plus sign."""
    groups = [f"{_BEFORE_NUMBER}0*{group}{_NOT_DIGIT}" for group in alternation(positive, 10_000)]
    return (*groups, *(f"-0*{group}{_NOT_DIGIT}" for group in alternation(negative, 10_000)))


def _fractions(fact: OneOf | Between, syntax: CsvSyntax) -> BytePattern | None:
    """Plain decimals by their whole part, or any number written with an exponent, in hexadecimal, or with commas."""
    whole = fraction_spellings(fact)
    if whole is None or "." in syntax.sep:
        return None
    odd = ["[0-9.][eE][+\\-]?[0-9]", "0[xX]", f"{_BEFORE_NUMBER}\\.[0-9]"]
    if fact.target.family is Family.DECIMAL:
        grouped = "[+\\-0-9]," if "," not in syntax.sep else f"\\x{ord(syntax.quote):02x}[+\\-]?[0-9]*,[0-9,.]*"
        odd.append(grouped)
    return BytePattern((*_numbers(*whole), *odd), (), _other_digits(), _label(fact))


def _dates(fact: OneOf | Between, syntax: CsvSyntax) -> BytePattern | None:
    timestamps = fact.target.family is Family.TIMESTAMP
    if not (syntax.plain_timestamps if timestamps else syntax.plain_dates) or "-" in syntax.sep + syntax.quote:
        return None
    spans = calendar_periods(fact)
    if len(spans) > MAX_PERIODS or (timestamps and _near_today(fact, syntax.today)):
        return None
    spellings = [spelling for span in spans for spelling in _period(span)]
    groups = [f"{_BEFORE_NUMBER}0*{group}" for group in alternation(list(dict.fromkeys(spellings)))]
    # Spark takes a "GMT" out of a date before it gives up on it.
    return BytePattern((*groups, *_far_years(fact, syntax), "GMT"), (), (), _label(fact))


def _far_years(fact: OneOf | Between, syntax: CsvSyntax) -> list[str]:
    """Years before 0 and behind 9999, where an interval is open to that side."""
    if isinstance(fact, OneOf):
        return []
    before = [f"{syntax.before}-[0-9]{{4}}"] if fact.low is None else []
    behind = [f"{syntax.before}\\+?[0-9]{{5,7}}(?:-|{syntax.after})"] if fact.high is None else []
    return before + behind


def _near_today(fact: OneOf | Between, today: date) -> bool:
    margin = timedelta(days=4)
    values = [fact.low, fact.high] if isinstance(fact, Between) else list(fact.values)
    days = [v for v in values if isinstance(v, date)]
    if isinstance(fact, OneOf):
        return any(abs(day - today) <= margin for day in days)
    low = fact.low if isinstance(fact.low, date) else date.min
    high = fact.high if isinstance(fact.high, date) else date.max
    return today + margin >= low and today - margin <= high


def _period(span: Period) -> list[str]:
    """Spellings of a period's days: month and day with or without a leading zero, a first day also left out."""
    year, end = str(span.year), "[^0-9\\-]"
    if span.month is None:
        return [year + _NOT_DIGIT]
    month = f"{year}-0?{span.month}"
    bare_year = [year + end] if span.month == 1 and span.day in (None, 1) else []
    if span.day is None:
        return [month + _NOT_DIGIT, *bare_year]
    bare_month = [month + end] if span.day == 1 else []
    return [f"{month}-0?{span.day}{_NOT_DIGIT}", *bare_month, *bare_year]


@cache
def _other_digits() -> tuple[str, ...]:
    """Any decimal digit outside ASCII: Java reads those in numbers as well."""
    by_prefix: dict[bytes, list[int]] = defaultdict(list)
    for code in range(0x80, 0x20000):
        if unicodedata.category(chr(code)) == "Nd":
            encoded = chr(code).encode("utf-8")
            by_prefix[encoded[:-1]].append(encoded[-1])
    return tuple(
        alternation(
            "".join(f"\\x{b:02x}" for b in prefix) + "[" + "".join(f"\\x{b:02x}" for b in last) + "]"
            for prefix, last in by_prefix.items()
        )
    )
