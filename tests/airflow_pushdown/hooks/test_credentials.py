"""Conversion of an Airflow connection to Hadoop's settings for an object store."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection
from airflow.sdk.log import redact

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.hooks.credentials import confidential, object_store_secrets


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


def test_credentials_are_masked_in_logs_and_addresses_are_not() -> None:
    object_store_secrets(
        connection(login="AKIAMASKED", password="masked-password", extra={"region_name": "eu-visible-1"})
    )
    assert redact("AKIAMASKED masked-password eu-visible-1") == "*** *** eu-visible-1"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (connection("postgres", login="u", password="hush-hush"), "has type postgres"),
        (connection(login="AKIAEXAMPLE"), "needs login and password"),
        (connection(password="only-half"), "needs login and password"),
        (connection(login="AKIAEXAMPLE", password="pw-of-it", extra={"role_arn": "arn:x"}), "role_arn"),
    ],
)
def test_unknown_connection_fields_are_rejected_by_name(wrong: Connection, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        object_store_secrets(wrong)
    assert str(caught.value).startswith("source_conn_id")
    assert wrong.password is None or wrong.password not in str(caught.value)
