"""Random rows of every type that Arrow filters compare, and random predicates over them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, Context, Decimal

import pyarrow as pa
from arrow_schemas import utc_arrow_schema
from pyspark.sql import types as t
from random_predicates import Leaf, predicate, quote
from values import DATES, DECIMALS, INTEGERS, text

ROW = "row"
"""The column that numbers the rows."""
FLOATS = (0.0, -0.0, 0.1, -0.1, 1.5, 5.0, 100.0, 16777217.0, 1e300, -1e300, 5e-324, float("nan"))
FLOATS += (float("inf"), float("-inf"), 12.34, 0.5, 3.4028234663852886e38, 9007199254740992.0)
LONGS = (2**63 - 1, -(2**63), 2**53, 2**53 + 1, 2**53 - 1, -(2**53) - 1, 10**18, 10**18 + 1)
BYTES = (b"", b"\x00", b"a", b"abc", b"\xff\xfe", b"\x7f", b"\x80")
LONG_DECIMALS = ("12345678901234567890.123456789012345678", "-99999999999999999999.999999999999999999", "0.1")
LONG_DECIMALS += ("9007199254740993", "9007199254740992.5", "0.300000000000000004", "0.3")
TIMES = (timedelta(), timedelta(hours=12), timedelta(hours=23, minutes=59, seconds=59, microseconds=999_999))
TYPES: tuple[t.DataType, ...] = (
    t.BooleanType(),
    t.ByteType(),
    t.ShortType(),
    t.IntegerType(),
    t.LongType(),
    t.FloatType(),
    t.DoubleType(),
    t.DecimalType(5, 2),
    t.DecimalType(20, 0),
    t.DecimalType(38, 18),
    t.StringType(),
    t.BinaryType(),
    t.DateType(),
    t.TimestampType(),
    t.TimestampNTZType(),
)


def random_schema(rng: random.Random) -> t.StructType:
    """Return a few columns with repeated types so that columns can be compared, and a nested struct."""
    kinds = [rng.choice(TYPES) for _ in range(rng.randint(4, 8))]
    kinds += [rng.choice(kinds), t.StringType()]
    fields = [t.StructField(f"c{number}", kind) for number, kind in enumerate(kinds)]
    inner = t.StructType([t.StructField("x", rng.choice(TYPES)), t.StructField("Y", rng.choice(kinds))])
    outer = t.StructType([t.StructField("in", inner), t.StructField("z", rng.choice(TYPES))])
    return t.StructType([t.StructField(ROW, t.IntegerType()), *fields, t.StructField("Nested", outer)])


def random_rows(rng: random.Random, schema: t.StructType, rows: int) -> pa.Table:
    """Return rows of the schema. The first column counts them."""
    arrow = utc_arrow_schema(schema)
    nulls = rng.choice((0.0, 0.1, 0.5))
    columns = [pa.array(range(rows), pa.int32())]
    for field, target in zip(schema.fields[1:], arrow.types[1:], strict=True):
        columns.append(pa.array([_value(rng, field.dataType, nulls) for _ in range(rows)], target))
    return pa.Table.from_arrays(columns, schema=arrow)


def _value(rng: random.Random, kind: t.DataType, nulls: float) -> object:
    if rng.random() < nulls:
        return None
    if isinstance(kind, t.StructType):
        return {field.name: _value(rng, field.dataType, nulls) for field in kind.fields}
    return _scalar(rng, kind)


def _scalar(rng: random.Random, kind: t.DataType) -> object:
    match kind:
        case t.BooleanType():
            return rng.random() < 0.5
        case t.ByteType() | t.ShortType() | t.IntegerType() | t.LongType():
            return _integer(rng, kind)
        case t.FloatType() | t.DoubleType():
            return rng.choice(FLOATS) if rng.random() < 0.7 else float(rng.choice(DECIMALS))
        case t.DecimalType():
            return decimal(rng, kind)
        case t.StringType():
            return text(rng)
        case t.BinaryType():
            return rng.choice(BYTES)
        case t.DateType():
            return date.fromisoformat(rng.choice(DATES))
    moment = datetime.fromisoformat(rng.choice(DATES)) + rng.choice(TIMES)
    return moment.replace(tzinfo=UTC) if isinstance(kind, t.TimestampType) else moment


def _integer(rng: random.Random, kind: t.DataType) -> int:
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[kind.simpleString()]
    ends = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    pool = [*INTEGERS, *LONGS, *ends]
    return rng.choice([number for number in pool if ends[0] <= number <= ends[1]])


def decimal(rng: random.Random, kind: t.DecimalType) -> Decimal:
    """Return a decimal rounded to the type, or the type's largest value."""
    value = Decimal(rng.choice((*DECIMALS, *LONG_DECIMALS)))
    if abs(value) >= Decimal(10) ** (kind.precision - kind.scale):
        value = Decimal(f"{'9' * kind.precision}E-{kind.scale}").copy_sign(value)
    return value.quantize(Decimal(f"1E-{kind.scale}"), rounding=ROUND_DOWN, context=Context(prec=60))


