"""The Join Order Benchmark's 113 queries over tables of its shape: skewed, and made here, since IMDB's cannot be had.

The queries, and the tables with their columns and numbers of rows, are those that the package `benchbox` brings. Few
keys have most of the rows, the same ones in every table, and texts have the values that the queries ask for.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import duckdb
from sqlglot import exp

from benchmarks.workloads import Workload
from pushdown_spark.optimizer.sql_reader import parse_query

_REFERENCES = {
    "movie_id": "title",
    "linked_movie_id": "title",
    "episode_of_id": "title",
    "person_id": "name",
    "person_role_id": "char_name",
    "company_id": "company_name",
    "company_type_id": "company_type",
    "info_type_id": "info_type",
    "keyword_id": "keyword",
    "kind_id": "kind_type",
    "link_type_id": "link_type",
    "role_id": "role_type",
    "subject_id": "comp_cast_type",
    "status_id": "comp_cast_type",
}
_MOST_TYPES = 200
"""Tables of up to so many rows list types, and have as many at any scale."""
_SKEW = 1.3
_SKEWS = {"keyword": 2.5, "company_name": 2.5}
_TYPES_SKEW = 3.0
"""The powers that make even keys uneven: of 250,000 movies the first has 17 times its share."""
_FIRST_YEAR, _LAST_YEAR = 1880, 2015
_ASKED_FOR = 0.6
"""The share of a column's texts that are ones that queries ask for."""
_MISSING = 0.1
"""The share of NULLs among values that are no keys."""


def movies(share: float, kept: Path) -> Workload:
    """The workload with a share of IMDB's rows; its data are kept in a directory below `kept`."""
    data = kept / f"movies-{share:g}"
    listed = tomllib.loads((_package() / "data_manifest.toml").read_text())
    tables = {table["name"]: table for table in listed["tables"]}
    queries = _queries()
    rows = {
        name: table["row_count"] if table["row_count"] <= _MOST_TYPES else max(int(table["row_count"] * share), 1)
        for name, table in tables.items()
    }
    if not (data / "title.parquet").exists():
        data.mkdir(parents=True, exist_ok=True)
        values = _values(queries.values())
        # The table that is looked for is the last one.
        for name in sorted(tables, key=lambda each: (each == "title", each)):
            _write(data, name, tables[name]["schema"], rows, values)
    return Workload(data, tuple(sorted(tables)), queries)


@cache
def _package() -> Path:
    """Where the queries are. The package is not imported: its other modules want ten more libraries."""
    spec = find_spec("benchbox")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("benchbox is not installed; it is listed in requirements/workloads.txt")
    return Path(spec.origin).parent / "core" / "joinorder"


def _queries() -> dict[str, str]:
    """The queries by their names, 1a to 33c."""
    for node in ast.parse((_package() / "queries.py").read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CANONICAL_JOINORDER_QUERIES" and node.value:
            return {str(name): str(text).rstrip("; \n") for name, text in ast.literal_eval(node.value).items()}
    raise LookupError("benchbox has no dictionary of the queries any more")


def _values(queries: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    """The texts that conditions compare each column of a table with, in the order of the queries."""
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for query in queries:
        tree = parse_query(query)
        aliases = {table.alias_or_name: table.name for table in tree.find_all(exp.Table)}
        for condition in tree.find_all(
            exp.EQ, exp.In, exp.Like, exp.GT, exp.LT, exp.GTE, exp.LTE, exp.Between, exp.NEQ
        ):
            column = condition.this
            if isinstance(column, exp.Column):
                for literal in condition.find_all(exp.Literal):
                    if literal.is_string:
                        text = re.sub("[%_]", "", literal.name)
                        found[aliases[column.table], column.name][text] = None
    return {column: list(texts) for column, texts in found.items()}


def _write(
    data: Path,
    table: str,
    types: Mapping[str, str],
    rows: Mapping[str, int],
    asked: Mapping[tuple[str, str], list[str]],
) -> None:
    """A table's file. What a row has in a column depends on their numbers alone."""
    columns = [
        f"{_column(table, name, kind, rows, asked.get((table, name), []))} AS {name}" for name, kind in types.items()
    ]
    query = f"SELECT {', '.join(columns)} FROM range(1, {rows[table] + 1}) AS rows(number)"
    target = data / f"{table}.parquet"
    duckdb.connect().execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, ROW_GROUP_SIZE 100000)")


def _column(table: str, name: str, kind: str, rows: Mapping[str, int], asked: list[str]) -> str:
    """The expression of a column's values."""
    one, two = (f"(hash('{table}.{name} {which} ' || number) / 18446744073709551616.0)" for which in ("one", "two"))
    if name == "id":
        return "number::INTEGER"
    if name in _REFERENCES:
        target = _REFERENCES[name]
        skew = _TYPES_SKEW if rows[target] <= _MOST_TYPES else _SKEWS.get(target, _SKEW)
        return f"(1 + floor({rows[target]} * pow({one}, {skew})))::INTEGER"
    if name == "md5sum":
        return "md5(number::VARCHAR)"
    if kind == "integer":
        years = f"{_LAST_YEAR} - {_LAST_YEAR - _FIRST_YEAR} * pow({two}, 3)"
        number = years if name == "production_year" else f"50 * {two}"
        return f"CASE WHEN {one} >= {_MISSING} THEN floor({number})::INTEGER END"
    texts = "([" + ", ".join(exp.Literal.string(text).sql(dialect="duckdb") for text in asked) + "]::VARCHAR[])"
    if table == "keyword" or rows[table] <= _MOST_TYPES:
        # What names a type comes once, and what is asked for has the keys that come most often.
        return f"coalesce({texts}[number], '{name} ' || number)"
    chosen = f"{texts}[1 + floor({len(asked)} * pow({two}, 2))::INTEGER]"
    other = f"'{name} ' || floor({two} * {rows[table]} / 10)::INTEGER"
    return (
        f"CASE WHEN {one} < {_MISSING} THEN NULL WHEN {one} < {_MISSING + _ASKED_FOR} THEN coalesce({chosen}, {other}) "
        f"ELSE {other} END"
    )
