"""Random Avro files of one table by fastavro and Spark: all types, codecs, block sizes, added and missing columns."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import fastavro
from pyspark.sql import SparkSession
from schema_change import Change
from typed_rows import BYTES, FLOATS, LONGS
from values import DATES, DECIMALS, INTEGERS, text

AVRO = "org.apache.spark.sql.avro.AvroFileFormat"
"""Spark's own Avro source, under the name that it has without its jar."""
ROW = "row"
"""The column that numbers the rows of all files."""
CODECS = ("null", "deflate", "snappy", "bzip2", "xz")
SPARK_CODECS = ("uncompressed", "deflate", "snappy", "bzip2", "xz", "zstandard")
SYMBOLS = ("a", "A", "abc", "xyz", "hello_world")
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400_000_000
_ANCIENT = 1600

Json = object
Datum = object
Make = Callable[[random.Random], Datum]


@dataclass(frozen=True)
class Kind:
    """A type as Avro's JSON, and a generator of its values. `branch` is its name in a union."""

    schema: Json
    make: Make
    branch: str


@dataclass(frozen=True)
class Column:
    """A column of a table. `narrow` is a type whose values Spark reads into the same column."""

    name: str
    kind: Kind
    narrow: Kind | None = None

    @property
    def json(self) -> Mapping[str, Json]:
        """The field of a schema."""
        return {"name": self.name, "type": self.kind.schema}


SOME_CHANGE = Change(missing=0.1, added=0.15, moved=0.5, narrower=0.4, recased=0.1, foreign=0.01)


@dataclass
class Names:
    """A source of unique names, because a schema may define each fixed, enum and record type only once."""

    used: int = field(default=0)

    def next(self) -> str:
        """Return an unused name."""
        self.used += 1
        return f"tests.n{self.used}"


def _integer(bits: int) -> Make:
    pool = [
        number for number in (*INTEGERS, *LONGS, -(1 << (bits - 1))) if -(1 << (bits - 1)) <= number < 1 << (bits - 1)
    ]
    return lambda rng: rng.choice(pool) if rng.random() < 0.8 else rng.getrandbits(bits) - (1 << (bits - 1))


def _days(rng: random.Random, *, ancient: bool = False) -> int:
    days = [date.fromisoformat(day).toordinal() - _EPOCH for day in DATES if ancient or int(day[:4]) > _ANCIENT]
    return rng.choice(days) if rng.random() < 0.7 else rng.randint(-20_000, 40_000)


