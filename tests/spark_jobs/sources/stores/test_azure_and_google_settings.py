"""Hadoop's settings for Azure and Google stores become connection settings, or an error that names the key."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.sources.stores.azure_settings import AzureSettings, ServicePrincipal, azure_settings
from pushdown_spark.sources.stores.google_settings import GoogleSettings, google_settings
from pushdown_spark.sources.stores.storage import storage_for

HOST = "mine.dfs.core.windows.net"
KEY = {f"fs.azure.account.key.{HOST}": "hush"}
OAUTH = {
    "fs.azure.account.auth.type": "OAuth",
    "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
    "fs.azure.account.oauth2.client.id": "app",
    "fs.azure.account.oauth2.client.secret": "hush",
    "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
}
MANAGED = {
    "fs.azure.account.auth.type": "OAuth",
    "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider",
}


def azure(entries: dict[str, str], scheme: str = "abfss", authority: str = f"lake@{HOST}") -> AzureSettings:
    return azure_settings(entries, scheme, authority)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (KEY, AzureSettings("mine", key="hush")),
        ({"fs.azure.account.key": "hush", "fs.azure.write.request.size": "1"}, AzureSettings("mine", key="hush")),
        (KEY | {"fs.azure.account.key": "other"}, AzureSettings("mine", key="hush")),
        (KEY | {"fs.azure.account.auth.type.other.dfs.core.windows.net": "SAS"}, AzureSettings("mine", key="hush")),
        (
            {"fs.azure.account.auth.type": "SAS", f"fs.azure.sas.fixed.token.{HOST}": "sv=1&sig=hush"},
            AzureSettings("mine", sas_token="?sv=1&sig=hush"),
        ),
        (OAUTH, AzureSettings("mine", principal=ServicePrincipal("tenant", "app", "hush"))),
        (MANAGED, AzureSettings("mine")),
    ],
)
def test_azure_entries_become_settings(entries: dict[str, str], expected: AzureSettings) -> None:
    actual = azure(entries)
    assert actual == expected
    assert "hush" not in repr(actual)
    assert actual.redact("a hush\nb?sig=x%2Fy&sp=r") == "a *** b?sig=***&sp=r" or actual.key is None


def test_domain_and_scheme_come_from_the_uri() -> None:
    authority = "lake@mine.blob.core.usgovcloudapi.net"
    actual = azure({"fs.azure.account.key": "k"}, "abfs", authority)
    assert (actual.account, actual.domain, actual.scheme) == ("mine", "core.usgovcloudapi.net", "https")
    assert azure({"fs.azure.account.key": "k", "fs.azure.always.use.https": "false"}, "abfs").scheme == "http"
    assert azure({"fs.azure.account.key": "k", "fs.azure.always.use.https": "false"}, "abfss").scheme == "https"


@pytest.mark.parametrize(
    ("entries", "key"),
    [
        ({}, "fs.azure.account.key is not set"),
        (KEY | {"fs.azure.account.keyprovider": "x"}, "fs.azure.account.keyprovider"),
        (KEY | {f"fs.azure.encryption.encoded.client-provided-key.{HOST}": "x"}, "client-provided-key is set"),
        (KEY | {f"fs.azure.account.auth.type.{HOST}": "Custom"}, "custom, which only Hadoop"),
        ({"fs.azure.account.auth.type": "SAS"}, "fs.azure.sas.fixed.token is not set"),
        ({"fs.azure.account.auth.type": "SAS", "fs.azure.sas.token.provider.type": "x"}, "sas.token.provider.type"),
        (OAUTH | {"fs.azure.account.oauth2.client.endpoint": "https://elsewhere/t/oauth2/token"}, "client.endpoint"),
        (OAUTH | {"fs.azure.account.oauth.provider.type": "a.b.C"}, "a.b.C, which only Hadoop"),
        (MANAGED | {"fs.azure.account.oauth2.client.id": "x"}, "MsiTokenProvider"),
    ],
)
def test_azure_entries_that_only_hadoop_supports_are_unsupported_without_showing_secrets(
    entries: dict[str, str], key: str
) -> None:
    with pytest.raises(UnsupportedError, match=key) as error:
        azure(entries)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("authority", ["lake", "lake@mine", "mine.dfs.core.windows.net", "a@b@c"])
def test_authorities_without_account_are_unsupported(authority: str) -> None:
    with pytest.raises(UnsupportedError, match="container@account"):
        azure(KEY, authority=authority)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, GoogleSettings()),
        ({"fs.gs.auth.type": "application_default", "fs.gs.project.id": "p"}, GoogleSettings()),
        ({"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.http.max.retry": "3"}, GoogleSettings(anonymous=True)),
        (
            {"fs.gs.storage.root.url": "http://127.0.0.1:4443/", "fs.gs.requester.pays.mode": "DISABLED"},
            GoogleSettings(scheme="http", endpoint="127.0.0.1:4443"),
        ),
    ],
)
def test_google_entries_become_settings(entries: dict[str, str], expected: GoogleSettings) -> None:
    assert google_settings(entries) == expected


@pytest.mark.parametrize(
    ("entries", "key"),
    [
        ({"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}, "fs.gs.auth.type"),
        ({"fs.gs.auth.service.account.json.keyfile": "/key"}, "keyfile is set"),
        ({"fs.gs.requester.pays.mode": "AUTO"}, "requester.pays.mode"),
        ({"fs.gs.inputstream.support.gzip.encoding.enable": "true"}, "gzip.encoding"),
        ({"fs.gs.encryption.key": "hush"}, "fs.gs.encryption.key"),
        ({"fs.gs.storage.root.url": "http://host/path"}, "root.url"),
        ({"fs.gs.proxy.address": "host:1"}, "proxy.address"),
    ],
)
def test_google_entries_that_only_hadoop_supports_are_unsupported_without_showing_secrets(
    entries: dict[str, str], key: str
) -> None:
    with pytest.raises(UnsupportedError, match=key) as error:
        google_settings(entries)
    assert "hush" not in str(error.value)


def test_settings_of_the_session_and_of_the_source_are_read(spark: SparkSession) -> None:
    uris = [f"abfss://lake@{HOST}/a", "gs://bucket/b"]
    spark.conf.set("fs.gs.auth.type", "UNAUTHENTICATED")
    try:
        actual = storage_for(spark, uris, {f"fs.azure.account.key.{HOST}": "hush"})
    finally:
        spark.conf.unset("fs.gs.auth.type")
    settings = {name: bucket.settings for name, bucket in actual._buckets.items()}
    assert settings == {f"lake@{HOST}": AzureSettings("mine", key="hush"), "bucket": GoogleSettings(anonymous=True)}
    assert "hush" not in repr(actual)


@pytest.mark.parametrize("scheme", ["gs", "abfss"])
def test_other_file_systems_for_a_scheme_are_unsupported(spark: SparkSession, scheme: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"fs\.{scheme}\.impl is another file system"):
        storage_for(spark, [f"{scheme}://lake@{HOST}/a"], KEY | {f"fs.{scheme}.impl": "a.B"})
