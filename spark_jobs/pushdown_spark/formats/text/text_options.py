"""Reader options and session settings: whether byte search is sound with them, and how they affect it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructType,
    VarcharType,
    VariantType,
)

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.byte_patterns.csv import CsvSyntax
from pushdown_spark.expressions.byte_patterns.spellings import TIMESTAMPS, CalendarSyntax, Offsets
from pushdown_spark.expressions.scope import is_char
from pushdown_spark.expressions.session_settings import (
    RequiredSetting,
    check_broken_files,
    check_meaning,
    check_required_settings,
    is_option_on,
    rejects_old_dates,
    setting,
)
from pushdown_spark.expressions.types import LogicalType
from pushdown_spark.formats.text.line_filter import LineSyntax
from pushdown_spark.projection.nested_types import has_datetime, types_in
from pushdown_spark.runtime.jvm_gateway import has_jvm, java_class
from pushdown_spark.runtime.spark_internals import check_hadoop_settings, reader_configuration
from pushdown_spark.sources.declaration import CsvSigns
from pushdown_spark.sources.request import ScanRequest

_UTF8 = frozenset({"utf-8", "utf8"})
_LISTING_OPTIONS = frozenset(
    {"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "ignoremissingfiles", "basepath"}
)
_INFERENCE_OPTIONS = frozenset({"samplingratio", "inferschema", "prefersdate", "preferdate", "inferintervals"})
_COMMON_OPTIONS = (
    _LISTING_OPTIONS
    | _INFERENCE_OPTIONS
    | {"mode", "multiline", "encoding", "charset", "linesep", "compression", "codec"}
)
_COMMON_OPTIONS |= {"dateformat", "timestampformat", "timestampntzformat", "timezone", "columnnameofcorruptrecord"}
_JSON_OPTIONS = _COMMON_OPTIONS | {
    "allowsinglequotes",
    "allownonnumericnumbers",
    "primitivesasstring",
    "prefersdecimal",
    "dropfieldifallnull",
    "infertimestamp",
}
_CSV_OPTIONS = _COMMON_OPTIONS | {
    "header",
    "sep",
    "delimiter",
    "quote",
    "escape",
    "nullvalue",
    "emptyvalue",
    "nanvalue",
    "positiveinf",
    "negativeinf",
    "ignoreleadingwhitespace",
    "ignoretrailingwhitespace",
    "comment",
    "enforceschema",
}


_SETTINGS = (
    RequiredSetting("spark.sql.json.enablePartialResults", "true", "one malformed field makes the whole line NULL"),
    RequiredSetting("spark.sql.files.archive.reader.enabled", "false", "only Spark's readers read archives"),
    RequiredSetting(
        "spark.sql.json.enableExactStringParsing", "true", "numbers and objects in string columns are rewritten"
    ),
)
_HADOOP_SETTINGS = (
    RequiredSetting("io.compression.codecs", "", "only Hadoop knows which files are compressed"),
    RequiredSetting("mapreduce.input.linerecordreader.line.maxlength", "", "Hadoop skips longer lines"),
)
_DAY_SECONDS = 86_400
_UTC = frozenset({"UTC", "ETC/UTC", "Z"})
_NESTED_TYPES = (ArrayType, MapType, StructType, VariantType)


@dataclass(frozen=True)
class TextOptions:
    """The options of a source for byte search: the syntax of lines and of CSV fields."""

    lines: LineSyntax
    csv: CsvSyntax

    @property
    def calendar(self) -> CalendarSyntax:
        """How dates and timestamps are written, in CSV and in JSON."""
        return self.csv.calendar


def check_settings(spark: SparkSession, request: ScanRequest) -> None:
    """Raise UnsupportedError if the session's settings rule out byte search."""
    check_broken_files(spark, request.source.options)
    check_required_settings(spark, _SETTINGS)
    predicate = request.predicate
    check_meaning(spark, "" if predicate is None else predicate.sql)
    if has_jvm(spark):
        # With Spark Connect, only Spark's text source reads lines, and it follows Hadoop's settings itself.
        check_hadoop_settings(reader_configuration(spark, {}), _HADOOP_SETTINGS)
    if rejects_old_dates(spark) and has_datetime(request.read_schema):
        raise UnsupportedError(
            "spark.sql.legacy.timeParserPolicy is EXCEPTION: every line must be parsed to find errors"
        )
    corrupt = setting(spark, "spark.sql.columnNameOfCorruptRecord", "_corrupt_record")
    if corrupt in request.schema.fieldNames():
        raise UnsupportedError(f"column {corrupt} keeps corrupt lines, so every line must be parsed")


