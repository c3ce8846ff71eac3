"""Random tables of real databases: columns of every compared type, difficult values, and predicates."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, Context, Decimal

from pyspark.sql import types as t
from random_predicates import Leaf, quote
from typed_rows import BYTES, FLOATS, LONG_DECIMALS, LONGS
from values import DATES, DECIMALS, INTEGERS, text

from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn

ENUM = ("abc", "ABC", "it's", "")
ODD_WORDS = ("abc ", "ABC", "abc", "a_b", "a%b", "a\\b", "it's", "é", "E", "e", "ss", "ß", "a\nb", "!", "*", "[a]", "")
SPOILS = ("many", "12abc", 1.5, -2.5, b"31", b"abc", 3, "", "2024-13-01", 2460000, 1e300, "1.005", 1.005)
"""What SQLite stores in a column of any type."""


@dataclass(frozen=True)
class Declared:
    """A column's declaration: its type, the rest of its SQL in CREATE TABLE, and the additional catalog fields."""

    remote: str
    kind: t.DataType
    suffix: str = ""
    collation: str | None = None
    deterministic: bool = True
    is_enum: bool = False


_NUMBERS = (t.DecimalType(5, 2), t.DecimalType(20, 0), t.DecimalType(38, 18))
_POSTGRES = (
    Declared("smallint", t.ShortType()),
    Declared("integer", t.IntegerType()),
    Declared("bigint", t.LongType()),
    Declared("real", t.FloatType()),
    Declared("double precision", t.DoubleType()),
    *(Declared(f"numeric({kind.precision},{kind.scale})", kind) for kind in _NUMBERS),
    Declared("boolean", t.BooleanType()),
    Declared("text", t.StringType()),
    Declared("text", t.StringType(), 'COLLATE "de-x-icu"', "de-x-icu"),
    Declared("character varying(60)", t.StringType(), "COLLATE ignoring_case", "ignoring_case", deterministic=False),
    Declared("character(5)", t.StringType()),
    Declared("uuid", t.StringType()),
    Declared("label", t.StringType(), is_enum=True),
    Declared("bytea", t.BinaryType()),
    Declared("date", t.DateType()),
    Declared("timestamp without time zone", t.TimestampNTZType()),
    Declared("timestamp with time zone", t.TimestampType()),
)


def _varchar(collation: str) -> Declared:
    return Declared("varchar(60)", t.StringType(), f"COLLATE {collation}", collation)


_COLLATIONS = ("utf8mb4_general_ci", "utf8mb4_unicode_520_ci", "utf8mb4_bin")
_BOTH_MYSQLS = (
    Declared("tinyint(4)", t.ByteType()),
    Declared("smallint(6)", t.ShortType()),
    Declared("int(11)", t.IntegerType()),
    Declared("bigint(20)", t.LongType()),
    Declared("int(10) unsigned", t.LongType()),
    Declared("bigint(20) unsigned", t.DecimalType(20, 0)),
    Declared("double", t.DoubleType()),
    *(Declared(f"decimal({kind.precision},{kind.scale})", kind) for kind in _NUMBERS),
    Declared("bit(1)", t.BooleanType()),
    *map(_varchar, _COLLATIONS),
    Declared("char(40)", t.StringType(), "COLLATE utf8mb4_general_ci", "utf8mb4_general_ci"),
    Declared("enum('abc','it''s','x','')", t.StringType(), "COLLATE utf8mb4_bin", "utf8mb4_bin"),
    Declared("varbinary(20)", t.BinaryType()),
    Declared("date", t.DateType()),
    Declared("datetime(6)", t.TimestampNTZType()),
    Declared("timestamp(6)", t.TimestampType(), "NULL"),
)
_MARIADB = (*_BOTH_MYSQLS, _varchar("utf8mb4_nopad_bin"))
_MYSQL = (*_BOTH_MYSQLS, _varchar("utf8mb4_0900_ai_ci"), _varchar("utf8mb4_0900_as_cs"))
_SQLITE = (
    Declared("bigint", t.LongType()),
    Declared("integer", t.LongType()),
    Declared("real", t.DoubleType()),
    Declared("text", t.StringType()),
    Declared("text", t.StringType(), "COLLATE NOCASE", "NOCASE"),
    Declared("varchar(20)", t.StringType(), "COLLATE RTRIM", "RTRIM"),
    Declared("blob", t.BinaryType()),
    Declared("boolean", t.BooleanType()),
    Declared("decimal(10,2)", t.DecimalType(10, 2)),
    Declared("date", t.DateType()),
    Declared("timestamp", t.TimestampNTZType()),
)
_STRICT = frozenset({"integer", "real", "text", "blob"})
POOLS = {Dialect.POSTGRES: _POSTGRES, Dialect.MARIADB: _MARIADB, Dialect.MYSQL: _MYSQL, Dialect.SQLITE: _SQLITE}


