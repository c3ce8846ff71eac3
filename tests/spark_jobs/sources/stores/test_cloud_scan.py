"""Scans of objects in S3, Azure and Google stores return the rows of Spark's own reader. The servers are real."""

from __future__ import annotations

import gzip
import json
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from cloud_servers import Azurite, CloudStore, GoogleServer, S3Server, mount, run_server
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from datafusion import SessionContext
from fastavro import writer as write_avro
from pyspark.sql import DataFrame, SparkSession
from store_servers import AZURE_KEY

from pushdown_spark.errors import AccessDeniedError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.formats.parquet.datafusion_address import FileAddress, check_store
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, open_parquet
from pushdown_spark.formats.parquet.metrics import ParquetMetrics
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.session import PushdownSession
from pushdown_spark.sources.stores.azure_settings import AzureSettings
from pushdown_spark.sources.stores.google_settings import GoogleSettings
from pushdown_spark.sources.stores.listing import Compression, Split
from pushdown_spark.sources.stores.object_store import ObjectFile
from pushdown_spark.sources.stores.storage import Storage

pytestmark = pytest.mark.nightly

SCHEMA = "id bigint, name string"
ROWS = [{"id": n, "name": f"name {n % 97}"} for n in range(20_000)]
AVRO_SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
ODD_KEYS = (
    *("%2F%25.json", "q?x=1&y=2;z.json", "{a,b}[0]*.json", 'it\'s "quoted".json', "back\\slash.json", "^~`|<>.json"),
    *("日本語/😀.json", "e\u0301.json", " space.json", "space.json ", "+.json", "x=1/$HOME.json", "no suffix"),
)
KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
JSON = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


