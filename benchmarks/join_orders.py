"""Quality of join orders, measured as rows through the joins of TPC-H's queries relative to the best order.

Nothing is timed, so the results do not depend on the machine. DuckDB counts the rows of every connected set of a
query's relations. With these counts, the published and permuted FROM orders, as Spark joins them by default, and the
orders of our optimizer are compared with the cheapest left-deep order. Subqueries in WHERE are left out. The table has
the published order, and the permutations with the median and the 90th percentile of rows in Spark's order, which
`benchmarks.joins` times.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from benchmarks.joins import prepare
from benchmarks.result_files import command_line, is_chosen, table_head, table_line, write_page
from benchmarks.sessions import benchmark_session
from benchmarks.tpch_joins import QUERIES, TABLES, JoinQuery
from pushdown_spark.contract import JoinOptions, JoinReport, JoinTree
from pushdown_spark.optimizer.join_order.enumeration import connected_components
from pushdown_spark.optimizer.passes.push_predicates import implied_predicates
from pushdown_spark.optimizer.plans.column_names import ColumnNameResolver
from pushdown_spark.optimizer.plans.logical_plan import JoinChain, JoinKind, column_equality, extract_chain, owner
from pushdown_spark.optimizer.plans.select_block import SelectBlock, select_blocks
from pushdown_spark.optimizer.plans.sql_reader import parse_query
from pushdown_spark.session import PushdownSession

Names = frozenset[str]
_MOST = 500_000_000
"""A set of relations that gives more rows is not counted on: no order that goes through it is a good one."""


class Counts:
    """The row counts of joins of a query's relations with all conditions between them."""

    def __init__(self, text: str, data: Path) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        columns = {}
        for table in TABLES:
            path = data / f"{table}.parquet"
            self._connection.execute(f"CREATE VIEW {table} AS FROM '{path}'")
            columns[table] = frozenset(map(str.lower, pq.read_schema(path).names))
        self._block, self._chain = _largest(text, columns)
        self.relations = tuple(sorted(self._block.relations))
        # Spark infers predicates for single relations from an OR over several relations, in any order.
        implied_conditions = [
            part for conjunct in self._chain.conjuncts for part in implied_predicates(conjunct, self._block.columns)
        ]
        self._conditions = (*self._chain.conjuncts, *implied_conditions)
        self._classes = self._equal()
        self.rows = cache(self._count_rows)

    def _equal(self) -> list[frozenset[tuple[str, str]]]:
        """Return the columns that equalities connect, as relation and name."""
        groups: list[frozenset[tuple[str, str]]] = []
        for conjunct in self._chain.conjuncts:
            pair = column_equality(conjunct.node) if conjunct.is_joinable else None
            if pair is None:
                continue
            group = frozenset((owner(column, self._block.columns) or "", column.name) for column in pair)
            groups = [
                *(each for each in groups if not each & group),
                group.union(*(each for each in groups if each & group)),
            ]
        return groups

    def are_connected(self, names: Names) -> bool:
        """Return whether equalities, including implied ones, or other binary conditions connect a set of relations."""
        return len(self._parts(names)) == 1

    def _meet(self, one: str, two: str) -> bool:
        if any(conjunct.is_joinable and conjunct.names == {one, two} for conjunct in self._chain.conjuncts):
            return True
        return any({one, two} <= {relation for relation, _ in group} for group in self._classes)

    def _count_rows(self, names: Names) -> int:
        tables = ", ".join(self._block.relations[name].sql(dialect="duckdb") for name in sorted(names))
        conditions = [
            conjunct.node.sql(dialect="duckdb")
            for conjunct in self._conditions
            if conjunct.is_joinable and conjunct.names <= names
        ]
        for group in self._classes:
            members = [f"{relation}.{column}" for relation, column in sorted(group) if relation in names]
            conditions += [f"{one} = {two}" for one, two in pairwise(members)]
        where = " AND ".join(f"({each})" for each in conditions) or "true"
        rows = f"SELECT 1 FROM {tables} WHERE {where} LIMIT {_MOST}"
        (count,) = self._connection.execute(f"SELECT count(*) FROM ({rows})").fetchone() or (0,)
        return int(count)

    def through(self, tree: JoinTree) -> int:
        """Return the rows through the joins of a tree. A cross product has the product of its sides."""
        return sum(self._through(node) for node in tree.nodes() if node.sides)

    def _through(self, node: JoinTree) -> int:
        names = _names(node)
        if node.kind != JoinKind.CROSS.value and self.are_connected(names):
            return self.rows(names)
        left, right = (self._size(_names(side)) for side in node.sides)
        return left * right

    def _size(self, names: Names) -> int:
        return math.prod(map(self.rows, self._parts(names)))

    def _parts(self, names: Names) -> list[Names]:
        """Return the connected components of a set."""
        order = sorted(names)
        edges = [
            sum(1 << other for other, two in enumerate(order) if one != two and self._meet(one, two)) for one in order
        ]
        return [
            frozenset(name for place, name in enumerate(order) if part >> place & 1)
            for part in connected_components(edges)
        ]

    def best(self) -> int:
        """Return the rows through the joins of the cheapest left-deep order without cross products."""

        @cache
        def cheapest(names: Names) -> float:
            if len(names) == 1:
                return 0
            lasts = [name for name in names if self.are_connected(names - {name})]
            return self.rows(names) + min((cheapest(names - {name}) for name in lasts), default=float("inf"))

        return int(cheapest(frozenset(self.relations)))


