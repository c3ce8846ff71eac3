"""Names in `columns` and `where` that a declared schema certainly lacks, found without a JVM.

    python -m pushdown_spark.projection.declared_names spec.json

prints the first error of a job spec as JSON, and nothing if there is none. A name is only an error if Spark would
certainly reject it. All doubtful cases pass, because the job itself checks every name.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from os import walk
from pathlib import Path
from urllib.parse import unquote

import sqlglot
from pyspark.sql.types import StringType, StructType
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from pushdown_spark.errors import BadPredicateError, PushdownError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.local_paths import local_path
from pushdown_spark.projection.field_names import FieldIndex, unknown_column
from pushdown_spark.projection.implicit_columns import BuiltInColumns
from pushdown_spark.projection.paths import parse_paths

_MAX_DIRECTORIES = 10_000
"""Larger trees are not searched for partition columns, and every name may be one of them."""
_UNCERTAIN_TEXT = re.compile(r"\\|\$\{|--|/\*")
"""Text whose tokens depend on settings of Spark."""
_COMPARISONS = (TokenType.EQ, TokenType.NEQ, TokenType.LTE, TokenType.GTE, TokenType.NULLSAFE_EQ)
_SPARK_NAMES = re.compile(r"_metadata|current_\w+|\w*user|local\w+", re.IGNORECASE)
"""Names that Spark itself knows: hidden columns, and functions without parentheses."""
_PLAIN_NODES = (
    *(exp.Connector, exp.Not, exp.Paren, exp.Is, exp.In, exp.Between, exp.Like, exp.RegexpLike),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Add, exp.Sub, exp.Mul),
)
"""Nodes whose operands are columns if they are names. In other nodes, names may be units or lambda variables."""


def check_source(source: Mapping[str, object], columns: Iterable[str] | None, where: str | None) -> None:
    """Raise UnknownColumnError or BadPredicateError for an error that Spark would certainly find in a file source."""
    if where is not None:
        check_syntax(where)
    schema = declared_columns(str(source.get("schema") or ""))
    if schema is None or source.get("implicit_columns"):
        return
    implicit = BuiltInColumns(source.get("implicit_names"))  # type: ignore[arg-type]
    # Case sensitivity is a setting, so a name that differs only in its case passes.
    index = FieldIndex(schema, name_rule=ANY_CASE)
    paths = [path for path in parse_paths(list(columns or ())) if not path.is_wildcard]
    source_columns = [("columns", path.head) for path in paths]
    source_columns += [("where", name) for name in predicate_columns(where or "", index)]
    for parameter, name in source_columns:
        is_known = name in index or implicit.column(name) is not None
        if not is_known and not _is_partition_column(name, source["path"]):  # type: ignore[arg-type]
            raise unknown_column(name, parameter, schema, implicit.names if parameter == "columns" else ())


def declared_columns(ddl: str) -> StructType | None:
    """Return the columns of a schema, without their types. Returns None for a schema that may be read otherwise.

    >>> declared_columns("a int, `b c` struct<x: string>").fieldNames()
    ['a', 'b c']
    """
    try:
        statement = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark")
    except (SqlglotError, RecursionError):
        return None
    table = statement.this
    fields = table.expressions if isinstance(table, exp.Schema) else []
    if not fields or not all(isinstance(field, exp.ColumnDef) and field.args.get("kind") for field in fields):
        return None
    schema = StructType()
    for field in fields:
        schema.add(field.name, StringType())
    return schema


def predicate_columns(where: str, index: FieldIndex) -> Iterator[str]:
    """Yield the names that are certainly columns in a predicate. A name with a qualifier counts if no part is known."""
    tree = parse_predicate(where) if where.strip() else None
    pending = [] if tree is None else [tree]
    while pending:
        node = pending.pop(0)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            parts = [part.name for part in node.parts]
            if not any(part in index or _SPARK_NAMES.fullmatch(part) for part in parts):
                yield parts[0]
        elif isinstance(node, _PLAIN_NODES):
            pending += [child for child in node.iter_expressions() if isinstance(child, exp.Expr)]


def check_syntax(where: str) -> None:
    """Raise BadPredicateError for parentheses without a partner, and for comparisons without an operand."""
    if _UNCERTAIN_TEXT.search(where):
        return
    try:
        tokens = sqlglot.tokenize(where, dialect="spark")
    except SqlglotError:
        return
    open_positions: list[int] = []
    for token, next_token in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type is TokenType.L_PAREN:
            open_positions.append(token.start)
        elif token.token_type is TokenType.R_PAREN:
            if not open_positions:
                raise _syntax_error("')' has no '('", where, token.start)
            open_positions.pop()
        if token.token_type in _COMPARISONS and _ends_comparison(next_token):
            raise _syntax_error(
                f"{token.text!r} has no right side", where, next_token.start if next_token else len(where)
            )
    if open_positions:
        raise _syntax_error("'(' has no ')'", where, open_positions[-1])
    if tokens and tokens[0].token_type in _COMPARISONS:
        raise _syntax_error(f"{tokens[0].text!r} has no left side", where, tokens[0].start)


def _ends_comparison(token: sqlglot.Token | None) -> bool:
    return token is None or token.token_type in (*_COMPARISONS, TokenType.R_PAREN)


def _syntax_error(problem: str, where: str, position: int) -> BadPredicateError:
    return BadPredicateError(f"where: {problem} (character {position + 1}, at {where[position:][:60]!r})")


def _is_partition_column(name: str, paths: Iterable[str]) -> bool:
    """Return whether a directory may have the values of a column. A path that is not local may have every column."""
    directory = f"{name.lower()}="
    for path in paths:
        local = local_path(path)
        if local is None or directory in unquote(path).lower():
            return True
        # A glob searches from its first directory without a wildcard.
        root = Path(local)
        while re.search(r"[*?\[{]", str(root)):
            root = root.parent
        if not root.exists():
            return True
        for number, (_, directories, _) in enumerate(walk(root, followlinks=True)):
            if number >= _MAX_DIRECTORIES or any(unquote(child).lower().startswith(directory) for child in directories):
                return True
    return False


def first_error(spec: Mapping[str, object]) -> PushdownError | None:
    """Return the first certain error in a job spec over one source of files, or None if there is none."""
    query, sources = spec["query"], spec["sources"]
    assert isinstance(query, dict)
    assert isinstance(sources, dict)
    source = sources.get(query.get("source"), {})
    if source.get("format") == "remote" or not source.get("schema"):
        return None
    try:
        check_source(source, query.get("columns"), query.get("where"))
    except PushdownError as problem:
        return problem
    return None


def main() -> None:
    """Print the first error of the job spec in the file of the argument as JSON."""
    error = first_error(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if error is not None:
        print(json.dumps({"code": error.code.value, "message": str(error), "retryable": error.code.retryable}))


if __name__ == "__main__":
    main()
