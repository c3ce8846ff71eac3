"""Read objects of an S3 store by ranges, ahead of the reader but bounded, without ever showing its credentials."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")

AHEAD = 8 << 20
"""Bytes of the largest read-ahead, and so of the memory that an open object takes."""
FIRST_AHEAD = 1 << 20
"""Bytes of the first read-ahead; each one behind it is twice as large, so that a short look stays cheap."""
_UNLIKELY = 0xFF
"""A byte that no text in UTF-8 holds."""
_DENIED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_SIGNATURE", "status 403")


@dataclass(frozen=True, repr=False)
class KeyPair:
    """Credentials; `token` is empty for lasting ones."""

    access_key: str
    secret_key: str
    token: str = ""

    def __repr__(self) -> str:
        return "KeyPair(hidden)"


@dataclass(frozen=True, repr=False)
class Proxy:
    """A proxy in front of the store; user and password are empty where it asks for none."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.scheme}://{self.host}:{self.port})"


@dataclass(frozen=True)
class S3Settings:
    """How to reach a bucket. `endpoint` is host and port, None for AWS; `virtual` puts the bucket into the host's name.

    Without `keys` requests are anonymous, or else signed with what the worker's machine offers (`ambient`):
    environment variables, profile, container or instance role.
    """

    region: str
    scheme: str = "https"
    endpoint: str | None = None
    virtual: bool = True
    keys: KeyPair | None = None
    ambient: bool = False
    proxy: Proxy | None = None

    def cleaned(self, text: str) -> str:
        """The text without any secret that a library may have put into it."""
        keys, proxy = self.keys, self.proxy
        secrets = (keys.token, keys.secret_key, keys.access_key) if keys else ()
        for secret in (*secrets, proxy.password if proxy else ""):
            if secret:
                text = text.replace(secret, "***")
        return " ".join(text.split())


class S3Bucket:
    """A bucket's connection, made when it is first needed and never pickled. Keys are names below the bucket.

    Failures come as OSError: FileNotFoundError for an object that is not there, PermissionError where the store refuses
    the credentials. Their messages hold no secret.
    """

    def __init__(self, name: str, settings: S3Settings) -> None:
        self._name = name
        self._settings = settings
        self._connected: pa.fs.S3FileSystem | None = None

    def __getstate__(self) -> tuple[str, S3Settings]:
        return self._name, self._settings

    def __setstate__(self, state: tuple[str, S3Settings]) -> None:
        self._name, self._settings = state
        self._connected = None

    def open(self, key: str) -> pa.NativeFile:
        """Ask for the object's size and version; nothing of it is read yet."""
        return self.safely(lambda: self._connection().open_input_file(f"{self._name}/{key}"))

    def safely(self, action: Callable[[], T]) -> T:
        """Do something with the store. Raises OSError without secrets, neither in itself nor in what it came from."""
        try:
            return action()
        except FileNotFoundError:
            failure: OSError = FileNotFoundError("the object is not there any more")
        except (OSError, pa.ArrowException) as problem:
            text = self._settings.cleaned(str(problem))
            denied = any(sign in text for sign in _DENIED)
            failure = PermissionError(f"access denied: {text}") if denied else OSError(text)
        raise failure from None

    def _connection(self) -> pa.fs.S3FileSystem:
        if self._connected is None:
            self._connected = _connect(self._settings)
        return self._connected


def _connect(settings: S3Settings) -> pa.fs.S3FileSystem:
    # Loaded here: every worker that starts would wait for it, and scans of local files never need it.
    from pyarrow.fs import S3FileSystem

    keys, proxy = settings.keys, settings.proxy
    return S3FileSystem(
        access_key=keys.access_key if keys else None,
        secret_key=keys.secret_key if keys else None,
        session_token=(keys.token or None) if keys else None,
        anonymous=keys is None and not settings.ambient,
        region=settings.region,
        scheme=settings.scheme,
        endpoint_override=settings.endpoint,
        force_virtual_addressing=settings.virtual,
        proxy_options=_proxy_options(proxy) if proxy else None,
    )


