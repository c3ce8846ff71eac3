"""Builds the archive of `pushdown_spark` that every job submits as `--py-files`."""

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
    """Directory of the installed `pushdown_spark` package."""
    return Path(pushdown_spark.__file__).resolve().parent


def job_program() -> Path:
    """The one program that is ever submitted."""
    return package_directory() / "job.py"


def archive_bytes(package: Path) -> bytes:
    """A zip of `package`, each module with its code compiled for the Python that runs here.

    A Python of the same release imports the compiled code, which takes half the time, in the driver and in every
    worker; any other sees by its first bytes that it is not for it, and compiles the source.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _package_files(package).items():
            archive.writestr(_entry(name), content)
            if name.endswith(".py"):
                archive.writestr(_entry(f"{name}c"), _compiled(name, content))
    return buffer.getvalue()


def job_archive(cache: Path | None = None, package: Path | None = None) -> Path:
    """Path of the archive of `package` (default: the installed `pushdown_spark`), built once per content.

    `cache` is the directory to keep archives in; by default a directory of this user below the temporary directory.
    Raises `PermissionError` if that directory belongs to somebody else, who could swap the code for other code.
    """
    directory = cache if cache is not None else Path(tempfile.gettempdir()) / f"airflow-pushdown-{os.getuid()}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_own(directory)
    package = package if package is not None else package_directory()
    files = _package_files(package)
    target = directory / f"pushdown_spark-{_digest(files)}.zip"
    if not _holds(target, files):
        _write_atomically(target, archive_bytes(package))
    return target


def _package_files(package: Path) -> dict[str, bytes]:
    """Names and contents of the package's files in a fixed order, without compiled code."""
    files = sorted(f for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts and f.suffix != ".pyc")
    return {file.relative_to(package.parent).as_posix(): file.read_bytes() for file in files}


def _digest(files: Mapping[str, bytes]) -> str:
    """What an archive of these files is called by: equal for equal files, however old they are and wherever they lie.

    Of what is compiled the release of Python counts, not the bytes: they are not the same each time.
    """
    seen = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for name, content in files.items():
        seen.update(f"{name} {len(content)} ".encode() + content)
    return seen.hexdigest()[:16]


def _holds(target: Path, files: Mapping[str, bytes]) -> bool:
    """Whether an archive is there with these files, and whole."""
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


def _compiled(name: str, source: bytes) -> bytes:
    """The code of a module as a file that is taken as it is (PEP 552): the archive's name stands for its sources."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code)


def _require_own(directory: Path) -> None:
    """Refuse a directory that another user owns or may write to."""
    info = directory.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{directory}: must be a directory that only user {os.getuid()} may write to; remove it")


def _write_atomically(target: Path, content: bytes) -> None:
    """Write beside the target and rename, so that a concurrent task never sees half an archive."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".pushdown_spark-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).replace(target)
