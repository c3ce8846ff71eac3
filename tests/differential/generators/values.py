"""Random values of Spark's types, from small pools so that predicates and data often share values."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pyspark.sql import types as t

SIMPLE_TYPES: tuple[t.DataType, ...] = (
    t.ByteType(),
    t.ShortType(),
    t.IntegerType(),
    t.LongType(),
    t.FloatType(),
    t.DoubleType(),
    t.DecimalType(10, 2),
    t.DecimalType(5, 0),
    t.DecimalType(38, 10),
    t.StringType(),
    t.StringType(),
    t.StringType(),
    t.BooleanType(),
    t.DateType(),
    t.DateType(),
    t.TimestampType(),
    t.TimestampNTZType(),
)
"""Types that JSON and CSV files can hold, those twice that matter most."""
COMMON_NAMES = ("a", "b", "c", "d", "k", "key", "Ab", "x y", "a.b", "é", "value")
"""Names of columns, different also when case is ignored."""
INTEGERS = (0, 1, -1, 5, -5, 7, 12, 99, 100, 127, -128, -56, 200, 256, 261, 1000, 12345, -12345, 2147483647, 16777217)
HUGE = (9223372036854775807, -9223372036854775808, 9007199254740993, 9007199254740992, 18446744073709551621, 10**25)
DECIMALS = (
    "0",
    "0.5",
    "-0.5",
    "1.00",
    "0.995",
    "0.99",
    "1.005",
    "5",
    "4.995",
    "-4.995",
    "12.34",
    "99.9",
    "100",
    "1234.5",
)
DECIMALS += ("-1.0", "0.1", "16777217", "1e2", "5e-1", "0.00001", "123456.789", "9.99", "10")
DATES = ("1995-01-05", "1995-01-01", "1995-12-31", "1996-02-29", "1995-02-01", "2020-01-01", "1582-10-10", "0001-01-01")
DATES += ("1500-02-28", "1969-12-31", "1970-01-01", "9999-12-31", "2030-06-15")
ODD_DATES = (
    "0000-01-01",
    "0000-06-30",
    "+10000-01-01",
    "+12345-06-07",
    "-0005-01-01",
    "-12345-01-01",
    "12345",
    "0999-03-04",
)
ZONES = ("", "", "Z", "+18:00", "-18:00", "+05:30", " UTC", " America/New_York", "GMT", " GMT+02:00")
TIMES = ("", " 00:00:00", "T00:00:00", " 23:59:59.999999", "T12:30", " 5:6:7", "T", " 12:00:00.5")
NEAR_TIMES = ("2015-03-08", "2015-11-01", "2015-03-09", "2015-11-02", "2015-03-07")
"""Days around transitions of daylight saving time in New York."""
CLOCKS = ("00:00:00", "01:30:00", "01:59:59.999999", "02:00:00", "02:30:00", "03:00:00", "05:30:00", "06:30:00")
CLOCKS += ("07:00:00.000", "12:15:00", "15:14:59", "15:15:00.5", "18:30:00.", "21:00:00", "23:59:59")
NEAR_ZONES = ("", "", "", "Z", "Z", "+00:00", "-00:00", "-05:00", "-04:00", "+09:00", "+05:45", "-12:00", "+14:00")
NEAR_ZONES += (
    "z",
    "-5:00",
    "-0500",
    "+00",
    "UTC",
    " UTC",
    " +09:00",
    "America/New_York",
    " ",
    "Z ",
    "-05:00 ",
    "GMT",
    "x",
)
WORDS = (
    "a",
    "A",
    "abc",
    "ABC",
    "xyz",
    "abcdef",
    "hello world",
    "true",
    "false",
    "null",
    "NaN",
    "5",
    "1.0",
    "-0",
    "?",
    " ",
)
WORDS += (
    "",
    "a.b*c",
    "50%",
    "a_b",
    "(x|y)",
    "é",
    "日本語",
    "naïve",
    "😀",
    "a/b",
    "it's",
    'say "hi"',
    "back\\slash",
    "tab\tbed",
)
WORDS += ("x,y", "x;y", "#c", "[1,2]", '{"k":12}', "\ufffd", "\x7f", "abc ", " abc", "a\u0301", "İ", "ß", "1995-01-05")
FRAGMENTS = (
    "a",
    "b",
    "abc",
    "é",
    "日本",
    "😀",
    "/",
    "'",
    '"',
    "\\",
    " ",
    "0",
    "5",
    "-",
    ".",
    "%",
    "_",
    ",",
    "\t",
    "x" * 5,
    "?",
    "K",
)


def text(rng: random.Random) -> str:
    """Return a string, mostly from the pool."""
    if rng.random() < 0.8:
        return rng.choice(WORDS)
    return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(0, 6)))


def encode_oddly(rng: random.Random, value_text: str, odd: float) -> bytes:
    """Return UTF-8, sometimes with invalid bytes."""
    raw = value_text.encode("utf-8", "surrogatepass")
    if rng.random() >= odd / 20:
        return raw
    place = rng.randrange(len(raw) + 1)
    return raw[:place] + rng.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc1\x81")) + raw[place:]


def integer(rng: random.Random) -> int:
    """Return an integer, sometimes one that fits no type."""
    return rng.choice(HUGE) if rng.random() < 0.08 else rng.choice(INTEGERS)


def spelled_date(rng: random.Random, day: str) -> str:
    """Return a calendar day in one of the spellings that Spark reads."""
    year, month, rest = day.rsplit("-", 2)
    short = f"{year}-{int(month)}-{int(rest)}"
    return rng.choice(
        (
            day,
            day,
            day,
            short,
            "+" + day,
            "0" + day,
            f" {day} ",
            day + "T",
            f"{day} junk",
            year,
            f"{year}-{month}",
            "GMT" + day,
        )
    )


def date_text(rng: random.Random) -> str:
    """Return a date as data may spell it."""
    if rng.random() < 0.15:
        return rng.choice((*ODD_DATES, "today", "", "1995-13-45", "1995/01/05", "\uff19\uff19"))
    return spelled_date(rng, rng.choice(DATES))


def timestamp_text(rng: random.Random) -> str:
    """Return a timestamp as data may spell it."""
    roll = rng.random()
    if roll < 0.3:
        return date_text(rng)
    if roll < 0.7:
        return near_timestamp(rng)
    return rng.choice(DATES) + rng.choice(TIMES) + rng.choice(ZONES)


def near_timestamp(rng: random.Random) -> str:
    """Return a timestamp near others, mostly in the usual form, in one of the zones that strings or sessions have."""
    value_text = rng.choice(NEAR_TIMES) + rng.choice("TTT  t/") + rng.choice(CLOCKS) + rng.choice(NEAR_ZONES)
    if rng.random() < 0.1:
        place = rng.randrange(len(value_text))
        value_text = (
            value_text[:place] + rng.choice(("", "0", " ", "5", "-", ":", ".", "T", "\\")) + value_text[place + 1 :]
        )
    return value_text


def pick(rng: random.Random, items: Sequence[str]) -> str:
    return rng.choice(items)
