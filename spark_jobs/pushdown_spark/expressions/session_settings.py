"""Session settings, and the values that they must have for the pushdown readers and parsers to agree with Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.names import NameRule


@dataclass(frozen=True)
class RequiredSetting:
    """A setting that must have a value, in lower case. `otherwise` is the effect of any other value.

    With `sign`, the value matters only for predicates that contain this string.
    """

    key: str
    value: str
    otherwise: str
    sign: str = ""


_OF_PREDICATES = (
    RequiredSetting("spark.sql.ansi.doubleQuotedIdentifiers", "false", "double quotes enclose names", '"'),
    RequiredSetting("spark.sql.parser.escapedStringLiterals", "false", "backslashes in literals are not escapes", "\\"),
    RequiredSetting(
        "spark.sql.legacy.typeCoercion.datetimeToString.enabled", "false", "dates may be compared with strings as text"
    ),
    RequiredSetting(
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled", "false", "numbers with an exponent are decimals"
    ),
    RequiredSetting(
        "spark.sql.legacy.literal.pickMinimumPrecision", "true", "integers compared with decimals have ten digits"
    ),
)
"""Settings that change the meaning of a predicate."""
_SETTINGS_CACHE: ContextVar[dict[tuple[SparkSession, str, str], str] | None] = ContextVar(
    "shared_settings", default=None
)
_HIDDEN_NAME = re.compile(r"\bIDENTIFIER\s*\(|\$\{", re.IGNORECASE)


def setting(spark: SparkSession, key: str, default: str) -> str:
    """Return a session setting without surrounding blanks, or the default."""
    cache = _SETTINGS_CACHE.get()
    if cache is not None and (spark, key, default) in cache:
        return cache[spark, key, default]
    value = (spark.conf.get(key, default) or default).strip()
    if cache is not None:
        cache[spark, key, default] = value
    return value


def is_enabled(spark: SparkSession, key: str, *, default: bool = False) -> bool:
    """Return whether a boolean setting is on. Like Spark, ignore its case and surrounding blanks."""
    return setting(spark, key, str(default)).lower() == "true"


@contextmanager
def shared_settings() -> Iterator[None]:
    """Ask the JVM for each session setting once within a block. Only `temporary_settings` may change them there."""
    token = _SETTINGS_CACHE.set({})
    try:
        yield
    finally:
        _SETTINGS_CACHE.reset(token)


@contextmanager
def temporary_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set session settings for a block, then restore them."""
    old_values = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        with shared_settings() if _SETTINGS_CACHE.get() is not None else nullcontext():
            yield
    finally:
        for key, old_value in old_values.items():
            if old_value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old_value)


def is_option_on(options: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Return whether a boolean option of a source is on. `key` is in lower case, as the keys of the options."""
    return options.get(key, str(default)).lower() == "true"


def check_broken_files(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Raise UnsupportedError if damaged or missing files are to be skipped. Options override the settings."""
    for key in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        if is_option_on(options, key.rpartition(".")[2].lower(), default=is_enabled(spark, key)):
            raise UnsupportedError(f"{key} is on, and only Spark's readers skip damaged files")


def rejects_old_dates(spark: SparkSession) -> bool:
    """Return whether text that only Spark 2 parses as a date or a timestamp is an error."""
    return setting(spark, "spark.sql.legacy.timeParserPolicy", "CORRECTED").upper() == "EXCEPTION"


def session_name_rule(spark: SparkSession) -> NameRule:
    """Return how Spark compares column names."""
    return NameRule(is_enabled(spark, "spark.sql.caseSensitive"))


def hides_names(spark: SparkSession, sql: str) -> bool:
    """Return whether a query may refer to columns whose names its text does not contain."""
    has_patterns = "`" in sql and is_enabled(spark, "spark.sql.parser.quotedRegexColumnNames")
    return has_patterns or _HIDDEN_NAME.search(sql) is not None


def check_required_settings(spark: SparkSession, settings: Iterable[RequiredSetting], where: str = "") -> None:
    """Raise UnsupportedError if a setting has another value than required. `where` is the predicate."""
    for item in settings:
        if item.sign not in where:
            continue
        actual = setting(spark, item.key, item.value).lower()
        if actual != item.value:
            raise UnsupportedError(f"{item.key} is {actual}: {item.otherwise}")


def check_meaning(spark: SparkSession, where: str) -> None:
    """Raise UnsupportedError if the session's settings give a predicate another meaning than the parser does."""
    check_required_settings(spark, _OF_PREDICATES, where)


def has_plain_meaning(spark: SparkSession, where: str) -> bool:
    """Return whether the session's settings give a predicate the meaning that the parser assumes."""
    try:
        check_meaning(spark, where)
    except UnsupportedError:
        return False
    return True
