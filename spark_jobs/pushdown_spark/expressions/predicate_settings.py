"""Session settings with which Spark reads a predicate differently from our parser."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Setting:
    """A setting, the value that our parser assumes, and the effect of other values on SQL that contains `sign`."""

    key: str
    assumed: str
    effect: str
    sign: str = ""


_SETTINGS = (
    _Setting("spark.sql.ansi.doubleQuotedIdentifiers", "false", "double quotes enclose names", '"'),
    _Setting("spark.sql.parser.escapedStringLiterals", "false", "backslashes in literals are not escapes", "\\"),
    _Setting("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "false", "dates may be compared as strings"),
    _Setting("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "false", "numbers with an exponent are decimals"),
    _Setting("spark.sql.legacy.literal.pickMinimumPrecision", "true", "integers next to decimals have ten digits"),
)

_HIDDEN_NAMES = re.compile(r"\bIDENTIFIER\s*\(|\$\{", re.IGNORECASE)


def hides_names(spark: SparkSession, sql: str) -> bool:
    """Return whether a query may refer to columns whose names do not occur in its SQL."""
    has_patterns = spark.conf.get("spark.sql.parser.quotedRegexColumnNames", "false") == "true" and "`" in sql
    return has_patterns or _HIDDEN_NAMES.search(sql) is not None


def misread(spark: SparkSession, where: str) -> str | None:
    """Return why the session's settings make Spark read a predicate differently, None if they do not."""
    for setting in _SETTINGS:
        value = (spark.conf.get(setting.key, setting.assumed) or setting.assumed).strip().lower()
        if setting.sign in where and value != setting.assumed:
            return f"{setting.key} is {value}: {setting.effect}"
    return None
