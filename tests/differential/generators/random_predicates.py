"""Random predicates over a schema: every operator that the readers push, and similar ones that they must not push."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from pyspark.sql import types as t
from values import CLOCKS, DATES, DECIMALS, NEAR_TIMES, ODD_DATES, TIMES, integer, text

Leaf = tuple[str, t.DataType]

_SIMPLE = (t.IntegralType, t.BooleanType, t.DateType)
_COMPUTED = re.compile(r"\(|INTERVAL| [+-] |BD$|D$|L$")


def leaves(schema: t.StructType, prefix: str = "") -> Iterator[Leaf]:
    """Return all columns and struct members in SQL, with their types."""
    for field in schema.fields:
        name = prefix + "`" + field.name.replace("`", "``") + "`"
        yield name, field.dataType
        if isinstance(field.dataType, t.StructType):
            yield from leaves(field.dataType, name + ".")


def predicate(rng: random.Random, columns: list[Leaf], *, mixed: bool, depth: int = 0) -> str:
    """Return a predicate. With `mixed`, it also compares literals of other types, which may raise in ANSI mode."""
    roll = rng.random()
    if depth < 3 and roll < 0.3:
        word = rng.choice((" AND ", " OR "))
        count = rng.choice((2, 2, 3))
        return "(" + word.join(predicate(rng, columns, mixed=mixed, depth=depth + 1) for _ in range(count)) + ")"
    if depth < 3 and roll < 0.38:
        return f"{rng.choice(('NOT ', '!'))}({predicate(rng, columns, mixed=mixed, depth=depth + 1)})"
    return leaf(rng, columns, mixed=mixed)


def leaf(rng: random.Random, columns: list[Leaf], *, mixed: bool) -> str:
    """Return one comparison or test."""
    name, data_type = rng.choice(columns)
    if rng.random() < 0.05:
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    if rng.random() < 0.08 and (function := _function(rng, name, data_type)) is not None:
        return function
    if isinstance(data_type, t.ArrayType | t.MapType) and rng.random() < 0.6:
        return _element(rng, name, data_type, mixed=mixed)
    if isinstance(data_type, t.StructType | t.ArrayType | t.MapType | t.BinaryType):
        return f"{name} IS {rng.choice(('', 'NOT ', 'NOT '))}NULL"
    if isinstance(data_type, t.StringType) and rng.random() < 0.4:
        return f"{name}{rng.choice((' ', ' ', ' NOT '))}LIKE {quote(like(rng))}"
    if isinstance(data_type, t.StringType) and rng.random() < 0.1:
        return f"{rng.choice(('startswith', 'endswith', 'contains'))}({name}, {quote(text(rng))})"
    if isinstance(data_type, t.BooleanType) and rng.random() < 0.3:
        return rng.choice((name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE"))
    if rng.random() < 0.04:
        same = [other for other, kind in columns if kind == data_type]
        return f"{name} {rng.choice(('=', '<', '<=>', '<>'))} {rng.choice(same)}"
    if mixed and rng.random() < 0.15:
        return _comparison(rng, name, lambda: literal(rng, _comparable(rng, data_type)))
    return _comparison(rng, name, lambda: literal(rng, data_type))


def _element(rng: random.Random, name: str, data_type: t.ArrayType | t.MapType, *, mixed: bool) -> str:
    """Return a test of an element of an array, or of a value of a map."""
    if isinstance(data_type, t.MapType):
        key = text(rng) if isinstance(data_type.keyType, t.StringType) else literal(rng, data_type.keyType)
        key = quote(key) if isinstance(data_type.keyType, t.StringType) else key
        return leaf(rng, [(f"{name}[{key}]", data_type.valueType)], mixed=mixed)
    kind = data_type.elementType
    members = list(leaves(kind, "x.")) if isinstance(kind, t.StructType) else [("x", kind)]
    simple = [(path, each) for path, each in members if isinstance(each, (*_SIMPLE, t.StringType))]
    if simple and rng.random() < 0.5:
        path, each = rng.choice(simple)
        array = f"{name}{path.removeprefix('x')}"
        constant = f"CAST({literal(rng, each)} AS {each.simpleString()})"
        return f"{rng.choice(('', '', 'NOT '))}ARRAY_CONTAINS({array}, {constant})"
    condition = predicate(rng, members, mixed=mixed, depth=2)
    return f"{rng.choice(('', '', 'NOT '))}EXISTS({name}, x -> {condition})"


def _function(rng: random.Random, name: str, data_type: t.DataType) -> str | None:
    """Return a comparison of a function that readers replace with tests of its column, or None if there is none."""
    if isinstance(data_type, t.BooleanType):
        return f"{rng.choice(('', 'NOT '))}COALESCE({name}, {rng.choice(('true', 'false', 'NULL'))})"
    roll = rng.random()
    if isinstance(data_type, t.DateType | t.TimestampType | t.TimestampNTZType):
        if roll < 0.6:
            return _period(rng, name)
        day = rng.choice((f"DATE({name})", f"TO_DATE({name})", f"CAST({name} AS DATE)"))
        return _comparison(rng, day, lambda: literal(rng, t.DateType()))
    if not isinstance(data_type, t.StringType | t.IntegralType):
        return None
    if isinstance(data_type, t.StringType) and roll < 0.3:
        change = rng.choice((str.lower, str.upper))
        if rng.random() < 0.3:
            return f"{name} {rng.choice(('', '', 'NOT '))}ILIKE {quote(change(like(rng)))}"
        if rng.random() < 0.3:
            trimmed = f"{rng.choice(('TRIM', 'LTRIM', 'RTRIM'))}({name})"
            return _comparison(rng, trimmed, lambda: quote(rng.choice((text(rng), text(rng).strip(" ")))))
        in_one_case = f"{rng.choice(('LOWER', 'UPPER'))}({name})"
        if rng.random() < 0.3:
            return f"{in_one_case} LIKE {quote(change(like(rng)))}"
        return _comparison(rng, in_one_case, lambda: quote(change(text(rng))))
    if isinstance(data_type, t.StringType) and roll < 0.6:
        length = rng.choice((0, 1, 2, 3, 5))
        start = rng.choice((f"LEFT({name}, {length})", f"SUBSTRING({name}, 1, {length})"))
        return _comparison(rng, start, lambda: quote(text(rng)[: length + rng.choice((0, 0, 0, -1, 1))]))
    default = rng.choice((literal(rng, data_type), "NULL"))
    return _comparison(rng, f"COALESCE({name}, {default})", lambda: rng.choice((default, literal(rng, data_type))))


def _period(rng: random.Random, name: str) -> str:
    """Return a comparison of the period that a date or a timestamp is in."""
    unit = rng.choice(("DAY", "WEEK", "month", "QUARTER", "YY"))
    pattern, length = rng.choice((("yyyy-MM-dd", 10), ("yyyy-MM", 7), ("yyyyMMdd", 10), ("yyyy", 4)))
    choice = rng.randrange(4)
    if choice == 3:
        year = rng.choice((f"YEAR({name})", f"EXTRACT(YEAR FROM {name})"))
        return _comparison(rng, year, lambda: rng.choice(DATES)[:4].lstrip("0") or "0")
    if choice == 0:
        return _comparison(rng, f"TRUNC({name}, '{unit}')", lambda: literal(rng, t.DateType()))
    if choice == 1:
        return _comparison(rng, f"DATE_TRUNC('{unit}', {name})", lambda: literal(rng, t.TimestampType()))
    dash = "" if pattern == "yyyyMMdd" else "-"
    text = f"DATE_FORMAT({name}, '{pattern}')"
    return _comparison(rng, text, lambda: quote(rng.choice(DATES)[:length].replace("-", dash)))


def _comparable(rng: random.Random, data_type: t.DataType) -> t.DataType:
    """Return another type that Spark compares with this one."""
    if isinstance(data_type, t.NumericType):
        return rng.choice((t.StringType(), t.DoubleType(), t.LongType()))
    if isinstance(data_type, t.StringType):
        return rng.choice((t.LongType(), t.DoubleType(), t.BooleanType(), t.DateType()))
    return rng.choice((t.StringType(), data_type)) if isinstance(data_type, t.BooleanType) else t.StringType()


def _comparison(rng: random.Random, name: str, value: object) -> str:
    assert callable(value)
    roll = rng.random()
    if roll < 0.2:
        many = rng.choice((1, 2, 3, 5, 30))
        # Spark is asked for every constant that is computed: a few will do.
        items = [value() for _ in range(2 * many)]
        items = [item for place, item in enumerate(items) if place < 2 or not _COMPUTED.search(item)][:many]
        return f"{name}{rng.choice((' ', ' ', ' NOT '))}IN ({', '.join(items)})"
    if roll < 0.4:
        low, high = value(), value()
        if low.startswith("TIMESTAMP") and "INTERVAL" not in low and rng.random() < 0.6:
            # A short interval, for which readers know hours and minutes.
            high = f"{low} + INTERVAL {rng.choice((0, 1, 5, 90, 600, 2880))} MINUTES"
        return f"{name}{rng.choice((' ', ' ', ' ', ' NOT '))}BETWEEN {low} AND {high}"
    operator = rng.choice(("=", "=", "=", "==", "<=>", "<", "<=", ">", ">=", "<>", "!="))
    return f"{value()} {operator} {name}" if rng.random() < 0.15 else f"{name} {operator} {value()}"


def quote(content: str) -> str:
    """Return a SQL string literal."""
    return "'" + content.replace("\\", "\\\\").replace("'", "\\'") + "'"


def like(rng: random.Random) -> str:
    """Return a LIKE pattern for a string of the pool. Backslashes are escaped, because LIKE uses them as escapes."""
    content = text(rng).replace("\\", "\\\\")
    shape = rng.choice(("{}", "{}%", "%{}", "%{}%", "%{}%{}", "_{}", "{}_", "%"))
    if shape.count("{}") == 2:
        half = len(content) // 2
        pattern = shape.format(content[:half].rstrip("\\"), content[half:].lstrip("\\"))
    else:
        pattern = shape.format(content)
    if content and "\\" not in pattern and rng.random() < 0.2:
        place = rng.randrange(len(pattern))
        pattern = pattern[:place] + "_" + pattern[place + 1 :]
    return pattern


def literal(rng: random.Random, data_type: t.DataType) -> str:
    """Return a literal of the type in one of SQL's spellings."""
    if isinstance(data_type, t.StringType | t.BinaryType):
        return quote(text(rng))
    if isinstance(data_type, t.BooleanType):
        return rng.choice(("true", "false"))
    if isinstance(data_type, t.DateType):
        day = rng.choice(DATES)
        return rng.choice(
            (
                quote(day),
                quote(day),
                f"DATE {quote(day)}",
                f"DATE {quote(day)}",
                f"DATE{quote(day)} + INTERVAL 1 DAY",
                f"DATE{quote(odd_day(rng))}",
                f"date_sub(DATE{quote(day)}, 3)",
                f"add_months(DATE{quote(day)}, -1)",
                f"CAST({quote(day)} AS DATE)",
            )
        )
    if isinstance(data_type, t.TimestampType | t.TimestampNTZType):
        moment = rng.choice(DATES) + rng.choice((*TIMES[:4], " 12:30:00+18:00", " 12:30:00-18:00"))
        if rng.random() < 0.6:
            clock = rng.choice(CLOCKS).rstrip(".")
            moment = f"{rng.choice(NEAR_TIMES)} {clock}{rng.choice(('', 'Z', 'Z', '-05:00', '+09:00'))}"
        zoneless = quote(moment.partition("+")[0][:19])
        return rng.choice(
            (
                quote(moment),
                f"TIMESTAMP {quote(moment)}",
                f"DATE {quote(moment[:10])}",
                f"TIMESTAMP_NTZ{zoneless}",
                f"TIMESTAMP{quote(moment)} - INTERVAL 30 HOURS",
            )
        )
    if isinstance(data_type, t.IntegralType):
        number = integer(rng)
        return rng.choice(
            (
                str(number),
                str(number),
                str(number),
                f"{number % 10**9}.5",
                f"{number}D",
                f"CAST({number} AS DOUBLE)",
                f"{number}BD",
                f"{number % 1000}L - 5",
                f"CAST({number} AS DECIMAL(38, 0))",
                f"CAST('{number % 100}' AS INT)",
            )
        )
    number_text = rng.choice((*DECIMALS, *DECIMALS, str(rng.choice((5, 12, 100)))))
    plain = number_text if "e" not in number_text else f"{float(number_text)}"
    wide = rng.choice(("DECIMAL(38, 0)", "DECIMAL(38, 37)", "DECIMAL(20, 5)", "FLOAT", "DOUBLE"))
    return rng.choice((number_text, plain, f"{plain}D", f"CAST({plain} AS {wide})", f"{plain} + 0", f"{plain}BD"))


def odd_day(rng: random.Random) -> str:
    """Return a day that exists in Spark, but not in most calendars."""
    return rng.choice(ODD_DATES[:5])
