"""Remote tables in a session on real databases: types, odd names, limits, partitions, snapshots and errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from databases import CERTIFIED, HOST, Server, wait_until
from every_type import EveryType, create_tables, sqlite_file
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import ErrorCode
from pushdown_spark.errors import BadSpecError, PushdownError, UnknownColumnError
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.session import PushdownSession

KINDS = ("postgresql", "mariadb", "mysql", "sqlite")
SERVERS = ("postgresql", "mariadb", "mysql")
MYSQLS = ("mariadb", "mysql")
ODD = 'select "x" -- `y`'
Connection = dict[str, object]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server | None:
    """Return the server of a test's database, None for SQLite."""
    kind = request.node.callspec.params["kind"]
    return request.getfixturevalue(f"{kind}_server") if kind in SERVERS else None


@pytest.fixture
def fill(server: Server | None, tmp_path: Path) -> Callable[..., Connection]:
    """Return a function that runs statements in a test's database and returns its connection."""

    def run_statements(*statements: str) -> Connection:
        if server is None:
            return sqlite_file(tmp_path, *statements)
        server.execute(*statements)
        return server.connection()

    return run_statements


def numbers(quote: str = '"') -> tuple[str, ...]:
    """Create a table of 1,000 rows: `k` with NULLs, `g` of 10 groups, string `s`."""
    rows = ", ".join(f"({k if k % 50 else 'NULL'}, {k % 10}, 's{k}')" for k in range(1000))
    return (
        f"DROP TABLE IF EXISTS {quote}numbers{quote}",
        f"CREATE TABLE {quote}numbers{quote} (k int, g int, s varchar(10))",
        f"INSERT INTO {quote}numbers{quote} VALUES {rows}",
    )


def quote_of(kind: str) -> str:
    """Return the quote character for names in a kind of database."""
    return "`" if kind in MYSQLS else '"'


def scanner(spark: SparkSession, connection: Connection, **table: object) -> Callable[..., PushdownResult]:
    """Return a function that scans one remote table."""
    session = PushdownSession(spark)
    session.add_remote("source", connection, **table)
    return lambda **query: session.scan("source", **query)


def rows_of(result: PushdownResult) -> list[dict[str, object]]:
    """Return the rows of a result after running it."""
    return result.run(lambda frame: frame.toArrow().to_pylist())


def count(result: PushdownResult) -> int:
    return result.run(DataFrame.count)