@pytest.fixture(scope="module", params=[Azurite, GoogleServer, S3Server])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudStore]:
    with run_server(request.param, tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with files of several formats."""
    folder = tmp_path_factory.mktemp("data")
    json_files = {"json/2026/a b+c%20ü#.json": JSON, "json/z.json.gz": gzip.compress(JSON[:5000])}
    json_files |= {f"keys/{key}": b'{"id": %d, "name": "odd"}\n' % number for number, key in enumerate(ODD_KEYS)}
    for name, content in json_files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "orc").mkdir()
    pyarrow.orc.write_table(pa.Table.from_pylist(ROWS), folder / "orc" / "t.orc", stripe_size=100_000)
    (folder / "avro").mkdir()
    with (folder / "avro" / "t.avro").open("wb") as file:
        write_avro(file, AVRO_SCHEMA, ROWS, sync_interval=20_000)
    (folder / "parquet").mkdir()
    pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), folder / "parquet" / "t.parquet")
    return folder


@pytest.fixture(scope="module")
def tables(store: CloudStore, spark: SparkSession, folder: Path) -> Iterator[str]:
    """Store the files. Spark reads a mount of the same files, and Python workers read the server."""
    for file in folder.rglob("*"):
        if file.is_file():
            store.put(f"data/{file.relative_to(folder)}", file.read_bytes())
    with mount(spark, store, folder):
        yield store.path("data")


@pytest.mark.parametrize("where", ["id = 4711", "name = 'name 42' AND id > 100", "id IN (11, 19999)"])
@pytest.mark.parametrize("source_format", ["json", "orc", "avro", "parquet"])
def test_rows_equal_those_of_sparks_reader(
    spark: SparkSession, store: CloudStore, tables: str, source_format: str, where: str
) -> None:
    actual = {}
    for reader in ("pushdown", "spark"):
        session = PushdownSession(spark)
        options = {"recursiveFileLookup": "true"}
        schema = SCHEMA if source_format == "json" else None
        path = f"{tables}/{source_format}"
        session.add_source("t", path=path, format=source_format, schema=schema, options=options, reader=reader)
        result = session.scan("t", columns=["id", "name", "filename", "fqn"], where=where)
        actual[reader] = Counter(result.run(DataFrame.collect))
        report = result.report()["t"]
        assert report.reader == reader, report.reason
        assert report.carrier != "jvm"
    assert actual["pushdown"] == actual["spark"]
    assert actual["spark"]


def test_objects_with_odd_keys_have_sparks_rows_and_implicit_columns(spark: SparkSession, tables: str) -> None:
    actual = {}
    for reader in ("pushdown", "spark"):
        session = PushdownSession(spark)
        options = {"recursiveFileLookup": "true"}
        session.add_source("t", path=f"{tables}/keys", format="json", schema=SCHEMA, options=options, reader=reader)
        result = session.scan("t", columns=["id", "filename", "filepath", "fqn"], where="name LIKE 'o%' AND id >= 0")
        actual[reader] = Counter(result.run(DataFrame.collect))
        report = result.report()["t"]
        assert report.reader == reader, report.reason
    assert actual["pushdown"] == actual["spark"]
    assert actual["spark"].total() == len(ODD_KEYS)


def test_parquet_in_googles_store_with_other_credentials_is_left_to_spark(
    spark: SparkSession, store: CloudStore, tables: str
) -> None:
    if store.scheme != "gs":
        pytest.skip("DataFusion has the credentials")
    session = PushdownSession(spark)
    options = {"fs.gs.auth.type": "APPLICATION_DEFAULT"}
    session.add_source("t", path=f"{tables}/parquet", format="parquet", options=options, reader="pushdown")
    result = session.scan("t", where="id = 4711")
    assert len(result.run(DataFrame.collect)) == 1
    assert result.report()["t"].reader == "spark"
    assert "only anonymously" in result.report()["t"].reason


def test_a_key_file_that_the_environment_names_opens_googles_store(
    store: CloudStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store.scheme != "gs":
        pytest.skip("other stores have no key files")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {"type": "service_account", "client_email": "reader@test", "private_key": pem, "private_key_id": "1"}
    # A key file may name the address of its store, here that of the test's server.
    (tmp_path / "key.json").write_text(json.dumps(account | {"gcs_base_url": f"http://127.0.0.1:{store.port}"}))
    monkeypatch.setenv(KEY_FILE, str(tmp_path / "key.json"))
    settings = GoogleSettings()
    check_store(settings)
    path = store.put("keys/a b+c%20ü#.parquet", (folder / "parquet" / "t.parquet").read_bytes())
    address, context = FileAddress.of(path, Storage({store.bucket: settings})), SessionContext()
    address.register(context)
    assert context.read_parquet(address.url).count() == len(ROWS)


def test_a_setting_that_only_hadoop_supports_is_named(spark: SparkSession, store: CloudStore, tables: str) -> None:
    key = {
        "abfs": "fs.azure.encryption.encoded.client-provided-key",
        "gs": "fs.gs.encryption.key",
        "s3a": "fs.s3a.requester.pays.enabled",
    }[store.scheme]
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(key, "hush")
    try:
        session = PushdownSession(spark)
        session.add_source("t", path=f"{tables}/orc", format="orc", reader="pushdown")
        report = session.scan("t", where="id = 1").report()["t"]
    finally:
        hadoop.unset(key)
    assert report.reader == "spark"
    assert report.reason.endswith(f"{store.scheme}://{store.bucket}: {key} is set, and only Hadoop supports it")
    assert "hush" not in report.model_dump_json()


def test_an_object_that_vanishes_names_its_path(spark: SparkSession, store: CloudStore, tables: str) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=f"{tables}/json/2026", format="json", schema=SCHEMA, reader="pushdown")
    result = session.scan("t", where="id = 4711")
    store.delete("data/json/2026/a b+c%20ü#.json")
    try:
        with pytest.raises(Exception, match="vanished") as failure:
            result.run(DataFrame.collect)
        error = classify(failure.value)
        assert (error.code.value, error.retryable) == ("missing_path", True)
        assert AZURE_KEY not in str(failure.value)
    finally:
        store.put("data/json/2026/a b+c%20ü#.json", JSON)


@pytest.mark.parametrize("lines", [500_000, 1_000_000, 2_000_000], ids=["shorter", "of the same size", "longer"])
def test_an_object_that_is_overwritten_during_a_read_fails(store: CloudStore, lines: int) -> None:
    store.put("changing", b"old\n" * 1_000_000)
    with pytest.raises(OSError, match=r"overwritten|fewer than|no longer exists"):
        _read_while_it_changes(store, b"new\n" * lines)


def _read_while_it_changes(store: CloudStore, content: bytes) -> None:
    with _open(store, "changing") as file:
        assert file.read(4) == b"old\n"
        store.put("changing", content)
        while file.read(1 << 20):
            pass


def test_ranges_of_an_object_are_read(store: CloudStore) -> None:
    content = bytes(range(256)) * 20_000
    store.put("bytes", content)
    with _open(store, "bytes") as file:
        assert file.size == len(content)
        for start, size in ((0, 10), (5_000_000, 200), (77, 3_000_000), (len(content) - 5, 100)):
            file.seek(start)
            assert file.read(size) == content[start : start + size]


def test_a_missing_object_is_reported(store: CloudStore) -> None:
    with pytest.raises(FileNotFoundError, match="no longer exists"):
        _open(store, "nothing")


def test_denied_access_shows_no_secret(store: CloudStore) -> None:
    if not isinstance(store.settings, AzureSettings):
        pytest.skip("the server does not check credentials")
    for credentials in ({"key": "aHVzaA=="}, {"key": None, "sas_token": "?sv=2021-08-06&ss=b&sp=r&sig=a%2Fhush"}):
        settings = AzureSettings("devstoreaccount1", scheme="http", endpoint=store.settings.endpoint, **credentials)
        assert "hush" not in repr(settings)
        with pytest.raises(PermissionError, match="access denied") as error:
            Storage({store.bucket: settings}).open(store.path("bytes"))
        assert "hush" not in str(error.value)
        assert error.value.__cause__ is None


@pytest.mark.parametrize("moment", ["before the read", "during the read"])
def test_a_signature_that_expires_raises_a_final_error(store: CloudStore, moment: str) -> None:
    if not isinstance(store, Azurite):
        pytest.skip("the server does not check credentials")
    content = b"line\n" * 2_000_000
    path = store.put("expiring", content)
    seconds = 4
    settings = store.expiring_settings(seconds)
    start = time.monotonic()
    storage = Storage({store.bucket: settings})
    windows = LineReader(Split(path, 0, len(content), Compression.NONE, storage)).windows()
    assert next(windows).length > 0
    if moment == "before the read":
        windows = LineReader(Split(path, 0, len(content), Compression.NONE, storage)).windows()
    # The server's clock has whole seconds.
    time.sleep(max(seconds + 1 - (time.monotonic() - start), 0))
    with pytest.raises(AccessDeniedError, match="the credentials may have expired") as failure:
        list(windows)
    error = classify(failure.value)
    assert (error.code.value, error.retryable) == ("bad_spec", False)
    assert path in error.message
    assert not any(secret in str(failure.value) for secret in (AZURE_KEY, settings.sas_token))


def test_a_parquet_scan_signs_requests_and_shows_no_signature(store: CloudStore, folder: Path) -> None:
    if not isinstance(store, Azurite):
        pytest.skip("the server does not check credentials")
    path = store.put("signed/a b+c%20ü#.parquet", (folder / "parquet" / "t.parquet").read_bytes())
    seconds = 4
    settings = store.expiring_settings(seconds)
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    query = ParquetQuery(schema, None, has_corrected_dates=True, has_corrected_int96=True, name_rule=ANY_CASE)

    def read_until_it_expires() -> None:
        with open_parquet(path, Storage({store.bucket: settings}), query) as file:
            batches = file.batches(0, file.size, ParquetMetrics())
            assert pa.Table.from_batches(batches).to_pylist() == ROWS
            time.sleep(seconds + 1)
            list(file.batches(0, file.size, ParquetMetrics()))

    with pytest.raises(AccessDeniedError, match="the credentials may have expired") as error:
        read_until_it_expires()
    assert "sig=" not in "".join(traceback.format_exception(error.value))


def test_an_object_with_a_content_encoding_is_rejected_by_google(store: CloudStore) -> None:
    if store.scheme != "gs":
        pytest.skip("Azure sends the bytes as they are")
    path = store.settings.object_path(store.bucket, "encoded")
    metadata = {"Content-Encoding": "gzip"}
    with store.settings.connect().open_output_stream(path, compression=None, metadata=metadata) as stream:
        stream.write(gzip.compress(b"text"))
    with pytest.raises(OSError, match=r"content encoding|ended the read"):
        _open(store, "encoded")


def _open(store: CloudStore, key: str) -> ObjectFile:
    file = store.storage.open(store.path(key))
    assert isinstance(file, ObjectFile)
    return file
