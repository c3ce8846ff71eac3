"""Files that a task and its job exchange: in a directory of this machine, or at any URI that Hadoop reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from airflow_pushdown.exceptions import config_error, retryable_error
from airflow_pushdown.exchange.webhdfs import open_webhdfs, system_user
from pushdown_spark.local_paths import is_local

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

PRIVATE, SHARED_WITH_GROUP = 0o700, 0o770
"""Modes of a directory: for one user, and for a worker and a driver with different users of one group."""


class ExchangeFiles(Protocol):
    """The named files of one job. Methods raise a `PushdownTaskError` if the file system fails."""

    @property
    def is_private(self) -> bool:
        """Whether no other user can read the files."""

    def location(self, name: str) -> str:
        """Return the path or URI of a file as the driver reads it."""

    def write(self, name: str, text: str) -> None:
        """Write a file, or replace it."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""

    def delete(self, *names: str) -> None:
        """Delete files. A missing file is not an error."""

    def close(self) -> None:
        """Delete the directory of the files, if they have one, after they were deleted."""


class DirectoryFiles:
    """Files in a directory of this machine or of a mount, which only one user or one group can read."""

    def __init__(self, directory: Path, mode: int = PRIVATE) -> None:
        self.directory = directory
        self._mode = mode

    @property
    def is_private(self) -> bool:
        """Whether no other user can read the files. Some file systems ignore permissions."""
        with _typed_errors("read", str(self.directory)):
            # An earlier try may have deleted its directory meanwhile.
            self.create()
            status = self.directory.stat()
        return status.st_uid == os.getuid() and not status.st_mode & 0o077

    def location(self, name: str) -> str:
        """Return the path of a file."""
        return str(self.directory / name)

    def write(self, name: str, text: str) -> None:
        """Write a new file and let it replace an existing one, which may have another mode, in one step."""
        path = self.directory / f".{name}-{uuid4().hex}"
        with _typed_errors("write", self.location(name)):
            # An earlier try may have deleted its directory meanwhile.
            self.create()
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    os.fchmod(file.fileno(), self._mode & 0o666)
                    file.write(text)
                path.replace(self.directory / name)
            finally:
                path.unlink(missing_ok=True)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        with _typed_errors("read", self.location(name)), suppress(FileNotFoundError):
            return (self.directory / name).read_bytes()
        return None

    def delete(self, *names: str) -> None:
        """Delete files. A missing file is not an error."""
        for name in names:
            with _typed_errors("delete", self.location(name)):
                (self.directory / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Delete the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def create(self) -> None:
        """Create the directory if it does not exist. Raises `OSError` if that fails."""
        try:
            self.directory.mkdir(mode=self._mode)
        except FileExistsError:
            return
        # The umask of the process usually removes the group's right to write. The set-group-ID bit is kept.
        self.directory.chmod(self.directory.stat().st_mode | self._mode)


class UriFiles:
    """Files on a file system that worker and driver both reach.

    Their URIs start with a prefix. With `has_directories`, it is the URI of their directory, in which a driver creates
    no file after its deletion.
    """

    is_private = False

    def __init__(self, system: AbstractFileSystem, prefix: str, *, has_directories: bool) -> None:
        self._system = system
        self._prefix = prefix
        self._has_directories = has_directories

    def location(self, name: str) -> str:
        """Return the URI of a file."""
        return f"{self._prefix}{'/' if self._has_directories else '.'}{name}"

    def write(self, name: str, text: str) -> None:
        """Write a file, or replace it."""
        with _typed_errors("write", self.location(name)):
            self._system.pipe_file(self.location(name), text.encode())

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        with _typed_errors("read", self.location(name)), suppress(FileNotFoundError):
            content: bytes = self._system.cat_file(self.location(name))
            return content
        return None

    def delete(self, *names: str) -> None:
        """Delete files. A missing file is not an error."""
        for name in names:
            with _typed_errors("delete", self.location(name)), suppress(FileNotFoundError):
                self._system.rm_file(self.location(name))

    def close(self) -> None:
        """Delete the directory with what an ended driver has not completed. Object stores have no directories."""
        if self._has_directories:
            with _typed_errors("delete", self._prefix), suppress(FileNotFoundError):
                self._system.rm(self._prefix, recursive=True)


def open_uri(uri: str, name: str, conn_id: str | None) -> UriFiles:
    """Return the files of a job below a URI, with the credentials of an Airflow connection.

    HDFS is read over WebHDFS, other file systems through the provider of Airflow that has their scheme. Raises
    `ConfigError` if there is none.
    """
    is_hdfs = uri.startswith("hdfs:")
    system = open_webhdfs(uri, conn_id) if is_hdfs else _provider_system(uri, conn_id)
    return UriFiles(system, f"{uri.rstrip('/')}/{name}", has_directories=is_hdfs)


def _provider_system(uri: str, conn_id: str | None) -> AbstractFileSystem:
    """Return Airflow's file system for a URI."""
    from airflow.sdk.io import get_fs

    try:
        return get_fs(uri.partition(":")[0], conn_id)
    except (ValueError, ImportError) as error:
        raise config_error(
            f"exchange_dir: this worker cannot open {uri} ({error}); install the Airflow provider with this file "
            "system, such as apache-airflow-providers-amazon[s3fs] for s3a, -google for gs, -microsoft-azure for abfss"
        ) from error


@contextmanager
def _typed_errors(action: str, location: str) -> Iterator[None]:
    """Convert the exceptions of a file system, which differ between libraries."""
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        failure = f"user {system_user()} of this worker cannot {action} {location} ({reason})"
        message = f"{failure}; check the permissions and the free space of the directory"
        if not is_local(location):
            message = f"exchange_dir: {failure}; check exchange_conn_id and the permissions of the directory"
        raise retryable_error(message) from error
