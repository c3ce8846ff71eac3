"""Hadoop's settings for S3A are translated to connection settings, or the unsupported setting is named."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.sources.stores.s3_settings import KeyPair, Proxy, S3Settings, s3_settings
from pushdown_spark.sources.stores.storage import LOCAL, storage_for

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
PROVIDER = "fs.s3a.aws.credentials.provider"
KEYS = {"fs.s3a.access.key": "AK", "fs.s3a.secret.key": "hush", "fs.s3a.endpoint.region": "eu-west-3"}
IN_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "EK", "AWS_SECRET_ACCESS_KEY": "hush-hush", "AWS_SESSION_TOKEN": "ET"}


def settings(entries: dict[str, str], bucket: str = "b", environment: dict[str, str] | None = None) -> S3Settings:
    return s3_settings(KEYS | entries, bucket, (environment or {}).get)


def test_the_default_endpoint_is_aws_over_https() -> None:
    assert settings({}) == S3Settings("eu-west-3", keys=KeyPair("AK", "hush"))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"fs.s3a.endpoint": "http://store:9000"}, ("http", "store:9000", True)),
        ({"fs.s3a.endpoint": "store:9000"}, ("https", "store:9000", True)),
        ({"fs.s3a.endpoint": "store", "fs.s3a.connection.ssl.enabled": "false"}, ("http", "store", True)),
        ({"fs.s3a.endpoint": "https://store/", "fs.s3a.connection.ssl.enabled": "false"}, ("https", "store", True)),
        ({"fs.s3a.endpoint": "store", "fs.s3a.path.style.access": "TRUE"}, ("https", "store", False)),
        ({"fs.s3a.endpoint": "http://10.0.0.1:9000"}, ("http", "10.0.0.1:9000", False)),
        ({"fs.s3a.endpoint": "s3.eu-west-3.amazonaws.com"}, ("https", None, True)),
        ({"fs.s3a.endpoint": "  "}, ("https", None, True)),
    ],
)
def test_endpoints_are_translated(entries: dict[str, str], expected: tuple[str, str | None, bool]) -> None:
    actual = settings({key: value.strip() for key, value in entries.items()})
    assert (actual.scheme, actual.endpoint, actual.virtual) == expected


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        ("https://s3.eu-central-1.amazonaws.com", "eu-central-1"),
        ("s3-us-west-2.amazonaws.com", "us-west-2"),
        ("bucket.vpce-1a2b.s3.us-gov-west-1.vpce.amazonaws.com", "us-gov-west-1"),
        ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("s3.eu-central-003.backblazeb2.com", "eu-central-003"),
        ("minio:9000", "us-east-2"),
    ],
)
def test_the_region_is_taken_from_the_endpoint_or_hadoops_fallback(endpoint: str, region: str) -> None:
    assert settings({"fs.s3a.endpoint.region": "", "fs.s3a.endpoint": endpoint}).region == region


@pytest.mark.parametrize("endpoint", ["", "s3.amazonaws.com", "https://s3.amazonaws.com"])
def test_the_region_is_required_for_endpoints_without_one(endpoint: str) -> None:
    with pytest.raises(UnsupportedError, match=r"fs\.s3a\.endpoint\.region"):
        settings({"fs.s3a.endpoint.region": "", "fs.s3a.endpoint": endpoint})


@pytest.mark.parametrize(
    ("entries", "keys", "ambient"),
    [
        ({"fs.s3a.session.token": "T"}, KeyPair("AK", "hush", "T"), False),
        ({PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"}, KeyPair("AK", "hush"), False),
        (
            {PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", "fs.s3a.session.token": "T"},
            KeyPair("AK", "hush"),
            False,
        ),
        (
            {
                PROVIDER: "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,\n"
                " org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
            },
            None,
            False,
        ),
        ({PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}, None, False),
        (
            {PROVIDER: "com.amazonaws.auth.EnvironmentVariableCredentialsProvider"},
            KeyPair("EK", "hush-hush", "ET"),
            False,
        ),
        ({"fs.s3a.access.key": ""}, KeyPair("EK", "hush-hush", "ET"), False),
        ({PROVIDER: "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"}, None, True),
        ({PROVIDER: "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"}, None, True),
    ],
)
def test_the_first_provider_with_credentials_is_used(
    entries: dict[str, str], keys: KeyPair | None, ambient: bool
) -> None:
    actual = settings(entries, environment=IN_ENVIRONMENT)
    assert (actual.keys, actual.ambient) == (keys, ambient)


def test_without_keys_ambient_credentials_are_used() -> None:
    actual = settings({"fs.s3a.access.key": "", "fs.s3a.secret.key": ""})
    assert (actual.keys, actual.ambient) == (None, True)


def test_settings_of_a_bucket_override_common_settings() -> None:
    entries = {
        "fs.s3a.bucket.b.secret.key": "other",
        "fs.s3a.bucket.b.endpoint": "http://mine:1",
        "fs.s3a.bucket.c.endpoint": "http://others:2",
        "fs.s3a.bucket.b.path.style.access": "true",
        "fs.s3a.bucket.other.delegation.token.binding": "does.not.Matter",
    }
    mine, others = settings(entries), settings(entries, bucket="c")
    assert mine == S3Settings("eu-west-3", "http", "mine:1", virtual=False, keys=KeyPair("AK", "other"))
    assert (others.endpoint, others.keys) == ("others:2", KeyPair("AK", "hush"))


@pytest.mark.parametrize(
    ("entries", "proxy"),
    [
        ({"fs.s3a.proxy.host": "p"}, Proxy("http", "p", 80)),
        ({"fs.s3a.proxy.host": "p", "fs.s3a.proxy.ssl.enabled": "true"}, Proxy("https", "p", 443)),
        (
            {
                "fs.s3a.proxy.host": "p",
                "fs.s3a.proxy.port": "81",
                "fs.s3a.proxy.username": "u",
                "fs.s3a.proxy.password": "w",
            },
            Proxy("http", "p", 81, "u", "w"),
        ),
    ],
)
def test_proxy_settings_are_translated(entries: dict[str, str], proxy: Proxy) -> None:
    assert settings(entries).proxy == proxy


@pytest.mark.parametrize("scheme", ["s3", "s3n"])
def test_other_schemes_are_supported_if_they_are_mapped_to_s3a(spark: SparkSession, scheme: str) -> None:
    storage = storage_for(spark, [f"{scheme}://b/x"], KEYS | {f"fs.{scheme}.impl": S3A})
    assert storage._buckets["b"].settings == settings({})
    with pytest.raises(UnsupportedError, match=rf"fs\.{scheme}\.impl"):
        storage_for(spark, [f"{scheme}://b/x"], KEYS | {f"fs.{scheme}.impl": "a.B"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("hadoop.security.credential.provider.path", "jceks://file/secrets"), ("fs.s3a.impl", "a.B")],
)
def test_settings_outside_the_store_that_only_hadoop_supports_raise(spark: SparkSession, key: str, value: str) -> None:
    with pytest.raises(UnsupportedError, match=key) as error:
        storage_for(spark, ["s3a://AK:hush@b/x"], KEYS | {key: value})
    assert str(error.value).startswith("s3a://b: ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (PROVIDER, "com.example.Vault, org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"),
        (PROVIDER, "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"),
        (PROVIDER, "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"),
        ("fs.s3a.aws.credentials.provider.mapping", "a.B=c.D"),
        ("fs.s3a.delegation.token.binding", "a.B"),
        ("fs.s3a.security.credential.provider.path", "jceks://file/secrets"),
        ("fs.s3a.encryption.algorithm", "SSE-C"),
        ("fs.s3a.encryption.algorithm", "CSE-KMS"),
        ("fs.s3a.server-side-encryption-algorithm", "SSE-C"),
        ("fs.s3a.bucket.b.encryption.algorithm", "CSE-CUSTOM"),
        ("fs.s3a.requester.pays.enabled", "true"),
        ("fs.s3a.access.grants.enabled", "true"),
        ("fs.s3a.accesspoint.arn", "arn:aws:s3:eu-west-3:1:accesspoint/a"),
        ("fs.s3a.endpoint.fips", "true"),
        ("fs.s3a.signing-algorithm", "S3SignerType"),
        ("fs.s3a.custom.signers", "a:b.C"),
        ("fs.s3a.s3.client.factory.impl", "a.B"),
        ("fs.s3a.input.stream.type", "custom"),
        ("fs.s3a.proxy.domain", "corp"),
        ("fs.s3a.endpoint", "http://user:hush@store"),
        ("fs.s3a.endpoint", "http://store/below"),
        ("fs.s3a.something.of.a.later.version", "1"),
    ],
)
def test_the_reason_names_an_unsupported_key_without_secrets(key: str, value: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        settings({key: value, "fs.s3a.encryption.key": "hush"})
    assert key.replace("bucket.b.", "") in str(error.value)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fs.s3a.encryption.algorithm", "SSE-KMS"),
        ("fs.s3a.connection.maximum", "7"),
        ("fs.s3a.committer.name", "magic"),
        ("fs.s3a.assumed.role.arn", "arn:aws:iam::1:role/r"),
        ("fs.s3a.experimental.input.fadvise", "random"),
        ("fs.s3a.requester.pays.enabled", "false"),
        ("fs.s3a.signing-algorithm", ""),
    ],
)
def test_settings_without_effect_on_reads_are_ignored(key: str, value: str) -> None:
    assert settings({key: value}) == settings({})


def test_an_incomplete_key_pair_is_unsupported() -> None:
    simple = {PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", "fs.s3a.access.key": ""}
    with pytest.raises(UnsupportedError, match=r"fs\.s3a\.access\.key"):
        settings(simple)


def test_local_files_need_no_settings(spark: SparkSession) -> None:
    assert storage_for(spark, ["file:///a/b", "/c"], {}) is LOCAL


@pytest.mark.parametrize(
    ("uri", "word"),
    [
        ("hdfs://name.invalid/a", "Hadoop cannot open"),
        ("abfss://c@account/a", "container@account"),
        ("oss://b/a", "only Hadoop"),
    ],
)
def test_other_file_systems_are_unsupported(spark: SparkSession, uri: str, word: str) -> None:
    with pytest.raises(UnsupportedError, match=word):
        storage_for(spark, ["file:///a", uri], {})


def test_session_and_source_options_override_the_context(spark: SparkSession) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.bucket.mine.access.key", "AK")
    hadoop.set("fs.s3a.bucket.mine.secret.key", "hush")
    hadoop.set("fs.s3a.bucket.mine.endpoint", "http://context")
    spark.conf.set("fs.s3a.bucket.mine.endpoint", "http://session:1")
    try:
        options = {"fs.s3a.bucket.mine.endpoint.region": "eu-south-2", "header": "true"}
        actual = storage_for(spark, ["s3a://mine/x", "file:///y"], options)
    finally:
        spark.conf.unset("fs.s3a.bucket.mine.endpoint")
        for key in ("access.key", "secret.key", "endpoint"):
            hadoop.unset(f"fs.s3a.bucket.mine.{key}")
    settings = actual._buckets["mine"].settings
    assert settings == S3Settings("eu-south-2", "http", "session:1", keys=KeyPair("AK", "hush"))
    assert repr(actual) == "Storage(mine)"
