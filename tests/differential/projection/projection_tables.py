"""The tables of the projection cases, and writers of their files in each format."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from avro_files import AVRO
from pyspark.sql import SparkSession

Values = tuple[object, ...]
NESTING = ("json", "avro", "orc", "parquet")
ALL = ("csv", *NESTING)
OURS = frozenset({"csv", "json", "avro", "orc"})
"""Formats that we have a reader of our own for."""


@dataclass(frozen=True)
class Table:
    """Rows by file, relative to the table's directory and without the format's suffix.

    `where` is a condition that every row satisfies and that the pushdown readers search by. If `declared`, the sources
    declare the schema.
    """

    schema: str
    files: Mapping[str, Sequence[Values]]
    formats: tuple[str, ...] = NESTING
    where: str = "id IN (1, 2, 3)"
    options: Mapping[str, str] = field(default_factory=dict)
    declared: bool = True

    def write(self, spark: SparkSession, source_format: str, directory: Path) -> Path:
        """Write the table in a format and return its directory."""
        for name, rows in self.files.items():
            target = directory / f"{name}.{source_format}"
            target.parent.mkdir(parents=True, exist_ok=True)
            write(spark, source_format, target, self.schema, rows, header=self.options.get("header", "false"))
        return directory


def write(
    spark: SparkSession, source_format: str, target: Path, schema: str, rows: Sequence[Values], *, header: str = "true"
) -> None:
    """Write one file with Spark's own writer."""
    with TemporaryDirectory(dir=target.parent, prefix="_") as scratch:
        writer = spark.createDataFrame(list(rows), schema).coalesce(1).write.format(format_name(source_format))
        writer.options(header=header if source_format == "csv" else "false").mode("overwrite").save(scratch)
        (part,) = Path(scratch).glob("part-*")
        shutil.move(part, target)


def format_name(source_format: str) -> str:
    """Return Spark's name of a format."""
    return AVRO if source_format == "avro" else source_format


BELOW = {"recursiveFileLookup": "true"}

NESTED = Table(
    "id bigint, name string, suffix string, "
    "place struct<city: string, zip: int, geo: struct<lat: double, lon: double, alt: int>>, "
    "tags array<string>, grid array<array<int>>, "
    "visits array<struct<day: date, pages: array<int>, at: struct<hour: int, minute: int>>>, "
    "scores map<string, int>, shops map<string, struct<open: int, close: int>>, Mixed int",
    {
        "east/2024/p0": [
            (
                *(1, "Ada", "s1", ("Oslo", 150, (59.5, 10.75, 23)), ["a", "b", "c"], [[1, 2], [3]]),
                [(date(2024, 1, 2), [10, 11], (9, 30)), (date(2024, 1, 3), [], None)],
                *({"math": 5, "art": 3}, {"main": (8, 18)}, 7),
            ),
            (2, None, None, None, None, None, None, None, None, None),
        ],
        "west/p1": [
            (
                *(3, "Cy", "s3", ("Rome", None, None), ["x", None], [[], None, [4]]),
                [None, (None, None, (7, None))],
                *({"art": 0}, {"main": None, "side": (9, None)}, 0),
            ),
        ],
    },
    options=BELOW,
)
"""Structs, arrays and maps in each other, with nulls at every depth, in directories of different depth."""

FLAT = Table(
    "id bigint, name string, price decimal(10,2), born date, active boolean, suffix string",
    {
        "p0": [(1, "Ada", Decimal("12.50"), date(2000, 2, 29), True, "s1"), (2, None, None, None, None, None)],
        "p1": [(3, "Cy", Decimal("-0.01"), date(1999, 12, 31), False, "s3")],
    },
    ALL,
    options={"header": "true"},
)
"""What every format holds."""

ODD = Table(
    "id bigint, `full name` string, `a.b` string, `x,y` string, `[0]` string, `*` string",
    {"p0": [(1, "n1", "d1", "c1", "z1", "w1")], "p1": [(2, None, "d2", None, None, "w2")]},
    ("csv", "json", "orc", "parquet"),
    options={"header": "true"},
)
"""Names that must be quoted; Avro has no such names."""

TICKS = Table(
    "id bigint, `tick``s` string",
    {"p0": [(1, "t1")], "p1": [(2, "t2")]},
    ("csv", "json", "parquet"),
    options={"header": "true"},
)
"""A backtick in a name: Spark's ORC reader reads such a column as null."""

FIELDS = Table(
    "a string, b string, c string",
    {"p0": [("1", "x", None), ("2", None, "u")], "sub/p1": [("3", "y", "v")]},
    ("csv",),
    where="_c0 IN ('1', '2', '3')",
    options=BELOW,
    declared=False,
)
"""Lines without a header."""

HIVE = Table(
    "id bigint, name string",
    {
        "region=eu/day=2024-01-02/n=007/p0": [(1, "Ada")],
        "region=a%20b/day=2024-02-03/n=8/p1": [(2, "Bo")],
        "region=__HIVE_DEFAULT_PARTITION__/day=2024-01-02/n=9/p2": [(3, None)],
    },
    ALL,
    options={"header": "true"},
)
"""Partition directories."""

TABLES = {"nested": NESTED, "flat": FLAT, "odd": ODD, "ticks": TICKS, "fields": FIELDS, "hive": HIVE}
