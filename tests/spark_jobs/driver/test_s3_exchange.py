"""The driver reads spec and credentials from a real S3 server, and writes its result there, before Spark has started.

`make nightly` adds S3A.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from s3_server import ObjectStore, require_s3a

from pushdown_spark.contract import JobResult
from pushdown_spark.contract.encryption import KEY_VARIABLE, encrypt
from pushdown_spark.driver.job_exchange import read_secrets, read_text, write_result
from pushdown_spark.errors import BadSpecError
from pushdown_spark.runtime.jvm_gateway import java_class

pytestmark = pytest.mark.nightly

KEY = base64.urlsafe_b64encode(os.urandom(32)).decode()


@pytest.fixture
def bucket(spark: SparkSession, store: ObjectStore) -> Iterator[str]:
    """Return a bucket that the settings of spark-submit give access to."""
    require_s3a(spark)
    system, name = java_class(spark, "java.lang.System"), store.bucket()
    keys = store.hadoop_keys(name)
    for key, value in keys.items():
        system.setProperty(f"spark.hadoop.{key}", value)
    yield name
    for key in keys:
        system.clearProperty(f"spark.hadoop.{key}")


def test_an_exchange_on_s3a_keeps_the_last_result_and_no_secrets(
    store: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of a killed task, which has deleted its spec, is not written."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    spec = read_text("--spec", store.put(bucket, "exchange/a.spec.json", b'{"run_key": "a"}'))
    secrets = encrypt('{"hadoop": {"fs.s3a.secret.key": "hush"}}', KEY, spec)
    path = store.put(bucket, "exchange/a.secrets.json", secrets.encode())

    assert read_secrets(path, spec).hadoop == {"fs.s3a.secret.key": "hush"}
    with pytest.raises(BadSpecError, match="there is no such file; it can only be used once"):
        read_secrets(path, spec)
    for rows in (1, 2):
        write_result(f"s3a://{bucket}/exchange/a.result.json", JobResult(rows=rows))

    write_result(f"s3a://{bucket}/exchange/b.result.json", JobResult(), f"s3a://{bucket}/exchange/b.spec.json")

    names = [entry["Key"] for entry in store.client().list_objects_v2(Bucket=bucket)["Contents"]]
    assert names == ["exchange/a.result.json", "exchange/a.spec.json"]
    assert JobResult.model_validate_json(read_text("result", f"s3a://{bucket}/exchange/a.result.json")).rows == 2
