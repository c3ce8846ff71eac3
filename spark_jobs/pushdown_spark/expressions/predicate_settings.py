"""Session settings under which a predicate's text means something else to Spark than to those who read it here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Setting:
    """A setting, the value that is taken for granted, and what any other does; only to texts that hold `sign`."""

    key: str
    usual: str
    otherwise: str
    sign: str = ""


_SETTINGS = (
    _Setting("spark.sql.ansi.doubleQuotedIdentifiers", "false", "double quotes hold names", '"'),
    _Setting("spark.sql.parser.escapedStringLiterals", "false", "backslashes in literals mean themselves", "\\"),
    _Setting(
        "spark.sql.legacy.typeCoercion.datetimeToString.enabled", "false", "dates may be compared by their letters"
    ),
    _Setting("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "false", "numbers with an exponent are decimals"),
    _Setting(
        "spark.sql.legacy.literal.pickMinimumPrecision", "true", "whole numbers beside decimals are ten digits wide"
    ),
)


_HIDDEN = re.compile(r"\bIDENTIFIER\s*\(|\$\{", re.IGNORECASE)


def hides_names(spark: SparkSession, sql: str) -> bool:
    """Whether a query may mean columns whose names its text does not have."""
    patterns = spark.conf.get("spark.sql.parser.quotedRegexColumnNames", "false") == "true" and "`" in sql
    return patterns or _HIDDEN.search(sql) is not None


def misread(spark: SparkSession, where: str) -> str | None:
    """Why the session's settings make Spark read a predicate otherwise, or None where they do not."""
    for known in _SETTINGS:
        value = (spark.conf.get(known.key, known.usual) or known.usual).strip().lower()
        if known.sign in where and value != known.usual:
            return f"{known.key} is {value}: {known.otherwise}"
    return None
