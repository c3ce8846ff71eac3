"""The archive of `pushdown_spark` that every job submits as `--py-files`."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pushdown_spark

_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o644
_UNCHECKED = (1).to_bytes(4, "little")


def package_directory() -> Path:
    """Return the directory of the installed `pushdown_spark` package."""
    return Path(pushdown_spark.__file__).resolve().parent


def job_program() -> Path:
    """Return the path of the program of all jobs."""
    return package_directory() / "job.py"


def archive_bytes(package: Path) -> bytes:
    """Return a zip of a package with its modules compiled for this Python.

    A Python of the same release imports the compiled code, which is faster in the driver and in every worker. Other
    releases recognize its magic number and compile the source.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _package_files(package).items():
            archive.writestr(_entry(name), content)
            if name.endswith(".py"):
                archive.writestr(_entry(f"{name}c"), _compile(name, content))
    return buffer.getvalue()


def job_archive(cache: Path | None = None, package: Path | None = None) -> Path:
    """Return the path of the archive of `package` (default: the installed `pushdown_spark`), built once per content.

    `cache` is the directory for archives, by default a directory of this user below the temporary directory. Raises
    `PermissionError` if the directory belongs to another user, who could replace the code.
    """
    directory = private_cache(cache)
    package = package if package is not None else package_directory()
    files = _package_files(package)
    target = directory / f"pushdown_spark-{_digest(files)}.zip"
    if not _is_complete(target, files):
        write_atomically(target, archive_bytes(package), 0o600)
    return target


def private_cache(directory: Path | None = None) -> Path:
    """Return a directory for files that run as code, by default one of this user below the temporary directory.

    Raises `PermissionError` if another user owns it or may write to it.
    """
    directory = directory if directory is not None else Path(tempfile.gettempdir()) / f"airflow-pushdown-{os.getuid()}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = directory.lstat()
    if not stat.S_ISDIR(info.st_mode) or others_may_write(info):
        raise PermissionError(f"{directory}: must be a directory that only user {os.getuid()} may write to; remove it")
    return directory


def others_may_write(info: os.stat_result) -> bool:
    """Return whether other users than root may write to a directory, whose files run as code of this user."""
    return info.st_uid not in (0, os.getuid()) or bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _package_files(package: Path) -> dict[str, bytes]:
    """Return names and contents of the package's files in a fixed order, without compiled code."""
    files = sorted(f for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts and f.suffix != ".pyc")
    return {file.relative_to(package.parent).as_posix(): file.read_bytes() for file in files}


def _digest(files: Mapping[str, bytes]) -> str:
    """Return a hash of names and contents, for the name of the archive.

    Compiled code is represented by the release of Python, because its bytes differ between compilations.
    """
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for name, content in files.items():
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def _is_complete(target: Path, files: Mapping[str, bytes]) -> bool:
    """Return whether the archive exists, is intact and has these files."""
    try:
        with zipfile.ZipFile(target) as archive:
            return archive.testzip() is None and all(archive.read(name) == files[name] for name in files)
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error):
        return False


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = _FILE_MODE << 16
    entry.create_system = 3
    return entry


def _compile(name: str, source: bytes) -> bytes:
    """Return a compiled module that Python does not check against its source (PEP 552), which is in the archive."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code)


def write_atomically(target: Path, content: bytes, mode: int) -> None:
    """Write a file next to the target and rename it, so that no reader sees a partial file.

    Other workers may write the same target. In containers, they may have the same process id.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
