"""Random reader options and session settings: those that byte search supports, and those that it must reject."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from pushdown_spark.contract import SourceFormat

Choices = Mapping[str, Sequence[str]]

BOOLEANS = ("true", "false")
ZONES = ("UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "-12:00", "Asia/Kathmandu")

_COMMON: Choices = {
    "dateFormat": ("yyyy-MM-dd", "dd/MM/yyyy", "yyyyMMdd", "M-d-yy"),
    "timestampFormat": ("yyyy-MM-dd HH:mm:ss", "dd.MM.yyyy HH:mm"),
    "timestampNTZFormat": ("yyyy-MM-dd HH:mm:ss",),
    "timeZone": ZONES,
    "mode": ("PERMISSIVE", "permissive"),
    "columnNameOfCorruptRecord": ("_broken",),
    "compression": ("gzip", "none"),
    "lineSep": ("\n",),
}
_JSON: Choices = {
    "allowSingleQuotes": BOOLEANS,
    "allowNonNumericNumbers": BOOLEANS,
    "primitivesAsString": BOOLEANS,
    "prefersDecimal": BOOLEANS,
    "dropFieldIfAllNull": BOOLEANS,
}
_CSV: Choices = {
    "sep": (",", ";", "|", "\t", "||", "-", " ", ":", ", "),
    "quote": ('"', "'", "\x00"),
    "escape": ("\\", '"', "!", "'"),
    "header": BOOLEANS,
    "nullValue": ("", "null", "abc", "5", "1995-01-05"),
    "emptyValue": ("", "5", "abc", "true", "1995-01-05"),
    "ignoreLeadingWhiteSpace": BOOLEANS,
    "ignoreTrailingWhiteSpace": BOOLEANS,
    "comment": ("#", "a", "1"),
    "nanValue": ("NaN", "5"),
    "positiveInf": ("Inf", "5"),
    "negativeInf": ("-Inf", "5"),
    "encoding": ("UTF-8", "us-ascii"),
}
_REFUSED_OF_BOTH: Choices = {
    "mode": ("DROPMALFORMED", "FAILFAST"),
    "multiLine": ("true",),
    "lineSep": ("|", ";\n"),
    "locale": ("de-DE",),
    "enableDateTimeParsingFallback": BOOLEANS,
}
_REFUSED_OF_JSON: Choices = {
    "allowComments": ("true",),
    "allowUnquotedFieldNames": ("true",),
    "allowNumericLeadingZeros": ("true",),
    "allowBackslashEscapingAnyCharacter": ("true",),
    "allowUnquotedControlChars": ("true",),
    "encoding": ("UTF-8", "ISO-8859-1"),
}
_REFUSED_OF_CSV: Choices = {
    "charToEscapeQuoteEscaping": ("\\", "!"),
    "unescapedQuoteHandling": ("STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "SKIP_VALUE"),
    "enforceSchema": ("false",),
    "encoding": ("ISO-8859-1", "windows-1252"),
    "quote": ("",),
    "escape": ("+",),
    "sep": (".", "5"),
}
_SETTINGS: Choices = {
    "spark.sql.session.timeZone": ZONES,
    "spark.sql.legacy.timeParserPolicy": ("LEGACY", "LEGACY", "EXCEPTION"),
    "spark.sql.caseSensitive": ("true",),
    "spark.sql.csv.parser.columnPruning.enabled": ("false",),
    "spark.sql.sources.useV1SourceList": ("orc",),
    "spark.sql.legacy.csv.enableDateTimeParsingFallback": BOOLEANS,
    "spark.sql.legacy.json.enableDateTimeParsingFallback": BOOLEANS,
    "spark.sql.legacy.json.allowEmptyString.enabled": ("true",),
    "spark.sql.decimalOperations.allowPrecisionLoss": ("false",),
    "spark.sql.legacy.literal.pickMinimumPrecision": ("false",),
}
_REFUSED_SETTINGS: Choices = {
    "spark.sql.json.enablePartialResults": ("false",),
    "spark.sql.json.enableExactStringParsing": ("false",),
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": ("true",),
}
_SMALL_SPLITS = {"spark.sql.files.maxPartitionBytes": "300", "spark.sql.files.openCostInBytes": "0"}


def random_options(rng: random.Random, source_format: SourceFormat, *, refused: bool) -> dict[str, str]:
    """Return options, each set with some probability. With `refused`, one is unsupported by byte search."""
    is_json = source_format is SourceFormat.JSON
    options = draw(rng, _COMMON, 0.07) | draw(rng, _JSON if is_json else _CSV, 0.18)
    if refused:
        options |= _one(rng, {**_REFUSED_OF_BOTH, **(_REFUSED_OF_JSON if is_json else _REFUSED_OF_CSV)})
    return options


def random_settings(rng: random.Random, *, refused: bool) -> dict[str, str]:
    """Return session settings, each changed with some probability. Some cut files into splits of a few lines."""
    settings = draw(rng, _SETTINGS, 0.07) | draw(rng, {"spark.sql.session.timeZone": ZONES}, 0.4)
    settings |= _SMALL_SPLITS if rng.random() < 0.3 else {}
    return settings | (_one(rng, _REFUSED_SETTINGS) if refused else {})


def draw(rng: random.Random, choices: Choices, chance: float) -> dict[str, str]:
    """Return each key with some probability, with one of its values."""
    return {key: rng.choice(values) for key, values in choices.items() if rng.random() < chance}


def _one(rng: random.Random, choices: Choices) -> dict[str, str]:
    key = rng.choice(sorted(choices))
    return {key: rng.choice(choices[key])}
