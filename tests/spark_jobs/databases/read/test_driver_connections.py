"""A plan holds no connection to the database, so that it may run at any time, or never."""

from __future__ import annotations

import pytest
from databases import Server, wait_until
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import RemoteConnection
from pushdown_spark.databases.client import ConnectionSettings, address_of, connect
from pushdown_spark.errors import RemoteRefusedError
from pushdown_spark.session import PushdownSession

OPEN = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'airflow_pushdown'",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE user = 'reader' AND command = 'Sleep'",
}


@pytest.fixture(params=["postgresql_server", "mariadb_server", "mysql_server"])
def server(request: pytest.FixtureRequest) -> Server:
    """Yield each server with a small table."""
    database: Server = request.getfixturevalue(request.param)
    database.execute(
        "DROP TABLE IF EXISTS few", "CREATE TABLE few (k int PRIMARY KEY)", "INSERT INTO few VALUES (1), (2)"
    )
    return database


def open_connections(server: Server) -> int:
    return int(server.execute(OPEN[server.kind]).strip())


def session_over(server: Server, spark: SparkSession) -> PushdownSession:
    session = PushdownSession(spark)
    session.add_remote("few", server.connection(), table="few")
    return session


def test_a_plan_releases_its_connection(server: Server, spark: SparkSession) -> None:
    result = session_over(server, spark).scan("few", where="k > 1")
    assert wait_until(lambda: open_connections(server) == 0)
    assert result.run(DataFrame.count) == 1
    assert wait_until(lambda: open_connections(server) == 0)


def test_a_run_fetches_over_a_connection_of_its_own(server: Server, spark: SparkSession) -> None:
    result = session_over(server, spark).scan("few")
    assert result.run(DataFrame.count) == 2
    assert result.report()["few"].units["partitions"]["read"] == 1
    assert any("the driver fetched" in note for note in result.report()["few"].notes)


def test_a_session_that_cannot_be_set_up_leaves_no_connection(mysql_server: Server) -> None:
    address = address_of(RemoteConnection.model_validate(mysql_server.connection()))
    with pytest.raises(RemoteRefusedError, match="max_execution_time") as error:
        connect(address, ConnectionSettings(statement_timeout=1e30))
    assert open_connections(mysql_server) == 0, error
