"""Conversion of Airflow connections to the Hadoop settings of an object store."""

from __future__ import annotations

from airflow.sdk import BaseHook, Connection
from airflow.sdk.log import mask_secret

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.parameters import serialize
from airflow_pushdown.version_compat import AirflowNotFoundException
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
    """Return the connection of a parameter. Raises `ConfigError` if it does not exist."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise config_error(f"{parameter}: there is no Airflow connection {conn_id!r}") from error


def object_store_secrets(connection: Connection) -> SecretValues:
    """Return the Hadoop settings for S3A from a connection of type aws. Credentials are masked in all logs.

    Login and password are the access key and the secret key, as in the Amazon provider. Raises `ConfigError` for
    another connection type, an incomplete key pair, or an unknown extra. For example, a job that ignores `role_arn`
    would read with the wrong permissions.
    """
    name = connection.conn_id
    if connection.conn_type != "aws":
        raise config_error(f"source_conn_id: connection {name!r} has type {connection.conn_type}, not aws")
    extras = connection.extra_dejson
    unknown = sorted(set(extras) - set(_EXTRAS))
    if unknown:
        raise config_error(
            f"source_conn_id: connection {name!r} has unknown extras: {', '.join(unknown)}; "
            f"supported are {', '.join(_EXTRAS)}"
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
    """Return the values to hide everywhere, which endpoints and regions are not."""
    return (*(secrets.hadoop[key] for key in _SECRET_KEYS if key in secrets.hadoop), *secrets.passwords)
