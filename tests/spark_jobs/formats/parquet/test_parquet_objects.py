"""Parquet files in an S3 store yield the same rows as local files, however they are split."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext
from s3_server import ObjectStore

from pushdown_spark.errors import MissingPathError, PushdownError, UnreadableFileError, UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Column, Comparison, Op
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.types import LogicalType
from pushdown_spark.formats.parquet.datafusion_address import FileAddress, check_store
from pushdown_spark.formats.parquet.file_parts import ParquetInput
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, open_parquet
from pushdown_spark.formats.parquet.metrics import ParquetMetrics, ParquetOutcome
from pushdown_spark.sources.stores.azure_settings import AzureSettings, ServicePrincipal
from pushdown_spark.sources.stores.google_settings import GoogleSettings
from pushdown_spark.sources.stores.object_store import StoreSettings
from pushdown_spark.sources.stores.s3_settings import KeyPair, Proxy, S3Settings
from pushdown_spark.sources.stores.storage import Storage

ROWS, EACH = 40_000, 5_000
TABLE = pa.table({"id": range(ROWS), "text": [f"row {number}" for number in range(ROWS)]})
ALL = ParquetQuery(TABLE.schema, None, has_corrected_dates=True, has_corrected_int96=True, name_rule=ANY_CASE)
NEEDLE = ParquetQuery(
    TABLE.schema,
    ArrowFilter(Comparison(Column(("id",), LogicalType.INTEGER, pa.int64()), Op.EQ, 32_100)),
    has_corrected_dates=True,
    has_corrected_int96=True,
    name_rule=ANY_CASE,
)


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    pq.write_table(TABLE, tmp_path / "local.parquet", row_group_size=EACH, write_page_index=True)
    return (tmp_path / "local.parquet").read_bytes()


def _read(path: str, storage: Storage, query: ParquetQuery, start: int, end: int) -> tuple[pa.Table, ParquetMetrics]:
    counts = ParquetMetrics()
    with open_parquet(path, storage, query) as file:
        batches = list(file.batches(start, end, counts))
    return pa.Table.from_batches(batches, TABLE.schema), counts


@pytest.mark.parametrize("limit", [1 << 30, 100_000, 7_001])
def test_splits_of_an_object_have_all_its_rows_once(store: ObjectStore, content: bytes, limit: int) -> None:
    bucket = store.bucket()
    path, storage = store.put(bucket, "a b/ü#%20?.parquet", content), store.storage(bucket)
    size = ParquetInput("", path, len(content)).split_size(limit)
    splits = [(start, min(start + size, len(content))) for start in range(0, len(content), size)]
    tables = [_read(path, storage, ALL, start, end)[0] for start, end in splits]
    assert pa.concat_tables(tables).to_pydict() == TABLE.to_pydict()


def test_row_groups_of_objects_are_pruned(store: ObjectStore, content: bytes) -> None:
    bucket = store.bucket()
    path, storage = store.put(bucket, "t.parquet", content), store.storage(bucket)
    actual, counts = _read(path, storage, NEEDLE, 0, len(content))
    assert actual.to_pylist() == [{"id": 32_100, "text": "row 32100"}]
    assert counts.row_groups[ParquetOutcome.BY_STATISTICS] == ROWS // EACH - 1
    assert counts.bytes_read < len(content) // 2


def test_a_missing_object_raises(store: ObjectStore) -> None:
    bucket = store.bucket()
    with pytest.raises(MissingPathError), open_parquet(f"s3a://{bucket}/gone", store.storage(bucket), ALL):
        pass


def test_an_object_overwritten_during_the_scan_raises(store: ObjectStore, content: bytes) -> None:
    bucket = store.bucket()
    path, storage = store.put(bucket, "t.parquet", content), store.storage(bucket)

    def read_and_overwrite() -> None:
        with open_parquet(path, storage, ALL) as file:
            list(file.batches(0, len(content), ParquetMetrics()))
            store.put(bucket, "t.parquet", content + b" ")

    with pytest.raises(UnreadableFileError, match="overwritten"):
        read_and_overwrite()


def test_errors_of_the_store_have_no_secrets(store: ObjectStore, content: bytes) -> None:
    bucket = store.bucket()
    path, storage = store.put(bucket, "t.parquet", content), store.storage(bucket)

    def delete_and_read() -> None:
        with open_parquet(path, storage, ALL) as file:
            store.client().delete_object(Bucket=bucket, Key="t.parquet")
            list(file.batches(0, len(content), ParquetMetrics()))

    with pytest.raises(PushdownError) as error:
        delete_and_read()
    keys = store.settings().keys
    assert keys is not None
    assert keys.secret_key not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        S3Settings("r", virtual=True, keys=KeyPair("a", "b")),
        S3Settings("r", endpoint="host", virtual=False, keys=KeyPair("a", "b")),
        AzureSettings("mine", key="a"),
        AzureSettings("mine", sas_token="?sig=a"),
        AzureSettings("mine", principal=ServicePrincipal("tenant", "app", "a")),
        AzureSettings("emulator", scheme="http", endpoint="host:1", key="a"),
        GoogleSettings(anonymous=True),
        GoogleSettings(anonymous=True, scheme="http", endpoint="host:1"),
    ],
)
def test_stores_with_credentials_are_read(settings: StoreSettings) -> None:
    check_store(settings)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (S3Settings("r"), "access key"),
        (S3Settings("r", ambient=True), "access key"),
        (S3Settings("r", keys=KeyPair("a", "b"), proxy=Proxy("http", "host", 1)), "proxy"),
        (S3Settings("r", endpoint="host", keys=KeyPair("a", "b")), "path.style"),
        (AzureSettings("mine"), "account key"),
        (AzureSettings("mine", domain="core.chinacloudapi.cn", key="a"), "core.windows.net"),
        (AzureSettings("mine", scheme="http", key="a"), "HTTPS"),
        (GoogleSettings(endpoint="host"), "only anonymously"),
    ],
)
def test_other_stores_are_left_to_spark(settings: StoreSettings, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        check_store(settings)


@pytest.mark.parametrize(
    ("key_file", "reason"),
    [
        (None, "names no readable key file"),
        ("", "names no readable key file"),
        ("{", "names no readable key file"),
        ('{"type": "authorized_user"}', "not name the key of a service account"),
    ],
)
def test_google_needs_the_key_of_a_service_account(
    key_file: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    if key_file is not None:
        (tmp_path / "key.json").write_text(key_file)
    with pytest.raises(UnsupportedError, match=reason):
        check_store(GoogleSettings())


def test_anonymous_access_to_google_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = GoogleSettings(anonymous=True, scheme="http", endpoint="host:1")
    address = FileAddress.of("gs://lake/a b.parquet", Storage({"lake": settings}))
    address.register(SessionContext())
    assert (address.url, list(tmp_path.iterdir())) == ("gs://lake/a%20b.parquet", [])
