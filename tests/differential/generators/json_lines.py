"""Random JSON lines for a schema, in all spellings that Spark's reader accepts and in many that it rejects."""

from __future__ import annotations

import random
from collections.abc import Callable

from pyspark.sql import types as t
from values import COMMON_NAMES, DECIMALS, SIMPLE_TYPES, date_text, encode_oddly, integer, text, timestamp_text

SIMPLE: tuple[t.DataType, ...] = (*SIMPLE_TYPES, t.LongType(), t.BinaryType())
NAMES = (*COMMON_NAMES, "日本", "a`b", "it's", "s/t", "n", "u0041", "_m")
_SPACES = ("", "", "", "", " ", "  ", "\t")


def random_type(rng: random.Random, depth: int = 0) -> t.DataType:
    """Return a type that JSON files can have."""
    roll = rng.random()
    if depth < 3 and roll < 0.2:
        return random_schema(rng, rng.randint(1, 3), depth + 1)
    if depth < 2 and roll < 0.28:
        return t.ArrayType(random_type(rng, depth + 2))
    if depth < 2 and roll < 0.34:
        return t.MapType(t.StringType(), random_type(rng, depth + 2))
    return rng.choice(SIMPLE)


def random_schema(rng: random.Random, width: int, depth: int = 0) -> t.StructType:
    """Return fields whose names differ even if case is ignored."""
    names = rng.sample(NAMES, width)
    return t.StructType([t.StructField(name, random_type(rng, depth)) for name in names])


def line(rng: random.Random, schema: t.StructType, odd: float) -> bytes:
    """Return one line without its terminator. `odd` is the probability of unusual values."""
    roll = rng.random()
    if roll < odd / 2:
        return _broken_line(rng, schema, odd)
    return rng.choice(_SPACES).encode() + encode(rng, record(rng, schema, odd), odd) + rng.choice(_SPACES).encode()


def encode(rng: random.Random, value_text: str, odd: float) -> bytes:
    """Return UTF-8 that is rarely damaged or has overlong encodings."""
    raw = encode_oddly(rng, value_text, odd)
    return raw.replace(b"a", b"\xc1\xa1") if rng.random() < odd / 10 else raw


def record(rng: random.Random, schema: t.StructType, odd: float) -> str:
    """Return an object with fields in random order: some missing, some repeated, some unknown."""
    fields = list(schema.fields)
    if rng.random() < odd:
        rng.shuffle(fields)
        fields = [f for f in fields if rng.random() < 0.8] + ([rng.choice(fields)] if rng.random() < 0.3 else [])
    members = [_member(rng, f.name, value(rng, f.dataType, odd), odd) for f in fields]
    if rng.random() < odd:
        members.insert(rng.randint(0, len(members)), _member(rng, rng.choice(NAMES), any_value(rng, odd), odd))
    sep = "," + rng.choice(_SPACES)
    return "{" + rng.choice(_SPACES) + sep.join(members) + rng.choice(_SPACES) + "}"


def _member(rng: random.Random, name: str, value_text: str, odd: float) -> str:
    return f"{string(rng, name, odd / 3)}{rng.choice(_SPACES)}:{rng.choice(_SPACES)}{value_text}"


def string(rng: random.Random, content: str, odd: float) -> str:
    """Return a JSON string in single or double quotes with random escapes."""
    quote = "'" if rng.random() < odd / 2 else '"'
    escaping = rng.random() < odd
    return quote + "".join(_character(rng, c, quote, escaping) for c in content) + quote


_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\\": "\\\\", '"': '\\"', "/": "\\/"}


def _character(rng: random.Random, c: str, quote: str, escaping: bool) -> str:
    must = c in '"\\' or c < " " or c == quote
    if not must and not (escaping and rng.random() < 0.5):
        return c
    if c in _SHORT and rng.random() < 0.6:
        return _SHORT[c]
    return unicode_escape(rng, c)


def unicode_escape(rng: random.Random, c: str) -> str:
    """Return the UTF-16 escapes of a character, in random case."""
    raw = c.encode("utf-16-be", "surrogatepass").hex()
    units = [raw[i : i + 4] for i in range(0, len(raw), 4)]
    return "".join("\\u" + "".join(rng.choice((d.lower(), d.upper())) for d in unit) for unit in units)


