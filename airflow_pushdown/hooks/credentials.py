"""Turns an Airflow connection into the Hadoop entries an object store needs, and nothing else of it."""

from __future__ import annotations

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.parameters import serialize
from pushdown_spark.contract import SecretValues

_ACCESS_KEY = "fs.s3a.access.key"
_SECRET_KEY = "fs.s3a.secret.key"  # noqa: S105 - the name of a Hadoop entry
_SESSION_TOKEN = "fs.s3a.session.token"  # noqa: S105 - the name of a Hadoop entry

_EXTRAS = {
    "aws_access_key_id": _ACCESS_KEY,
    "aws_secret_access_key": _SECRET_KEY,
    "aws_session_token": _SESSION_TOKEN,
    "endpoint_url": "fs.s3a.endpoint",
    "region_name": "fs.s3a.endpoint.region",
    "path_style_access": "fs.s3a.path.style.access",
}

_SECRET_KEYS = (_ACCESS_KEY, _SECRET_KEY, _SESSION_TOKEN)


def airflow_connection(parameter: str, conn_id: str) -> Connection:
    """The connection that a parameter names. Raises `ConfigError` where there is none."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise config_error(f"{parameter}: there is no Airflow connection {conn_id!r}") from error


def object_store_secrets(connection: Connection) -> SecretValues:
    """Hadoop entries for S3A from a connection of type aws; the credentials among them are masked in all logs.

    Login and password are access key and secret key, as in the Amazon provider; extras are taken by allow-list. Raises
    `ConfigError` for another connection type, half a key pair, or an extra that is not understood: an ignored
    `role_arn`, say, would read with the wrong rights.
    """
    name = connection.conn_id
    if connection.conn_type != "aws":
        raise config_error(f"source_conn_id: connection {name!r} has type {connection.conn_type}, not aws")
    extras = connection.extra_dejson
    unknown = sorted(set(extras) - set(_EXTRAS))
    if unknown:
        raise config_error(
            f"source_conn_id: connection {name!r} has extras that are not understood: {', '.join(unknown)}; "
            f"known are {', '.join(_EXTRAS)}"
        )
    entries = {_EXTRAS[key]: text for key, value in extras.items() if (text := serialize(value))}
    if connection.login:
        entries[_ACCESS_KEY] = connection.login
    if connection.password:
        entries[_SECRET_KEY] = connection.password
    if (_ACCESS_KEY in entries) != (_SECRET_KEY in entries):
        raise config_error(f"source_conn_id: connection {name!r} needs login and password (access and secret key)")
    secrets = SecretValues(hadoop=entries)
    for value in confidential(secrets):
        mask_secret(value)
    return secrets


def confidential(secrets: SecretValues) -> tuple[str, ...]:
    """The values that must not be seen anywhere; endpoints and regions are not among them."""
    passwords = (connection.password for connection in secrets.remote.values() if connection.password)
    return (*(secrets.hadoop[key] for key in _SECRET_KEYS if key in secrets.hadoop), *passwords)
