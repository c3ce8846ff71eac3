"""Random predicates over the columns of a file, with values that the file has."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as t
from random_predicates import Leaf, leaves, predicate, quote
from spark_results import SPARK_ERRORS

_MAX_ROWS = 4_000
_SAMPLE = 60
"""The number of rows whose values the predicates have."""


def corpus_predicates(rng: random.Random, frame: DataFrame, columns: t.StructType, number: int) -> Iterator[str]:
    """Yield predicates over columns of a file: most with its values, some with values that all tests share."""
    operands = list(leaves(columns))
    values = _values(frame, operands)
    for _ in range(number):
        if rng.random() < 0.12:
            yield predicate(rng, operands, mixed=rng.random() < 0.3)
        else:
            yield _tree(rng, operands, values)


def _values(frame: DataFrame, operands: Sequence[Leaf]) -> dict[str, list[str]]:
    """Return some values of each column as SQL literals, or none for unsupported types."""
    texts = {name: _value_sql(name, kind) for name, kind in operands}
    items = {name: text for name, text in texts.items() if text is not None}
    if not items:
        return {}
    try:
        rows = (
            frame.selectExpr(*(f"{text} AS `v{n}`" for n, text in enumerate(items.values()))).limit(_MAX_ROWS).collect()
        )
    except SPARK_ERRORS:
        return {}
    rows = rows[:: max(1, len(rows) // _SAMPLE)]
    kinds = dict(operands)
    return {
        name: [_literal_of(row[n], kinds[name]) for row in rows if row[n] is not None] for n, name in enumerate(items)
    }


def _value_sql(name: str, kind: t.DataType) -> str | None:
    if isinstance(kind, t.BinaryType):
        return f"hex({name})"
    types = (t.BooleanType, t.NumericType, t.StringType, t.DateType, t.TimestampType, t.TimestampNTZType)
    return f"CAST({name} AS STRING)" if isinstance(kind, types) else None


def _literal_of(text: str, kind: t.DataType) -> str:
    match kind:
        case t.StringType():
            return quote(text[:200])
        case t.BinaryType():
            return f"X'{text[:200] if len(text) % 2 == 0 else ''}'"
        case t.BooleanType():
            return text
        case t.FloatType() | t.DoubleType() | t.DecimalType():
            return f"CAST('{text}' AS {kind.simpleString()})"
        case t.DateType():
            return f"CAST('{text}' AS DATE)"
        case t.TimestampType():
            return f"CAST('{text}' AS TIMESTAMP)"
        case t.TimestampNTZType():
            return f"CAST('{text}' AS TIMESTAMP_NTZ)"
        case t.LongType() if text == "-9223372036854775808":
            return "CAST('-9223372036854775808' AS BIGINT)"
    return text


def _tree(rng: random.Random, operands: Sequence[Leaf], values: Mapping[str, list[str]], depth: int = 0) -> str:
    roll = rng.random()
    if depth < 2 and roll < 0.3:
        word = rng.choice((" AND ", " AND ", " OR "))
        return "(" + word.join(_tree(rng, operands, values, depth + 1) for _ in range(rng.choice((2, 2, 3)))) + ")"
    if depth < 2 and roll < 0.36:
        return f"NOT ({_tree(rng, operands, values, depth + 1)})"
    name, kind = rng.choice(operands)
    constants = values.get(name)
    if not constants or rng.random() < 0.05:
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    value = rng.choice(constants)
    roll = rng.random()
    if isinstance(kind, t.StringType) and roll < 0.3:
        return _text_test(rng, name, value)
    if roll < 0.45:
        return f"{name} {rng.choice(('=', '=', '<=>', '<>'))} {value}"
    if roll < 0.6:
        return f"{name} {rng.choice(('<', '<=', '>', '>='))} {value}"
    if roll < 0.7:
        return f"({name} >= {value} AND {name} {rng.choice(('<', '<='))} {rng.choice(constants)})"
    if roll < 0.8:
        return f"{name} BETWEEN {value} AND {rng.choice(constants)}"
    many = ", ".join(rng.choice(constants) for _ in range(rng.choice((1, 2, 3, 12))))
    return f"{name} {rng.choice(('', '', 'NOT '))}IN ({many})"


def _text_test(rng: random.Random, name: str, value: str) -> str:
    """Return LIKE or a similar test with a part of a value, whose wildcards are mostly escaped."""
    content = value[1:-1].replace("\\'", "'").replace("\\\\", "\\")
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.choice((1, 3, 8, 40))]
    if rng.random() < 0.3:
        return f"{rng.choice(('startswith', 'endswith', 'contains'))}({name}, {quote(part)})"
    pattern = rng.choice(("{}", "{}%", "%{}", "%{}%", "_{}%")).format(part.replace("\\", "\\\\"))
    return f"{name} {rng.choice(('', '', 'NOT '))}LIKE {quote(pattern)}"
