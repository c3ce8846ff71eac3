"""The Star Schema Benchmark: TPC-H's rows as a fact table and four dimensions, and its joins of four and five tables.

O'Neil, O'Neil, Chen: The Star Schema Benchmark, 2009. Flight 1 is left out, because joins of two tables have one order.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks.workloads import Workload

_CITY = "rpad(left(n_name, 9), 9, ' ') || (hash({key}) % 10)"
_TABLES = {
    "dates": """SELECT strftime(day, '%Y%m%d')::INTEGER AS d_datekey, year(day)::INTEGER AS d_year,
        strftime(day, '%Y%m')::INTEGER AS d_yearmonthnum, strftime(day, '%b%Y') AS d_yearmonth,
        week(day)::INTEGER AS d_weeknuminyear
        FROM (SELECT DATE '1992-01-01' + number::INTEGER AS day FROM range(2557) AS days(number))""",
    "customer": f"""SELECT c_custkey, c_name, {_CITY.format(key="c_custkey")} AS c_city, n_name AS c_nation,
        r_name AS c_region, c_mktsegment
        FROM tpch_customer JOIN tpch_nation ON c_nationkey = n_nationkey JOIN tpch_region ON n_regionkey = r_regionkey
        ORDER BY c_custkey""",
    "supplier": f"""SELECT s_suppkey, s_name, {_CITY.format(key="s_suppkey")} AS s_city, n_name AS s_nation,
        r_name AS s_region
        FROM tpch_supplier JOIN tpch_nation ON s_nationkey = n_nationkey JOIN tpch_region ON n_regionkey = r_regionkey
        ORDER BY s_suppkey""",
    "part": """SELECT p_partkey, p_name, 'MFGR#' || p_mfgr[-1] AS p_mfgr, 'MFGR#' || p_brand[-2:] AS p_category,
        'MFGR#' || p_brand[-2:] || (1 + hash(p_partkey) % 40) AS p_brand1, p_size, p_container
        FROM tpch_part ORDER BY p_partkey""",
    "lineorder": """SELECT l_orderkey AS lo_orderkey, l_linenumber AS lo_linenumber, o_custkey AS lo_custkey,
        l_partkey AS lo_partkey, l_suppkey AS lo_suppkey, strftime(o_orderdate, '%Y%m%d')::INTEGER AS lo_orderdate,
        l_quantity::INTEGER AS lo_quantity, l_extendedprice AS lo_extendedprice,
        (100 * l_discount)::INTEGER AS lo_discount,
        (l_extendedprice * (1 - l_discount))::DECIMAL(15, 2) AS lo_revenue,
        (0.6 * l_extendedprice / l_quantity)::DECIMAL(15, 2) AS lo_supplycost
        FROM tpch_lineitem JOIN tpch_orders ON l_orderkey = o_orderkey ORDER BY l_orderkey, l_linenumber""",
}
_PARTS = """SELECT sum(lo_revenue) AS revenue, d_year, p_brand1 FROM lineorder, dates, part, supplier
    WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey AND {}
    GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1"""
_PLACES = """SELECT c_{0}, s_{0}, d_year, sum(lo_revenue) AS revenue FROM customer, lineorder, supplier, dates
    WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey AND {1}
    GROUP BY c_{0}, s_{0}, d_year ORDER BY d_year, revenue DESC, c_{0}, s_{0}"""
_PROFITS = """SELECT {0}, sum(lo_revenue - lo_supplycost) AS profit FROM dates, customer, supplier, part, lineorder
    WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey AND lo_orderdate = d_datekey
    AND {1} GROUP BY {0} ORDER BY {0}"""
_CITIES = "c_city IN ('UNITED KI1', 'UNITED KI5') AND s_city IN ('UNITED KI1', 'UNITED KI5')"
QUERIES = {
    "2.1": _PARTS.format("p_category = 'MFGR#12' AND s_region = 'AMERICA'"),
    "2.2": _PARTS.format("p_brand1 BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s_region = 'ASIA'"),
    "2.3": _PARTS.format("p_brand1 = 'MFGR#2221' AND s_region = 'EUROPE'"),
    "3.1": _PLACES.format("nation", "c_region = 'ASIA' AND s_region = 'ASIA' AND d_year BETWEEN 1992 AND 1997"),
    "3.2": _PLACES.format(
        "city", "c_nation = 'UNITED STATES' AND s_nation = 'UNITED STATES' AND d_year BETWEEN 1992 AND 1997"
    ),
    "3.3": _PLACES.format("city", f"{_CITIES} AND d_year BETWEEN 1992 AND 1997"),
    "3.4": _PLACES.format("city", f"{_CITIES} AND d_yearmonth = 'Dec1997'"),
    "4.1": _PROFITS.format(
        "d_year, c_nation", "c_region = 'AMERICA' AND s_region = 'AMERICA' AND p_mfgr IN ('MFGR#1', 'MFGR#2')"
    ),
    "4.2": _PROFITS.format(
        "d_year, s_nation, p_category",
        "c_region = 'AMERICA' AND s_region = 'AMERICA' AND d_year IN (1997, 1998) AND p_mfgr IN ('MFGR#1', 'MFGR#2')",
    ),
    "4.3": _PROFITS.format(
        "d_year, s_city, p_brand1",
        "c_region = 'AMERICA' AND s_nation = 'UNITED STATES' AND d_year IN (1997, 1998) AND p_category = 'MFGR#14'",
    ),
}


def ssb(tpch: Path, scale: float, cache: Path) -> Workload:
    """Return the workload, derived from TPC-H's Parquet files of a scale. Its data are stored below `cache`."""
    data = cache / f"ssb-{scale:g}"
    # The last table marks complete data.
    if not (data / "lineorder.parquet").exists():
        data.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect()
        for path in tpch.glob("*.parquet"):
            connection.execute(f"CREATE VIEW tpch_{path.stem} AS FROM '{path}'")
        for table, query in _TABLES.items():
            target = data / f"{table}.parquet"
            connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, ROW_GROUP_SIZE 100000)")
    return Workload(data, tuple(_TABLES), QUERIES)
