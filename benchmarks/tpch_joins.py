"""The TPC-H queries whose join order matters, with separate FROM lists that can be permuted."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")


@dataclass(frozen=True)
class JoinQuery:
    """A query: SELECT list, relations in their published order, and the SQL after the FROM list.

    Two of the permutations 1 to 99 have names: the median and the 90th percentile of rows through the joins in Spark's
    default order, as `benchmarks.join_orders` counts them at scale 1.
    """

    name: str
    median: int
    ninetieth: int
    select: str
    relations: tuple[str, ...]
    rest: str
    around: str = "{}"

    def text(self, permutation: int = 0) -> str:
        """Return the query as published, or with its relations permuted by a number."""
        relations = list(self.relations)
        if permutation:
            Random(f"{self.name} {permutation}").shuffle(relations)
        return self.around.format(f"SELECT {self.select} FROM {', '.join(relations)} {self.rest}")

    def orders(self) -> dict[str, str]:
        """Return the query as published and in two permuted orders, by their names in tables.

        The permutations are those with the median and the 90th percentile of rows.
        """
        return {
            "published": self.text(),
            "median": self.text(self.median),
            "90th percentile": self.text(self.ninetieth),
        }


_REVENUE = "sum(l_extendedprice * (1 - l_discount)) AS revenue"

QUERIES = (
    JoinQuery(
        "Q2",
        84,
        18,
        "s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment",
        ("part", "supplier", "partsupp", "nation", "region"),
        """WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
        AND ps_supplycost = (SELECT min(ps2.ps_supplycost) FROM partsupp ps2, supplier s2, nation n2, region r2
            WHERE part.p_partkey = ps2.ps_partkey AND s2.s_suppkey = ps2.ps_suppkey
            AND s2.s_nationkey = n2.n_nationkey AND n2.n_regionkey = r2.r_regionkey AND r2.r_name = 'EUROPE')
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    ),
    JoinQuery(
        "Q3",
        98,
        78,
        f"l_orderkey, {_REVENUE}, o_orderdate, o_shippriority",
        ("customer", "orders", "lineitem"),
        """WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    ),
    JoinQuery(
        "Q5",
        15,
        44,
        f"n_name, {_REVENUE}",
        ("customer", "orders", "lineitem", "supplier", "nation", "region"),
        """WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
        AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
        AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name ORDER BY revenue DESC""",
    ),
    JoinQuery(
        "Q7",
        47,
        12,
        "n1.n_name AS supp_nation, n2.n_name AS cust_nation, year(l_shipdate) AS l_year, "
        "l_extendedprice * (1 - l_discount) AS volume",
        ("supplier", "lineitem", "orders", "customer", "nation n1", "nation n2"),
        """WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
        AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
        AND (n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY' OR n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE')
        AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'""",
        "SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM ({}) AS shipping "
        "GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year",
    ),
    JoinQuery(
        "Q8",
        50,
        21,
        "year(o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation",
        ("part", "supplier", "lineitem", "orders", "customer", "nation n1", "nation n2", "region"),
        """WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
        AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey
        AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey
        AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' AND p_type = 'ECONOMY ANODIZED STEEL'""",
        "SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS share "
        "FROM ({}) AS all_nations GROUP BY o_year ORDER BY o_year",
    ),
    JoinQuery(
        "Q9",
        32,
        45,
        "n_name AS nation, year(o_orderdate) AS o_year, "
        "l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount",
        ("part", "supplier", "lineitem", "partsupp", "orders", "nation"),
        """WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
        AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
        AND p_name LIKE '%green%'""",
        "SELECT nation, o_year, sum(amount) AS profit FROM ({}) AS profits "
        "GROUP BY nation, o_year ORDER BY nation, o_year DESC",
    ),
    JoinQuery(
        "Q10",
        81,
        74,
        f"c_custkey, c_name, {_REVENUE}, c_acctbal, n_name, c_address, c_phone, c_comment",
        ("customer", "orders", "lineitem", "nation"),
        """WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
        AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        ORDER BY revenue DESC, c_custkey LIMIT 20""",
    ),
    JoinQuery(
        "Q21",
        32,
        23,
        "s_name, count(*) AS numwait",
        ("supplier", "lineitem l1", "orders", "nation"),
        """WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
        AND l1.l_receiptdate > l1.l_commitdate AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
        AND EXISTS (SELECT 1 FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey
            AND l2.l_suppkey <> l1.l_suppkey)
        AND NOT EXISTS (SELECT 1 FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey
            AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
        GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    ),
)
