"""Lines that Spark may parse differently as strings than in their file. A scan that finds one leaves it to Spark.

Spark's file readers parse bytes. The pushdown readers pass candidate lines to the same parsers as strings.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from pushdown_spark.expressions.byte_patterns.csv import CsvSyntax
from pushdown_spark.expressions.byte_patterns.text import BytePattern, alternation, literal
from pushdown_spark.projection.nested_types import types_in

_BROKEN_ESCAPE = BytePattern(
    (),
    ("(?:^|[^\\\\])(?:\\\\\\\\)*\\\\u[0-9a-fA-F]{0,3}[\\x80-\\xff]",),
    (),
    "an escape that contains a non-ASCII character",
)
_NON_ASCII = BytePattern((), (), ("[\\x80-\\xff]",), "non-ASCII characters in a line with a binary column")
_BYTE_ORDER_MARK = BytePattern((), (), ("^\\xef\\xbb\\xbf",), "a byte order mark")


def ambiguous_json(schema: StructType) -> BytePattern:
    """Return the pattern of lines that Spark's byte parser and its string parser may parse differently after errors."""
    pattern = _BROKEN_ESCAPE
    if (strings := unquoted_string_values(schema)) is not None:
        pattern |= strings
    return pattern | _NON_ASCII if any(isinstance(part, BinaryType) for part in types_in(schema)) else pattern


def ambiguous_csv(syntax: CsvSyntax, *, skips_fields: bool) -> BytePattern:
    """Return the pattern of lines that Spark may parse differently in a file than alone.

    A parser drops a byte order mark from its first line. With `skips_fields`, a different rule finds the end of a
    quoted field that the query does not need. A quote after an escape does not end the field, even if the
    escape is escaped or is the opening quote of the field.
    """
    if not skips_fields:
        return _BYTE_ORDER_MARK
    quote, escape, sep = (f"\\x{ord(sign):02x}" for sign in (syntax.quote, syntax.escape, syntax.sep))
    if quote == escape:
        field = f"(?:^|{sep})[\\x00-\\x20]*(?:{quote}{quote})+[^{quote}\\n]+{quote}[{sep}\\n]"
    else:
        field = f"{escape}{escape}{quote}"
    return _BYTE_ORDER_MARK | BytePattern((field,), (), (), "quotes that end a skipped field differently")


def unquoted_string_values(schema: StructType) -> BytePattern | None:
    """Return the pattern of lines with a number or an object in a string column, or None without string columns.

    Spark's file reader keeps these values as written. If the line is a string, Spark normalizes them.
    """
    strings: set[str] = set()
    lists: set[str] = set()
    maps: set[str] = set()
    _collect_string_fields(schema, strings, lists, maps)
    space = "[ \\t\\r]*"
    string = '"(?:[^"\\\\\\n]|\\\\.)*"|null|true|false'
    expressions: list[str] = []
    plain_value = "(?:[{\\[]|-?[0-9]+[.eE]|-0|[NI+]|-I)"
    for names, value in (
        (strings, plain_value),
        (lists, f'\\[(?:[ \\t\\r,]|{string})*[^ \\t\\r,"\\]\\nntf]'),
        (maps, f'\\{{(?:[ \\t\\r,:]|{string})*[^ \\t\\r,:"}}\\nntf]'),
    ):
        for group in alternation(literal(name) for name in sorted(names)):
            expressions.append(f"[\"']{group}[\"']{space}:{space}{value}")
    if not expressions:
        return None
    # A key with an escape ends at the next quote. Each of these expressions starts at a quote, so that a search with
    # backtracking passes over a line only once.
    escaped_keys = [
        f"{start}[^{quote}\\n]*{quote}{space}:{space}{plain_value}"
        for quote in ("'", '"')
        for start in (f"(?:^|{quote})[^{quote}\\\\\\n]*\\\\", f"\\\\{quote}")
    ]
    return BytePattern(tuple(expressions), tuple(escaped_keys), (), "a number or an object in a string column")


def _collect_string_fields(schema: StructType, strings: set[str], lists: set[str], maps: set[str]) -> None:
    """Add the names of fields that are strings, arrays of strings, and maps to strings, at any depth."""
    for field in schema.fields:
        inner = field.dataType
        if isinstance(inner, StringType):
            strings.add(field.name)
        elif isinstance(inner, ArrayType) and isinstance(inner.elementType, StringType):
            lists.add(field.name)
        elif isinstance(inner, MapType) and isinstance(inner.valueType, StringType):
            maps.add(field.name)
        for part in types_in(inner):
            if isinstance(part, StructType):
                _collect_string_fields(part, strings, lists, maps)
