"""The schema of each CSV file: the names of its header, or a column for each field of its first line.

`required_field_count` is for lines without names, whose fields are the array `columns`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.session_settings import check_broken_files, is_option_on
from pushdown_spark.formats.text.line_reader import header_lines, is_row
from pushdown_spark.local_paths import escape_glob
from pushdown_spark.projection.file_locations import location
from pushdown_spark.projection.paths import ColumnPath, Elements
from pushdown_spark.projection.schema_merge import FileSchema
from pushdown_spark.runtime.spark_internals import read_lines
from pushdown_spark.sources.declaration import CsvSigns, Source
from pushdown_spark.sources.stores.hadoop_storage import driver_storage_for
from pushdown_spark.sources.stores.listing import InputFile, Listing, decode_uri, map_files

_PLAIN_NAME = re.compile("[A-Za-z0-9_]([A-Za-z0-9_ .:/()%-]*[A-Za-z0-9_)%])?")
"""Names that Spark takes from a header unchanged, with any options for spaces, quotes and empty names."""
_MAX_FREE_FIELDS = 256
"""Spark parses this many columns at no cost, whether or not the files have them."""

InferSchema = Callable[[Sequence[str]], t.StructType]
"""Returns the schema that Spark infers for files (paths with escaped globs), with the options of the source."""


def csv_schemas(
    spark: SparkSession, source: Source, listing: Listing, infer_schema: InferSchema
) -> tuple[FileSchema, ...]:
    """Return the schema of each file with lines.

    `infer_schema` infers the types of a file. Where only Spark can divide files into lines and fields, it infers each.
    """
    try:
        check_broken_files(spark, source.options)
        syntax = _CsvSyntax.of(source)
        lines = _first_lines(spark, source, listing, syntax)
    except UnsupportedError:
        return _infer_all(spark, source, listing)
    by_line: dict[str, t.StructType] = {}
    schemas = []
    for file, line in lines:
        if syntax.infers_types and source.schema is None:
            schema = infer_schema([escape_glob(decode_uri(file.uri))])
        else:
            if line not in by_line:
                by_line[line] = _header(spark, source, line, syntax) if syntax.has_header else _fields(line, syntax)
            schema = by_line[line]
        schemas.append(FileSchema(location(decode_uri(file.uri)), schema))
    return tuple(schemas)


@dataclass(frozen=True)
class _CsvSyntax:
    """The options of a CSV source for lines and fields."""

    has_header: bool
    infers_types: bool
    comment: str
    signs: CsvSigns

    @classmethod
    def of(cls, source: Source) -> _CsvSyntax:
        """Return the options of a source. Raises UnsupportedError if only Spark can divide its files into fields."""
        options = source.options
        encoding = options.get("encoding", options.get("charset", "utf-8")).lower()
        if encoding not in ("utf-8", "utf8") or {"linesep", "multiline"} & options.keys():
            raise UnsupportedError("only Spark can divide the files into lines")
        has_header, signs = is_option_on(options, "header"), CsvSigns.of(options)
        if not has_header and (len(signs.sep) != 1 or max(len(signs.quote), len(signs.escape)) > 1):
            raise UnsupportedError("only Spark can divide the lines into fields")
        return cls(has_header, is_option_on(options, "inferschema"), options.get("comment", ""), signs)


def _infer_all(spark: SparkSession, source: Source, listing: Listing) -> tuple[FileSchema, ...]:
    """Return the schemas that Spark infers for CSV files, with a small job for each file."""
    options = {key: text for key, text in source.options.items() if key != "basepath"}
    if source.schema is not None:
        options["inferschema"] = "false"
    schemas = []
    for uri in listing.uris:
        schema = spark.read.format("csv").options(**options).load(escape_glob(decode_uri(uri))).schema
        if schema.fields:
            schemas.append(FileSchema(location(decode_uri(uri)), schema))
    return tuple(schemas)


def _first_lines(
    spark: SparkSession, source: Source, listing: Listing, syntax: _CsvSyntax
) -> tuple[tuple[InputFile, str], ...]:
    """Return the first line of each file with lines. Raises UnsupportedError if only Spark can read the files."""
    files = listing.files(driver_storage_for(spark, listing.uris, source.options))
    if any(file.compression is None for file in files):
        raise UnsupportedError("a file may have a compression that only Spark supports")
    lines = map_files(lambda file: _first_line(file, syntax) if file.size else None, files)
    return tuple((file, line) for file, line in zip(files, lines, strict=True) if line is not None)


def _first_line(file: InputFile, syntax: _CsvSyntax) -> str | None:
    """Return the first line that is neither blank nor a comment, or None if there is none."""
    comment = syntax.comment.encode()
    lines = header_lines(file, comment, ends_at_returns=True)
    return next((line.decode("utf-8", "replace") for line in lines if is_row(line, comment)), None)


def _header(spark: SparkSession, source: Source, line: str, syntax: _CsvSyntax) -> t.StructType:
    """Return the columns of a header. Plain names are unchanged. For others, Spark runs a job."""
    signs = syntax.signs
    names = [
        name[1:-1] if len(name) > 1 and name[0] == name[-1] == signs.quote else name for name in line.split(signs.sep)
    ]
    special_values = {source.options.get("nullvalue"), source.options.get("emptyvalue")}
    if (
        all(_PLAIN_NAME.fullmatch(name) for name in names)
        and len({name.lower() for name in names}) == len(names)
        and special_values.isdisjoint(names)
        and not any(sign and sign in name for sign in (signs.quote, signs.escape) for name in names)
        and "samplingratio" not in source.options
    ):
        return t.StructType([t.StructField(name, t.StringType()) for name in names])
    options = {**source.options, "header": "true", "inferschema": "false"}
    lines = spark.createDataFrame([(line,)], "value string")
    return read_lines(spark.read.options(**options), source.format.value, lines).schema


def _fields(line: str, syntax: _CsvSyntax) -> t.StructType:
    signs = syntax.signs
    row = next(csv.reader([line], delimiter=signs.sep, quotechar=signs.quote or None, escapechar=signs.escape or None))
    return t.StructType([t.StructField(f"_c{position}", t.StringType()) for position in range(len(row))])


def required_field_count(spark: SparkSession, source: Source, uris: Sequence[str], paths: Sequence[ColumnPath]) -> int:
    """Return the number of fields to parse for the paths of a query, or 0 to keep the number that Spark finds.

    For high positions and slices without an end, the files are read once more to find the widest line. Modes that
    reject or drop lines of another width, and records of several lines, keep Spark's number.
    """
    options = source.options
    is_permissive = options.get("mode", "PERMISSIVE").upper() == "PERMISSIVE"
    if not is_permissive or is_option_on(options, "multiline"):
        return 0
    positions = [step.positions for path in paths for step in path.steps if isinstance(step, Elements)]
    count = max((position + 1 for step_positions in positions for position in step_positions), default=0)
    if len(positions) == len(paths) and count <= _MAX_FREE_FIELDS:
        return count
    return _widest(spark, source, uris)


def _widest(spark: SparkSession, source: Source, uris: Sequence[str]) -> int:
    """Return the number of fields in the widest line: its separators outside quotes, plus one."""
    options = source.options
    sep = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    reader = spark.read.options(**{key: options[key] for key in ("linesep",) if key in options})
    text = f.col("value")
    frame = reader.text([escape_glob(decode_uri(uri)) for uri in uris])
    if comment := options.get("comment"):
        frame = frame.where(~text.startswith(comment))
    if quote:
        inside = f"[^{re.escape(quote + escape)}]|{re.escape(escape)}.|{re.escape(quote * 2)}"
        text = f.regexp_replace(text, f.lit(f"{re.escape(quote)}({inside})*{re.escape(quote)}"), f.lit(""))
    (row,) = frame.select(f.max(f.size(f.split(text, re.escape(sep), -1)))).collect()
    return int(row[0] or 0)
