"""The data and the queries of TPC-H and TPC-DS, as DuckDB's extensions bring them, and their FROM lists permuted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random

import duckdb
from sqlglot import exp

from pushdown_spark.optimizer.sql_dialect import to_sql
from pushdown_spark.optimizer.sql_reader import parse_query


@dataclass(frozen=True)
class Workload:
    """Tables as Parquet files in a directory, and queries by their names, in Spark's dialect."""

    data: Path
    tables: tuple[str, ...]
    queries: dict[str, str]


@dataclass(frozen=True)
class Generator:
    """What makes a workload: the Python package that holds DuckDB's extension, and the extension's functions."""

    package: str
    extension: str
    data_function: str
    queries_function: str

    def workload(self, scale: float, cache: Path) -> Workload:
        """The workload of a scale; its data are kept in a directory below `cache`."""
        data = cache / f"{self.extension}-{scale:g}"
        listed = data / "queries.json"
        if not listed.exists():
            self._write(scale, data)
        tables = tuple(sorted(path.stem for path in data.glob("*.parquet")))
        return Workload(data, tables, json.loads(listed.read_text()))

    def _write(self, scale: float, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        version = f"v{duckdb.__version__}"
        extension = files(self.package) / "extensions" / version / f"{self.extension}.duckdb_extension"
        connection = duckdb.connect()
        connection.load_extension(str(extension))
        connection.execute(f"CALL {self.data_function}(sf={scale})")
        for (table,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall():
            path = data / f"{table}.parquet"
            connection.execute(f"COPY {table} TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 100000)")
        found = connection.execute(f"SELECT query_nr, query FROM {self.queries_function}()").fetchall()
        (data / "queries.json").write_text(json.dumps({number: text.strip(" ;\n") for number, text in found}))


TPCH = Generator("duckdb_extension_tpch", "tpch", "dbgen", "tpch_queries")
TPCDS = Generator("duckdb_extension_tpcds", "tpcds", "dsdgen", "tpcds_queries")


def permuted(query: str, seed: int) -> str:
    """The query with the relations of every FROM list that only commas connect in an order that the seed decides."""
    tree = parse_query(query)
    random = Random(seed)
    for select in tree.find_all(exp.Select):
        joins = select.args.get("joins") or []
        source = select.args.get("from_")
        if source is None or not joins or any(join.args.get(part) for join in joins for part in _NOT_COMMAS):
            continue
        relations = [source.this, *(join.this for join in joins)]
        random.shuffle(relations)
        select.set("from_", exp.From(this=relations[0]))
        select.set("joins", [exp.Join(this=relation) for relation in relations[1:]])
    return to_sql(tree)


@dataclass(frozen=True)
class PermutedQuery:
    """A query by its name: as published, and its FROM lists in some other orders."""

    name: str
    published: str
    permutations: int

    def orders(self) -> dict[str, str]:
        """The query in its orders, by what tables call these."""
        others = {f"permutation {seed}": permuted(self.published, seed) for seed in range(1, self.permutations + 1)}
        return {"published": self.published, **others}


_NOT_COMMAS = ("on", "using", "side", "kind", "method", "hint")


def most_relations(query: str) -> int:
    """How many relations the largest FROM of a query has."""
    selects = parse_query(query).find_all(exp.Select)
    return max((1 + len(select.args.get("joins") or ()) for select in selects), default=0)


def without_limit(query: str) -> str:
    """The query without its own LIMIT: with ties, which rows it keeps is left to chance."""
    tree = parse_query(query)
    tree.set("limit", None)
    return to_sql(tree)