def _micros(rng: random.Random) -> int:
    clock = rng.choice((0, _DAY // 2, _DAY - 1, 1_000, rng.randrange(_DAY)))
    return rng.choice([day for day in (_days(rng) for _ in range(9)) if day < 200_000] or [0]) * _DAY + clock


def _float(rng: random.Random) -> float:
    value = _double(rng)
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return 1.5


def _double(rng: random.Random) -> float:
    return rng.choice(FLOATS) if rng.random() < 0.5 else float(rng.choice(DECIMALS))


def _random_unscaled(rng: random.Random, digits: int, scale: int) -> int:
    if rng.random() < 0.3:
        return rng.randint(-(10**digits) + 1, 10**digits - 1)
    whole = round(float(rng.choice(DECIMALS)) * 10**scale)
    return max(min(whole, 10**digits - 1), -(10**digits) + 1)


def _decimal(digits: int, scale: int) -> Make:
    def make(rng: random.Random) -> bytes:
        number = _random_unscaled(rng, digits, scale)
        least = (number.bit_length() + 8) // 8
        return number.to_bytes(least + rng.choice((0, 0, 0, 2)), "big", signed=True)

    return make


def _plain(names: Names, rng: random.Random) -> Kind:
    """Return a type without members."""
    logical = {
        "date": ("int", _days),
        "time-millis": ("int", lambda rng: rng.randrange(86_400_000)),
        "timestamp-millis": ("long", lambda rng: _micros(rng) // 1000),
        "timestamp-micros": ("long", _micros),
        "local-timestamp-millis": ("long", lambda rng: _micros(rng) // 1000),
        "local-timestamp-micros": ("long", _micros),
        "uuid": ("string", lambda rng: f"{rng.getrandbits(128):032x}"),
    }
    simple = {
        "boolean": lambda rng: rng.random() < 0.5,
        "int": _integer(32),
        "long": _integer(64),
        "float": _float,
        "double": _double,
        "bytes": lambda rng: rng.choice(BYTES),
        "string": text,
    }
    roll = rng.random()
    if roll < 0.55:
        name = rng.choice(sorted(simple))
        return Kind(name, simple[name], name)
    if roll < 0.8:
        name = rng.choice(sorted(logical))
        base, make = logical[name]
        return Kind({"type": base, "logicalType": name}, make, base)
    return _named_type(names, rng)


def _named_type(names: Names, rng: random.Random) -> Kind:
    """Return a decimal, an enum or a fixed."""
    roll = rng.random()
    digits, scale = rng.choice(((5, 2), (18, 4), (20, 0), (38, 18)))
    decimal = {"logicalType": "decimal", "precision": digits, "scale": scale}
    if roll < 0.3:
        return Kind({"type": "bytes", **decimal}, _decimal(digits, scale), "bytes")
    name = names.next()
    if roll < 0.55:
        size = rng.choice((16, 17))
        return Kind(
            {"type": "fixed", "name": name, "size": size, **decimal},
            lambda rng: _random_unscaled(rng, digits, scale).to_bytes(size, "big", signed=True),
            name,
        )
    if roll < 0.8:
        return Kind({"type": "enum", "name": name, "symbols": list(SYMBOLS)}, lambda rng: rng.choice(SYMBOLS), name)
    size, logical = rng.choice(((3, {}), (12, {"logicalType": "duration"})))
    return Kind(
        {"type": "fixed", "name": name, "size": size, **logical},
        lambda rng: (rng.choice(BYTES) * size)[:size].ljust(size, b"\0"),
        name,
    )


def random_kind(rng: random.Random, names: Names, depth: int = 0) -> Kind:
    """Return a random type, sometimes nested and mostly in a union with null."""
    roll = rng.random() if depth < 3 else 1.0
    if roll < 0.07:
        kind = _array(random_kind(rng, names, depth + 1))
    elif roll < 0.13:
        kind = _map(random_kind(rng, names, depth + 1))
    elif roll < 0.23:
        kind = _record(rng, names, depth)
    elif roll < 0.30:
        return _either(rng, names)
    else:
        kind = _plain(names, rng)
    return _nullable(rng, kind) if rng.random() < 0.6 else kind


def _array(item: Kind) -> Kind:
    return Kind(
        {"type": "array", "items": item.schema},
        lambda rng: [item.make(rng) for _ in range(rng.choice((0, 1, 4)))],
        "array",
    )


def _map(value: Kind) -> Kind:
    def make(rng: random.Random) -> Datum:
        return {text(rng): value.make(rng) for _ in range(rng.choice((0, 1, 3)))}

    return Kind({"type": "map", "values": value.schema}, make, "map")


def _record(rng: random.Random, names: Names, depth: int) -> Kind:
    name = names.next()
    members = {member: random_kind(rng, names, depth + 1) for member in "xYz"[: rng.randint(1, 3)]}
    fields = [{"name": member, "type": kind.schema} for member, kind in members.items()]
    return Kind(
        {"type": "record", "name": name, "fields": fields},
        lambda rng: {member: kind.make(rng) for member, kind in members.items()},
        name,
    )


def _nullable(rng: random.Random, kind: Kind) -> Kind:
    """Return a union with null as the first or the last branch, and a random share of nulls."""
    share = rng.choice((0.0, 0.1, 0.6))
    schema = ["null", kind.schema] if rng.random() < 0.6 else [kind.schema, "null"]
    return Kind(schema, lambda rng: None if rng.random() < share else kind.make(rng), "union")


def _either(rng: random.Random, names: Names) -> Kind:
    """Return a union of several types: two widths of a number, or any types."""
    pairs = (("int", "long"), ("long", "int"), ("float", "double"), ("double", "float"))
    simple = {"int": _integer(32), "long": _integer(64), "float": _float, "double": _double, "string": text}
    if rng.random() < 0.6:
        kinds = [Kind(name, simple[name], name) for name in rng.choice(pairs)]
    else:
        kinds = [Kind("string", text, "string"), Kind("long", simple["long"], "long"), _record(rng, names, 2)]
    if rng.random() < 0.5:
        kinds.insert(rng.randint(0, len(kinds)), Kind("null", lambda rng: None, "null"))

    def make(rng: random.Random) -> Datum:
        chosen = rng.choice(kinds)
        datum = chosen.make(rng)
        return None if datum is None else (chosen.branch, datum)

    return Kind([kind.schema for kind in kinds], make, "union")


def random_table(rng: random.Random) -> list[Column]:
    """Return row numbers, columns of random types, and one type twice so that columns can be compared."""
    names = Names()
    columns = [Column(ROW, Kind("long", lambda rng: 0, "long"))]
    for number in range(rng.randint(3, 8)):
        narrow = {"long": Kind("int", _integer(32), "int"), "double": Kind("float", _float, "float")}
        kind = random_kind(rng, names)
        columns.append(Column(f"c{number}", kind, narrow.get(str(kind.schema))))
    again = rng.choice([column for column in columns[1:] if "name" not in str(column.kind.schema)] or columns[:1])
    return [*columns, Column("again", again.kind, again.narrow)]


def change_columns(rng: random.Random, table: Sequence[Column], change: Change) -> list[Column]:
    """Return the columns of a file of the table. Row numbers do not change."""
    new_columns = []
    for column in table[1:]:
        if rng.random() < change.missing:
            continue
        name = column.name.upper() if rng.random() < change.recased else column.name
        kind = column.narrow if column.narrow and rng.random() < change.narrower else column.kind
        if rng.random() < change.foreign:
            kind = Kind("boolean", lambda rng: True, "boolean")
        new_columns.append(Column(name, kind))
    if rng.random() < change.added:
        new_columns.append(Column("added", Kind("string", text, "string")))
    if rng.random() < change.moved:
        rng.shuffle(new_columns)
    return [table[0], *new_columns]


def schema_of(columns: Iterable[Column]) -> dict[str, Json]:
    return {"type": "record", "name": "table", "namespace": "tests", "fields": [column.json for column in columns]}


def write_files(
    spark: SparkSession, rng: random.Random, directory: Path, table: Sequence[Column], change: Change
) -> None:
    """Write a directory of files of one table. The first has the table's schema, one may be Spark's copy of another."""
    first = 0
    for number in range(rng.randint(1, 3)):
        columns = list(table) if number == 0 else change_columns(rng, table, change)
        rows = rng.choice((1, 300, 900)) if number == 0 else rng.choice((0, 1, 300))
        by_fastavro(rng, directory / f"f{number}.avro", schema_of(columns), records_of(rng, columns, rows, first))
        first += rows
    if rng.random() < 0.5:
        by_spark(spark, rng, directory / "f0.avro", directory / "f9.avro")


def records_of(rng: random.Random, columns: Sequence[Column], rows: int, first: int = 0) -> list[Datum]:
    """Return random records, numbered from `first` on."""
    return [{c.name: first + row if c.name == ROW else c.kind.make(rng) for c in columns} for row in range(rows)]


def by_fastavro(rng: random.Random, path: Path, schema: Json, records: Sequence[Datum]) -> None:
    """Write a file in blocks of a size, some of them without records."""
    with path.open("wb") as file:
        writer = fastavro.write.Writer(
            file,
            fastavro.parse_schema(schema),
            codec=rng.choice(CODECS),
            sync_interval=rng.choice((1, 400, 4_000, 16_000)),
        )
        for record in records:
            writer.write(record)
        writer.flush()


def by_spark(spark: SparkSession, rng: random.Random, source: Path, target: Path) -> None:
    """Copy the rows of a file with Spark, in the schema that Spark derives from its types."""
    with TemporaryDirectory() as place:
        frame = spark.read.format(AVRO).load(str(source)).coalesce(1)
        frame.write.format(AVRO).option("compression", rng.choice(SPARK_CODECS)).save(f"{place}/out")
        (part,) = Path(place).glob("out/part-*.avro")
        shutil.move(part, target)