def check_text_options(
    source_format: SourceFormat, options: Mapping[str, str], schema: StructType, *, skips_fields: bool = False
) -> None:
    """Raise UnsupportedError if byte search is unsound with these options. Keys are in lower case.

    With `skips_fields`, Spark's CSV parser skips fields that the query does not need.
    """
    supported_options = _JSON_OPTIONS if source_format is SourceFormat.JSON else _CSV_OPTIONS
    unsupported_options = sorted(key for key in options if key not in supported_options)
    if unsupported_options:
        raise UnsupportedError(
            f"option {unsupported_options[0]} may change how Spark parses a line, or make it reject one"
        )
    _check_common(options, schema)
    if source_format is SourceFormat.CSV:
        _check_csv(options)
    else:
        _check_json(options, schema)
    sep = CsvSigns.of(options).sep
    if skips_fields and len(sep) > 1:
        raise UnsupportedError(f"Spark finds the separator {sep!r} by another rule in fields that it skips")


def _check_common(options: Mapping[str, str], schema: StructType) -> None:
    mode = options.get("mode", "PERMISSIVE").upper()
    if mode != "PERMISSIVE":
        raise UnsupportedError(f"mode={mode} must parse every line")
    if is_option_on(options, "multiline"):
        raise UnsupportedError("with multiLine, records are not lines")
    encoding = options.get("encoding", options.get("charset", "utf-8")).lower()
    if encoding not in _UTF8:
        raise UnsupportedError(f"encoding {encoding} is not UTF-8")
    if options.get("linesep", "\n") != "\n":
        raise UnsupportedError(f"lineSep {options['linesep']!r} is not a newline")
    corrupt = options.get("columnnameofcorruptrecord", "_corrupt_record")
    if corrupt in schema.fieldNames():
        raise UnsupportedError(f"column {corrupt} keeps corrupt lines, so every line must be parsed")
    has_length = any(isinstance(part, CharType | VarcharType) for part in types_in(schema))
    if has_length or any(map(is_char, schema.fields)):
        raise UnsupportedError("char and varchar columns are padded or checked when they are read")


def _check_json(options: Mapping[str, str], schema: StructType) -> None:
    if {"encoding", "charset"} & options.keys():
        raise UnsupportedError(
            "with a declared encoding, Spark rewrites numbers and objects in string columns before it compares them"
        )
    for field in schema.fields:
        if _has_string_in_nested_collections(field.dataType):
            raise UnsupportedError(
                f"column {field.name} has strings in nested arrays or maps, which Spark keeps as written"
            )


def _check_csv(options: Mapping[str, str]) -> None:
    signs = CsvSigns.of(options)
    for name, value in (("sep", signs.sep), ("quote", signs.quote), ("escape", signs.escape)):
        if not value or not value.isascii() or any(c.isalnum() or c in "\n\r\\+." for c in value if value != "\\"):
            raise UnsupportedError(f"{name} {value!r} may occur inside a value")
    if len(signs.quote) > 1 or len(signs.escape) > 1 or signs.sep == "\\":
        raise UnsupportedError("quote and escape must be single characters")
    if not is_option_on(options, "enforceschema", default=True):
        raise UnsupportedError("with enforceSchema=false, Spark checks the header of every file")


