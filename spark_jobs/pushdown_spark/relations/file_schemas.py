"""Schemas of single files, read from footers, headers and first lines, or inferred by Spark."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import PushdownError, UnreadableFileError, UnsafeInputError, UnsupportedError
from pushdown_spark.expressions.session_settings import check_broken_files, is_option_on
from pushdown_spark.formats.avro.avro_schema import parse_schema
from pushdown_spark.formats.avro.avro_schema import spark_schema as to_spark_schema
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.formats.avro.spark_source import avro_settings
from pushdown_spark.formats.orc.file_schema import read_schema
from pushdown_spark.formats.text.line_reader import header_lines, is_row
from pushdown_spark.projection.file_locations import location
from pushdown_spark.projection.schema_merge import FileSchema
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.hadoop_storage import driver_storage_for
from pushdown_spark.relations.json_schemas import json_schemas
from pushdown_spark.relations.listing import (
    InputFile,
    Listing,
    decode_uri,
    escape_glob,
    is_local,
)
from pushdown_spark.relations.storage import REMEDY, storage_for
from pushdown_spark.runtime.jvm_gateway import read_lines

T = TypeVar("T")

_MAX_OPEN_FILES = 8
"""Number of files that are opened at the same time. Requests to an object store have a high latency."""
_PLAIN_NAME = re.compile("[A-Za-z0-9_]([A-Za-z0-9_ .:/()%-]*[A-Za-z0-9_)%])?")
"""Names that Spark takes from a header unchanged, with any options for spaces, quotes and empty names."""

InferSchema = Callable[[Sequence[str]], t.StructType]
"""Returns the schema that Spark infers for files (paths with escaped globs), with the options of the source."""


def file_schemas(
    spark: SparkSession,
    source: Source,
    listing: Listing,
    infer_schema: InferSchema,
    variants: t.StructType | None = None,
) -> tuple[FileSchema, ...]:
    """Return the schema of each file with rows, without partition columns.

    For JSON files, only the columns of `variants` if given. Raises UnsupportedError if options or the storage do not
    allow an inference, and typed errors for damaged files.
    """
    if source.format is SourceFormat.CSV:
        try:
            check_broken_files(spark, source.options)
            syntax = _Csv.of(source)
            lines = _first_lines(spark, source, listing, syntax)
        except UnsupportedError:
            return _infer_csv(spark, source, listing)
        return _csv_schemas(spark, source, syntax, lines, infer_schema)
    check_broken_files(spark, source.options)
    if source.format is SourceFormat.JSON:
        return json_schemas(spark, source, variants)
    storage = storage_for(spark, listing.uris, source.options)
    files = [file for file in listing.files(storage) if file.size]
    if source.format is SourceFormat.AVRO:
        any_extension = avro_settings(spark, source.options).any_extension
        files = [file for file in files if any_extension or file.uri.endswith(".avro")]
    readers: dict[SourceFormat, Callable[[InputFile], t.StructType | str]] = {
        SourceFormat.ORC: lambda file: read_schema(file.path, file.storage)[0],
        SourceFormat.AVRO: partial(_avro_schema, {}),
        SourceFormat.PARQUET: _parquet_footer,
    }
    return _footer_schemas(files, readers[source.format], infer_schema)


def _footer_schemas(
    files: Sequence[InputFile], read: Callable[[InputFile], t.StructType | str], infer_schema: InferSchema
) -> tuple[FileSchema, ...]:
    """Return the schemas of files with a schema of their own. For a string, Spark infers it once for all equal ones."""
    results = _map_files(partial(_read_or_error, read), files)
    by_footer: dict[str, t.StructType] = {}
    schemas: list[FileSchema] = []
    for file, result in zip(files, results, strict=True):
        if isinstance(result, Exception):
            schema = _infer_by_spark(file, infer_schema, result)
        elif isinstance(result, str):
            if result not in by_footer:
                by_footer[result] = _infer_by_spark(file, infer_schema)
            schema = by_footer[result]
        else:
            # Equal schemas become one object: schemas are merged once for each object.
            schema = schemas[-1].schema if schemas and schemas[-1].schema == result else result
        schemas.append(FileSchema(location(decode_uri(file.uri)), schema))
    return tuple(schemas)


def _read_or_error(read: Callable[[InputFile], T], file: InputFile) -> T | Exception:
    """Return the schema of a file, or the error of reading it. Files come from unknown writers."""
    try:
        return read(file)
    except Exception as problem:
        return problem


def _infer_by_spark(file: InputFile, infer_schema: InferSchema, problem: Exception | None = None) -> t.StructType:
    """Return the schema that Spark infers for a file. Raises the first error if Spark cannot read the file either."""
    try:
        return infer_schema([escape_glob(decode_uri(file.uri))])
    except (PushdownError, PySparkException, Py4JError) as spark_problem:
        if problem is None or isinstance(problem, UnsafeInputError):
            raise
        if not isinstance(problem, PushdownError):
            first = str(problem).partition("\n")[0]
            problem = UnreadableFileError(f"cannot read {file.path}: {first}; {REMEDY}")
        raise problem from spark_problem


def _map_files(read: Callable[[InputFile], T], files: Sequence[InputFile]) -> list[T]:
    """Return the result of `read` for each file. It runs in threads if the files are objects."""
    if all(is_local(file.uri) for file in files):
        return [read(file) for file in files]
    with ThreadPoolExecutor(_MAX_OPEN_FILES) as pool:
        return list(pool.map(read, files))


def _avro_schema(cache: dict[str, t.StructType], file: InputFile) -> t.StructType:
    """Return the schema of a file. `cache` has the schema of each JSON string, which many files share."""
    text = read_header(file.path, file.storage).schema
    if text not in cache:
        cache[text] = to_spark_schema(parse_schema(text))
    return cache[text]


def _parquet_footer(file: InputFile) -> str:
    """Return the schema of a footer as a string. Spark infers each distinct schema once."""
    with file.storage.open(file.path, ahead=0) as raw:
        footer = pq.read_metadata(pa.PythonFile(raw, "r"))
    # The first line of the schema has the address of the object in memory.
    _, _, fields = str(footer.schema).partition("\n")
    return f"{fields}{sorted((footer.metadata or {}).items())}"


@dataclass(frozen=True)
class _Csv:
    """The options of a CSV source for lines and fields."""

    header: bool
    infers: bool
    comment: str
    sep: str
    quote: str
    escape: str

    @classmethod
    def of(cls, source: Source) -> _Csv:
        """Return the options of a source. Raises UnsupportedError if only Spark can divide its files into fields."""
        options = source.options
        encoding = options.get("encoding", options.get("charset", "utf-8")).lower()
        if encoding not in ("utf-8", "utf8") or {"linesep", "multiline"} & options.keys():
            raise UnsupportedError("only Spark can divide the files into lines")
        sep = options.get("sep", options.get("delimiter", ","))
        syntax = cls(
            is_option_on(options, "header"),
            is_option_on(options, "inferschema"),
            options.get("comment", ""),
            "\t" if sep == "\\t" else sep,
            options.get("quote", '"'),
            options.get("escape", "\\"),
        )
        signs = (syntax.sep, syntax.quote or " ", syntax.escape or " ")
        if not syntax.header and any(len(sign) != 1 for sign in signs):
            raise UnsupportedError("only Spark can divide the lines into fields")
        return syntax


def _infer_csv(spark: SparkSession, source: Source, listing: Listing) -> tuple[FileSchema, ...]:
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
    spark: SparkSession, source: Source, listing: Listing, syntax: _Csv
) -> tuple[tuple[InputFile, str], ...]:
    """Return the first line of each file with lines. Raises UnsupportedError if only Spark can read the files."""
    files = listing.files(driver_storage_for(spark, listing.uris, source.options))
    if any(file.compression is None for file in files):
        raise UnsupportedError("a file may have a compression that only Spark supports")
    lines = _map_files(lambda file: _first_line(file, syntax) if file.size else None, files)
    return tuple((file, line) for file, line in zip(files, lines, strict=True) if line is not None)


def _csv_schemas(
    spark: SparkSession,
    source: Source,
    syntax: _Csv,
    lines: Sequence[tuple[InputFile, str]],
    infer_schema: InferSchema,
) -> tuple[FileSchema, ...]:
    """Return the columns of each header, or a column for each field of the first line. Spark may infer types."""
    by_line: dict[str, t.StructType] = {}
    schemas = []
    for file, line in lines:
        if syntax.infers and source.schema is None:
            schema = infer_schema([escape_glob(decode_uri(file.uri))])
        else:
            if line not in by_line:
                by_line[line] = _header(spark, source, line, syntax) if syntax.header else _fields(line, syntax)
            schema = by_line[line]
        schemas.append(FileSchema(location(decode_uri(file.uri)), schema))
    return tuple(schemas)


def _first_line(file: InputFile, syntax: _Csv) -> str | None:
    """Return the first line that is neither blank nor a comment, None if there is none."""
    comment = syntax.comment.encode()
    lines = header_lines(file, comment, carriage_returns=True)
    return next((line.decode("utf-8", "replace") for line in lines if is_row(line, comment)), None)


def _header(spark: SparkSession, source: Source, line: str, syntax: _Csv) -> t.StructType:
    """Return the columns of a header. Plain names are unchanged. For others, Spark runs a job."""
    names = [
        name[1:-1] if len(name) > 1 and name[0] == name[-1] == syntax.quote else name for name in line.split(syntax.sep)
    ]
    signs = {source.options.get("nullvalue"), source.options.get("emptyvalue")}
    if (
        all(_PLAIN_NAME.fullmatch(name) for name in names)
        and len({name.lower() for name in names}) == len(names)
        and signs.isdisjoint(names)
        and not any(sign and sign in name for sign in (syntax.quote, syntax.escape) for name in names)
        and "samplingratio" not in source.options
    ):
        return t.StructType([t.StructField(name, t.StringType()) for name in names])
    options = {**source.options, "header": "true", "inferschema": "false"}
    lines = spark.createDataFrame([(line,)], "value string")
    return read_lines(spark.read.options(**options), source.format.value, lines).schema


def _fields(line: str, syntax: _Csv) -> t.StructType:
    row = next(
        csv.reader([line], delimiter=syntax.sep, quotechar=syntax.quote or None, escapechar=syntax.escape or None)
    )
    return t.StructType([t.StructField(f"_c{position}", t.StringType()) for position in range(len(row))])
