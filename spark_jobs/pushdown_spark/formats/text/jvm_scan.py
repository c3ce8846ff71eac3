"""Scans of JSON lines and CSV inside the JVM: Spark's text source reads the lines, and a string filter drops most.

The scan works on every file system and with every codec that Hadoop supports, and needs no Python workers.
"""

from __future__ import annotations

from functools import cached_property, reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from pushdown_spark.contract import Skipped, SourceFormat, SourceReport
from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.text.line_conditions import contains_string, matches_filter, matches_pattern
from pushdown_spark.formats.text.line_filter import JSON_TOKENS
from pushdown_spark.formats.text.line_parser import parse_lines
from pushdown_spark.formats.text.planner import JvmTextPlan
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.jvm_gateway import java_class, scala_map, scala_object, tree_nodes
from pushdown_spark.runtime.spark_internals import (
    executed_dataframe,
    java_session,
    java_type,
    query_execution,
    relation_dataframe,
)
from pushdown_spark.scan.base_scan import Scan, SparkCount
from pushdown_spark.scan.tasks import with_constants_by_line
from pushdown_spark.sources.request import Directories, ScanRequest

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
LINE = "__line"
"""The column of the lines."""
_BYTE_ORDER_MARK = "\ufeff"
_OTHER_ENCODINGS = (b"\0", b"{\0", b"[\0", b" \0", b"\t\0", b"\xfe\xff", b"\xff\xfe")
"""The start of lines that Spark's JSON parser reads as UTF-16 or UTF-32."""
BLANK = "^[\\x00-\\x20]*\\z"
"""Lines that Java's String.trim makes empty. Spark's CSV reader skips them."""
_NO_SUCH_KEY = "airflow_pushdown: a key that no line has"
_SYNTAX_OPTIONS = ("allowsinglequotes", "allownonnumericnumbers")
"""Options that decide whether a line is JSON."""
_EXCERPT = 60
"""Number of characters of a line that an error message shows."""


class JvmTextScan(Scan):
    """A string-search scan of one source by Spark's text source."""

    spark_counts = frozenset(SparkCount)

    def __init__(self, spark: SparkSession, request: ScanRequest, plan: JvmTextPlan) -> None:
        self._spark = spark
        self._request = request
        self._plan = plan

    def frame(self) -> DataFrame:
        """Return the candidate lines, parsed by Spark, with the requested implicit columns."""
        return self._rows

    @cached_property
    def _rows(self) -> DataFrame:
        # Spark's parser takes the lines out of their plan. This plan has their metrics.
        lines = executed_dataframe(self._candidates)
        uris = [file.uri for file in self._plan.files]
        return with_constants_by_line(parse_lines(self._spark, self._request, lines), self._request, uris)

    @cached_property
    def _candidates(self) -> DataFrame:
        """The lines that may satisfy the predicate. A line that may parse differently as a string is an error."""
        line = f.col(LINE)
        lines = self._lines()
        conditions = [matches_filter(self._spark, line, self._plan.strings)]
        if self._request.source.format is SourceFormat.JSON:
            # Only a literal of the type binary can have bytes that are not UTF-8.
            conditions += [line.startswith(f.lit(bytearray(start)).cast("string")) for start in _OTHER_ENCODINGS]
        is_candidate = reduce(or_, conditions)
        if self._request.source.format is SourceFormat.CSV:
            # Spark's CSV parser would read some blank lines as rows.
            is_candidate &= ~f.rlike(line, f.lit(BLANK))
        return lines.where(is_candidate).select(self._line_or_error(line).alias(LINE))

    def _lines(self) -> DataFrame:
        """Return all lines as one string column `LINE`. Spark Connect reads them in another way."""
        return _text_lines(self._spark, self._request)

    def _line_or_error(self, line: Column) -> Column:
        """Return the line for Spark's parser, or an expression that fails for a line that only Spark's reader reads."""
        spark, source = self._spark, self._request.source
        problems = [(contains_string(spark, line, "\0"), "a NUL byte, and may not be UTF-8")]
        ambiguous = self._plan.ambiguous
        problem = f"a line that Spark may parse differently when it reads the file (found: {ambiguous.label})"
        problems.append((matches_pattern(spark, line, ambiguous), problem))
        if source.format is SourceFormat.JSON:
            problems.insert(0, (~f.is_valid_utf8(line), "bytes that are not UTF-8"))
            line = f.when(line.startswith(_BYTE_ORDER_MARK), f.expr(f"substring({LINE}, 2)")).otherwise(line)
            if self._plan.syntax.has_nested_types:
                problems.append((self._is_malformed(line), "a line that is not JSON, which Spark may parse in part"))
        result = line
        for condition, problem in reversed(problems):
            result = f.when(condition, f.raise_error(_error(problem))).otherwise(result)
        return result

    def _is_malformed(self, line: Column) -> Column:
        """Return whether the line is neither JSON nor a sequence of JSON's tokens, as `parses_alike`."""
        options = {key: value for key, value in self._request.source.options.items() if key in _SYNTAX_OPTIONS}
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "malformed"}
        record = f.from_json(line, f"`{_NO_SUCH_KEY}` INT, malformed STRING", options)
        return record["malformed"].isNotNull() & ~f.rlike(line, f.lit(f"(?d)^{JSON_TOKENS}$"))

    def report(self) -> SourceReport:
        """Return the plan and, after a run, the number of lines. Spark's metrics have the bytes."""
        report = self._plan.report(self._request, "jvm")
        lines, candidates = self._counts()
        if not lines:
            return report
        skip_counts = {Skipped.LINES_NEVER_PARSED: lines - candidates}
        counts = {"rows_decoded": candidates, "rows_after_pushdown": candidates, "skipped": skip_counts}
        return report.model_copy(update=counts)

    def _counts(self) -> tuple[int, int]:
        """Return the number of lines that were read, and of candidates. Both are 0 before a run."""
        if "_candidates" not in self.__dict__:
            return 0, 0
        nodes = list(tree_nodes(query_execution(self._candidates).executedPlan()))
        filters = [node for node in nodes if node.nodeName() == "Filter"]
        return _rows_of(nodes[-1]), _rows_of(filters[-1]) if filters else 0


