"""Schemas of single files, from footers, headers and first lines, or from Spark where only Spark can infer them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import PushdownError, UnreadableFileError, UnsafeInputError
from pushdown_spark.expressions.session_settings import setting
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.formats.avro.schema import parse_schema
from pushdown_spark.formats.avro.schema import spark_schema as avro_schema
from pushdown_spark.formats.avro.spark_source import avro_settings
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.projection.file_locations import location
from pushdown_spark.projection.schema_merge import FileSchema
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.json_schemas import NoSchemasError, json_schemas
from pushdown_spark.relations.listing import (
    Compression,
    InputFile,
    Split,
    decoded,
    escaped,
    input_files,
    input_uris,
    is_local,
)
from pushdown_spark.relations.storage import storage_for

T = TypeVar("T")

_READERS = 8
"""Files that are opened at the same time. Requests to an object store have a high latency."""
_HEAD = 64 << 10
"""Bytes at the start of a text file that usually contain the first line."""
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes."""

_PLAIN_NAME = re.compile("[A-Za-z0-9_]+")
"""Names that Spark takes from a header unchanged, with any options for spaces, quotes and empty names."""

Load = Callable[[Sequence[str]], DataFrame]
"""Loads files (paths with escaped globs) with the format and the options of the source."""


def file_schemas(
    spark: SparkSession, source: Source, native: DataFrame, load: Load, texts: t.StructType | None = None
) -> tuple[FileSchema, ...]:
    """Return the schema of each file with rows, without partition columns.

    For JSON files, only the columns of `texts` if given. Raises NoSchemasError if options or the storage do not allow
    an inference, and typed errors for damaged files.
    """
    broken = skips_broken_files(spark, source.options)
    storage = storage_for(spark, input_uris(native), source.options)
    if source.format is SourceFormat.CSV:
        lines = None if broken or isinstance(storage, str) else _first_lines(source, input_files(native, storage))
        return _told_by_spark(spark, source, native) if lines is None else _of_csv(spark, source, lines, load)
    if broken:
        raise NoSchemasError(broken)
    if source.format is SourceFormat.JSON:
        return json_schemas(spark, source, native, texts)
    if isinstance(storage, str):
        raise NoSchemasError(storage)
    files = [file for file in input_files(native, storage) if file.size]
    if source.format is SourceFormat.AVRO:
        files = _containers(spark, source, files)
    asked: dict[SourceFormat, Callable[[InputFile], t.StructType | str]] = {
        SourceFormat.ORC: _of_orc,
        SourceFormat.AVRO: partial(_of_avro, {}),
        SourceFormat.PARQUET: _footer,
    }
    told = _each(partial(_tried, asked[source.format]), files)
    by_footer: dict[str, t.StructType] = {}
    found = []
    for file, answer in zip(files, told, strict=True):
        if isinstance(answer, Exception):
            answer = _by_spark(file, load, answer)
        elif isinstance(answer, str):
            if answer not in by_footer:
                by_footer[answer] = _by_spark(file, load)
            answer = by_footer[answer]
        found.append(FileSchema(location(decoded(file.uri)), answer))
    return tuple(found)


def _tried(ask: Callable[[InputFile], T], file: InputFile) -> T | Exception:
    """Return the schema of a file, or the error of reading it. Files come from unknown writers."""
    try:
        return ask(file)
    except Exception as problem:
        return problem


def _by_spark(file: InputFile, load: Load, problem: Exception | None = None) -> t.StructType:
    """Return the schema that Spark infers for a file. Raises our error if Spark cannot read the file either."""
    try:
        return load([escaped(decoded(file.uri))]).schema
    except (PushdownError, PySparkException, Py4JError) as refused:
        if problem is None or isinstance(problem, UnsafeInputError):
            raise
        raise (problem if isinstance(problem, PushdownError) else _unreadable(file, problem)) from refused


def _each(ask: Callable[[InputFile], T], files: Sequence[InputFile]) -> list[T]:
    """Return the schema of each file, in threads if the files are objects."""
    if all(is_local(file.uri) for file in files):
        return [ask(file) for file in files]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(ask, files))


def skips_broken_files(spark: SparkSession, options: Mapping[str, str]) -> str | None:
    """Return why only Spark can read the files if damaged or missing files are to be skipped, None otherwise."""
    for key in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        if options.get(key.rpartition(".")[2].lower(), setting(spark, key, "false")).lower() == "true":
            return f"{key} is on, and only Spark's readers skip damaged files"
    return None


def _containers(spark: SparkSession, source: Source, files: Sequence[InputFile]) -> list[InputFile]:
    """Return the listed files that Spark's Avro source reads."""
    settings = avro_settings(spark, source.options)
    if isinstance(settings, str):
        raise NoSchemasError(settings)
    return [file for file in files if settings.any_extension or file.uri.endswith(".avro")]


def _of_orc(file: InputFile) -> t.StructType:
    # The messages of ORC's footers take a tenth of a second to load, whatever the format of the files is.
    from pushdown_spark.formats.orc.file_tail import read_tail, spark_schema

    with file.storage.open(file.path, ahead=0) as raw:

        def read(offset: int, length: int) -> bytes:
            raw.seek(offset)
            return raw.read(length)

        return spark_schema(read_tail(read, raw.size).types)


def _of_avro(known: dict[str, t.StructType], file: InputFile) -> t.StructType:
    """Return the schema of a file. `known` maps schema texts, which many files share, to their schemas."""
    text = read_header(file.path, file.storage).schema
    if text not in known:
        known[text] = avro_schema(parse_schema(text))
    return known[text]


