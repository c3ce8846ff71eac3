"""Byte patterns for CSV lines: how a field that satisfies a fact can be written, wherever in the line it stands.

Fields have no names on the line, so patterns are about values between delimiters; a match in another column only costs
the parsing of one more line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache

from pushdown_spark.predicates.facts import AllOf, Between, Contains, Fact, Family, OneOf, Present
from pushdown_spark.predicates.pattern import (
    BytePattern,
    Fields,
    alternation,
    byte_class,
    literal,
    patterns,
    searched_length,
)
from pushdown_spark.predicates.ranges import Period, fixed_width_regex
from pushdown_spark.predicates.spelling import (
    MAX_PERIODS,
    ZONE_DAYS,
    calendar_periods,
    describe,
    fraction_spellings,
    integer_spellings,
    some,
    whole_years,
)

_BEFORE_NUMBER = "(?:^|[^0-9])"
_NOT_DIGIT = "[^0-9]"
_WHITE = "\\x00-\\x20\\x7f"
_BOM = "\\xef\\xbb\\xbf"
_MIN_RUN = 3
MANY_VALUES = 50
"""From this many integers on, searching for each by itself is faster than for all of them at once."""
_FEW_PERIODS = 12
"""Up to so many months or days are searched for by literals, of which each has some dozens."""
_FALSE = "[fF][aA][lL](?:[sS]|\\xc5\\xbf)[eE]"
"""To Java, which compares without case, a long s is an s."""
_REPLACEMENT = "\ufffd"
"""What bytes that are no UTF-8 are read as."""


@dataclass(frozen=True)
class CsvSyntax:
    """The options that decide how a field is written: `sep` of one or more characters, `quote` and `escape` of one.

    `empty_value` is what an empty quoted field reads as. `trims` is set where spaces around a field are no part of it.
    `plain_dates` and `plain_timestamps` are False where a format
    option decides the spelling; `today` is excluded from timestamps because Spark reads a bare time as today's.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    empty_value: str = ""
    trims: bool = False
    plain_dates: bool = True
    plain_timestamps: bool = True
    today: date = date.min

    @property
    def before(self) -> str:
        """What may stand before a field's text: also the last byte of a byte order mark that begins a line."""
        return f"(?:^|[{byte_class(self.sep[-1] + self.quote + self.escape)}{_WHITE}{_BOM[-4:]}])"

    @property
    def date_ends(self) -> tuple[int, ...]:
        """The bytes that may follow the last digit of a date: what may stand behind a field's text, or a time."""
        signs = (self.sep[0] + self.quote + self.escape).encode()
        return tuple(sorted({*signs, *range(0x21), 0x7F, ord("T")}))

    @property
    def after(self) -> str:
        """What may stand behind a field's text."""
        return f"[{byte_class(self.sep[0] + self.quote + self.escape)}{_WHITE}]"


def csv_patterns(
    facts: AllOf, syntax: CsvSyntax, columns: Sequence[str] = (), *, many: int = MANY_VALUES
) -> list[BytePattern]:
    """One pattern per usable part; any one of them is a sound filter by itself.

    `columns` are the names of a line's fields in order, where they are known. Lists of at least `many` integers are
    searched for in their usual spelling first.
    """
    places = {name: number for number, name in enumerate(columns)}

    def of_fact(fact: Fact) -> BytePattern | None:
        pattern = _fact(fact, syntax)
        place = places.get(fact.target.path[0])
        if pattern is None or place is None or len(places) < len(columns):
            return pattern
        if len(syntax.sep) == 1:
            guards = (syntax.quote + syntax.escape).encode()
            pattern = replace(pattern, fields=Fields(syntax.sep.encode(), guards, frozenset({place})))
        usual = _usual_integers(fact, syntax, first=place == 0, many=many)
        return replace(pattern, always=usual, general=pattern) if usual else pattern

    return patterns(facts, of_fact)


def _usual_integers(fact: Fact, syntax: CsvSyntax, *, first: bool, many: int) -> tuple[str, ...]:
    """A list of integers as most files spell it, as expressions that are nearly literals: plain digits in plain fields.

    Any number in quotes, with a plus sign or with leading zeros matches as well. Hyperscan finds a thousand literals
    twice as fast as the alternation that bears leading zeros, and compiles them in a tenth of the time; expressions of
    two bytes among them would take a third of that away.
    """
    if not isinstance(fact, OneOf) or fact.target.family is not Family.INTEGER or syntax.trims:
        return ()
    positive, negative = integer_spellings(fact)
    texts = dict.fromkeys(text for text in (*positive, *("-" + n for n in negative)) if text.lstrip("-").isdigit())
    if len(texts) < many:
        return ()
    before = ["^", "\\r"] if first else [literal(syntax.sep[-1])]
    after = [literal(syntax.sep[0]), "\\n", "\\r"]
    usual = [start + text + end for text in texts for start in before for end in after]
    signs = ("-?0[0-9]", "\\+[0-9]", f"{literal(syntax.quote)}[0-9+\\-]")
    return (*usual, *(start + sign for start in before for sign in signs), *([_BOM] if first else []))


def _fact(fact: Fact, syntax: CsvSyntax) -> BytePattern | None:
    family = fact.target.family
    if isinstance(fact, Present) or len(fact.target.path) > 1 or syntax.empty_value:
        return None
    if family is Family.STRING:
        return _strings(fact, syntax)
    if isinstance(fact, Contains):
        return None
    if family is Family.BOOLEAN and isinstance(fact, OneOf):
        words = ["[tT][rR][uU][eE]" if value else _FALSE for value in fact.values]
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
            return _whole_or_start(texts, _label(fact), syntax)
        return _longest_run(texts, unsafe) if len(texts) == 1 else None
    return _longest_run(list(fact.runs), unsafe) if isinstance(fact, Contains) else None