def random_predicate(rng: random.Random, columns: Sequence[Leaf], *, mixed: bool, depth: int = 0) -> str:
    """Return a predicate: half of the common kind, half with operations that only Arrow filters support."""
    roll = rng.random()
    if depth < 3 and roll < 0.25:
        word = rng.choice((" AND ", " OR "))
        parts = [random_predicate(rng, columns, mixed=mixed, depth=depth + 1) for _ in range(rng.choice((2, 2, 3, 8)))]
        return "(" + word.join(parts) + ")"
    if depth < 3 and roll < 0.33:
        return f"NOT ({random_predicate(rng, columns, mixed=mixed, depth=depth + 1)})"
    if depth < 3 and roll < 0.36:
        inner = random_predicate(rng, columns, mixed=mixed, depth=depth + 2)
        return f"({inner}) IS {rng.choice(('', 'NOT '))}{rng.choice(('NULL', 'TRUE', 'FALSE'))}"
    if roll < 0.7:
        return predicate(rng, list(columns), mixed=mixed, depth=3)
    return _special(rng, columns)


def _special(rng: random.Random, columns: Sequence[Leaf]) -> str:
    name, kind = rng.choice(columns)
    same = [other for other, other_kind in columns if other_kind == kind]
    if rng.random() < 0.15:
        return f"{name} {_operator(rng)} {rng.choice(same)}" if not _is_nested(kind) else f"isnull({name})"
    match kind:
        case t.StringType():
            return _text_test(rng, name)
        case t.BinaryType():
            return f"{name} {_operator(rng)} X'{rng.choice(BYTES).hex()}'"
        case t.BooleanType():
            return rng.choice((name, f"NOT {name}", f"{name} < true", f"{name} IN (true, NULL)", f"{name} >= false"))
        case t.NumericType():
            return _number_test(rng, name, kind)
        case t.DateType() | t.TimestampType() | t.TimestampNTZType():
            return _time_test(rng, name)
    return f"{name} IS NOT NULL"


def _is_nested(kind: t.DataType) -> bool:
    return isinstance(kind, t.StructType)


def _operator(rng: random.Random) -> str:
    return rng.choice(("=", "<=>", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"))


def _text_test(rng: random.Random, name: str) -> str:
    content = text(rng).replace("\\", "")
    if rng.random() < 0.3:
        function = rng.choice(("startswith", "endswith", "contains"))
        return f"{function}({name}, {quote(content)})"
    if rng.random() < 0.3:
        items = ", ".join(quote(text(rng).replace("\\", "")) for _ in range(rng.choice((1, 3, 40))))
        return f"{name} {rng.choice(('', 'NOT '))}IN ({items}{rng.choice(('', '', ', NULL'))})"
    pattern = "".join(rng.choice((part, "%", "_", "/%", "/_", "//")) for part in content[:6].replace("/", "") or "%")
    return f"{name} {rng.choice(('', 'NOT '))}LIKE {quote(pattern)} ESCAPE '/'"


def _number_text(rng: random.Random) -> str:
    double = rng.choice(FLOATS)
    text = f"double('{double}')" if double != double or abs(double) == float("inf") else f"{double!r}D"
    whole = str(rng.choice((*INTEGERS, *LONGS, 2**63, -(2**63) - 1, 10**30)))
    choices = [
        text,
        whole,
        rng.choice(DECIMALS),
        rng.choice(LONG_DECIMALS),
        f"float('{double}')",
        "1e18",
        "9.007199254740993e15",
    ]
    return rng.choice(choices)


def _number_test(rng: random.Random, name: str, kind: t.DataType) -> str:
    roll = rng.random()
    if roll < 0.4:
        return f"{name} {_operator(rng)} {_number_text(rng)}"
    if roll < 0.5:
        return f"{_number_text(rng)} {rng.choice(('=', '<', '<=', '>', '>='))} {name}"
    if roll < 0.6:
        numbers = INTEGERS if isinstance(kind, t.IntegralType) else DECIMALS
        return f"{name} {_operator(rng)} '{rng.choice(numbers)}'"
    if roll < 0.65 and isinstance(kind, t.FloatType | t.DoubleType):
        return f"isnan({name})"
    items = [_number_text(rng) for _ in range(rng.choice((1, 2, 5)))]
    if rng.random() < 0.5:
        items = [str(rng.choice((*INTEGERS, *LONGS))) for _ in range(rng.choice((2, 30)))]
    items += ["NULL"] * (rng.random() < 0.2)
    return f"{name} {rng.choice(('', 'NOT '))}IN ({', '.join(items)})"


def _time_test(rng: random.Random, name: str) -> str:
    def moment() -> str:
        day = rng.choice(DATES)
        clock = rng.choice(("00:00:00", "12:00:00", "23:59:59.999999", "02:30:00"))
        literals = (f"'{day}'", f"DATE '{day}'", f"TIMESTAMP '{day} {clock}'", f"TIMESTAMP_NTZ '{day} {clock}'")
        return rng.choice(literals)

    if rng.random() < 0.6:
        return f"{name} {_operator(rng)} {moment()}"
    items = ", ".join(moment() for _ in range(rng.choice((1, 2, 12))))
    return f"{name} {rng.choice(('', 'NOT '))}IN ({items}{rng.choice(('', ', NULL'))})"