def text_options(
    source_format: SourceFormat,
    options: Mapping[str, str],
    schema: StructType,
    *,
    has_legacy_dates: bool,
    today: date,
    offsets: Offsets,
) -> TextOptions:
    """Return the options for lines that are parsed with a schema. `check_text_options` must have accepted them.

    With `has_legacy_dates`, Spark parses dates by the rules of Spark 2. `offsets` returns the offsets of timestamps
    without a zone.
    """
    is_json = source_format is SourceFormat.JSON
    plain_types: frozenset[LogicalType] = frozenset()
    if not has_legacy_dates and options.get("dateformat", "yyyy-MM-dd") == "yyyy-MM-dd":
        plain_types |= {LogicalType.DATE}
    if not has_legacy_dates and not {"timestampformat", "timestampntzformat"} & options.keys():
        plain_types |= TIMESTAMPS
    lines = LineSyntax(
        ends_at_returns="linesep" not in options,
        has_header=not is_json and is_option_on(options, "header"),
        comment=options.get("comment", "").encode() if not is_json else b"",
        requires_utf8=is_json,
        strips_bom=is_json,
        skips_blank=not is_json,
        has_nested_types=is_json and any(isinstance(field.dataType, _NESTED_TYPES) for field in schema.fields),
    )
    signs = CsvSigns.of(options)
    csv = CsvSyntax(
        sep=signs.sep,
        quote=signs.quote,
        escape=signs.escape,
        empty_value=options.get("emptyvalue", ""),
        trims=is_option_on(options, "ignoreleadingwhitespace") or is_option_on(options, "ignoretrailingwhitespace"),
        has_plain_numbers=not ({"nanvalue", "positiveinf", "negativeinf"} & options.keys()),
        today=today,
        calendar=CalendarSyntax(plain_types, offsets),
    )
    return TextOptions(lines, csv)


def uses_current_date_rules(spark: SparkSession) -> bool:
    """Return whether dates are parsed by current rules, not by those of Spark 2."""
    return setting(spark, "spark.sql.legacy.timeParserPolicy", "CORRECTED").upper() == "CORRECTED"


def zone_offsets(spark: SparkSession, zone: str) -> Offsets:
    """Return the function that finds the offsets of a zone. It asks the JVM only when it is called.

    Java's rules decide, because Python may know another version of them. The function raises UnsupportedError with
    Spark Connect, unless the zone is UTC.
    """

    def offsets(low: int, high: int) -> Sequence[int]:
        if not has_jvm(spark):
            if zone.upper() in _UTC:
                return [0]
            raise UnsupportedError(f"Spark Connect does not show the rules of time zone {zone}")
        rules = java_class(spark, "org.apache.spark.sql.catalyst.util.DateTimeUtils").getZoneId(zone).getRules()
        instant = java_class(spark, "java.time.Instant").ofEpochSecond(low - _DAY_SECONDS)
        totals = [int(rules.getOffset(instant).getTotalSeconds())]
        transition = rules.nextTransition(instant)
        while transition is not None and int(transition.toEpochSecond()) <= high + _DAY_SECONDS:
            totals.append(int(transition.getOffsetAfter().getTotalSeconds()))
            transition = rules.nextTransition(transition.getInstant())
        return totals

    return offsets


def _has_string_in_nested_collections(data_type: DataType, depth: int = 0) -> bool:
    """Return whether a string is inside more than one collection below its nearest key."""
    if isinstance(data_type, StringType):
        return depth > 1
    if isinstance(data_type, StructType):
        return any(_has_string_in_nested_collections(field.dataType) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return _has_string_in_nested_collections(data_type.elementType, depth + 1)
    return isinstance(data_type, MapType) and _has_string_in_nested_collections(data_type.valueType, depth + 1)