def _proxy_options(proxy: Proxy) -> dict[str, str | int]:
    options: dict[str, str | int] = {"scheme": proxy.scheme, "host": proxy.host, "port": proxy.port}
    if proxy.user:
        options |= {"username": proxy.user, "password": proxy.password}
    return options


class ObjectFile(RawIOBase):
    """An open object, read in pieces that grow up to `ahead` bytes, 0 for none ahead, and end at `stop`.

    Behind `stop` no more is fetched than a reader asks for. `fetched` counts the bytes that came over the network.
    Leaving its `with` block in order checks that the object is still the one that was opened, so that a task never ends
    well with lines of two versions. Raises OSError as `S3Bucket` does.
    """

    def __init__(
        self, bucket: S3Bucket, key: str, file: pa.NativeFile, start: int, stop: int | None, ahead: int
    ) -> None:
        self._bucket = bucket
        self._key = key
        self._file = file
        self._version = _version(file)
        self.size = int(file.size())
        """Bytes of the whole object."""
        self.fetched = 0
        self._stop = self.size if stop is None else min(stop, self.size)
        self._position = start
        self._ahead = ahead
        self._step = min(FIRST_AHEAD, ahead)
        self._buffer = bytearray()
        self._begin = self._end = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Position of the next byte to be read."""
        return self._position

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        """Move without fetching anything."""
        base = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self.size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, target: WriteableBuffer, /) -> int:
        """Fill the target as far as the bytes fetched last reach, after fetching more if need be; 0 at the end."""
        view = memoryview(target).cast("B")
        wanted = min(len(view), self.size - self._position)
        if wanted <= 0:
            return 0
        if not self._begin <= self._position < self._end:
            planned = self._planned(wanted)
            if planned == wanted:
                self._fetch(view[:wanted])
                self._position += wanted
                return wanted
            self._refill(planned)
        offset = self._position - self._begin
        count = min(wanted, self._end - self._position)
        view[:count] = memoryview(self._buffer)[offset : offset + count]
        self._position += count
        return count

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self.fetched:
                self._check_version()
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the object and the buffer."""
        if not self.closed:
            self._file.close()
            self._buffer = bytearray()
            self._end = self._begin
        super().close()

    def _planned(self, wanted: int) -> int:
        """How much to fetch: ahead within the range, never less than wanted."""
        return max(wanted, min(self._step, self._stop - self._position))

    def _refill(self, count: int) -> None:
        if len(self._buffer) < count:
            self._buffer = bytearray(count)
        self._begin = self._end = self._position
        self._fetch(memoryview(self._buffer)[:count])
        self._end = self._begin + count

    def _fetch(self, view: memoryview) -> None:
        """One request, for bytes from the position on.

        pyarrow takes a range for read in full even where the store sent less of it, of an object overwritten with a
        shorter one, say. So the range's last byte is set before: one that nobody wrote is still what it was. Where it
        should be just that by the object, reading that byte alone over another value tells.
        """
        view[-1] = _UNLIKELY
        self._request(view, self._position)
        if view[-1] == _UNLIKELY:
            view[-1] = 0
            # Where the object ends before that byte, the store refuses the range, which is an OSError as well.
            with suppress(OSError):
                self._request(view[-1:], self._position + len(view) - 1)
            if view[-1] != _UNLIKELY:
                raise OSError(f"the store sent fewer than {len(view)} bytes from byte {self._position} on")
        self._step = min(2 * self._step, self._ahead)

    def _request(self, view: memoryview, position: int) -> None:
        def read() -> None:
            self._file.seek(position)
            if self._file.readinto(view) != len(view):
                raise OSError(f"the store sent fewer than {len(view)} bytes from byte {position} on")

        self._bucket.safely(read)
        self.fetched += len(view)

    def _check_version(self) -> None:
        with self._bucket.open(self._key) as now:
            if _version(now) != self._version:
                raise OSError("the object was overwritten while it was read")


def _version(file: pa.NativeFile) -> bytes:
    """What tells one version of an object from another: the store's tag of its content, and its length."""
    tag: bytes = file.metadata().get("ETag", b"")
    return tag + b" %d" % file.size()