def _text_lines(spark: SparkSession, request: ScanRequest) -> DataFrame:
    """Return the lines of the files of a request as one string column `LINE`. Pruned partitions are not read.

    The DataFrame shares the listing of Spark's own DataFrame over the source, so that nothing is listed again and both
    read the same files.
    """
    index = request.listing.index
    schema = java_type(spark, StructType([StructField(LINE, StringType())]))
    # They include Hadoop's settings of the file system.
    options = scala_map(spark, request.source.options)
    source = java_class(spark, f"{_DATASOURCES}.text.TextFileFormat")()
    no_buckets = scala_object(spark, "scala.None")
    relation = java_class(spark, f"{_DATASOURCES}.HadoopFsRelation")(
        index, index.partitionSchema(), schema, no_buckets, source, options, java_session(spark)
    )
    lines = relation_dataframe(spark, relation)
    if request.directories is not None and request.directories.conjuncts:
        lines = lines.where(_in_directories(request.directories))
    return lines.select(quote_name(LINE))


def _in_directories(directories: Directories) -> Column:
    """Return whether a row is in one of the remaining partitions. Spark prunes partitions by it."""
    columns = [f.col(quote_name(name)) for name in directories.fields.fieldNames()]
    partitions = [
        reduce(and_, (column.eqNullSafe(f.expr(value)) for column, value in zip(columns, values, strict=True)))
        for values in dict.fromkeys(directories.values.values())
    ]
    return reduce(or_, partitions, f.lit(False))


def _error(problem: str) -> Column:
    """Return the message of an error that the driver recognizes as `UnsafeInputError`."""
    excerpt = f.regexp_replace(f.left(f.col(LINE), f.lit(_EXCERPT)), "[\\r\\n]", " ")
    description = f.concat(
        f.input_file_name(), f.lit(f" has {problem} ('"), excerpt, f.lit("'...); read it with reader='spark'")
    )
    return f.concat(f.lit(UnsafeInputError.plan_message("")), description)


def _rows_of(node: JavaObject) -> int:
    return max(int(node.metrics().apply("numOutputRows").value()), 0)
