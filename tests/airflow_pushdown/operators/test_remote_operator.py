"""The remote operator up to its job spec: source, secrets and rejected parameters. Nothing is submitted."""

from __future__ import annotations

import json

import pytest
from refusals import refusal

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.operators import RemoteScanOperator
from pushdown_spark.contract import (
    DatabaseKind,
    ErrorCode,
    JobSpec,
    QuerySpec,
    RemoteSourceSpec,
    Transport,
    WideNumbers,
)


def operator(**parameters: object) -> RemoteScanOperator:
    arguments = {"source_conn_id": "shop", "table": "public.orders", **parameters}
    return RemoteScanOperator(task_id="orders", **arguments)  # type: ignore[arg-type]


def spec(**parameters: object) -> JobSpec:
    return operator(**parameters).build_spec("d/t/r/-1")


def test_the_parameters_become_the_job() -> None:
    job = spec(
        columns=["id", "total AS sum"],
        where="total > 5",
        limit="10",
        filter_pushdown="false",
        partition_column="id",
        num_partitions="4",
        lower_bound=1,
        upper_bound="100",
        consistent=False,
        transport="jdbc",
        fetch_size=500,
        statement_timeout="1.5",
        wide_numbers="text",
        zero_dates_as_null=True,
    )
    assert job.sources == {
        "source": RemoteSourceSpec(
            table="public.orders",
            filter_pushdown=False,
            partition_column="id",
            num_partitions=4,
            lower_bound="1",
            upper_bound="100",
            consistent=False,
            transport=Transport.JDBC,
            fetch_size=500,
            statement_timeout=1.5,
            wide_numbers=WideNumbers.TEXT,
            zero_dates_as_null=True,
        )
    }
    assert job.query == QuerySpec(source="source", columns=("id", "total AS sum"), where="total > 5", limit=10)


def test_a_query_can_replace_the_table() -> None:
    assert spec(table=None, query="SELECT 1 AS a").sources == {"source": RemoteSourceSpec(query="SELECT 1 AS a")}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"table": None}, "table: give either a `table` or a `query`"),
        ({"query": "SELECT 1"}, "table: give either a `table` or a `query`"),
        ({"lower_bound": 1}, "lower_bound: give both"),
        ({"lower_bound": 1, "upper_bound": 2}, "partition_column: bounds need"),
        ({"num_partitions": 0}, "num_partitions: "),
        ({"num_partitions": "many"}, "num_partitions: "),
        ({"statement_timeout": -1}, "statement_timeout: "),
        ({"wide_numbers": "round"}, "wide_numbers: "),
        ({"transport": "pigeon"}, "transport: "),
        ({"limit": -1}, "limit: "),
        ({"columns": "id"}, "columns: "),
        ({"consistent": "perhaps"}, "consistent: "),
    ],
)
def test_errors_name_the_parameter(parameters: dict[str, object], message: str) -> None:
    error = refusal(spec, **parameters)
    assert error.code is ErrorCode.BAD_SPEC
    assert str(error).startswith(message)


def test_the_connection_is_only_in_the_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "conn_type": "postgres",
        "host": "db",
        "port": 5433,
        "login": "me",
        "password": "hush-1",
        "schema": "shop",
    }
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(settings))
    task = operator()
    secrets = task._source_secrets()
    address = secrets.remote["source"]
    assert (address.kind, address.host, address.port) == (DatabaseKind.POSTGRESQL, "db", 5433)
    assert (address.user, address.password, address.database) == ("me", "hush-1", "shop")
    assert "hush-1" not in repr(secrets)
    spec = task.build_spec("k").model_dump_json()
    assert not [part for part in ("hush-1", "5433", '"db"', '"me"') if part in spec]


def test_the_error_names_a_missing_connection() -> None:
    with pytest.raises(ConfigError, match="source_conn_id: there is no Airflow connection 'no_such_db'"):
        operator(source_conn_id="no_such_db")._source_secrets()
