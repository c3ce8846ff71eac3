"""Objects of a real S3 server have the same lines as local files, and errors have no secrets."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import random
import socket
import traceback
from dataclasses import replace

import pyarrow as pa
import pytest
from s3_server import REGION, ROOT, ObjectStore, session_proxy

from pushdown_spark.errors import BadSpecError, MissingPathError, PushdownError, UnreadableFileError, UnsafeInputError
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.sources.stores.listing import Compression, InputFile, Split
from pushdown_spark.sources.stores.object_store import AHEAD, FIRST_AHEAD, ObjectFile
from pushdown_spark.sources.stores.s3_settings import Proxy, S3Settings
from pushdown_spark.sources.stores.storage import Storage

SECRETS = (ROOT.access_key, ROOT.secret_key, ROOT.token)


def _zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


PACKERS = {
    Compression.NONE: bytes,
    Compression.GZIP: gzip.compress,
    Compression.BZIP2: bz2.compress,
    Compression.ZSTD: _zstd,
}


def _lines(split: Split) -> bytes:
    return b"".join(bytes(window.view) for window in LineReader(split).windows())


def _numbers(size: int) -> bytes:
    """Return at least this many bytes of lines that compress badly."""
    rng = random.Random(size)
    return b"".join(b"%064x\n" % rng.getrandbits(256) for _ in range(-(-size // 65)))


def _open(store: ObjectStore, bucket: str, path: str, **how: int) -> ObjectFile:
    file = store.storage(bucket).open(path, **how)
    assert isinstance(file, ObjectFile)
    return file


@pytest.mark.parametrize("key", ["data", "a b/ü+%20#?&=.json", "x=1/y=2/.part"])
def test_splits_of_every_size_return_each_line_once(store: ObjectStore, key: str) -> None:
    bucket = store.bucket()
    content = b"".join(text + b"\n" for text in (b"", b"a", b"bc" * 20, "é".encode() * 9)) + b"no terminator"
    path, storage = store.put(bucket, key, content), store.storage(bucket)
    for size in (3, 7, 50, 1000):
        spans = ((start, min(start + size, len(content))) for start in range(0, len(content), size))
        splits = [Split(path, start, end, Compression.NONE, storage) for start, end in spans]
        assert b"".join(map(_lines, splits)) == content + b"\n", size


@pytest.mark.parametrize("compression", PACKERS)
def test_large_objects_are_read_completely_with_few_requests(store: ObjectStore, compression: Compression) -> None:
    bucket, key = store.bucket(), f"data{compression}"
    content = _numbers(20 << 20)
    stored_bytes = PACKERS[compression](content)
    path = store.put(bucket, key, stored_bytes)
    reader = LineReader(Split(path, 0, len(stored_bytes), compression, store.storage(bucket)))
    lines = b"".join(bytes(window.view) for window in reader.windows())
    assert lines == content
    assert (reader.bytes_read, reader.bytes_searched) == (len(stored_bytes), len(content))
    assert store.reads(bucket, key) <= 5


def test_the_buffer_of_an_object_is_bounded(store: ObjectStore) -> None:
    bucket = store.bucket()
    path = store.put(bucket, "data", bytes(20 << 20))
    with _open(store, bucket, path) as file:
        held = set()
        while file.read(100_000):
            held.add(len(file._buffer))
    assert min(held) == FIRST_AHEAD
    assert max(held) == AHEAD


def test_after_a_split_only_the_end_of_its_last_line_is_fetched(store: ObjectStore) -> None:
    bucket = store.bucket()
    content = _numbers(4 << 20)
    path = store.put(bucket, "data", content)
    reader = LineReader(Split(path, 1000, 200_000, Compression.NONE, store.storage(bucket)))
    actual = b"".join(bytes(window.view) for window in reader.windows())
    assert actual == content[1040:200_005]
    assert reader.bytes_read <= 199_001 + (64 << 10)


def test_the_first_read_fetches_the_first_read_ahead_only(store: ObjectStore) -> None:
    bucket = store.bucket()
    path = store.put(bucket, "data", bytes(4 << 20))
    with _open(store, bucket, path) as file:
        file.read(10)
        assert file.bytes_fetched == FIRST_AHEAD


def test_without_read_ahead_only_requested_bytes_are_fetched(store: ObjectStore) -> None:
    bucket = store.bucket()
    content = bytes(range(250)) * 4096
    path = store.put(bucket, "data", content)
    with _open(store, bucket, path, ahead=0) as file:
        assert file.size == len(content)
        for start, size in ((1000, 7), (0, 1), (len(content) - 3, 3), (500_000, 100_000)):
            assert file.seek(start) == start
            assert file.read(size) == content[start : start + size]
        assert file.bytes_fetched == 100_011
        assert file.seek(-2, io.SEEK_END) == len(content) - 2
        assert file.read() == content[-2:]
        assert file.read(5) == b""


def test_reads_at_random_positions_return_the_objects_bytes(store: ObjectStore) -> None:
    rng = random.Random(5)
    content = rng.randbytes(3 << 20)
    bucket = store.bucket()
    path = store.put(bucket, "data", content)
    with _open(store, bucket, path, start=17, stop=2 << 20) as file:
        position = 17
        for _ in range(60):
            if rng.random() < 0.4:
                position = file.seek(rng.randrange(len(content) + 10))
            actual = file.read(rng.randrange(1, 400_000))
            assert actual == content[position : position + len(actual)]
            assert actual or position >= len(content)
            position += len(actual)
            assert file.tell() == position


def test_requests_without_keys_are_anonymous(store: ObjectStore) -> None:
    bucket = store.bucket()
    path = store.put(bucket, "data", b"public\n")
    store.client().put_object_acl(Bucket=bucket, Key="data", ACL="public-read")
    assert store.storage(bucket, keys=None).open(path).read(7) == b"public\n"


def _failure(split: Split) -> PushdownError:
    """Return the error of reading a split. Its traceback has no secrets."""
    with pytest.raises(PushdownError) as error:
        _lines(split)
    text = "".join(traceback.format_exception(error.value))
    assert split.path in text
    assert not any(secret in text for secret in SECRETS)
    return error.value


def test_a_missing_object_raises_a_retryable_missing_path(store: ObjectStore) -> None:
    bucket = store.bucket()
    error = _failure(Split(f"s3a://{bucket}/gone", 0, 5, Compression.NONE, store.storage(bucket)))
    assert isinstance(error, MissingPathError)
    assert error.code.retryable


@pytest.mark.parametrize("who", ["unknown user", "wrong secret", "no permission"])
def test_denied_access_raises_an_error_that_is_not_retried(store: ObjectStore, who: str) -> None:
    bucket = store.bucket()
    path = store.put(bucket, "data", b"x\n" * 100)
    user = store.user("s3:ListBucket")
    reader = {"unknown user": ROOT, "wrong secret": ROOT, "no permission": user}[who]
    if who == "wrong secret":
        reader = type(ROOT)(user.access_key, ROOT.secret_key)
    with store.asking_who():
        error = _failure(Split(path, 0, 5, Compression.NONE, store.storage(bucket, reader)))
    assert isinstance(error, BadSpecError)
    assert "access denied" in str(error)
    assert not error.code.retryable


@pytest.mark.parametrize("moment", ["before the read", "during the read"])
def test_an_expired_session_token_raises_an_error_that_is_not_retried(store: ObjectStore, moment: str) -> None:
    bucket = store.bucket()
    content = _numbers(6 << 20)
    path = store.put(bucket, "data", content)
    with session_proxy(store) as proxy:
        storage = Storage({bucket: replace(store.settings(), endpoint=proxy.host)})
        windows = LineReader(Split(path, 0, len(content), Compression.NONE, storage)).windows()
        if moment == "during the read":
            next(windows)
        proxy.is_expired = True
        with pytest.raises(BadSpecError, match="the credentials may have expired") as error:
            list(windows)
    assert "give the job credentials that may read it" in str(error.value)
    assert not error.value.code.retryable
    assert not any(secret in str(error.value) for secret in SECRETS)


def test_a_user_with_read_permission_can_read(store: ObjectStore) -> None:
    bucket = store.bucket()
    path = store.put(bucket, "data", b"x\n" * 100)
    reader = store.user("s3:GetObject", "s3:ListBucket")
    with store.asking_who():
        assert _lines(Split(path, 0, 200, Compression.NONE, store.storage(bucket, reader))) == b"x\n" * 100


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("through", ["store", "proxy"])
def test_an_unreachable_store_raises_a_retryable_error(through: str) -> None:
    port = _closed_port()
    proxy = Proxy("http", "127.0.0.1", port, "somebody", ROOT.secret_key) if through == "proxy" else None
    settings = S3Settings(REGION, "http", f"127.0.0.1:{port}", virtual=False, keys=ROOT, proxy=proxy)
    error = _failure(Split("s3a://bucket/data", 0, 5, Compression.NONE, Storage({"bucket": settings})))
    assert isinstance(error, UnreadableFileError)
    assert error.code.retryable


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.BZIP2, Compression.ZSTD])
def test_truncated_compressed_objects_use_spark(store: ObjectStore, compression: Compression) -> None:
    bucket = store.bucket()
    stored_bytes = PACKERS[compression](_numbers(3 << 20))
    path = store.put(bucket, f"cut{compression}", stored_bytes[: len(stored_bytes) // 2])
    error = _failure(Split(path, 0, len(stored_bytes) // 2, compression, store.storage(bucket)))
    assert isinstance(error, UnsafeInputError)
    assert "near byte" in str(error)


@pytest.mark.parametrize("change", ["overwritten", "longer", "shorter", "deleted"])
def test_an_object_that_changes_during_the_read_raises(store: ObjectStore, change: str) -> None:
    bucket = store.bucket()
    content = _numbers(6 << 20)
    path = store.put(bucket, "data", content)
    windows = LineReader(Split(path, 0, len(content), Compression.NONE, store.storage(bucket))).windows()
    next(windows)
    if change == "deleted":
        store.delete(bucket, "data")
    else:
        store.put(
            bucket,
            "data",
            {"overwritten": content[::-1], "longer": content + b"x\n", "shorter": content[: 2 << 20]}[change],
        )
    with pytest.raises((UnreadableFileError, MissingPathError), match=path):
        for _ in windows:
            pass


def test_a_range_that_the_store_sends_in_part_raises(store: ObjectStore) -> None:
    """pyarrow does not report a short response. Without our check, uninitialized memory would be read as lines."""
    bucket = store.bucket()
    for size in (2, 10, 60):
        path = store.put(bucket, "data", b"x" * 100)
        file = _open(store, bucket, path, start=100 - size, ahead=0)
        store.put(bucket, "data", b"x" * (100 - size // 2))
        with pytest.raises(OSError, match="fewer than"):
            file.read(size)


def test_objects_of_only_ff_bytes_are_read(store: ObjectStore) -> None:
    bucket = store.bucket()
    path = store.put(bucket, "data", b"\xff" * 1000)
    with _open(store, bucket, path, ahead=0) as file:
        assert file.read() == b"\xff" * 1000


def test_storages_are_pickled_and_their_repr_has_no_secrets(store: ObjectStore) -> None:
    bucket = store.bucket()
    path = store.put(bucket, "data", b"1\n2\n")
    storage = store.storage(bucket)
    file = InputFile(path, path, 4, storage)
    assert _lines(file.split(0, 4)) == b"1\n2\n"
    pickle_bytes = pickle.dumps(file.split(0, 4))
    assert _lines(pickle.loads(pickle_bytes)) == b"1\n2\n"
    for item in (storage, file, file.split(0, 4), store.settings(), store.storage(bucket)._buckets[bucket]):
        assert not any(secret in f"{item!r} {item}" for secret in SECRETS)
    assert "hunter2" not in repr(Proxy("http", "proxy", 8080, "somebody", "hunter2"))


def test_secrets_are_redacted_from_messages() -> None:
    settings = S3Settings(REGION, keys=ROOT, proxy=Proxy("http", "proxy", 8080, "somebody", "hunter2"))
    text = settings.redact(f"key {ROOT.access_key}:\n{ROOT.secret_key}, {ROOT.token} through hunter2")
    assert text == "key ***: ***, *** through ***"
