"""What our registered data sources share: local files, options, and Spark's pushed filters as predicates."""

from __future__ import annotations

import glob
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

from pyspark.sql import types as t
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
from sqlglot import exp

from pushdown_spark.errors import BadSpecError, MissingPathError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.relations.listing import InputFile

_COMPARISONS: dict[type[Filter], type[exp.Binary]] = {
    EqualTo: exp.EQ,
    EqualNullSafe: exp.NullSafeEQ,
    GreaterThan: exp.GT,
    GreaterThanOrEqual: exp.GTE,
    LessThan: exp.LT,
    LessThanOrEqual: exp.LTE,
}
_HADOOPS_SIGNS = ("{", "\\", "[^")
"""What stands for something else in Hadoop's patterns than in Python's."""
_TEXT_TESTS: dict[type[Filter], type[exp.Func]] = {
    StringStartsWith: exp.StartsWith,
    StringEndsWith: exp.EndsWith,
    StringContains: exp.Contains,
}


@dataclass
class TaskPartition(InputPartition):
    """A task of a scan by its number."""

    number: int

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def flag(options: Mapping[str, str], name: str) -> bool:
    """A switch that is off where nobody gives it. Raises BadSpecError where it is neither true nor false."""
    text = options.get(name, "false")
    if text.lower() not in ("true", "false"):
        raise BadSpecError(f"option {name}: {text!r} is neither true nor false")
    return text.lower() == "true"


def known_options(source_format: str, options: Mapping[str, str], known: Iterable[str]) -> None:
    """Raises BadSpecError for an option of which nothing would come, such as those of Spark's own file sources."""
    if odd := next((name for name in options if name.lower() not in known), None):
        raise BadSpecError(
            f"option {odd}: format {source_format!r} has none of that name, but {', '.join(known)}; PushdownSession "
            "takes those of Spark's own sources"
        )


def local_listing(source_format: str, options: Mapping[str, str]) -> tuple[InputFile, ...]:
    """The files that the option `path` names or that lie in the directories it names, as Spark lists them.

    Raises BadSpecError where there is no such option, it is not local, is a pattern that Python matches otherwise than
    Hadoop, or where directories tell columns (`key=value`); MissingPathError where it matches nothing.
    """
    path = options.get("path")
    if not path:
        raise BadSpecError(f"format {source_format!r} needs a path")
    if "://" in path and not path.startswith("file://"):
        raise BadSpecError(
            f"{path} is not local; format {source_format!r} reads local files, PushdownSession any others"
        )
    if sign := next((sign for sign in _HADOOPS_SIGNS if sign in path), None):
        raise BadSpecError(f"path {path!r}: format {source_format!r} knows no {sign!r} in paths, PushdownSession does")
    found: list[Path] = []
    for match in sorted(glob.glob(path.removeprefix("file://").removeprefix("file:"))):  # noqa: PTH207
        place = Path(match)
        found += _in_directory(place, source_format) if place.is_dir() else [place]
    shown = [place.absolute() for place in found if not _is_hidden(place.name)]
    if not shown:
        raise MissingPathError(f"path {path!r} matches no file; check it and run again")
    return tuple(InputFile(place.as_uri(), str(place), place.stat().st_size) for place in shown)


def _in_directory(directory: Path, source_format: str) -> list[Path]:
    """The files of a directory, without those in directories below it: as Spark does where these tell no columns."""
    for place in directory.rglob("*"):
        below = place.relative_to(directory).parts
        if any("=" in part for part in below[:-1]) and not any(map(_is_hidden, below)) and place.is_file():
            raise BadSpecError(
                f"{place.parent} tells columns by its name, which format {source_format!r} does not read; use "
                "PushdownSession"
            )
    return sorted(place for place in directory.iterdir() if place.is_file())


def _is_hidden(name: str) -> bool:
    """Whether Spark passes over what has such a name (its HadoopFSUtils.shouldFilterOutPathName)."""
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


def exact_filter(where: str, schema: t.StructType, *, case_sensitive: bool) -> ArrowFilter:
    """Raises BadSpecError unless the filter is all there is to the predicate: Spark does not evaluate it again."""
    predicate = parse_predicate(where)
    reason: str | None = "it does not parse"
    if predicate is not None:
        bound = bind(predicate, Scope(schema, case_sensitive=case_sensitive))
        if bound.artifact is not None and bound.is_exact:
            return ArrowFilter(bound.artifact)
        reason = bound.reason
    raise BadSpecError(f"option where: {where!r} cannot be evaluated over columns: {reason}; use .where(...) for it")


def take_filters(filters: Sequence[Filter], schema: t.StructType) -> tuple[list[ArrowFilter], list[Filter]]:
    """What can be evaluated over columns, and what Spark must evaluate (again)."""
    scope = Scope(schema, case_sensitive=True)
    taken, left = [], []
    for pushed in filters:
        node = expression(pushed)
        bound = None if node is None else bind(node, scope)
        if bound is not None and bound.artifact is not None:
            taken.append(ArrowFilter(bound.artifact))
        if bound is None or not bound.is_exact:
            left.append(pushed)
    return taken, left


def expression(pushed: Filter) -> exp.Expr | None:
    """Spark's filter as a predicate's AST; None for values that have no certain literal."""
    if isinstance(pushed, Not):
        inner = expression(pushed.child)
        return None if inner is None else exp.Not(this=exp.paren(inner))
    column = _column(getattr(pushed, "attribute", ()))
    if isinstance(pushed, IsNull | IsNotNull):
        test = exp.Is(this=column, expression=exp.Null())
        return test if isinstance(pushed, IsNull) else exp.Not(this=test)
    if isinstance(pushed, In):
        literals = [_literal(value) for value in pushed.value]
        known = [literal for literal in literals if literal is not None]
        return exp.In(this=column, expressions=known) if len(known) == len(literals) else None
    literal = _literal(getattr(pushed, "value", None))
    if literal is None:
        return None
    if type(pushed) in _COMPARISONS:
        return _COMPARISONS[type(pushed)](this=column, expression=literal)
    if type(pushed) in _TEXT_TESTS:
        return _TEXT_TESTS[type(pushed)](this=column, expression=literal)
    return None


def _column(path: Sequence[str]) -> exp.Expr:
    names = [exp.to_identifier(name, quoted=True) for name in path]
    return exp.Dot.build([exp.Column(this=names[0]), *names[1:]]) if len(names) > 1 else exp.Column(this=names[0])


def _literal(value: object) -> exp.Expr | None:
    """The literal that Spark reads as just this value."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | Decimal):
        number = exp.Literal.number(format(abs(value), "f") if isinstance(value, Decimal) else str(abs(value)))
        return exp.Neg(this=number) if value < 0 else number
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    if isinstance(value, date) and not isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DataType.Type.DATE)
    return None


def _double(value: float) -> exp.Expr | None:
    """A number with an exponent is a double, and 17 digits tell any two of them apart."""
    if not math.isfinite(value):
        return None
    number = exp.Literal.number(f"{abs(value):.17e}")
    return exp.Neg(this=number) if value < 0 else number
