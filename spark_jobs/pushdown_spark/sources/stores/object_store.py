"""Objects of stores: files read by byte ranges with a bounded read-ahead, and errors without credentials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar

import pyarrow as pa

from pushdown_spark.errors import UnsupportedError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")

AHEAD = 8 << 20
"""Maximum read-ahead in bytes, and so the maximum buffer of an open object."""
FIRST_AHEAD = 1 << 20
"""First read-ahead in bytes. Each read-ahead doubles the size, so that reading a few bytes stays cheap."""
_UNLIKELY_BYTE = 0xFF
"""A byte that never occurs in UTF-8."""


class ClientFile(Protocol):
    """An open object of a client. pyarrow's files have these methods."""

    def size(self) -> int:
        """Return the size in bytes."""

    def seek(self, position: int, /) -> int:
        """Move to a position."""

    def readinto(self, target: WriteableBuffer, /) -> int:
        """Fill the target with the bytes from the position on. Return their number."""

    def close(self) -> None:
        """Close the object."""


class StoreClient(Protocol):
    """A client of a store. pyarrow's file systems have this method."""

    def open_input_file(self, path: str, /) -> ClientFile:
        """Open an object."""


class StoreSettings(ABC):
    """The connection settings of a bucket. Subclasses are frozen dataclasses whose repr has no secrets."""

    access_denied_signs: ClassVar[tuple[str, ...]]
    """Parts of the store's messages that it denies access."""
    expired_signs: ClassVar[tuple[str, ...]]
    """Parts of the store's messages that it denies access, perhaps because the credentials have expired."""

    @abstractmethod
    def connect(self) -> StoreClient:
        """Return a new client of the store."""

    @abstractmethod
    def redact(self, text: str) -> str:
        """Return the message of a library on one line, with `***` for each secret."""

    def object_path(self, bucket: str, key: str) -> str:
        """Return the path of an object for the client."""
        return f"{bucket}/{key}"

    def version(self, file: pa.NativeFile) -> bytes:
        """Return an identifier of the version of an open object."""
        tag: bytes = file.metadata().get("ETag", b"")
        return tag + b" %d" % file.size()


def check_keys(
    prefix: str,
    entries: Mapping[str, str],
    known_keys: AbstractSet[str],
    inert_prefixes: tuple[str, ...],
    inert_values: Mapping[str, AbstractSet[str]] | None = None,
) -> None:
    """Raise UnsupportedError for the first of Hadoop's entries that may change the bytes read. Keys have no `prefix`.

    `known_keys` are the keys that become connection settings. Keys with one of `inert_prefixes` do not matter to a
    read, and keys of `inert_values` do not matter with these values (in lower case).
    """
    inert_values = inert_values or {}
    for key in sorted(entries.keys() - known_keys):
        is_inert = key not in inert_values and key.startswith(inert_prefixes)
        if not is_inert and entries[key].lower() not in inert_values.get(key, ()):
            raise UnsupportedError(f"{prefix}{key} is set, and only Hadoop supports it")


@dataclass(frozen=True)
class OpenObject:
    """An object that is open for reads. `version` identifies its content, and `size` is in bytes."""

    key: str
    file: ClientFile
    version: bytes
    size: int


class Bucket:
    """A connection to a bucket, which opens on first use and is never pickled. Keys are object names in the bucket.

    An HDFS is a bucket whose keys are paths.

    Errors are OSError: FileNotFoundError for a missing object, PermissionError if the store denies access. Their
    messages have no secrets.
    """

    def __init__(self, name: str, settings: StoreSettings) -> None:
        self.name = name
        self.settings = settings
        self._file_system: StoreClient | None = None

    def __getstate__(self) -> tuple[str, StoreSettings]:
        return self.name, self.settings

    def __setstate__(self, state: tuple[str, StoreSettings]) -> None:
        self.name, self.settings = state
        self._file_system = None

    def open(self, key: str) -> OpenObject:
        """Open an object. This requests its size and version, but no content.

        A file that nothing was read from need not be closed. For Google's store, pyarrow would request the content.
        """
        path = self.settings.object_path(self.name, key)
        file = self.request(lambda: self._client().open_input_file(path))
        return OpenObject(key, file, self.request(lambda: self.settings.version(file)), int(file.size()))

    def request(self, action: Callable[[], T]) -> T:
        """Run an action that uses the store. Raises OSError without secrets and without a cause that has secrets."""
        try:
            return action()
        except FileNotFoundError:
            failure: OSError = FileNotFoundError("the object no longer exists")
        except (OSError, pa.ArrowException) as problem:
            failure = self._failure(self.settings.redact(str(problem)))
        except ValueError as problem:
            # A client of Google's store closes the file if the version that it opened no longer exists.
            message = self.settings.redact(str(problem))
            failure = OSError(f"the store ended the read ({message}); the object may have been overwritten")
        raise failure from None

    def _failure(self, message: str) -> OSError:
        if any(sign in message for sign in self.settings.expired_signs):
            return PermissionError(f"access denied, the credentials may have expired: {message}")
        if any(sign in message for sign in self.settings.access_denied_signs):
            return PermissionError(f"access denied: {message}")
        return OSError(message)

    def _client(self) -> StoreClient:
        if self._file_system is None:
            self._file_system = self.settings.connect()
        return self._file_system


