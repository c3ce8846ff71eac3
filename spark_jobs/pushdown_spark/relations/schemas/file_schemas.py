"""Schemas of single files: those of their footers, and those of text files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import (
    BadSchemaError,
    PushdownError,
    SchemaConflictError,
    UnreadableFileError,
    UnsafeInputError,
    UnsupportedError,
)
from pushdown_spark.expressions.session_settings import check_broken_files
from pushdown_spark.formats.avro.avro_schema import INTERVAL_MARK, parse_schema
from pushdown_spark.formats.avro.avro_schema import spark_schema as to_spark_schema
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.formats.avro.spark_source import allows_any_extension, check_avro_options
from pushdown_spark.formats.orc.file_schema import read_schema
from pushdown_spark.local_paths import escape_glob
from pushdown_spark.projection.file_locations import location
from pushdown_spark.projection.schema_merge import FileSchema
from pushdown_spark.relations.schemas.csv_schemas import InferSchema, csv_schemas
from pushdown_spark.relations.schemas.json_schemas import json_schemas
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.stores.listing import InputFile, Listing, decode_uri, files_with_content, map_files
from pushdown_spark.sources.stores.storage import REMEDY, storage_for

T = TypeVar("T")


def file_schemas(
    spark: SparkSession,
    source: Source,
    listing: Listing,
    infer_schema: InferSchema,
    variants: t.StructType | None,
) -> tuple[FileSchema, ...]:
    """Return the schema of each file with rows, without partition columns.

    For JSON files, only the columns of `variants` if given. Raises UnsupportedError if options, the storage or a type
    that Spark lacks do not allow an inference, and typed errors for damaged files.
    """
    if source.format is SourceFormat.CSV:
        return csv_schemas(spark, source, listing, infer_schema)
    check_broken_files(spark, source.options)
    if source.format is SourceFormat.JSON:
        return json_schemas(spark, source, listing, variants)
    storage = storage_for(spark, listing.uris, source.options)
    files = files_with_content(listing.files(storage))
    if source.format is SourceFormat.AVRO:
        check_avro_options(spark, source.options)
        if not allows_any_extension(spark, source.options):
            files = [file for file in files if file.uri.endswith(".avro")]
    readers: dict[SourceFormat, Callable[[InputFile], t.StructType | str]] = {
        SourceFormat.ORC: lambda file: read_schema(file.path, file.storage)[0],
        SourceFormat.AVRO: partial(_avro_schema, {}),
        SourceFormat.PARQUET: _parquet_footer,
    }
    return _footer_schemas(files, readers[source.format], infer_schema)


def _footer_schemas(
    files: Sequence[InputFile], read: Callable[[InputFile], t.StructType | str], infer_schema: InferSchema
) -> tuple[FileSchema, ...]:
    """Return the schemas of files that contain their schema. For a string, Spark infers it once for all equal ones."""
    results = map_files(partial(_read_or_error, read), files)
    # Spark infers the schema of a table from the first file, so the loader has its schema already.
    pairs = sorted(zip(files, results, strict=True), key=lambda pair: pair[0].path, reverse=True)
    first_files = {result: file for file, result in pairs if isinstance(result, str)}
    by_footer: dict[str, t.StructType] = {}
    schemas: list[FileSchema] = []
    for file, result in zip(files, results, strict=True):
        if isinstance(result, Exception):
            schema = _infer_by_spark(file, infer_schema, result)
        elif isinstance(result, str):
            if result not in by_footer:
                by_footer[result] = _infer_by_spark(first_files[result], infer_schema)
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
    """Return the schema that Spark infers for a file. Raises the first error if Spark cannot read the file either.

    Raises UnsupportedError for a file with a type that Spark lacks. Queries that do not need the column can read it.
    """
    try:
        return infer_schema([escape_glob(decode_uri(file.uri))])
    except (PushdownError, PySparkException, Py4JError) as spark_problem:
        if problem is None or isinstance(problem, UnsafeInputError):
            if not _is_unknown_type(spark_problem):
                raise _file_error(file, spark_problem) from spark_problem
            first = str(spark_problem).partition("\n")[0]
            raise UnsupportedError(f"Spark infers no schema for {file.path}: {first}") from spark_problem
        if not isinstance(problem, PushdownError):
            first = str(problem).partition("\n")[0]
            problem = UnreadableFileError(f"cannot read {file.path}: {first}; {REMEDY}")
        raise problem from spark_problem


def _file_error(file: InputFile, problem: Exception) -> PushdownError:
    """Return Spark's error about the schema of a file as an error that names the file."""
    place = location(decode_uri(file.uri))
    if isinstance(problem, AnalysisException) and problem.getCondition() == "COLUMN_ALREADY_EXISTS":
        name = (problem.getMessageParameters() or {}).get("columnName")
        return SchemaConflictError(
            f"{place} has several columns {name}, whose names differ only in case; set spark.sql.caseSensitive=true, "
            "or declare a schema without them"
        )
    return typed_error(problem, about=place)


def _is_unknown_type(problem: Exception) -> bool:
    """Return whether Spark has no type for the values of a Parquet column."""
    return isinstance(problem, AnalysisException) and (problem.getCondition() or "").startswith("PARQUET_TYPE_")


def _avro_schema(cache: dict[str, t.StructType], file: InputFile) -> t.StructType | str:
    """Return the schema of a file, or its JSON string if it has intervals, which only Spark infers.

    `cache` has the schema of each string, which many files share.
    """
    text = read_header(file.path, file.storage).schema
    if INTERVAL_MARK in text:
        return text
    if text not in cache:
        try:
            cache[text] = to_spark_schema(parse_schema(text))
        except BadSchemaError as problem:
            raise BadSchemaError(f"{location(decode_uri(file.uri))}: {problem}") from problem
    return cache[text]


def _parquet_footer(file: InputFile) -> str:
    """Return the schema of a footer as a string. Spark infers each distinct schema once."""
    with file.storage.open(file.path, ahead=0) as raw:
        footer = pq.read_metadata(pa.PythonFile(raw, "r"))
    # The first line of the schema has the address of the object in memory.
    _, _, fields = str(footer.schema).partition("\n")
    return f"{fields}{sorted((footer.metadata or {}).items())}"
