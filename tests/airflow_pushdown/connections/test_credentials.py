"""Conversion of an Airflow connection to Hadoop's settings for an object store."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection
from airflow.sdk.log import redact

from airflow_pushdown.connections.credentials import confidential, object_store_secrets
from airflow_pushdown.exceptions import ConfigError


def connection(conn_type: str = "aws", **fields: object) -> Connection:
    extra = fields.pop("extra", None)
    return Connection(
        conn_id="store",
        conn_type=conn_type,
        extra=json.dumps(extra) if extra else None,
        **fields,  # type: ignore[arg-type]
    )


def test_known_connection_fields_become_hadoop_settings() -> None:
    secrets = object_store_secrets(
        connection(
            login="AKIAEXAMPLE",
            password="secret-of-the-store",
            extra={
                "aws_session_token": "token-of-the-store",
                "endpoint_url": "http://store:9000",
                "region_name": "eu-north-1",
                "path_style_access": True,
            },
        )
    )
    assert secrets.hadoop == {
        "fs.s3a.access.key": "AKIAEXAMPLE",
        "fs.s3a.secret.key": "secret-of-the-store",
        "fs.s3a.session.token": "token-of-the-store",
        "fs.s3a.endpoint": "http://store:9000",
        "fs.s3a.endpoint.region": "eu-north-1",
        "fs.s3a.path.style.access": "true",
    }
    assert set(confidential(secrets)) == {"AKIAEXAMPLE", "secret-of-the-store", "token-of-the-store"}


ACCOUNT = "lake.dfs.core.windows.net"
PRINCIPAL = {
    f"fs.azure.account.auth.type.{ACCOUNT}": "OAuth",
    f"fs.azure.account.oauth.provider.type.{ACCOUNT}": (
        "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
    ),
    f"fs.azure.account.oauth2.client.id.{ACCOUNT}": "app",
    f"fs.azure.account.oauth2.client.secret.{ACCOUNT}": "client-hush",
    f"fs.azure.account.oauth2.client.endpoint.{ACCOUNT}": "https://login.microsoftonline.com/t/oauth2/token",
}


@pytest.mark.parametrize(
    ("source", "entries", "secrets"),
    [
        (
            connection("wasb", login="lake", password="key-hush"),
            {f"fs.azure.account.key.{ACCOUNT}": "key-hush"},
            {"key-hush"},
        ),
        (
            connection("wasb", host="https://lake.blob.core.windows.net/", extra={"shared_access_key": "key-hush"}),
            {f"fs.azure.account.key.{ACCOUNT}": "key-hush"},
            {"key-hush"},
        ),
        (
            connection("wasb", host="lake", extra={"sas_token": "https://lake.blob.core.windows.net/c?sig=hush-hush"}),
            {f"fs.azure.account.auth.type.{ACCOUNT}": "SAS", f"fs.azure.sas.fixed.token.{ACCOUNT}": "sig=hush-hush"},
            {"sig=hush-hush"},
        ),
        (
            connection("adls", host="lake", login="app", password="client-hush", extra={"tenant_id": "t"}),
            PRINCIPAL,
            {"client-hush"},
        ),
        (
            connection("wasb", host="lake.blob.core.usgovcloudapi.net", password="key-hush"),
            {"fs.azure.account.key.lake.dfs.core.usgovcloudapi.net": "key-hush"},
            {"key-hush"},
        ),
        (connection("google_cloud_platform"), {"fs.gs.auth.type": "APPLICATION_DEFAULT"}, set()),
        (
            connection("google_cloud_platform", extra={"is_anonymous": True, "project": "p", "keyfile_dict": ""}),
            {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.project.id": "p"},
            set(),
        ),
        (
            connection("google_cloud_platform", extra={"extra__google_cloud_platform__key_path": "/keys/a.json"}),
            {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": "/keys/a.json",
            },
            set(),
        ),
    ],
)
def test_connections_to_azure_and_google_become_hadoop_settings(
    source: Connection, entries: dict[str, str], secrets: set[str]
) -> None:
    settings = object_store_secrets(source)
    assert settings.hadoop == entries
    assert set(confidential(settings)) == secrets


def test_a_machine_identity_signs_in_without_credentials() -> None:
    secrets = object_store_secrets(connection("adls", host="lake"))
    assert secrets.hadoop[f"fs.azure.account.oauth.provider.type.{ACCOUNT}"].endswith("MsiTokenProvider")


def test_credentials_are_masked_in_logs_and_addresses_are_not() -> None:
    object_store_secrets(
        connection(login="AKIAMASKED", password="masked-password", extra={"region_name": "eu-visible-1"})
    )
    assert redact("AKIAMASKED masked-password eu-visible-1") == "*** *** eu-visible-1"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (connection("postgres", login="u", password="hush-hush"), "has type postgres; use a connection of type aws"),
        (connection("wasb"), "needs the storage account"),
        (connection("wasb", login="lake", extra={"connection_string": "x"}), "connection_string"),
        (connection("adls", host="lake", password="half-hush", extra={"tenant_id": "t"}), "needs login and password"),
        (connection("google_cloud_platform", extra={"keyfile_dict": "{}"}), "keyfile_dict; supported are key_path"),
        (connection(login="AKIAEXAMPLE"), "needs login and password"),
        (connection(password="only-half"), "needs login and password"),
        (connection(login="AKIAEXAMPLE", password="pw-of-it", extra={"role_arn": "arn:x"}), "role_arn"),
    ],
)
def test_unknown_connection_fields_are_rejected_by_name(wrong: Connection, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        object_store_secrets(wrong)
    assert str(error.value).startswith("source_conn_id")
    assert wrong.password is None or wrong.password not in str(error.value)
