"""Random Parquet files of one table by Spark, pyarrow, DuckDB, Polars and DataFusion, with changed columns."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionContext
from orc_files import stored_schema
from orc_values import Times, table_of
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from schema_change import Change
from session_settings import session_settings

SOME_CHANGE = Change(missing=0.1, added=0.15, moved=0.5, recased=0.1, narrower=0.01, foreign=0.003)
WRITERS = ("spark", "pyarrow", "duckdb", "polars", "datafusion")
_TIMES = ("INT96", "INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")


@dataclass(frozen=True)
class Files:
    """The files of a case, written into a directory."""

    spark: SparkSession
    rng: random.Random
    directory: Path

    def by_spark(self, path: Path, table: pa.Table, schema: t.StructType) -> None:
        """Write a file with the Java library."""
        rng = self.rng
        settings = {
            "spark.sql.parquet.outputTimestampType": rng.choice(_TIMES),
            "spark.sql.parquet.writeLegacyFormat": rng.choice(("false", "false", "true")),
        }
        with session_settings(self.spark, settings), TemporaryDirectory(dir=self.directory, prefix="_") as scratch:
            frame = self.spark.createDataFrame(table, schema).coalesce(1)
            frame.write.mode("overwrite").options(**spark_options(rng, schema)).parquet(scratch)
            (part,) = Path(scratch).glob("part-*.parquet")
            shutil.move(part, path)

    def by_pyarrow(self, path: Path, table: pa.Table) -> None:
        """Write a file with the C++ library, some with Arrow types that Spark does not have, and required members."""
        rng = self.rng
        int96 = rng.random() < 0.2 and not _has_local_times(table.schema)
        pq.write_table(
            _with_required_members(rng, _with_other_types(rng, table)),
            path,
            row_group_size=rng.choice((50, 100, 333, 1 << 20)),
            version=rng.choice(("2.6", "2.6", "2.4", "1.0")),
            data_page_version=rng.choice(("1.0", "2.0")),
            compression=rng.choice(("none", "snappy", "gzip", "zstd", "lz4", "brotli")),
            use_dictionary=rng.random() < 0.7,
            data_page_size=rng.choice((64, 1024, 1 << 20)),
            write_statistics=rng.random() < 0.9,
            write_page_index=rng.random() < 0.5,
            store_schema=rng.random() < 0.7,
            use_deprecated_int96_timestamps=int96,
            coerce_timestamps=None if int96 else rng.choice((None, "us", "us", "us", "us", "ms")),
            allow_truncated_timestamps=True,
            use_compliant_nested_type=rng.random() < 0.8,
        )

    def by_duckdb(self, path: Path, table: pa.Table) -> None:
        """Write a file with DuckDB."""
        rng = self.rng
        codec, size = rng.choice(("snappy", "zstd", "gzip", "uncompressed", "lz4_raw")), rng.choice((2048, 122_880))
        connection = duckdb.connect()
        connection.execute("SET threads=1; SET timezone='UTC'")
        connection.register("source", table)
        connection.execute(f"COPY source TO '{path}' (FORMAT parquet, CODEC '{codec}', ROW_GROUP_SIZE {size})")
        connection.close()

    def by_polars(self, path: Path, table: pa.Table) -> None:
        """Write a file with Polars, which has no maps."""
        rng = self.rng
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        frame.write_parquet(
            path,
            compression=rng.choice(("snappy", "zstd", "lz4", "uncompressed")),
            row_group_size=rng.choice((50, 333, None)),
            data_page_size=rng.choice((64, 1024, None)),
            statistics=rng.choice((True, False, "full")),
        )

    def by_datafusion(self, path: Path, table: pa.Table) -> None:
        """Write a file with the Rust library."""
        with TemporaryDirectory(dir=self.directory, prefix="_") as scratch:
            target = f"{scratch}/one.parquet"
            SessionContext().from_arrow(table).write_parquet(target)
            shutil.move(target, path)


def spark_options(rng: random.Random, schema: t.StructType) -> dict[str, str]:
    """Return options of Spark's writer: codecs, sizes, encodings and bloom filters."""
    choices = {
        "compression": ("none", "snappy", "gzip", "zstd", "lz4_raw", "lz4"),
        "parquet.block.size": ("4096", "65536", "134217728"),
        "parquet.block.size.row.check.min": ("100",),
        "parquet.page.size": ("256", "4096", "1048576"),
        "parquet.page.row.count.limit": ("20", "100", "20000"),
        "parquet.enable.dictionary": ("true", "false"),
        "parquet.writer.version": ("v1", "v1", "v2"),
        "parquet.columnindex.truncate.length": ("2", "64"),
        "parquet.statistics.truncate.length": ("2", "2147483647"),
        "parquet.page.write-checksum.enabled": ("true", "false"),
    }
    chosen_options = {key: rng.choice(values) for key, values in choices.items()}
    for field in schema.fields:
        if _is_plain(field.dataType) and rng.random() < 0.3:
            chosen_options[f"parquet.bloom.filter.enabled#{field.name}"] = "true"
    return chosen_options


