"""A corpus of files by several writers from a seed: Spark, pyarrow, DuckDB, Polars, pyorc, fastavro, csv and json."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import avro_files
import orc_files
import parquet_files
from csv_lines import line as csv_line
from csv_lines import random_schema as csv_schema
from json_lines import line as json_line
from json_lines import random_schema as json_schema
from pyspark.sql import SparkSession
from schema_change import NO_CHANGE

from pushdown_spark.contract import SourceFormat

_CODECS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
_LINES = 250


def write_corpus(spark: SparkSession, directory: Path, seed: int, source_format: SourceFormat) -> None:
    """Write a directory of one format, named after its seed."""
    rng = random.Random(f"{source_format.value}{seed}")
    place = directory / f"{source_format.value}-{seed}"
    place.mkdir()
    match source_format:
        case SourceFormat.ORC:
            files = orc_files.Files(spark, rng, place)
            orc_files.write_files(files, orc_files.random_table(rng), orc_files.SOME_CHANGE, old=rng.random() < 0.1)
        case SourceFormat.PARQUET:
            change = rng.choice((NO_CHANGE, parquet_files.SOME_CHANGE))
            parquet_files.write_files(
                parquet_files.Files(spark, rng, place), orc_files.random_table(rng), change, old=rng.random() < 0.1
            )
        case SourceFormat.AVRO:
            change = rng.choice((NO_CHANGE, avro_files.SOME_CHANGE))
            avro_files.write_files(spark, rng, place, avro_files.random_table(rng), change)
        case SourceFormat.JSON:
            _json(rng, place)
        case SourceFormat.CSV:
            _csv(rng, place)


def _json(rng: random.Random, place: Path) -> None:
    schema = json_schema(rng, rng.randint(1, 6))
    odd = rng.choice((0.0, 0.02, 0.15))
    lines = [json_line(rng, schema, odd) for _ in range(_LINES)]
    _write(rng, place / "odd.json", b"\n".join(lines) + b"\n", schema.toDDL())
    records = [
        {"id": n, "name": rng.choice(("Ann", "Ünal", "a\\b", 'q"q', "日本")), "in": {"x": n % 7, "y": [n, None]}}
        for n in range(_LINES)
    ]
    dumped = [
        json.dumps(each, ensure_ascii=rng.random() < 0.5, separators=rng.choice(((",", ":"), (" , ", " : "))))
        for each in records
    ]
    _write(rng, place / "python.jsonl", "\n".join(dumped).encode(), None)


def _csv(rng: random.Random, place: Path) -> None:
    schema = csv_schema(rng, rng.randint(1, 6))
    odd = rng.choice((0.0, 0.02, 0.15))
    lines = [csv_line(rng, schema, {}, odd).replace(b"\r", b" ") for _ in range(_LINES)]
    _write(rng, place / "odd.csv", b"\n".join(lines) + b"\n", schema.toDDL())
    out = io.StringIO()
    writer = csv.writer(
        out,
        quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)),
        lineterminator=rng.choice(("\n", "\r\n")),
    )
    writer.writerows(
        (n, rng.choice(("Ann", "Ünal", "a,b", "日本", "", " x ")), n / 8, f"2024-01-{n % 28 + 1:02}", n % 2 == 0)
        for n in range(_LINES)
    )
    _write(rng, place / "python.csv", out.getvalue().encode(), "id int, name string, x double, day date, even string")


def _write(rng: random.Random, path: Path, content: bytes, ddl: str | None) -> None:
    suffix = rng.choice(("", "", *_CODECS))
    target = path.with_name(path.name + suffix)
    target.write_bytes(_CODECS[suffix](content))
    if ddl is not None:
        target.with_name(f"_{target.name}.schema").write_text(ddl, encoding="utf-8")
