"""Common parts of the registered data sources: local files, options, and Spark's pushed filters as predicates."""

from __future__ import annotations

import glob
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.errors import BadSpecError, MissingPathError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.relations.listing import InputFile

try:
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        InputPartition,
        IsNotNull,
        IsNull,
        LessThan,
        LessThanOrEqual,
        Not,
        StringContains,
        StringEndsWith,
        StringStartsWith,
    )
except ImportError:
    message = (
        "the data sources pushdown_orc, pushdown_avro and pushdown_remote need Spark 4.1 or newer; use PushdownSession"
    )
    raise ImportError(message) from None

_COMPARISONS: dict[type[Filter], type[exp.Binary]] = {
    EqualTo: exp.EQ,
    EqualNullSafe: exp.NullSafeEQ,
    GreaterThan: exp.GT,
    GreaterThanOrEqual: exp.GTE,
    LessThan: exp.LT,
    LessThanOrEqual: exp.LTE,
}
_HADOOP_GLOB_SYNTAX = ("{", "\\", "[^")
"""Syntax that has another meaning in Hadoop's glob patterns than in Python's."""
_STRING_TESTS: dict[type[Filter], type[exp.Func]] = {
    StringStartsWith: exp.StartsWith,
    StringEndsWith: exp.EndsWith,
    StringContains: exp.Contains,
}


@dataclass
class TaskPartition(InputPartition):
    """The number of one task of a scan."""

    number: int

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def boolean_option(options: Mapping[str, str], name: str) -> bool:
    """Return a boolean option, which is false by default. Raises BadSpecError if it is neither true nor false."""
    value = options.get(name, "false")
    if value.lower() not in ("true", "false"):
        raise BadSpecError(f"option {name}: {value!r} is neither true nor false")
    return value.lower() == "true"


def check_options(source_format: str, options: Mapping[str, str], supported: Iterable[str]) -> None:
    """Raise BadSpecError for an unsupported option, for example one of Spark's own file sources."""
    if unsupported := next((name for name in options if name.lower() not in supported), None):
        raise BadSpecError(
            f"option {unsupported}: format {source_format!r} supports only {', '.join(supported)}; use "
            "PushdownSession for the options of Spark's own sources"
        )


def list_local_files(source_format: str, options: Mapping[str, str]) -> tuple[InputFile, ...]:
    """Return the files that match the option `path`, and those in directories that match it, as Spark lists them.

    Raises BadSpecError if the option is missing, is not a local path, or has glob syntax that differs between Python
    and Hadoop, and for partition directories (`key=value`). Raises MissingPathError if no file matches.
    """
    path = options.get("path")
    if not path:
        raise BadSpecError(f"format {source_format!r} needs a path")
    if "://" in path and not path.startswith("file://"):
        raise BadSpecError(f"{path} is not local; format {source_format!r} reads local files only; use PushdownSession")
    if syntax := next((syntax for syntax in _HADOOP_GLOB_SYNTAX if syntax in path), None):
        raise BadSpecError(
            f"path {path!r}: format {source_format!r} does not support {syntax!r} in paths; use PushdownSession"
        )
    files: list[Path] = []
    for match in sorted(glob.glob(path.removeprefix("file://").removeprefix("file:"))):  # noqa: PTH207
        path_match = Path(match)
        files += _files_of_directory(path_match, source_format) if path_match.is_dir() else [path_match]
    visible = [file.absolute() for file in files if not _is_hidden(file.name)]
    if not visible:
        raise MissingPathError(f"path {path!r} matches no file; check it and run again")
    return tuple(InputFile(file.as_uri(), str(file), file.stat().st_size) for file in visible)


def _files_of_directory(directory: Path, source_format: str) -> list[Path]:
    """Return the files of a directory without those in subdirectories, as Spark does without partition columns.

    Raises BadSpecError for partition directories.
    """
    for file in directory.rglob("*"):
        parts = file.relative_to(directory).parts
        if any("=" in part for part in parts[:-1]) and not any(map(_is_hidden, parts)) and file.is_file():
            raise BadSpecError(
                f"{file.parent} is a partition directory, which format {source_format!r} does not support; use "
                "PushdownSession"
            )
    return sorted(file for file in directory.iterdir() if file.is_file())


def _is_hidden(name: str) -> bool:
    """Return whether Spark ignores files and directories with this name (HadoopFSUtils.shouldFilterOutPathName)."""
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


def exact_filter(where: str, schema: t.StructType, *, case_sensitive: bool) -> ArrowFilter:
    """Return the filter for a predicate.

    Raises BadSpecError unless the filter is exact, because Spark does not re-evaluate the predicate.
    """
    predicate = parse_predicate(where)
    reason: str | None = "it does not parse"
    if predicate is not None:
        bound = bind(predicate, Scope(schema, case_sensitive=case_sensitive))
        if bound.artifact is not None and bound.is_exact:
            return ArrowFilter(bound.artifact)
        reason = bound.reason
    raise BadSpecError(f"option where: {where!r} cannot be evaluated over columns: {reason}; use .where(...) instead")


def split_filters(filters: Sequence[Filter], schema: t.StructType) -> tuple[list[ArrowFilter], list[Filter]]:
    """Return filters that can be evaluated over columns, and the filters that Spark must evaluate or re-evaluate."""
    scope = Scope(schema, case_sensitive=True)
    supported, residual = [], []
    for pushed in filters:
        node = filter_expression(pushed)
        bound = None if node is None else bind(node, scope)
        if bound is not None and bound.artifact is not None:
            supported.append(ArrowFilter(bound.artifact))
        if bound is None or not bound.is_exact:
            residual.append(pushed)
    return supported, residual


def filter_expression(pushed: Filter) -> exp.Expr | None:
    """Return Spark's filter as an expression, None if a value cannot be written as an exact literal."""
    if isinstance(pushed, Not):
        inner = filter_expression(pushed.child)
        return None if inner is None else exp.Not(this=exp.paren(inner))
    column = _column(getattr(pushed, "attribute", ()))
    if isinstance(pushed, IsNull | IsNotNull):
        test = exp.Is(this=column, expression=exp.Null())
        return test if isinstance(pushed, IsNull) else exp.Not(this=test)
    if isinstance(pushed, In):
        literals = [literal for value in pushed.value if (literal := _literal(value)) is not None]
        return exp.In(this=column, expressions=literals) if len(literals) == len(pushed.value) else None
    literal = _literal(getattr(pushed, "value", None))
    if literal is None:
        return None
    if type(pushed) in _COMPARISONS:
        return _COMPARISONS[type(pushed)](this=column, expression=literal)
    if type(pushed) in _STRING_TESTS:
        return _STRING_TESTS[type(pushed)](this=column, expression=literal)
    return None


def _column(path: Sequence[str]) -> exp.Expr:
    names = [exp.to_identifier(name, quoted=True) for name in path]
    return exp.Dot.build([exp.Column(this=names[0]), *names[1:]]) if len(names) > 1 else exp.Column(this=names[0])


def _literal(value: object) -> exp.Expr | None:
    """Return the literal that Spark parses as exactly this value, None for unsupported types."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | Decimal):
        number = exp.Literal.number(format(abs(value), "f") if isinstance(value, Decimal) else str(abs(value)))
        return exp.Neg(this=number) if value < 0 else number
    if isinstance(value, float):
        # A literal with an exponent is a double. 17 digits identify every double.
        number = exp.Literal.number(f"{abs(value):.17e}")
        return None if not math.isfinite(value) else exp.Neg(this=number) if value < 0 else number
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    if isinstance(value, date) and not isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DataType.Type.DATE)
    return None
