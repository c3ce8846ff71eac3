"""Values of SQLite columns, which may hold any type whatever they are declared as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.literals import number
from pushdown_spark.databases.model import Dialect, RemoteColumn
from pushdown_spark.databases.render import all_of, any_of, binary, call, cast, is_null, negated, one_of, quoted
from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.vector import Kind

_STORAGE = {Kind.INTEGER: "INTEGER", Kind.DOUBLE: "REAL", Kind.STRING: "TEXT", Kind.BINARY: "BLOB"}
_AFFINITIES = (
    ("int", Kind.INTEGER),
    ("char", Kind.STRING),
    ("clob", Kind.STRING),
    ("text", Kind.STRING),
    ("blob", Kind.BINARY),
    ("real", Kind.DOUBLE),
    ("floa", Kind.DOUBLE),
    ("doub", Kind.DOUBLE),
)
"""SQLite's own rules, in its order; the first part of a declared type that is found decides."""
_EXACT_DIGITS = 15
"""Decimals of so many digits survive as doubles."""
_SECONDS = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class ValueForm:
    """`value` makes the tree of the value, `suspect` that of the rows where it may be another."""

    value: Callable[[], exp.Expr]
    suspect: Callable[[], exp.Expr] | None = None


def affinity(declared: str) -> Kind | None:
    """The kind that SQLite converts values to where it can; None for numbers of any sort."""
    if not declared.strip():
        return Kind.BINARY
    return next((kind for part, kind in _AFFINITIES if part in declared.lower()), None)


def value_form(column: RemoteColumn, kind: Kind, numbers: tuple[int, ...]) -> ValueForm:
    """How a column's values come to Spark: cast by SQLite, or only where they are of the form that is expected.

    Raises UnsupportedError for types whose values SQLite does not keep.
    """
    known = affinity(column.remote_type)
    if known is kind and kind in _STORAGE and (kind is not Kind.INTEGER or column.spark_type == t.LongType()):
        return ValueForm(lambda: _stored(column, kind))
    declared = column.remote_type.lower()
    if kind is Kind.BOOLEAN and "bool" in declared:
        return ValueForm(lambda: binary(exp.NEQ, cast(_bare(column), "INTEGER", Dialect.SQLITE), number(0)))
    if kind is Kind.DECIMAL and known is None:
        return _decimal(column, numbers)
    if kind is Kind.DATE and declared.startswith("date") and "time" not in declared:
        return ValueForm(lambda: _bare(column), lambda: _is_no_date(column))
    if kind is Kind.TIMESTAMP_NTZ and ("datetime" in declared or "timestamp" in declared):
        return ValueForm(lambda: _moment(column), lambda: _is_no_moment(column))
    spark = column.spark_type.simpleString()
    raise UnsupportedError(f"{column.name} is {declared or 'untyped'} in SQLite and {spark} in Spark")


def _bare(column: RemoteColumn) -> exp.Expr:
    return exp.Column(this=quoted(column.name))


def _stored(column: RemoteColumn, kind: Kind) -> exp.Expr:
    return _bare(column) if column.uniform else cast(_bare(column), _STORAGE[kind], Dialect.SQLITE)


def _decimal(column: RemoteColumn, numbers: tuple[int, ...]) -> ValueForm:
    """Decimals are doubles there; those that are no multiple of the scale are rounded by whoever reads them."""
    assert isinstance(column.spark_type, t.DecimalType)
    precision, scale = column.spark_type.precision, column.spark_type.scale
    if precision > _EXACT_DIGITS or numbers not in ((precision, scale), *([(precision,)] if scale == 0 else [])):
        raise UnsupportedError(f"{column.name} has more digits than SQLite keeps, or is not declared with them")

    def suspect() -> exp.Expr:
        kinds = [exp.Literal.string(name) for name in ("integer", "real", "null")]
        odd = negated(one_of(call("TYPEOF", _bare(column)), kinds, Dialect.SQLITE))
        rounded = binary(exp.NEQ, _bare(column), call("ROUND", _bare(column), number(scale)))
        large = binary(exp.GTE, call("ABS", _bare(column)), number(10 ** (precision - scale)))
        return any_of([odd, rounded, large])

    return ValueForm(lambda: _bare(column), suspect)


def _is_no_date(column: RemoteColumn) -> exp.Expr:
    """Not null, and not a date as SQLite itself writes it."""
    written = call("DATE", _bare(column))
    return all_of([negated(is_null(_bare(column))), negated(_same(written, _bare(column)))])


def _same(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return binary(exp.NullSafeEQ, left, exp.Collate(this=right, expression=exp.Var(this="BINARY")))


def _moment(column: RemoteColumn) -> exp.Expr:
    """The timestamp with six digits after the point, so that texts compare as times do."""
    has_fraction = binary(exp.GT, call("LENGTH", _bare(column)), number(19))
    digits = exp.Case(
        ifs=[exp.If(this=has_fraction, true=exp.Literal.string("000000"))], default=exp.Literal.string(".000000")
    )
    padded = binary(exp.DPipe, _bare(column), exp.Paren(this=digits))
    return call("SUBSTR", padded, number(1), number(26))


def _is_no_moment(column: RemoteColumn) -> exp.Expr:
    """Not null, and not `YYYY-MM-DD HH:MM:SS` with at most six digits behind a point."""
    start = call("SUBSTR", _bare(column), number(1), number(19))
    whole = _same(call("STRFTIME", exp.Literal.string(_SECONDS), start), start.copy())
    rest = call("SUBSTR", _bare(column), number(20))
    no_digits = exp.Glob(this=call("SUBSTR", _bare(column), number(21)), expression=exp.Literal.string("*[^0-9]*"))
    fraction = all_of(
        [
            exp.Glob(this=rest.copy(), expression=exp.Literal.string(".[0-9]*")),
            negated(no_digits),
            binary(exp.LTE, call("LENGTH", _bare(column)), number(26)),
        ]
    )
    is_text = binary(exp.EQ, call("TYPEOF", _bare(column)), exp.Literal.string("text"))
    clean = all_of([is_text, whole, any_of([binary(exp.EQ, rest, exp.Literal.string("")), fraction])])
    return all_of([negated(is_null(_bare(column))), negated(clean)])