def declared_columns(rng: random.Random, dialect: Dialect, *, strict: bool) -> list[Declared]:
    """Return columns of a database, some types twice so that columns can be compared."""
    pool = [one for one in POOLS[dialect] if not strict or one.remote in _STRICT]
    types = [rng.choice(pool) for _ in range(rng.randint(6, 9))]
    return [*types, rng.choice(types), rng.choice([one for one in pool if isinstance(one.kind, t.StringType)])]


def remote_column(name: str, declared: Declared, dialect: Dialect, *, strict: bool) -> RemoteColumn:
    """Return the column as the catalog describes it."""
    charset = "utf8mb4" if dialect.is_mysql else "UTF-8"
    return RemoteColumn(
        name=name,
        remote_type=declared.remote,
        spark_type=declared.kind,
        charset=charset if isinstance(declared.kind, t.StringType) else None,
        collation=declared.collation,
        has_deterministic_collation=declared.deterministic,
        has_one_storage_class=strict,
        is_enum=declared.is_enum,
    )


def random_value(rng: random.Random, declared: Declared, dialect: Dialect) -> object:
    """Return a value that the column can have, often NULL."""
    if rng.random() < 0.15:
        return None
    match declared.kind:
        case t.BooleanType():
            return rng.random() < 0.5
        case t.IntegralType():
            return _integer(rng, declared)
        case t.FloatType() | t.DoubleType():
            return _double(rng, declared.kind, dialect)
        case t.DecimalType():
            return _decimal(rng, declared)
        case t.StringType():
            return _text(rng, declared, dialect)
        case t.BinaryType():
            return rng.choice(BYTES)
        case t.DateType():
            return date.fromisoformat(rng.choice([day for day in DATES if day != "0001-01-01"]))
    return _moment(rng, declared)


def _integer(rng: random.Random, declared: Declared) -> int:
    if "unsigned" in declared.remote:
        return rng.choice((0, 1, 5, 7, 2**31, 2**32 - 1))
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[declared.kind.simpleString()]
    ends = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return rng.choice([number for number in (*INTEGERS, *LONGS, *ends) if ends[0] <= number <= ends[1]])


def _double(rng: random.Random, kind: t.DataType, dialect: Dialect) -> float:
    pool = [*FLOATS, 0.1 + 0.2, 1.1, 2.675, 1e15, 123456789.12345679]
    if isinstance(kind, t.FloatType):
        pool = [number for number in pool if not 3.5e38 < abs(number) < float("inf") and not 0 < abs(number) < 1e-30]
    if dialect is not Dialect.POSTGRES:
        pool = [number for number in pool if number == number]
    if dialect.is_mysql:
        pool = [number for number in pool if abs(number) != float("inf")]
    return rng.choice(pool)


def _decimal(rng: random.Random, declared: Declared) -> Decimal:
    assert isinstance(declared.kind, t.DecimalType)
    if "unsigned" in declared.remote:
        return Decimal(rng.choice((0, 1, 5, 2**63, 2**64 - 1)))
    kind = declared.kind
    value = Decimal(rng.choice((*DECIMALS, *LONG_DECIMALS)))
    if abs(value) >= Decimal(10) ** (kind.precision - kind.scale):
        value = Decimal(f"{'9' * kind.precision}E-{kind.scale}").copy_sign(value)
    return value.quantize(Decimal(f"1E-{kind.scale}"), rounding=ROUND_DOWN, context=Context(prec=60))