def same(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return left == right


def assert_rows(rows: list[dict[str, object]], expected: EveryType) -> None:
    rows = sorted(rows, key=lambda row: int(str(row["id"])))
    assert len(rows) == len(expected.rows)
    wrong = [
        (name, row[name], expected_row[name])
        for row, expected_row in zip(rows, expected.rows, strict=True)
        for name in expected_row
        if not same(row[name], expected_row[name])
    ]
    assert not wrong


@pytest.mark.parametrize("partitions", [None, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_every_type_are_returned(
    kind: str, partitions: int | None, server: Server | None, tmp_path: Path, spark: SparkSession
) -> None:
    """They are read in the driver and in tasks. A given number of partitions uses ADBC without an estimate."""
    expected, connection = create_tables(server, tmp_path)
    result = scanner(spark, connection, table="every_type", num_partitions=partitions)()
    assert {field.name: field.dataType.simpleString() for field in result.df.schema} == expected.types
    assert_rows(rows_of(result), expected)
    assert result.rows == len(expected.rows)
    assert_rows(result.df.toArrow().to_pylist(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_of_the_user_has_the_types_of_its_columns(
    kind: str, server: Server | None, tmp_path: Path, spark: SparkSession
) -> None:
    expected, connection = create_tables(server, tmp_path)
    names = [name for name in expected.columns if name not in ("b", "e", "j", "tz")]
    result = scanner(spark, connection, query=f"SELECT {', '.join(names)} FROM every_type")()
    expected_types = {name: expected.types[name] for name in names}
    assert {field.name: field.dataType.simpleString() for field in result.df.schema} == expected_types
    assert_rows(rows_of(result), EveryType((), {name: expected.columns[name] for name in names}))
    assert_rows(result.df.toArrow().to_pylist(), EveryType((), {name: expected.columns[name] for name in names}))


@pytest.mark.parametrize("kind", KINDS)
def test_names_with_special_characters_are_quoted(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    quote = quote_of(kind)
    name = quote + ODD.replace(quote, quote * 2) + quote
    hostile = "\\\\'') OR 1=1 -- '';" if kind in MYSQLS else "\\'') OR 1=1 -- '';"
    connection = fill(
        f"DROP TABLE IF EXISTS {name}",
        f"CREATE TABLE {name} ({name} int, b varchar(40))",
        f"INSERT INTO {name} VALUES (1, 'x'), (2, '{hostile}')",
    )
    column = f"`{ODD.replace('`', '``')}`"
    scan = scanner(spark, connection, table='"' + ODD.replace('"', '""') + '"')
    assert rows_of(scan(where=f"{column} > 1", columns=[column])) == [{ODD: 2}]
    assert rows_of(scan(where=r"b = '\\\') OR 1=1 -- \';'", columns=[column])) == [{ODD: 2}]


@pytest.mark.parametrize("kind", KINDS)
def test_only_requested_columns_and_matching_rows_are_transferred(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    scan = scanner(spark, fill(*numbers(quote_of(kind))), table="numbers")
    result = scan(columns=["s"], where="k IN (7, 8) AND upper(s) <> 'S8'")
    assert " IN (7, 8)" in result.explain().partition("SQL: SELECT ")[2]
    assert rows_of(result) == [{"s": "s7"}]
    report = result.report()["source"]
    assert report.reader == "remote"
    assert report.rows_decoded == 2
    assert report.rows_returned == 1
    assert report.bytes_read
    assert report.pushed == ("k IN (7, 8)",)
    assert report.residual == ("UPPER(s) <> 'S8'",)
    (statement,) = report.statements
    assert " IN (7, 8)" in statement
    assert "g" not in statement.replace("`", '"').split('"')


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_is_pushed_only_with_an_exact_predicate(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    scan = scanner(spark, fill(*numbers(quote_of(kind))), table="numbers")
    exact = scan(where="g = 3", limit=5)
    assert [row["g"] for row in rows_of(exact)] == [3] * 5
    assert exact.report()["source"].rows_decoded == 5
    assert exact.report()["source"].statements[0].endswith(" LIMIT 5")
    inexact = scan(where="g = 3 AND upper(s) LIKE 'S%'", limit=5)
    assert [row["g"] for row in rows_of(inexact)] == [3] * 5
    assert "LIMIT" not in inexact.report()["source"].statements[0]
    assert exact.df.count() == 5


@pytest.mark.parametrize("kind", KINDS)
def test_key_ranges_return_every_row_once(kind: str, fill: Callable[..., Connection], spark: SparkSession) -> None:
    connection = fill(*numbers(quote_of(kind)))
    cut = {"table": "numbers", "partition_column": "k", "num_partitions": 4, "consistent": kind == "postgresql"}
    for bounds in ({}, {"lower_bound": 100, "upper_bound": 300}):
        result = scanner(spark, connection, **cut, **bounds)(columns=["s"])
        assert sorted(str(row["s"]) for row in rows_of(result)) == sorted(f"s{k}" for k in range(1000))
        assert result.report()["source"].units["partitions"]["read"] == 4


@pytest.mark.parametrize("kind", [*MYSQLS, "sqlite"])
def test_without_snapshots_one_connection_reads_by_default(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(*numbers(quote_of(kind)))
    result = scanner(spark, connection, table="numbers", partition_column="k", num_partitions=4)()
    assert count(result) == 1000
    report = result.report()["source"]
    assert report.units["partitions"]["read"] == 1
    assert any("no snapshot" in note for note in report.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_spark_evaluates_the_predicate_without_filter_pushdown(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(*numbers(quote_of(kind)))
    result = scanner(spark, connection, table="numbers", filter_pushdown=False)(where="k = 7")
    assert count(result) == 1
    assert result.report()["source"].rows_decoded == 1000


def test_page_ranges_of_postgresql_return_every_row_once(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(*numbers())
    result = scanner(spark, postgresql_server.connection(), table="public.numbers", num_partitions=3)(columns=["s"])
    assert sorted(str(row["s"]) for row in rows_of(result)) == sorted(f"s{k}" for k in range(1000))
    report = result.report()["source"]
    assert report.units["partitions"]["read"] == 3
    assert any("ranges of" in note and "pages" in note for note in report.notes)


def test_key_ranges_follow_postgresqls_histogram(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(
        "DROP TABLE IF EXISTS skewed",
        "CREATE TABLE skewed AS SELECT i + CASE WHEN i > 900 THEN 1000000 ELSE 0 END AS k "
        "FROM generate_series(1, 1000) i",
        "ANALYZE skewed",
    )
    scan = scanner(spark, postgresql_server.connection(), table="skewed", partition_column="k", num_partitions=4)
    result = scan()
    sizes = result.run(lambda frame: frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect())
    assert sum(sizes) == 1000
    assert max(sizes) < 300
    assert any("histogram" in note for note in result.report()["source"].notes)


def test_a_table_with_children_is_split_by_their_values_too(postgresql_server: Server, spark: SparkSession) -> None:
    """PostgreSQL has two histograms of such a table: one of its own rows, one of all rows."""
    postgresql_server.execute(
        "DROP TABLE IF EXISTS parent CASCADE",
        "CREATE TABLE parent AS SELECT i AS k FROM generate_series(1, 2000, 2) i",
        "CREATE TABLE child () INHERITS (parent)",
        "INSERT INTO child SELECT generate_series(2, 2000, 2)",
        "ANALYZE parent",
    )
    scan = scanner(spark, postgresql_server.connection(), table="parent", partition_column="k", num_partitions=4)
    assert sorted(row["k"] for row in rows_of(scan())) == list(range(1, 2001))


def test_all_partitions_read_one_snapshot(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(*numbers())
    result = scanner(spark, postgresql_server.connection(), table="numbers", num_partitions=4)()
    frame = result.df
    postgresql_server.execute("UPDATE numbers SET g = 100", "DELETE FROM numbers WHERE s < 's5'")
    assert frame.groupBy("g").count().count() == 10
    assert frame.count() == 1000
    del result
    with pytest.raises(Exception, match="keep the result of the query while its frame is used"):
        frame.count()


def test_a_snapshot_is_released_after_the_action(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(*numbers())
    result = scanner(spark, postgresql_server.connection(), table="numbers", num_partitions=4)()
    assert count(result) == 1000
    held = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'airflow_pushdown'"
    assert wait_until(lambda: postgresql_server.execute(held).strip() == "0")


@pytest.mark.parametrize(
    ("kind", "slow"),
    [
        ("postgresql", "SELECT pg_sleep(20)::text AS slept"),
        ("mariadb", "SELECT sleep(20) AS slept"),
        ("mysql", "SELECT sleep(20) AS slept"),
        ("sqlite", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"),
    ],
)
def test_a_statement_beyond_the_timeout_is_cancelled(
    kind: str, slow: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill("SELECT 1")
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- what Spark makes of a worker's error is not ours
        count(scanner(spark, connection, query=slow, statement_timeout=0.5, fetch_size=1000)())
    error = classify(caught.value)
    assert error.code is ErrorCode.REMOTE_FAILED, error.message
    assert error.retryable


REFUSED = [
    ("postgresql", {"password": "not-the-password"}, "password"),
    ("mariadb", {"password": "not-the-password"}, "Access denied"),
    ("mysql", {"password": "not-the-password"}, "Access denied"),
    ("postgresql", {"tls": {"mode": "verify-ca", "ca_file": "/etc/hostname"}}, "certificate"),
    ("mariadb", {"tls": {"mode": "verify-ca", "ca_file": "/etc/hostname"}}, ""),
    ("mysql", {"tls": {"mode": "verify-ca", "ca_file": "/etc/hostname"}}, ""),
    ("postgresql", {"database": "no_such"}, "no_such"),
    ("mariadb", {"database": "no_such"}, "no_such"),
    ("mysql", {"database": "no_such"}, "no_such"),
    ("sqlite", {"database": "/no/such.db"}, "/no/such.db"),
]


@pytest.mark.parametrize(("kind", "change", "message"), REFUSED)
def test_errors_of_databases_are_one_line_without_secrets(
    kind: str, change: Connection, message: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = {**fill("SELECT 1"), **change}
    with pytest.raises(PushdownError) as caught:
        scanner(spark, connection, table="numbers")()
    assert caught.value.code is ErrorCode.REMOTE_REFUSED
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(connection.get("password", "\n")) not in str(caught.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_an_unreachable_server_raises_a_retryable_error(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    with pytest.raises(PushdownError) as caught:
        scanner(spark, {**fill("SELECT 1"), "port": 1}, table="numbers")()
    assert caught.value.code is ErrorCode.REMOTE_FAILED
    assert f"{HOST}:1" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_names_a_missing_table(kind: str, fill: Callable[..., Connection], spark: SparkSession) -> None:
    with pytest.raises(PushdownError, match="no_such_table") as caught:
        scanner(spark, fill("SELECT 1"), table="no_such_table")()
    assert caught.value.code is ErrorCode.REMOTE_REFUSED


ENCRYPTED = {
    "postgresql": "SELECT ssl AS used FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    "mariadb": "SELECT variable_value > '' AS used FROM information_schema.session_status "
    "WHERE variable_name = 'ssl_cipher'",
    "mysql": "SELECT variable_value > '' AS used FROM performance_schema.session_status "
    "WHERE variable_name = 'Ssl_cipher'",
}
"""Whether a connection has TLS, as the server sees it."""


@pytest.mark.parametrize("kind", SERVERS)
def test_certificates_are_verified(
    kind: str, server: Server, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    tls = {"mode": "verify-full", "ca_file": str(server.ca_file)}
    (row,) = rows_of(scanner(spark, {**fill("SELECT 1"), "tls": tls}, query=ENCRYPTED[kind])())
    assert row["used"] in (True, 1)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("mode", ["prefer", "verify-full"])
def test_a_client_certificate_is_accepted(
    kind: str, mode: str, server: Server, fill: Callable[..., Connection], spark: SparkSession, tmp_path: Path
) -> None:
    certificate, key = server.client_certificate(tmp_path)
    ca_file = str(server.ca_file) if mode == "verify-full" else None
    tls = {"mode": mode, "ca_file": ca_file}
    connection = {**fill("SELECT 1"), "user": CERTIFIED}
    given = {**tls, "cert_file": str(certificate), "key_file": str(key)}
    for count_of in (count, lambda result: result.df.count()):
        assert count_of(scanner(spark, {**connection, "tls": given}, query="SELECT 1 AS one")()) == 1
    with pytest.raises(PushdownError) as caught:
        scanner(spark, {**connection, "tls": tls}, query="SELECT 1 AS one")()
    assert caught.value.code is ErrorCode.REMOTE_REFUSED
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_no_password_is_in_plan_report_or_settings(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(*numbers(quote_of(kind)))
    result = scanner(spark, connection, table="numbers")(where="k > 7 AND upper(s) = 'S9'")
    assert count(result) == 1
    plan = result.df._jdf.queryExecution().toString()
    seen = [plan, result.explain(), repr(result.report()), str(spark.sparkContext.getConf().getAll())]
    assert not [text for text in seen if str(connection["password"]) in text]


@pytest.mark.parametrize("partitions", [None, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_only_nulls_are_returned(
    kind: str, partitions: int | None, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(
        "DROP TABLE IF EXISTS hollow",
        "CREATE TABLE hollow (id int, k int, s text)",
        "INSERT INTO hollow VALUES (1, NULL, NULL), (2, 5, ''), (3, NULL, NULL)",
    )
    scan = scanner(spark, connection, table="hollow", num_partitions=partitions)
    assert [row["k"] for row in rows_of(scan(columns=["k"]))] == [None, 5, None]
    assert rows_of(scan(columns=["s"], where="id = 3")) == [{"s": None}]
    assert [row["s"] for row in rows_of(scan(columns=["s"]))] == [None, "", None]
    assert rows_of(scan(where="id > 3")) == []


@pytest.mark.parametrize("partitions", [None, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_long_strings_are_returned(
    kind: str, partitions: int | None, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    column = "mediumtext" if kind in MYSQLS else "text"
    length = 1_500_000
    connection = fill(
        "DROP TABLE IF EXISTS long_strings",
        f"CREATE TABLE long_strings (id int, s {column})",
        *(f"INSERT INTO long_strings VALUES ({number}, '{'é' * length}{number}')" for number in range(2)),
    )
    rows = rows_of(scanner(spark, connection, table="long_strings", num_partitions=partitions)(where="id < 2"))
    assert sorted((row["id"], len(str(row["s"])), str(row["s"])[-1]) for row in rows) == [
        (number, length + 1, str(number)) for number in range(2)
    ]


HARD_STRINGS = (
    '"',
    '""',
    '","',
    ",",
    "",
    "\n",
    "\r",
    "a\r\nb",
    "\\.",
    "\\N",
    "NULL",
    " x ",
    "t",
    "é\t😀",
    "'",
    "1e5",
    "\\\\",
)


@pytest.mark.parametrize("kind", KINDS)
def test_strings_that_look_like_other_types_are_returned(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    """They are fetched by the driver, copied by a task, and read by a task that was requested."""
    strings = [None, *HARD_STRINGS, None]
    quoted = ["NULL" if text is None else "'" + text.replace("'", "''") + "'" for text in strings]
    if kind in MYSQLS:
        # Their client makes one end of a line of two characters.
        quoted = [text.replace("\\", "\\" * 2).replace("\r", "\\r") for text in quoted]
    values = ", ".join(f"({place}, {text})" for place, text in enumerate(quoted))
    connection = fill(
        "DROP TABLE IF EXISTS hard", "CREATE TABLE hard (id int, s text)", f"INSERT INTO hard VALUES {values}"
    )
    for partitions in (None, 1):
        result = scanner(spark, connection, table="hard", num_partitions=partitions)()
        for rows in (rows_of(result), result.df.toArrow().to_pylist()):
            assert [row["s"] for row in sorted(rows, key=lambda row: int(str(row["id"])))] == strings
        result = scanner(spark, connection, table="hard", num_partitions=partitions)(columns=["s"])
        assert sorted(map(str, (row["s"] for row in rows_of(result)))) == sorted(map(str, strings))


@pytest.mark.parametrize("kind", MYSQLS)
def test_zero_dates_raise_or_are_null(kind: str, fill: Callable[..., Connection], spark: SparkSession) -> None:
    connection = fill(
        "DROP TABLE IF EXISTS zero_dates",
        "CREATE TABLE zero_dates (id int, d date)",
        "SET sql_mode = ''",
        "INSERT INTO zero_dates VALUES (1, '2024-00-00'), (2, '0000-00-00'), (3, '2024-01-02')",
    )
    result = scanner(spark, connection, table="zero_dates", zero_dates_as_null=True)(where="d IS NULL")
    assert sorted(str(row["id"]) for row in rows_of(result)) == ["1", "2"]
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- what Spark makes of a worker's error is not ours
        rows_of(scanner(spark, connection, table="zero_dates")())
    error = classify(caught.value)
    assert error.code is ErrorCode.SCHEMA_CONFLICT
    assert "column d (date) holds '2024-00-00'" in error.message


@pytest.mark.parametrize("kind", ["postgresql"])
def test_infinite_dates_raise_an_error_that_names_the_column(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(
        "DROP TABLE IF EXISTS infinite", "CREATE TABLE infinite (d date)", "INSERT INTO infinite VALUES ('infinity')"
    )
    for partitions in (None, 1):
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- what Spark makes of a worker's error is not ours
            rows_of(scanner(spark, connection, table="infinite", num_partitions=partitions)())
        error = classify(caught.value)
        assert error.code is ErrorCode.SCHEMA_CONFLICT, error.message


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_over_several_sources_pushes_columns_and_conjuncts_to_each(
    kind: str, fill: Callable[..., Connection], spark: SparkSession, tmp_path: Path
) -> None:
    connection = fill(*numbers(quote_of(kind)))
    (tmp_path / "rows.json").write_text("".join(f'{{"k": {k}, "x": {k % 7}}}\n' for k in range(0, 1000, 3)))
    session = PushdownSession(spark)
    session.add_remote("r", connection, table="numbers")
    session.add_source("f", path=str(tmp_path / "rows.json"), format="json", schema="k int, x int")
    result = session.sql("SELECT r.s FROM r JOIN f ON r.k = f.k WHERE r.g = 3 AND f.x = 0")
    expected_values = {f"s{k}" for k in range(0, 1000, 3) if k % 7 == 0 and k % 10 == 3}
    assert {str(row["s"]) for row in rows_of(result)} == expected_values
    report = result.report()["r"]
    assert report.pushed[0] == "g = 3"
    if kind == "sqlite":
        assert report.rows_decoded == 100, "its integers have 64 bits, the file's have not: no keys are sent"
    else:
        assert report.pushed[1].startswith("k IN (0, 21, 42, "), "the keys of the file's few rows are sent along"
        assert report.rows_decoded == len(expected_values) == 5


def test_file_columns_of_a_table_raise(tmp_path: Path, spark: SparkSession) -> None:
    scan = scanner(spark, sqlite_file(tmp_path, *numbers()), table="numbers")
    with pytest.raises(UnknownColumnError, match="filename"):
        scan(columns=["k", "filename"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "give either a `table` or a `query`"),
        ({"table": "a", "query": "SELECT 1"}, "give either a `table` or a `query`"),
        ({"table": "a", "lower_bound": 1}, "lower_bound"),
        ({"query": "SELECT 1; DROP TABLE numbers"}, "one statement"),
        ({"table": "a.b.c.d"}, "not a valid name"),
    ],
)
def test_an_undeclared_table_raises(
    table: dict[str, object], message: str, tmp_path: Path, spark: SparkSession
) -> None:
    with pytest.raises(BadSpecError, match=message):
        scanner(spark, sqlite_file(tmp_path, *numbers()), **table)()


DEEP = {
    "1000 alternatives": (" OR ".join(f"(k = {n * 2} AND g < {n % 20 + 8})" for n in range(1000)), "exact"),
    "a long sum": ("k + " + " + ".join("1" for _ in range(150)) + " < 400", None),
    "sums in sums": ("k - (1 - (" * 12 + "g" + "))" * 12 + " < 400", None),
    "cases in cases": ("CASE WHEN k > 3 THEN " * 15 + "g" + " ELSE 1 END" * 15 + " = 5", None),
    "calls in calls": ("coalesce(k, " * 18 + "g" + ")" * 18 + " < 50", None),
    "parentheses": ("(" * 300 + "k = 7" + ")" * 300, "unsupported"),
}
"""Predicates, and what becomes of them where every database should agree."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DEEP)
def test_deeply_nested_predicates_are_pushed_or_evaluated_by_spark(
    spark: SparkSession, fill: Callable[..., Connection], name: str, kind: str
) -> None:
    where, exactness = DEEP[name]
    scan = scanner(spark, fill(*numbers(quote_of(kind))), table="numbers")
    result = scan(where=where, columns=["s"])
    found = sorted(str(row["s"]) for row in rows_of(result))
    rows = spark.range(1000).selectExpr(
        "if(id % 50 = 0, NULL, int(id)) AS k", "int(id % 10) AS g", "concat('s', id) AS s"
    )
    assert found == sorted(row.s for row in rows.where(where).collect())
    if exactness is not None:
        assert {str(each.exactness) for each in result.report()["source"].conjuncts} == {exactness}