def _largest(text: str, columns: Mapping[str, Names]) -> tuple[SelectBlock, JoinChain]:
    """Return the SELECT of a query with the most relations."""
    names = ColumnNameResolver(columns)
    chains = [
        (block, chain)
        for block in select_blocks(parse_query(text), names.columns_of)
        if (chain := extract_chain(block.plan)) is not None
    ]
    return max(chains, key=lambda each: len(each[1].items))


def _names(tree: JoinTree) -> Names:
    return frozenset(node.relation for node in tree.nodes() if node.relation is not None)


@dataclass(frozen=True)
class OrderComparison:
    """A query in one FROM order: rows in Spark's order, in ours, and in the best left-deep order."""

    query: str
    permutation: int
    spark: int
    ours: int
    best: int

    @property
    def ratio(self) -> float:
        """Our rows relative to the best order's rows."""
        return self.ours / max(self.best, 1)


def compare_orders(
    session: PushdownSession, data: Path, query: JoinQuery, permutations: int
) -> Iterator[OrderComparison]:
    """Yield a query in its published order and in permuted orders."""
    counts = Counts(query.text(), data)
    best = counts.best()
    for number in range(permutations + 1):
        joins = session.sql(query.text(number), JoinOptions(min_bytes=0)).joins()
        report: JoinReport = max(joins, key=lambda join: len(_names(join.before)))
        yield OrderComparison(query.name, number, counts.through(report.before), counts.through(report.after), best)


def rank_orders(found: Sequence[OrderComparison]) -> dict[str, OrderComparison]:
    """Return a query's published order and two permutations by their name in the table."""
    by_rows = sorted((each for each in found if each.permutation), key=lambda each: each.spark)
    ranks = {"median": 50, "90th percentile": 90}
    permuted = {
        f"{name}: permutation {chosen.permutation}": chosen
        for name, percent in ranks.items()
        for chosen in by_rows[(len(by_rows) * percent - 1) // 100 :][:1]
    }
    return {"published": next(each for each in found if not each.permutation), **permuted}


def table(found: Sequence[OrderComparison]) -> list[str]:
    """Return the lines of a Markdown table and a summary."""
    lines = table_head(("query", "order", "rows by Spark's order", "by ours", "best left-deep", "ours / best"))
    by_rank: dict[str, list[OrderComparison]] = defaultdict(list)
    for query in dict.fromkeys(each.query for each in found):
        for order, each in rank_orders([each for each in found if each.query == query]).items():
            cells = [query, order, *(f"{rows:,}" for rows in (each.spark, each.ours, each.best)), f"{each.ratio:.2f}"]
            lines.append(table_line(cells))
            by_rank[order.partition(":")[0]].append(each)
    summaries = [f"{name}: {_summarize([each.ratio for each in chosen])}" for name, chosen in by_rank.items()]
    summaries.append(f"all orders: {_summarize([each.ratio for each in found])}")
    spark = _summarize([each.spark / max(each.best, 1) for each in found])
    return [*lines, "", f"Our rows over the best order's, {'; '.join(summaries)}. Spark's, all orders: {spark}."]


def _summarize(ratios: Sequence[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f} in geometric mean and {max(ratios):,.2f} at most"


def main() -> None:
    """Compare all queries and write the table as Markdown."""
    parser = command_line(__doc__, rounds=1, scale=float)
    parser.add_argument("--permutations", type=int, default=99)
    arguments = parser.parse_args()
    data = prepare(arguments.scale, arguments.cache)
    spark = benchmark_session()
    session = PushdownSession(spark)
    for name in TABLES:
        session.add_source(name, path=str(data / f"{name}.parquet"), format="parquet", reader="spark")
    about = (
        f"TPC-H, scale {arguments.scale:g}, Parquet. The rows of joins are counted, and no time is measured. A join "
        f"counts for at most {_MOST:,} rows."
    )
    page = arguments.results / f"join-orders-sf{arguments.scale:g}.md"
    orders: list[OrderComparison] = []
    for query in QUERIES:
        if not is_chosen(query.name, arguments.only):
            continue
        for each in compare_orders(session, data, query, arguments.permutations):
            orders.append(each)
            print(each, flush=True)
        # After every query, so that an interrupted run keeps the results.
        write_page(page, "Join orders: rows", about, table(orders))
    print(*table(orders), sep="\n")
    spark.stop()


if __name__ == "__main__":
    main()
