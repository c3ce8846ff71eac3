"""Builds the archive of `spark_jobs` that goes along with every job as `--py-files`."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tempfile
import zipfile
from pathlib import Path

import spark_jobs

_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o644


def package_directory() -> Path:
    """Directory of the installed `spark_jobs` package."""
    return Path(spark_jobs.__file__).resolve().parent


def job_program() -> Path:
    """The one program that is ever submitted."""
    return package_directory() / "run.py"


def archive_bytes(package: Path) -> bytes:
    """A zip of `package` that depends on nothing but names and contents of its files.

    Entries are sorted and carry a fixed time and mode, so that the same code gives the same bytes on every machine.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in _package_files(package):
            entry = zipfile.ZipInfo(file.relative_to(package.parent).as_posix(), date_time=_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = _FILE_MODE << 16
            entry.create_system = 3
            archive.writestr(entry, file.read_bytes())
    return buffer.getvalue()


def job_archive(cache: Path | None = None, package: Path | None = None) -> Path:
    """Path of the archive of `package` (default: the installed `spark_jobs`), built once per content.

    `cache` is the directory to keep archives in; by default a directory of this user below the temporary directory.
    Raises `PermissionError` if that directory belongs to somebody else, who could swap the code for other code.
    """
    directory = cache if cache is not None else Path(tempfile.gettempdir()) / f"airflow-pushdown-{os.getuid()}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_own(directory)
    content = archive_bytes(package if package is not None else package_directory())
    target = directory / f"spark_jobs-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    if not target.is_file() or target.read_bytes() != content:
        _write_atomically(target, content)
    return target


def _package_files(package: Path) -> list[Path]:
    """Files of the package in a fixed order, without compiled code."""
    return sorted(f for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts and f.suffix != ".pyc")


def _require_own(directory: Path) -> None:
    """Refuse a directory that another user owns or may write to."""
    info = directory.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{directory}: must be a directory that only user {os.getuid()} may write to; remove it")


def _write_atomically(target: Path, content: bytes) -> None:
    """Write beside the target and rename, so that a concurrent task never sees half an archive."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".spark_jobs-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).replace(target)