def _footer(file: InputFile) -> str:
    """Return the schema of a footer as a string. Spark infers each distinct schema once."""
    with file.storage.open(file.path, ahead=0) as raw:
        found = pq.ParquetFile(pa.PythonFile(raw, "r"))
        return f"{found.schema}{sorted((found.schema_arrow.metadata or {}).items())}"


def _unreadable(file: InputFile, problem: Exception) -> UnreadableFileError:
    first = str(problem).partition("\n")[0]
    return UnreadableFileError(f"cannot read {file.path}: {first}; replace the file, or leave it out of `path`")


@dataclass(frozen=True)
class _Csv:
    """What the options of a CSV source say about lines."""

    header: bool
    infers: bool
    comment: str
    sep: str
    quote: str
    escape: str

    @classmethod
    def of(cls, source: Source) -> _Csv | None:
        """None for options with which only Spark tells lines and fields apart."""
        options = source.options
        encoding = options.get("encoding", options.get("charset", "utf-8")).lower()
        if encoding not in ("utf-8", "utf8") or {"linesep", "multiline"} & options.keys():
            return None
        sep = options.get("sep", options.get("delimiter", ","))
        found = cls(
            options.get("header", "false").lower() == "true",
            options.get("inferschema", "false").lower() == "true",
            options.get("comment", ""),
            "\t" if sep == "\\t" else sep,
            options.get("quote", '"'),
            options.get("escape", "\\"),
        )
        signs = (found.sep, found.quote or " ", found.escape or " ")
        return found if found.header or all(len(sign) == 1 for sign in signs) else None


def _told_by_spark(spark: SparkSession, source: Source, native: DataFrame) -> tuple[FileSchema, ...]:
    """Return the schemas that Spark infers for CSV files, with a small job for each file."""
    options = {key: text for key, text in source.options.items() if key != "basepath"}
    if source.schema is not None:
        options["inferschema"] = "false"
    found = []
    for uri in input_uris(native):
        schema = spark.read.format("csv").options(**options).load(escaped(decoded(uri))).schema
        if schema.fields:
            found.append(FileSchema(location(decoded(uri)), schema))
    return tuple(found)


@dataclass(frozen=True)
class _Lines:
    """The first line of each CSV file with lines."""

    syntax: _Csv
    lines: tuple[tuple[InputFile, str], ...]


def _first_lines(source: Source, files: Sequence[InputFile]) -> _Lines | None:
    """Return the first lines, None if only Spark can read them."""
    syntax = _Csv.of(source)
    if syntax is None or any(file.compression is None for file in files):
        return None
    lines = _each(lambda file: _first_line(file, syntax) if file.size else None, files)
    there = ((file, line) for file, line in zip(files, lines, strict=True) if line is not None)
    return _Lines(syntax, tuple(there))


def _of_csv(spark: SparkSession, source: Source, first: _Lines, load: Load) -> tuple[FileSchema, ...]:
    """Return the names of the header, or a column for each field of the first line; types if Spark infers them."""
    syntax = first.syntax
    known: dict[str, t.StructType] = {}
    found = []
    for file, line in first.lines:
        if syntax.infers and source.schema is None:
            schema = load([escaped(decoded(file.uri))]).schema
        else:
            if line not in known:
                known[line] = _names(spark, source, line, syntax) if syntax.header else _fields(line, syntax)
            schema = known[line]
        found.append(FileSchema(location(decoded(file.uri)), schema))
    return tuple(found)


def _first_line(file: InputFile, syntax: _Csv) -> str | None:
    """Return the first line that is neither blank nor a comment, None without one."""
    for split in _pieces(file):
        for window in LineReader(split).windows():
            for line in re.split(rb"[\r\n]+", bytes(window.view)):
                text = line.decode("utf-8", "replace").removeprefix("\ufeff")
                if text.strip(_JAVA_BLANKS) and not (syntax.comment and text.startswith(syntax.comment)):
                    return text
    return None


def _pieces(file: InputFile) -> Iterator[Split]:
    """Yield growing splits of a file from its start, because comments may come first."""
    start, end = 0, _HEAD if file.compression is Compression.NONE else file.size
    while start < file.size:
        yield file.split(start, min(end, file.size))
        start, end = end, 4 * end


def _names(spark: SparkSession, source: Source, line: str, syntax: _Csv) -> t.StructType:
    """Return the columns of a header. Plain names are unchanged; for others Spark runs a job."""
    names = line.split(syntax.sep)
    signs = {source.options.get("nullvalue"), source.options.get("emptyvalue")}
    if (
        all(_PLAIN_NAME.fullmatch(name) for name in names)
        and len({name.lower() for name in names}) == len(names)
        and signs.isdisjoint(names)
        and not any(sign and sign in line for sign in (syntax.quote, syntax.escape))
        and "samplingratio" not in source.options
    ):
        return t.StructType([t.StructField(name, t.StringType()) for name in names])
    return _header(spark, source, line)


def _header(spark: SparkSession, source: Source, line: str) -> t.StructType:
    options = {**source.options, "header": "true", "inferschema": "false"}
    lines = spark.createDataFrame([(line,)], "value string")
    return spark.read.options(**options).csv(lines).schema


def _fields(line: str, syntax: _Csv) -> t.StructType:
    row = next(
        csv.reader([line], delimiter=syntax.sep, quotechar=syntax.quote or None, escapechar=syntax.escape or None)
    )
    return t.StructType([t.StructField(f"_c{place}", t.StringType()) for place in range(len(row))])