def _text(rng: random.Random, declared: Declared, dialect: Dialect) -> str:
    if declared.remote == "uuid":
        return str(uuid.UUID(int=rng.choice((0, 1, 2**127 + 10))))
    if declared.is_enum:
        return rng.choice(ENUM)
    if declared.remote.startswith("enum"):
        return rng.choice(("abc", "it's", "x", ""))
    value = rng.choice(ODD_WORDS) if rng.random() < 0.5 else text(rng)
    if dialect is Dialect.SQLITE and rng.random() < 0.05:
        return value + "\0" + value
    value = value.replace("\0", "")
    return value[:5] if declared.remote == "character(5)" else value[:40]


def _moment(rng: random.Random, declared: Declared) -> datetime:
    days = (
        ("1970-01-02", "1995-01-05", "2020-01-01", "2030-06-15") if declared.remote.startswith("timestamp(") else DATES
    )
    moment = datetime.fromisoformat(rng.choice([day for day in days if day != "0001-01-01"]))
    moment += rng.choice(
        (timedelta(), timedelta(hours=12), timedelta(hours=23, minutes=59, seconds=59, microseconds=5))
    )
    return moment.replace(tzinfo=UTC) if isinstance(declared.kind, t.TimestampType) else moment


def for_database(value: object, dialect: Dialect) -> object:
    """Return a value as the driver expects it."""
    if dialect.is_mysql and isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if dialect is not Dialect.SQLITE:
        return value
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def read_back(value: object, declared: Declared, dialect: Dialect) -> object:
    """Return a reader's value for a driver's value.

    Strings that are not times have any value, so their rows are kept.
    """
    if value is None:
        return None
    match declared.kind:
        case t.BooleanType():
            return value == b"\x01" if isinstance(value, bytes) else bool(value)
        case t.DecimalType():
            return _read_decimal(value, declared.kind)
        case t.StringType():
            return str(value)
        case t.TimestampType():
            assert isinstance(value, datetime)
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        case t.DateType() if dialect is Dialect.SQLITE:
            return _read_time(str(value), date(2001, 2, 3), date.fromisoformat)
        case t.TimestampNTZType() if dialect is Dialect.SQLITE:
            return _read_time(str(value), datetime(2001, 2, 3), datetime.fromisoformat)
    return value


def _read_time(content: str, otherwise: date, parse: object) -> object:
    assert callable(parse)
    try:
        return parse(content)
    except ValueError:
        return otherwise


def _read_decimal(value: object, kind: t.DecimalType) -> Decimal:
    try:
        number = Decimal(str(value)).quantize(Decimal(f"1E-{kind.scale}"), context=Context(prec=60))
    except ArithmeticError:
        return Decimal(7)
    return number if number.copy_abs() < Decimal(10) ** (kind.precision - kind.scale) else Decimal(7)


def computed_predicate(rng: random.Random, columns: Sequence[Leaf]) -> str:
    """Return a predicate over computed values: arithmetic, bits, CASE, functions."""
    roll = rng.random()
    if roll < 0.2:
        word = rng.choice((" AND ", " OR "))
        return f"({computed_predicate(rng, columns)}{word}{computed_predicate(rng, columns)})"
    if roll < 0.3:
        return f"NOT ({computed_predicate(rng, columns)})"
    if roll < 0.35:
        return f"({computed_predicate(rng, columns)}) IS {rng.choice(('', 'NOT '))}{rng.choice(('NULL', 'TRUE'))}"
    operator = rng.choice(("=", "<", ">=", "<>", "<=>", "="))
    make = rng.choice((_number, _number, _string, _day))
    left = make(rng, columns, 0)
    if roll < 0.45:
        items = ", ".join(make(rng, columns, 9) for _ in range(rng.choice((1, 3))))
        return f"{left} {rng.choice(('', 'NOT '))}IN ({items}{rng.choice(('', ', NULL'))})"
    return f"{left} {operator} {make(rng, columns, 1)}"