class ObjectFile(RawIOBase):
    """An open object with a read-ahead of at most `ahead` bytes (0 for none), which ends at `stop`.

    After `stop`, only the bytes that a reader requests are fetched. `bytes_fetched` counts the bytes received from the
    store. If its `with` block ends without an error, the file checks that the object was not overwritten, because a
    task must not succeed with lines of two versions. Raises OSError as `Bucket` does.
    """

    def __init__(self, bucket: Bucket, open_object: OpenObject, *, start: int, stop: int | None, ahead: int) -> None:
        self._bucket = bucket
        self._object = open_object
        self.size = open_object.size
        """Size of the whole object in bytes."""
        self.bytes_fetched = 0
        self._stop = self.size if stop is None else min(stop, self.size)
        self._position = start
        self._ahead = ahead
        self._next_ahead = min(FIRST_AHEAD, ahead)
        self._buffer = bytearray()
        self._buffer_start = self._buffer_end = 0

    @classmethod
    def open(cls, bucket: Bucket, key: str, *, start: int, stop: int | None, ahead: int) -> Self:
        """Open an object, which asks the store for its size and version. `stop` is None for the end of the object."""
        return cls(bucket, bucket.open(key), start=start, stop=stop, ahead=ahead)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte to read."""
        return self._position

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        """Move to a position without fetching bytes. Return the position."""
        base = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self.size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, target: WriteableBuffer, /) -> int:
        """Read bytes into the target and return their number, 0 at the end of the object.

        It returns the rest of the buffer if it has any, which may be fewer bytes than the target has room for.
        """
        view = memoryview(target).cast("B")
        size = min(len(view), self.size - self._position)
        if size <= 0:
            return 0
        if not self._buffer_start <= self._position < self._buffer_end:
            # The requested bytes, or more with the read-ahead.
            fetch_size = max(size, min(self._next_ahead, self._stop - self._position))
            if fetch_size == size:
                self._fetch(view[:size])
                self._position += size
                return size
            self._refill(fetch_size)
        offset = self._position - self._buffer_start
        count = min(size, self._buffer_end - self._position)
        view[:count] = memoryview(self._buffer)[offset : offset + count]
        self._position += count
        return count

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            is_read = kind is None and self.bytes_fetched
            if is_read and self._bucket.open(self._object.key).version != self._object.version:
                raise OSError("the object was overwritten while it was read")
        finally:
            self.close()

    def close(self) -> None:
        """Close the object and release the buffer."""
        if not self.closed:
            if self.bytes_fetched:
                self._object.file.close()
            self._buffer = bytearray()
            self._buffer_end = self._buffer_start
        super().close()

    def _refill(self, count: int) -> None:
        if len(self._buffer) < count:
            self._buffer = bytearray(count)
        self._buffer_start = self._buffer_end = self._position
        self._fetch(memoryview(self._buffer)[:count])
        self._buffer_end = self._buffer_start + count

    def _fetch(self, view: memoryview) -> None:
        """Fill the view with the bytes from the position on, usually with one request. Raises OSError.

        pyarrow does not report a range that the store sent only in part, for example after the object was overwritten
        with a shorter one. Therefore the last byte of the view is set to a marker before the request. If the marker is
        unchanged, a second request reads this byte alone, because the object may really have this byte there.
        """
        view[-1] = _UNLIKELY_BYTE
        self._read_range(view, self._position)
        if view[-1] == _UNLIKELY_BYTE:
            view[-1] = 0
            # If the object ends before this byte, the store rejects the range with an OSError.
            with suppress(OSError):
                self._read_range(view[-1:], self._position + len(view) - 1)
            if view[-1] != _UNLIKELY_BYTE:
                raise OSError(f"the store sent fewer than {len(view)} bytes, starting at byte {self._position}")
        self._next_ahead = min(2 * self._next_ahead, self._ahead)

    def _read_range(self, view: memoryview, position: int) -> None:
        def read() -> None:
            self._object.file.seek(position)
            if self._object.file.readinto(view) != len(view):
                raise OSError(f"the store sent fewer than {len(view)} bytes, starting at byte {position}")

        self._bucket.request(read)
        self.bytes_fetched += len(view)