def _whole_or_start(texts: list[str], label: str, syntax: CsvSyntax) -> BytePattern:
    """Fields that are one of the texts, or begin like one of the long ones."""
    length = searched_length(len(texts))
    whole = alternation(literal(text) for text in texts if len(text) <= length)
    starts = alternation(literal(text[:length]) for text in texts if len(text) > length)
    found = [f"{syntax.before}{group}{syntax.after}" for group in whole] + [syntax.before + group for group in starts]
    return BytePattern(tuple(found), (), (), label)


def _longest_run(texts: list[str], unsafe: frozenset[str]) -> BytePattern | None:
    runs = [run for text in texts for run in "".join("\n" if c in unsafe else c for c in text).split("\n")]
    best = max(runs, key=lambda run: len(run.encode("utf-8")), default="")[: searched_length(1)]
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
        # Spark takes all commas out. Where they separate fields, those of a number are in quotes.
        signs = "[+\\-0-9.eE]"
        odd.append(f"{signs}," if syntax.sep != "," else f"\\x{ord(syntax.quote):02x}{signs}*,[0-9,.]*")
    return BytePattern((*_numbers(*whole), *odd), (), _other_digits(), _label(fact))


def _dates(fact: OneOf | Between, syntax: CsvSyntax) -> BytePattern | None:
    timestamps = fact.target.family is Family.TIMESTAMP
    if not (syntax.plain_timestamps if timestamps else syntax.plain_dates) or "-" in syntax.sep + syntax.quote:
        return None
    years, spans = whole_years(calendar_periods(fact))
    if len(spans) > MAX_PERIODS or (timestamps and _near_today(fact, syntax.today)):
        return None
    spellings = [fixed_width_regex(first, last, 4) + _NOT_DIGIT for first, last in years]
    few = not timestamps and len(spans) <= _FEW_PERIODS
    spellings += [] if few else [spelling for span in spans for spelling in _period(span)]
    groups = [f"{_BEFORE_NUMBER}0*{group}" for group in alternation(list(dict.fromkeys(spellings)))]
    groups += dict.fromkeys(text for span in spans for text in _plain_period(span, syntax)) if few else []
    # Spark takes a "GMT" out of a date before it gives up on it.
    return BytePattern((*groups, *_far_years(fact, syntax), "GMT"), (), (), _label(fact))


def _far_years(fact: OneOf | Between, syntax: CsvSyntax) -> list[str]:
    """Years before 0 and behind 9999, where an interval is open to that side or so near that a zone leads there."""
    before = isinstance(fact, Between) and fact.low is None
    latest = [fact.high] if isinstance(fact, Between) else fact.values
    margin = timedelta(days=ZONE_DAYS if fact.target.family is Family.TIMESTAMP else 0)
    behind = any(day is None or (isinstance(day, date) and date.max - day < margin) for day in latest)
    return [f"{syntax.before}-[0-9]{{4}}"] * before + [f"{syntax.before}\\+?[0-9]{{5,7}}(?:-|{syntax.after})"] * behind


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
    """Spellings of a month or a day: its numbers with or without a leading zero, a first day or month also left out."""
    year, end = f"{span.year:04d}", "[^0-9\\-]"
    month = f"{year}-0?{span.month}"
    bare_year = [year + end] if span.month == 1 and span.day in (None, 1) else []
    if span.day is None:
        return [month + _NOT_DIGIT, *bare_year]
    bare_month = [month + end] if span.day == 1 else []
    return [f"{month}-0?{span.day}{_NOT_DIGIT}", *bare_month, *bare_year]


def _plain_period(span: Period, syntax: CsvSyntax) -> list[str]:
    """The same for dates, every spelling as a literal of its own: Hyperscan finds those in half of the time.

    They may stand behind other digits too, which costs the parsing of some more lines.
    """
    ends = [f"\\x{byte:02x}" for byte in syntax.date_ends]
    year = f"{span.year:04d}"
    months = dict.fromkeys((f"{year}-{span.month:02d}", f"{year}-{span.month}"))
    found = [year + end for end in ends if span.month == 1 and span.day in (None, 1)]
    number = span.day
    if number is None:
        # What is written with two digits needs no end: a digit behind them makes it no date.
        return found + [month + end for month in months for end in _ends(month, span.month or 0, [*ends, "-"])]
    found += [month + end for month in months for end in ends if number == 1]
    days = dict.fromkeys(f"{month}-{day}" for month in months for day in (f"{number:02d}", f"{number}"))
    return found + [day + end for day in days for end in _ends(day, number, ends)]


def _ends(text: str, number: int, ends: list[str]) -> list[str]:
    """What must follow a number: something where it is written with one digit."""
    return [""] if text.endswith(f"{number:02d}") else ends


@cache
def _other_digits() -> tuple[str, ...]:
    """Any decimal digit outside ASCII: Java reads those in numbers as well."""
    by_prefix: dict[bytes, list[int]] = defaultdict(list)
    for digit in re.findall(r"\d", "".join(map(chr, range(0x80, 0x20000)))):
        encoded = digit.encode("utf-8")
        by_prefix[encoded[:-1]].append(encoded[-1])
    return tuple(
        alternation(
            "".join(f"\\x{b:02x}" for b in prefix) + "[" + "".join(f"\\x{b:02x}" for b in last) + "]"
            for prefix, last in by_prefix.items()
        )
    )
