"""Credentials of a job from Airflow connections, and Hadoop's settings for the object store of a connection.

The fields of a connection have the same meaning as in Airflow's Amazon, Microsoft Azure and Google providers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

from airflow.sdk import BaseHook, Connection
from airflow.sdk.log import mask_secret

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.spark_settings import serialize
from airflow_pushdown.version_compat import AirflowNotFoundException
from pushdown_spark.contract import SecretValues

_ACCESS_KEY = "fs.s3a.access.key"
_SECRET_KEY = "fs.s3a.secret.key"  # noqa: S105 - the name of a Hadoop entry

_S3_EXTRAS = {
    "aws_access_key_id": _ACCESS_KEY,
    "aws_secret_access_key": _SECRET_KEY,
    "aws_session_token": "fs.s3a.session.token",
    "endpoint_url": "fs.s3a.endpoint",
    "region_name": "fs.s3a.endpoint.region",
    "path_style_access": "fs.s3a.path.style.access",
}
_AZURE_EXTRAS = ("sas_token", "shared_access_key", "tenant_id")
_GOOGLE_EXTRAS = ("key_path", "project", "is_anonymous", "num_retries", "scope")

_SECRET_ENTRY = re.compile(
    r"fs\.s3a\.(access\.key|secret\.key|session\.token)"
    r"|fs\.azure\.(account\.key|sas\.fixed\.token|account\.oauth2\.client\.secret)\..*"
)
_CLIENT_CREDENTIALS = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_MANAGED_IDENTITY = "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"


def airflow_connection(parameter: str, conn_id: str) -> Connection:
    """Return the connection of a parameter. Raises `ConfigError` if it does not exist."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise config_error(
            f"{parameter}: there is no Airflow connection {conn_id!r}; create it, or correct the name"
        ) from error


def object_store_secrets(connection: Connection) -> SecretValues:
    """Return Hadoop's settings for the object store of a connection. Credentials are masked in all logs.

    Raises `ConfigError` for another connection type, incomplete credentials, or an unknown extra.
    """
    secrets = SecretValues(hadoop=hadoop_entries(connection))
    for value in confidential(secrets):
        mask_secret(value)
    return secrets


def confidential(secrets: SecretValues) -> tuple[str, ...]:
    """Return the values to hide everywhere, which endpoints and regions are not."""
    return (*(value for key, value in secrets.hadoop.items() if _SECRET_ENTRY.fullmatch(key)), *secrets.passwords)


def hadoop_entries(connection: Connection) -> dict[str, str]:
    """Return Hadoop's entries for the store of a connection.

    Raises `ConfigError` for another connection type, incomplete credentials, or an unknown extra. For example, a job
    that ignores `role_arn` would read with the wrong permissions.
    """
    convert = _CONVERSIONS.get(connection.conn_type or "")
    if convert is None:
        raise config_error(
            f"source_conn_id: connection {connection.conn_id!r} has type {connection.conn_type}; use a connection of "
            f"type {', '.join(_CONVERSIONS)}, hdfs"
        )
    return convert(connection)


def _s3_entries(connection: Connection) -> dict[str, str]:
    extras = supported_extras(connection, _S3_EXTRAS)
    entries = {_S3_EXTRAS[key]: value for key, value in extras.items()}
    if connection.login:
        entries[_ACCESS_KEY] = connection.login
    if connection.password:
        entries[_SECRET_KEY] = connection.password
    if (_ACCESS_KEY in entries) != (_SECRET_KEY in entries):
        raise config_error(
            f"source_conn_id: connection {connection.conn_id!r} needs login and password (access and secret key)"
        )
    return entries


def _azure_entries(connection: Connection) -> dict[str, str]:
    """Return the entries of one storage account.

    Its name is the first label of the host, or else the login. A tenant makes login and password those of a service
    principal. Otherwise the password is the key of the account.
    """
    extras = supported_extras(connection, _AZURE_EXTRAS)
    address = connection.host or connection.login or ""
    host = urlsplit(address).hostname or address if "://" in address else address.partition("/")[0]
    account, _, rest = host.partition(".")
    if not account:
        raise config_error(f"source_conn_id: connection {connection.conn_id!r} needs the storage account as its host")
    suffix = f"{account}.dfs.{rest.partition('.')[2] or 'core.windows.net'}"
    if token := extras.get("sas_token"):
        # Airflow also accepts the address of a container with its token.
        return _of_account(suffix, {"account.auth.type": "SAS", "sas.fixed.token": token.rpartition("?")[2]})
    if tenant := extras.get("tenant_id"):
        return _of_account(suffix, _principal(connection, tenant))
    if key := extras.get("shared_access_key") or connection.password:
        return _of_account(suffix, {"account.key": key})
    return _of_account(suffix, {"account.auth.type": "OAuth", "account.oauth.provider.type": _MANAGED_IDENTITY})


def _principal(connection: Connection, tenant: str) -> dict[str, str]:
    if not connection.login or not connection.password:
        raise config_error(
            f"source_conn_id: connection {connection.conn_id!r} has a tenant_id, so it needs login and password "
            "(client id and secret)"
        )
    return {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": _CLIENT_CREDENTIALS,
        "account.oauth2.client.id": connection.login,
        "account.oauth2.client.secret": connection.password,
        "account.oauth2.client.endpoint": f"https://login.microsoftonline.com/{tenant}/oauth2/token",
    }


def _of_account(suffix: str, entries: Mapping[str, str]) -> dict[str, str]:
    return {f"fs.azure.{key}.{suffix}": value for key, value in entries.items()}


def _google_entries(connection: Connection) -> dict[str, str]:
    """Return the entries of all buckets. Without a key file, the credentials are those of the machine."""
    extras = supported_extras(connection, _GOOGLE_EXTRAS)
    if extras.get("is_anonymous") == "true":
        entries = {"fs.gs.auth.type": "UNAUTHENTICATED"}
    elif path := extras.get("key_path"):
        # The file must exist on the driver and on every executor.
        entries = {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": path,
        }
    else:
        entries = {"fs.gs.auth.type": "APPLICATION_DEFAULT"}
    if project := extras.get("project"):
        entries["fs.gs.project.id"] = project
    return entries


def supported_extras(connection: Connection, names: Collection[str]) -> dict[str, str]:
    """Return the extras that are not empty. Raises `ConfigError` for unknown ones.

    Connections of older releases of Airflow have the connection type in the names of their extras.
    """
    prefix = f"extra__{connection.conn_type}__"
    extras = {key.removeprefix(prefix): value for key, value in connection.extra_dejson.items()}
    values = {key: text for key, value in extras.items() if (text := serialize(value))}
    if unknown := sorted(set(values) - set(names)):
        raise config_error(
            f"source_conn_id: connection {connection.conn_id!r} has unknown extras: {', '.join(unknown)}; supported "
            f"are {', '.join(names) or 'none'}"
        )
    return values


_CONVERSIONS: Mapping[str, Callable[[Connection], dict[str, str]]] = {
    "aws": _s3_entries,
    "wasb": _azure_entries,
    "adls": _azure_entries,
    "google_cloud_platform": _google_entries,
}
"""The connection types, as Airflow names them."""
OBJECT_STORE_TYPES = frozenset(_CONVERSIONS)
"""The types of connections to object stores."""
