"""The Join Order Benchmark's 113 queries over generated, skewed tables, because IMDB's data are not available.

The queries, the schemas and the row counts are those of the package `benchbox`. Few keys have most of the rows, the
same keys in every table, and strings have the values that the queries compare with.
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
from pushdown_spark.optimizer.plans.sql_reader import parse_query

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
_MAX_TYPES = 200
"""Tables with at most this number of rows list types. They have the same rows at any scale."""
_SKEW = 1.3
_SKEWS = {"keyword": 2.5, "company_name": 2.5}
_TYPES_SKEW = 3.0
"""Exponents that skew uniformly distributed keys. The first of 250,000 movies has 17 times its share."""
_FIRST_YEAR, _LAST_YEAR = 1880, 2015
_QUERIED_SHARE = 0.6
"""Share of a column's strings that queries compare with."""
_NULL_SHARE = 0.1
"""Share of NULLs in columns that are not keys."""


def movies(share: float, cache: Path) -> Workload:
    """Return the workload with a share of IMDB's rows. Its data are stored in a directory below `cache`."""
    data = cache / f"movies-{share:g}"
    manifest = tomllib.loads((_package() / "data_manifest.toml").read_text())
    tables = {table["name"]: table for table in manifest["tables"]}
    queries = _queries()
    rows = {
        name: table["row_count"] if table["row_count"] <= _MAX_TYPES else max(int(table["row_count"] * share), 1)
        for name, table in tables.items()
    }
    if not (data / "title.parquet").exists():
        data.mkdir(parents=True, exist_ok=True)
        values = _values(queries.values())
        # The last table marks complete data.
        for name in sorted(tables, key=lambda table: (table == "title", table)):
            _write(data, name, tables[name]["schema"], rows, values)
    return Workload(data, tuple(sorted(tables)), queries)


@cache
def _package() -> Path:
    """Return the directory of the queries. The package is not imported, because it requires ten more libraries."""
    spec = find_spec("benchbox")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("benchbox is not installed; it is listed in requirements/workloads.txt")
    return Path(spec.origin).parent / "core" / "joinorder"


def _queries() -> dict[str, str]:
    """Return the queries by name, 1a to 33c."""
    for node in ast.parse((_package() / "queries.py").read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CANONICAL_JOINORDER_QUERIES" and node.value:
            return {str(name): str(text).rstrip("; \n") for name, text in ast.literal_eval(node.value).items()}
    raise LookupError("benchbox has no dictionary of the queries")


def _values(queries: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    """Return the strings that conditions compare each column of a table with, in the order of the queries."""
    values: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
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
                        values[aliases[column.table], column.name][text] = None
    return {column: list(strings) for column, strings in values.items()}


def _write(
    data: Path,
    table: str,
    types: Mapping[str, str],
    rows: Mapping[str, int],
    queried: Mapping[tuple[str, str], list[str]],
) -> None:
    """Write a table's file. Values depend only on the number of their row and column."""
    columns = [
        f"{_column(table, name, kind, rows, queried.get((table, name), []))} AS {name}" for name, kind in types.items()
    ]
    query = f"SELECT {', '.join(columns)} FROM range(1, {rows[table] + 1}) AS rows(number)"
    target = data / f"{table}.parquet"
    duckdb.connect().execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, ROW_GROUP_SIZE 100000)")


def _column(table: str, name: str, kind: str, rows: Mapping[str, int], queried: list[str]) -> str:
    """Return the SQL expression of a column's values."""
    first, second = (
        f"(hash('{table}.{name} {which} ' || number) / 18446744073709551616.0)" for which in ("one", "two")
    )
    if name == "id":
        return "number::INTEGER"
    if name in _REFERENCES:
        target = _REFERENCES[name]
        skew = _TYPES_SKEW if rows[target] <= _MAX_TYPES else _SKEWS.get(target, _SKEW)
        return f"(1 + floor({rows[target]} * pow({first}, {skew})))::INTEGER"
    if name == "md5sum":
        return "md5(number::VARCHAR)"
    if kind == "integer":
        years = f"{_LAST_YEAR} - {_LAST_YEAR - _FIRST_YEAR} * pow({second}, 3)"
        number = years if name == "production_year" else f"50 * {second}"
        return f"CASE WHEN {first} >= {_NULL_SHARE} THEN floor({number})::INTEGER END"
    strings = "([" + ", ".join(exp.Literal.string(text).sql(dialect="duckdb") for text in queried) + "]::VARCHAR[])"
    if table == "keyword" or rows[table] <= _MAX_TYPES:
        # Names of types are unique, and queried names have the most frequent keys.
        return f"coalesce({strings}[number], '{name} ' || number)"
    value = f"{strings}[1 + floor({len(queried)} * pow({second}, 2))::INTEGER]"
    other = f"'{name} ' || floor({second} * {rows[table]} / 10)::INTEGER"
    return (
        f"CASE WHEN {first} < {_NULL_SHARE} THEN NULL "
        f"WHEN {first} < {_NULL_SHARE + _QUERIED_SHARE} THEN coalesce({value}, {other}) "
        f"ELSE {other} END"
    )