def _is_plain(kind: t.DataType) -> bool:
    return isinstance(kind, t.IntegerType | t.LongType | t.StringType | t.DoubleType | t.FloatType)


def _has_local_times(schema: pa.Schema) -> bool:
    """Return whether a schema has timestamps without a time zone, for which 96 bits are not meant."""
    return "timestamp[us]" in str(schema)


def _with_other_types(rng: random.Random, table: pa.Table) -> pa.Table:
    """Return the table with some strings as large strings or dictionaries, and some times in nanoseconds."""
    for place, field in enumerate(table.schema):
        roll = rng.random()
        kind = field.type
        if pa.types.is_string(kind) and roll < 0.4:
            kind = pa.large_string() if roll < 0.2 else pa.dictionary(pa.int32(), pa.string())
        elif pa.types.is_timestamp(kind) and roll < 0.03:
            kind = pa.timestamp("ns", kind.tz)
        if kind != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(kind))
    return table


def _with_required_members(rng: random.Random, table: pa.Table) -> pa.Table:
    """Return the table with some struct members declared as required. Their NULLs become another of their values."""
    for place, field in enumerate(table.schema):
        if pa.types.is_struct(field.type):
            structs = _require(rng, table.column(place).combine_chunks())
            table = table.set_column(place, pa.field(field.name, structs.type), structs)
    return table


def _require(rng: random.Random, structs: pa.StructArray) -> pa.StructArray:
    members, fields = [], []
    for place, field in enumerate(structs.type):
        member = structs.field(place)
        if pa.types.is_struct(field.type):
            member = _require(rng, member)
        elif not pa.types.is_nested(field.type) and rng.random() < 0.5 and (values := member.drop_null()):
            member = member.fill_null(values[0])
        members.append(member)
        fields.append(pa.field(field.name, member.type, nullable=member.null_count > 0))
    return pa.StructArray.from_arrays(members, fields=fields, mask=structs.is_null())


def write_files(files: Files, table: t.StructType, change: Change, *, old: bool) -> list[Path]:
    """Write a directory of files of one table by different libraries."""
    rng = files.rng
    paths: list[Path] = []
    first = 0
    for number, writer in enumerate(rng.sample(WRITERS, 3)):
        rows = rng.choice((0, 1, 700, 2500))
        schema = stored_schema(rng, table, change)
        # Some writers keep times in nanoseconds, which have no room for early and late years.
        data = table_of(rng, schema, rows, first, Times(old=old and writer == "spark"))
        first += rows
        path = files.directory / f"f{number}-{writer}.parquet"
        if writer == "polars" and "map<" in schema.simpleString():
            writer = "pyarrow"
        _write(files, writer, path, data, schema)
        paths.append(path)
    return paths


def _write(files: Files, writer: str, path: Path, data: pa.Table, schema: t.StructType) -> None:
    if writer == "spark":
        files.by_spark(path, data, schema)
        return
    writers: Mapping[str, object] = {
        "pyarrow": files.by_pyarrow,
        "duckdb": files.by_duckdb,
        "polars": files.by_polars,
        "datafusion": files.by_datafusion,
    }
    writers[writer](path, data)  # type: ignore[operator]
