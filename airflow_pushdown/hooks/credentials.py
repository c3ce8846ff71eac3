"""Conversion of Airflow connections to the Hadoop settings of an object store."""

from __future__ import annotations

from airflow.sdk import BaseHook, Connection
from airflow.sdk.log import mask_secret

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.hooks.object_stores import hadoop_entries, is_secret_entry
from airflow_pushdown.version_compat import AirflowNotFoundException
from pushdown_spark.contract import SecretValues


def airflow_connection(parameter: str, conn_id: str) -> Connection:
    """Return the connection of a parameter. Raises `ConfigError` if it does not exist."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise config_error(f"{parameter}: there is no Airflow connection {conn_id!r}") from error


def object_store_secrets(connection: Connection) -> SecretValues:
    """Return Hadoop's settings for the object store of a connection. Credentials are masked in all logs.

    Raises `ConfigError` as `hadoop_entries` does.
    """
    secrets = SecretValues(hadoop=hadoop_entries(connection))
    for value in confidential(secrets):
        mask_secret(value)
    return secrets


def confidential(secrets: SecretValues) -> tuple[str, ...]:
    """Return the values to hide everywhere, which endpoints and regions are not."""
    return (*(value for key, value in secrets.hadoop.items() if is_secret_entry(key)), *secrets.passwords)
