"""The data and queries of TPC-H and TPC-DS from DuckDB's extensions, and permutations of their FROM lists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random

import duckdb
from sqlglot import exp

from pushdown_spark.optimizer.plans.sql_dialect import to_sql
from pushdown_spark.optimizer.plans.sql_reader import parse_query


@dataclass(frozen=True)
class Workload:
    """Tables as Parquet files in a directory, and queries by name in Spark's dialect."""

    data: Path
    tables: tuple[str, ...]
    queries: dict[str, str]


@dataclass(frozen=True)
class Generator:
    """A source of a workload: the Python package with DuckDB's extension, and the extension's functions."""

    package: str
    extension: str
    data_function: str
    queries_function: str

    def workload(self, scale: float, cache: Path) -> Workload:
        """Return the workload of a scale. Its data are stored in a directory below `cache`."""
        data = cache / f"{self.extension}-{scale:g}"
        queries_file = data / "queries.json"
        if not queries_file.exists():
            self._write(scale, data)
        tables = tuple(sorted(path.stem for path in data.glob("*.parquet")))
        return Workload(data, tables, json.loads(queries_file.read_text()))

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
        rows = connection.execute(f"SELECT query_nr, query FROM {self.queries_function}()").fetchall()
        (data / "queries.json").write_text(json.dumps({number: text.strip(" ;\n") for number, text in rows}))


TPCH = Generator("duckdb_extension_tpch", "tpch", "dbgen", "tpch_queries")
TPCDS = Generator("duckdb_extension_tpcds", "tpcds", "dsdgen", "tpcds_queries")


def permute(query: str, seed: int) -> str:
    """Return the query with the relations of every comma-separated FROM list in an order that depends on the seed."""
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
    """A named query, as published and with FROM lists in other orders."""

    name: str
    published: str
    seeds: tuple[int, ...]

    def orders(self) -> dict[str, str]:
        """Return the query in its orders by their names in tables."""
        others = {f"permutation {seed}": permute(self.published, seed) for seed in self.seeds}
        return {"published": self.published, **others}


_NOT_COMMAS = ("on", "using", "side", "kind", "method", "hint")


def most_relations(query: str) -> int:
    """Return the number of relations in the largest FROM list of a query."""
    selects = parse_query(query).find_all(exp.Select)
    return max((1 + len(select.args.get("joins") or ()) for select in selects), default=0)


def without_limit(query: str) -> str:
    """Return the query without its own LIMIT, because ties make its rows random."""
    tree = parse_query(query)
    tree.set("limit", None)
    return to_sql(tree)