def value(rng: random.Random, data_type: t.DataType, odd: float) -> str:
    """Return a value of the type, sometimes of another type."""
    if rng.random() < odd / 3:
        return any_value(rng, odd)
    if isinstance(data_type, t.StructType):
        return record(rng, data_type, odd)
    if isinstance(data_type, t.ArrayType):
        return "[" + ", ".join(value(rng, data_type.elementType, odd) for _ in range(rng.randint(0, 3))) + "]"
    if isinstance(data_type, t.MapType):
        members = (
            f"{string(rng, text(rng), odd)}:{value(rng, data_type.valueType, odd)}" for _ in range(rng.randint(0, 2))
        )
        return "{" + ",".join(members) + "}"
    if isinstance(data_type, t.StringType):
        return string(rng, text(rng), odd) if rng.random() > odd / 3 else _token(rng)
    writers: dict[type[t.DataType], Callable[[random.Random], str]] = {
        t.BooleanType: lambda r: r.choice(("true", "false")),
        t.DateType: lambda r: string(r, date_text(r), odd / 3) if r.random() < 0.95 else str(integer(r)),
        t.TimestampType: lambda r: string(r, timestamp_text(r), odd / 3) if r.random() < 0.95 else str(integer(r)),
        t.TimestampNTZType: lambda r: string(r, timestamp_text(r), odd / 3),
        t.BinaryType: lambda r: string(r, r.choice(("YWJj", "", "AAAA")), 0),
        t.FloatType: lambda r: fraction(r, odd),
        t.DoubleType: lambda r: fraction(r, odd),
        t.DecimalType: lambda r: fraction(r, odd),
    }
    return writers.get(type(data_type), lambda r: whole(r, odd))(rng)


def whole(rng: random.Random, odd: float) -> str:
    """Return an integer, mostly in its canonical spelling."""
    number = integer(rng)
    if rng.random() > odd:
        return str(number)
    return rng.choice(
        (f"{number}.0", f"{number}e0", f'"{number}"', "-0", f"+{number}", f"0{number}", f"{number}.", str(number + 256))
    )


def fraction(rng: random.Random, odd: float) -> str:
    number = rng.choice((*DECIMALS, str(integer(rng))))
    if rng.random() > odd:
        return number
    return rng.choice(
        (f'"{number}"', f"'{number}'", "NaN", "Infinity", "-Infinity", '"NaN"', '"-INF"', f"{number}0", f"{number}E0")
    )


def any_value(rng: random.Random, odd: float) -> str:
    return rng.choice(
        (
            lambda: "null",
            lambda: "null",
            lambda: str(integer(rng)),
            lambda: fraction(rng, odd),
            lambda: rng.choice(("true", "false")),
            lambda: string(rng, text(rng), odd),
            lambda: string(rng, date_text(rng), 0),
            lambda: '{"a" : 1, "k":"abc"}',
            lambda: '[ 1, "abc",2.50]',
            lambda: "[]",
            lambda: "{}",
        )
    )()


def _token(rng: random.Random) -> str:
    return rng.choice(
        (
            "true",
            "false",
            "5",
            "-5",
            "12",
            "1.0",
            "1e2",
            "-0",
            '{"k":12}',
            "[1,2]",
            '{ "k" : "a" }',
            "NaN",
            "null",
            "100",
        )
    )


def _broken_line(rng: random.Random, schema: t.StructType, odd: float) -> bytes:
    good = record(rng, schema, odd)
    cut = rng.randint(0, len(good))
    return rng.choice(
        (
            b"",
            b"   ",
            b"null",
            b"[]",
            b"{}",
            b"not json",
            b"\x00{}" if rng.random() < 0.1 else b"x",
            good[:cut].encode(),
            f"[{good}, {record(rng, schema, odd)}]".encode(),
            (good + good).encode(),
            (good + " x").encode(),
            b"\xef\xbb\xbf" + good.encode(),
            good.replace(":", " ", 1).encode(),
            (good[:cut] + "\r" + good[cut:]).encode(),
        )
    )
