"""Random CSV lines for a schema and options: quotes, escapes, short and long rows, unusual numbers and dates."""

from __future__ import annotations

import random
from collections.abc import Mapping

from pyspark.sql import types as t
from values import COMMON_NAMES, DECIMALS, SIMPLE_TYPES, date_text, encode_oddly, integer, text, timestamp_text

_ARABIC_DIGITS = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


def random_schema(rng: random.Random, width: int) -> t.StructType:
    """Return fields whose names differ even if case is ignored."""
    return t.StructType([t.StructField(name, rng.choice(SIMPLE_TYPES)) for name in rng.sample(COMMON_NAMES, width)])


def line(rng: random.Random, schema: t.StructType, options: Mapping[str, str], odd: float) -> bytes:
    """Return one line without its terminator. `odd` is the probability of unusual values."""
    if rng.random() < odd / 4:
        return rng.choice((b"", b"  ", b"#comment", b'"', b"x", b"\t", b"\xef\xbb\xbfa"))
    fields = [field(rng, f.dataType, options, odd) for f in schema.fields]
    if rng.random() < odd / 3:
        fields = fields[: rng.randint(0, len(fields))] if rng.random() < 0.5 else [*fields, "5", "abc"]
    return encode_oddly(rng, options.get("sep", ",").join(fields), odd)


def field(rng: random.Random, data_type: t.DataType, options: Mapping[str, str], odd: float) -> str:
    """Return one field with quotes if it needs them, and randomly otherwise."""
    content = value(rng, data_type, odd)
    quote, escape, sep = options.get("quote", '"'), options.get("escape", "\\"), options.get("sep", ",")
    content = content.replace("\n", " ").replace("\r", " ").replace("\x00", "")
    if rng.random() < odd / 3:
        return content if quote == "\x00" else rng.choice((content, quote + content, content + quote, f" {content} "))
    if quote != "\x00" and (sep in content or quote in content or rng.random() < 0.15):
        inner = content.replace(escape, escape * 2) if rng.random() < 0.5 else content
        content = quote + inner.replace(quote, escape + quote) + quote
    return f" {content}" if rng.random() < odd / 4 else content


def value(rng: random.Random, data_type: t.DataType, odd: float) -> str:
    """Return a string for a value, often of the field's type."""
    roll = rng.random()
    if roll < 0.06:
        return ""
    if roll < odd / 3 or isinstance(data_type, t.StringType):
        return text(rng)
    if isinstance(data_type, t.BooleanType):
        return rng.choice(("true", "false", "TRUE", "False", "1"))
    if isinstance(data_type, t.DateType):
        return date_text(rng)
    if isinstance(data_type, t.TimestampType | t.TimestampNTZType):
        return timestamp_text(rng)
    fractional = isinstance(data_type, t.FloatType | t.DoubleType | t.DecimalType)
    number = rng.choice(DECIMALS) if fractional and rng.random() < 0.7 else str(integer(rng))
    return number if rng.random() > odd else _odd_number(rng, number)


def _odd_number(rng: random.Random, number: str) -> str:
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    return rng.choice(
        (
            f"+{digits}",
            f"{sign}00{digits}",
            f"{number}e0",
            f"{number}E+0",
            f" {number}",
            f"{number} ",
            f"{number}.",
            f"{number}.0",
            number.translate(_ARABIC_DIGITS),
            f"{sign},{digits}",
            f"{digits[0]},{digits[1:]}",
            f"{sign}.5",
            "0x1p3",
            f"{number}f",
            "NaN",
            "Infinity",
            "-Inf",
            "-0",
            f"-0{digits}",
            "\u0665",
            "\uff15",
            "1\u06600",
            f"{number}e1",
            f"5e{digits[0]}",
            f"{number},",
        )
    )
