"""Tables of many shapes with pseudo-random values, written in every file format.

A seed decides the order of the columns, the number of distinct values, the lengths of strings and the values, so that
no estimate can be fitted to one table.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from pushdown_spark.runtime.spark_internals import AVRO_CLASS

FORMATS = ("json", "csv", "avro", "orc", "parquet")
_TEXT_BYTES = 60 << 20
"""Approximate size of a table as JSON at scale 1."""
_EPOCH = 1_700_000_000


@dataclass(frozen=True)
class Column:
    """A column: its name, its values in SQL over `id`, and what queries use it for.

    A use is `key` (an integer with `distinct` values), `text`, `time` (in steps of one second from `_EPOCH`), `amount`
    (a decimal up to `distinct`), `share` (an integer from 0 to 9,999), `items` (an array of structs), `tags` (a map of
    strings) or nothing. `path` is the path to compare if it is a member of the column.
    """

    name: str
    sql: str
    use: str = ""
    distinct: int = 0
    path: str = ""

    @property
    def compared(self) -> str:
        """The path that a predicate compares."""
        return self.path or self.name


@dataclass(frozen=True)
class Shape:
    """A table. `row_bytes` is the approximate size of a row as JSON. `options` are those of the writers by format."""

    name: str
    columns: tuple[Column, ...]
    row_bytes: int
    files: int = 4
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    formats: tuple[str, ...] = FORMATS

    def rows(self, scale: float) -> int:
        """Return the number of rows."""
        return max(int(_TEXT_BYTES * scale / self.row_bytes), 1_000)


class _Values:
    """Expressions for pseudo-random columns. Every column has its own number."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._number = seed * 1_000

    def integer(self, distinct: int, row: str = "id") -> str:
        self._number += 1
        return f"pmod(xxhash64({row}, {self._number}), {distinct})"

    def key(self, name: str, sql: str = "") -> Column:
        distinct = round(10 ** self._rng.uniform(3, 7))
        return Column(name, f"{sql or self.integer(distinct)}", "key", distinct)

    def skewed_key(self, name: str) -> Column:
        """Return a key whose small values are frequent."""
        distinct = round(10 ** self._rng.uniform(4, 6))
        uniform = f"({self.integer(1_000_000)} / 1000000.0D)"
        return Column(name, f"CAST(pow({uniform}, 4) * {distinct} AS BIGINT)", "key", distinct)

    def share(self, name: str) -> Column:
        return Column(name, f"CAST({self.integer(10_000)} AS INT)", "share", 10_000)

    def text(self, name: str, length: int) -> Column:
        """Return words and numbers of about this length."""
        words = max(1, round(length * self._rng.uniform(0.6, 1.4) / 12))
        number = self.integer(100_000)
        parts = ", ".join(f"concat('word', {self.integer(10_000)})" for _ in range(min(words, 4)))
        repeats = max(1, words // 4)
        return Column(name, f"concat('name ', {number}, ' ', repeat(concat_ws(' ', {parts}, ''), {repeats}))", "text")

    def filler(self, name: str, length: int) -> Column:
        return Column(name, f"repeat(sha2(CAST({self.integer(10**9)} AS STRING), 256), {max(1, length // 64)})")

    def time(self, name: str, row: str = "") -> Column:
        second = row or self.integer(90 * 86_400)
        return Column(name, f"timestamp_seconds({_EPOCH} + {second})", "time", 90 * 86_400)

    def amount(self, name: str) -> Column:
        largest = round(10 ** self._rng.uniform(2, 5))
        return Column(name, f"CAST({self.integer(largest * 100)} / 100 AS DECIMAL(12, 2))", "amount", largest)

    def real(self, name: str) -> Column:
        return Column(name, f"{self.integer(1_000_000)} / 8.0D")

    def day(self, name: str) -> Column:
        return Column(name, f"date_add(DATE'2000-01-01', CAST({self.integer(9_000)} AS INT))")

    def nested(self, name: str, depth: int) -> Column:
        """Return a struct with a key at a depth, between other members."""
        distinct = round(10 ** self._rng.uniform(3, 6))
        sql, path = self.integer(distinct), ""
        for level in range(depth):
            member = f"m{level}"
            sql = (
                f"named_struct('a{level}', concat('value ', {self.integer(1_000)}), '{member}', {sql}, "
                f"'z{level}', {self.integer(1_000)})"
            )
            path = f".{member}{path}"
        return Column(name, sql, "nested", distinct, f"{name}{path}")

    def items(self, name: str) -> Column:
        """Return an array of structs."""
        item = (
            f"named_struct('sku', concat('sku ', {self.integer(100_000, 'id, i')}), 'n', {self.integer(10, 'id, i')}, "
            f"'price', CAST({self.integer(100_000, 'id, i')} / 100 AS DECIMAL(10, 2)))"
        )
        return Column(name, f"transform(sequence(1, 1 + CAST({self.integer(5)} AS INT)), i -> {item})", "items")

    def tags(self, name: str) -> Column:
        """Return a map of strings."""
        first, second = (f"concat('v ', {self.integer(100_000)})" for _ in range(2))
        return Column(name, f"map('a', {first}, 'b', {second})", "tags")

    def rarely(self, column: Column) -> Column:
        """Return a column that is NULL in four of five rows."""
        return Column(column.name, f"IF({self.integer(5)} = 0, {column.sql}, NULL)", column.use, column.distinct)

    def mixed(self, count: int) -> list[Column]:
        """Return columns of many types, of which queries compare some."""
        kinds: list[Callable[[str], Column]] = [
            self.key,
            self.share,
            lambda name: self.text(name, 14),
            self.real,
            self.day,
            self.amount,
            self.time,
        ]
        return [kinds[number % len(kinds)](f"c{number}") for number in range(count)]

    def shuffle(self, *columns: Column) -> tuple[Column, ...]:
        order = list(columns)
        self._rng.shuffle(order)
        return tuple(order)


_QUOTED = {"csv": {"quoteAll": "true"}}
_GZIP = {
    "json": {"compression": "gzip"},
    "csv": {"compression": "gzip"},
    "avro": {"compression": "deflate"},
    "orc": {"compression": "zlib"},
    "parquet": {"compression": "gzip"},
}


def shapes(seed: int) -> list[Shape]:
    """Return all shapes."""
    v = _Values(seed)
    return [
        Shape("narrow", v.shuffle(v.key("k"), v.share("s"), v.time("t"), v.amount("a")), 60),
        Shape(
            "orders",
            v.shuffle(*v.mixed(13), v.text("comment", 40), v.key("part"), v.day("shipped")),
            330,
        ),
        Shape(
            "events",
            v.shuffle(
                v.key("id"),
                v.time("at"),
                v.nested("user", 2),
                v.text("kind", 12),
                v.items("items"),
                v.share("bucket"),
                v.amount("total"),
                v.filler("payload", 800),
                v.key("session"),
            ),
            1_400,
        ),
        Shape("quoted", v.shuffle(*v.mixed(61)), 1_100, options=_QUOTED),
        Shape("gzip", v.shuffle(*v.mixed(10), v.text("comment", 60)), 300, options=_GZIP),
        Shape("small files", v.shuffle(*v.mixed(9), v.text("comment", 60)), 260, files=300),
        Shape(
            "long strings",
            v.shuffle(
                v.key("k"),
                v.text("body", 1_500),
                v.share("s"),
                v.time("t"),
                v.amount("a"),
                v.filler("blob", 1_000),
            ),
            2_600,
        ),
        Shape("nulls", v.shuffle(*map(v.rarely, v.mixed(30))), 130),
        Shape(
            "collections",
            v.shuffle(
                v.key("k"), v.items("items"), v.tags("tags"), v.share("s"), v.time("t"), v.amount("a"), v.text("x", 20)
            ),
            420,
        ),
        Shape(
            "sorted",
            (v.key("k", "id"), v.time("t", "CAST(id / 20 AS BIGINT)"), *v.shuffle(*v.mixed(7), v.text("comment", 30))),
            260,
        ),
        Shape("skewed", v.shuffle(v.skewed_key("k"), v.skewed_key("l"), *v.mixed(7), v.text("comment", 30)), 260),
        Shape("wide", v.shuffle(*v.mixed(120)), 2_300),
        Shape("deep", v.shuffle(v.nested("a", 6), *v.mixed(7), v.nested("b", 4)), 700),
    ]


def wide_column(number: int) -> str:
    """Return a select item with pseudo-random values for a table of many columns. It has one of six kinds."""
    seed = f"xxhash64(id, {number})"
    kinds = (
        f"pmod({seed}, 1000000)",
        f"CAST(pmod({seed}, 1000) AS INT)",
        f"concat('name ', pmod({seed}, 100000))",
        f"pmod({seed}, 100000) / 8.0D",
        f"date_add(DATE'2000-01-01', CAST(pmod({seed}, 9000) AS INT))",
        f"CAST(pmod({seed}, 1000000) / 100 AS DECIMAL(12, 2))",
    )
    return f"{kinds[number % len(kinds)]} AS c{number}"


def flat(shape: Shape) -> tuple[Column, ...]:
    """Return the columns that CSV can store."""
    return tuple(column for column in shape.columns if not column.sql.startswith(("named_struct", "transform", "map")))


@dataclass(frozen=True)
class Table:
    """A written table: its files, its schema for readers without one, and the columns that it has."""

    path: Path | str
    format: str
    schema: str | None
    options: Mapping[str, str]
    columns: tuple[Column, ...]

    def load(self, spark: SparkSession) -> DataFrame:
        """Return Spark's DataFrame, as its users load it."""
        reader = spark.read.options(**self.options).format(AVRO_CLASS if self.format == "avro" else self.format)
        return (reader if self.schema is None else reader.schema(self.schema)).load(str(self.path))


def write(spark: SparkSession, shape: Shape, name: str, rows: int, target: Path) -> Table:
    """Write a table in a format, replacing an older one."""
    columns = flat(shape) if name == "csv" else shape.columns
    files = shape.files if rows > 1_000 else 1
    frame = spark.range(0, rows, 1, files).selectExpr(*(f"{column.sql} AS {column.name}" for column in columns))
    options = {"header": "true"} if name == "csv" else {}
    shutil.rmtree(target, ignore_errors=True)
    writer = frame.write.format(AVRO_CLASS if name == "avro" else name).options(**options)
    writer.options(**shape.options.get(name, {})).save(str(target))
    schema = ddl(frame.schema) if name in ("json", "csv") else None
    return Table(target, name, schema, options, columns)


def ddl(schema: t.StructType) -> str:
    """Return the columns of a schema as in `CREATE TABLE`."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