def _names(columns: Sequence[Leaf], kind: type[t.DataType]) -> list[str]:
    return [name for name, data_type in columns if isinstance(data_type, kind)]


def _number(rng: random.Random, columns: Sequence[Leaf], depth: int) -> str:
    names = _names(columns, t.IntegralType)
    literal = str(rng.choice((0, 1, 2, 3, 7, 100, 2147483647, 5000000000)))
    if depth > 2 or not names:
        return rng.choice((literal, f"-{literal}", *names[:1] * (depth < 9)))

    def part() -> str:
        return _number(rng, columns, depth + 1)

    match rng.randrange(12):
        case 0 | 1:
            return rng.choice(names)
        case 2 | 3:
            return f"({part()} {rng.choice(('+', '-', '*', '&', '|', '^'))} {part()})"
        case 4:
            return f"({part()} {rng.choice(('%', 'div'))} {rng.choice(('2', '3', '-7'))})"
        case 5 | 6:
            both = f"{rng.choice(('coalesce', 'nullif'))}({part()}, {part()})"
            return rng.choice((f"abs({part()})", f"(- {part()})", f"(~ {part()})", both, both, both))
        case 7:
            condition = computed_predicate(rng, columns) if depth == 0 and rng.random() < 0.3 else f"{part()} > 1"
            return f"CASE WHEN {condition} THEN {part()} ELSE {part()} END"
        case 8:
            return f"cast({part()} as {rng.choice(('int', 'bigint', 'smallint'))})"
        case 9:
            return f"shift{rng.choice(('left', 'right'))}({rng.choice(names)}, {rng.choice((1, 4))})"
    return _number_of(rng, columns) or literal


def _number_of(rng: random.Random, columns: Sequence[Leaf]) -> str | None:
    """Return SQL for an integer derived from a date or a string."""
    days, strings = _names(columns, t.DateType), _names(columns, t.StringType)
    if days and rng.random() < 0.5:
        return f"{rng.choice(('year', 'month', 'day', 'quarter'))}({rng.choice(days)})"
    if not strings:
        return None
    name = rng.choice(strings)
    return rng.choice((f"length({name})", f"octet_length({name})", f"instr({name}, {quote(rng.choice(('a', 'é')))})"))


def _string(rng: random.Random, columns: Sequence[Leaf], depth: int) -> str:
    names = _names(columns, t.StringType)
    literal = quote(rng.choice(ODD_WORDS))
    if depth > 2 or not names:
        return literal

    def part() -> str:
        return _string(rng, columns, depth + 1)

    match rng.randrange(11):
        case 0 | 1 | 2:
            return rng.choice(names)
        case 3:
            return f"{rng.choice(('trim', 'ltrim', 'rtrim'))}({part()})"
        case 4:
            return f"substring({part()}, {rng.choice((1, 2, 3))}, {rng.choice((0, 1, 2))})"
        case 5:
            return f"{rng.choice(('left', 'right'))}({part()}, {rng.choice((1, 2))})"
        case 6 | 7:
            return rng.choice(
                (f"concat({part()}, {quote(rng.choice(('x', ' ', 'é')))})", f"({part()} || {rng.choice(names)})")
            )
        case 8:
            return f"replace({part()}, {quote(rng.choice(('a', 'b')))}, {quote(rng.choice(('', 'xx')))})"
        case 9:
            return rng.choice(
                (f"coalesce({part()}, {literal})", f"if({rng.choice(names)} IS NULL, {part()}, {literal})")
            )
    numbers = _names(columns, t.IntegralType)
    return f"cast({rng.choice(numbers)} as string)" if numbers else literal


def _day(rng: random.Random, columns: Sequence[Leaf], depth: int) -> str:
    names = _names(columns, t.DateType)
    literal = f"DATE {quote(rng.choice(DATES))}"
    moments = [f"cast({name} as date)" for name in _names(columns, t.TimestampNTZType)]
    if depth > 2:
        return literal
    return rng.choice((literal, *names, *moments, *(f"coalesce({name}, {literal})" for name in names)))
