"""Class data sharing (CDS) archives, which make the JVM of a job start sooner.

An archive contains classes that a JVM has loaded, verified and linked. Later JVMs map it into memory. It is valid for
one Java and one set of jars. Other JVMs ignore it.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.packaging import job_archive, others_may_write, package_directory
from airflow_pushdown.spark_submit.conf_directory import unmovable_file, without_directory
from airflow_pushdown.spark_submit.environment import child_environment
from airflow_pushdown.spark_submit.java import find_java
from airflow_pushdown.spark_submit.jvm_options import FAST_COMPILER, SUBMIT_OPTIONS
from airflow_pushdown.spark_submit.spark_installation import SparkInstallation, find_installation
from airflow_pushdown.spark_submit.submit_output import SubmitOutput

DIRECTORY_VARIABLE = "AIRFLOW_PUSHDOWN_CLASS_ARCHIVES"

_CDS_OPTIONS = ("SharedArchive", "ArchiveClassesAtExit", "-Xshare", "-XX:AOT")
"""JVM options that configure class data sharing. If a user sets one of them, this module does nothing."""
_NO_LOG = "-Xlog:cds*=off -Xlog:class+path=off"
_SEPARATORS = ':"\\'
_VERIFIED = "-XX:+VerifySharedSpaces"
"""The option with which a JVM compares the checksums of an archive, and ignores a damaged one."""
_EMPTY = "no-settings"
_DIGITS = 16
"""The number of hexadecimal digits in the name of an archive."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one installation. An empty file means that no archive can be created.

    A second file has the archive's number of bytes. Java compares checksums, but a JVM crashes while it reads an
    archive that was cut short.

    `home` is Spark's home. JVMs with the archive get an empty directory instead of Spark's settings directory, because
    Java does not share classes with a JVM whose class path has a directory with files.
    """

    path: Path
    home: Path

    @property
    def is_decided(self) -> bool:
        """Whether the archive is usable, or it is known that it cannot be created."""
        return self._bytes == 0 or self.is_usable

    @property
    def is_usable(self) -> bool:
        """Whether the archive exists with all of its bytes."""
        size = str(self._bytes).encode()
        return bool(self._bytes) and self._size_file.is_file() and self._size_file.read_bytes() == size

    def configure(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return command and environment of a spark-submit whose JVM starts with the archive."""
        return self._with_option(command, environment, f'"-XX:SharedArchiveFile={self.path}" {_VERIFIED}')

    def configure_recording(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """Return command and environment of a spark-submit whose JVM writes a draft of the archive when it ends."""
        return self._with_option(command, environment, f'"-XX:ArchiveClassesAtExit={self._draft}"')

    def prepare(self) -> None:
        """Create and delete what a JVM that writes a draft needs, for the holder of the lock."""
        self._draft.unlink(missing_ok=True)
        (self.path.parent / _EMPTY).mkdir(exist_ok=True)

    def keep_draft(self) -> None:
        """Make the draft the archive, or record that there is none if the JVM wrote no draft."""
        if self._draft.is_file():
            # Written first, so that a crash between the two steps leaves no archive without its size.
            self._size_file.write_bytes(str(self._draft.stat().st_size).encode())
            self._draft.replace(self.path)
        else:
            self.give_up()

    def delete_draft(self) -> None:
        """Delete the draft of a JVM that did not end its job."""
        self._draft.unlink(missing_ok=True)

    def give_up(self) -> None:
        """Replace the archive with the empty file that keeps other tasks from using or creating it."""
        empty = self.path.with_suffix(".empty")
        empty.touch()
        # Truncating the archive would crash JVMs that use it.
        empty.replace(self.path)

    @property
    def _draft(self) -> Path:
        return self.path.with_suffix(".draft")

    @property
    def _size_file(self) -> Path:
        return self.path.with_suffix(".bytes")

    @property
    def _bytes(self) -> int | None:
        """The size of the archive, or None if there is none."""
        return self.path.stat().st_size if self.path.is_file() else None

    def _with_option(
        self, command: Sequence[str], environment: Mapping[str, str], option: str
    ) -> tuple[list[str], dict[str, str]]:
        words, variables = without_directory(command, environment, self.home, self.path.parent / _EMPTY)
        options = (environment.get(SUBMIT_OPTIONS), option, _NO_LOG)
        return words, {**variables, SUBMIT_OPTIONS: " ".join(filter(None, options))}

    def create(self, installation: SparkInstallation, environment: Mapping[str, str]) -> None:
        """Run a job that creates the archive. This takes up to a minute. Failures are logged."""
        self.prepare()
        option = f'{FAST_COMPILER} "-XX:ArchiveClassesAtExit={self._draft}"'
        command, variables = self._with_option(_command(installation), environment, option)
        output = SubmitOutput()
        try:
            run = subprocess.run(  # noqa: S603 - runs Spark as jobs do
                command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            for line in run.stdout.splitlines():
                output.add(line)
            if run.returncode == 0 and self._draft.is_file():
                self.keep_draft()
            else:
                log.warning("The CDS archive could not be created: %s", output.cause)
        finally:
            self.delete_draft()

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Yield whether this process has the lock of the archive. The system releases it when the process ends."""
        with self.path.with_suffix(".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def delete_unused(directory: Path, oldest: float) -> None:
    """Delete archives that are older than a time, with their other files. The files of other programs stay."""
    for path in {file.with_suffix(".jsa") for file in directory.glob(f"spark-{'[0-9a-f]' * _DIGITS}.*")}:
        files = list(directory.glob(f"{path.stem}.*"))
        if max(file.stat().st_mtime for file in files) < oldest:
            for file in files:
                file.unlink()


def class_archive(
    directory: Path,
    installation: SparkInstallation,
    environment: Mapping[str, str],
    *,
    class_path: str = "",
    options: str = "",
) -> ClassArchive | None:
    """Return the archive of an installation in `directory`, which is created if it does not exist.

    `class_path` and `options` are the user's class path and JVM options, in addition to Spark's own. Returns None if
    Java or Spark's jars are not found, if the environment has JVM options for class data sharing, or if settings files
    must stay on the class path (this case is logged). Raises `ConfigError` for a directory that others may write to,
    because they could replace code, and for a path that a JVM option cannot contain.
    """
    options = f"{environment.get(SUBMIT_OPTIONS, '')} {options}"
    if any(option in options for option in _CDS_OPTIONS):
        return None
    java = find_java(environment)
    home = installation.jars_home
    if java is None or home is None:
        return None
    settings_file = unmovable_file(home, environment)
    if settings_file is not None:
        log.info("Jobs run without a CDS archive, because Java does not allow %s on the class path", settings_file)
        return None
    cache = _private_directory(directory.absolute())
    digest = hashlib.sha256(class_path.encode())
    for file in (java, *installation.jars):
        info = file.stat()
        digest.update(f"{file} {info.st_size} {info.st_mtime_ns}\n".encode())
    return ClassArchive(cache / f"spark-{digest.hexdigest()[:_DIGITS]}.jsa", home)


def _private_directory(directory: Path) -> Path:
    if any(character in str(directory) for character in _SEPARATORS):
        raise config_error(
            f"class_archives: {directory}: the path becomes a JVM option and must not contain any of {_SEPARATORS}"
        )
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        info = directory.stat()
    except OSError as error:
        raise config_error(
            f"class_archives: {directory} cannot be used ({error.strerror}); set another directory"
        ) from error
    if others_may_write(info):
        raise config_error(
            f"class_archives: other users may write to {directory}, whose files run as code; let user {os.getuid()} or "
            "root own it, and remove the right of its group and of others to write"
        )
    return directory


def _command(installation: SparkInstallation) -> list[str]:
    """Return the command of a local job, independent of Spark's default settings."""
    words = [installation.binary, "--master", "local[2]", "--deploy-mode", "client", "--conf", "spark.ui.enabled=false"]
    program = package_directory() / "class_loading.py"
    return [*words, "--conf", "spark.log.level=WARN", "--py-files", str(job_archive()), str(program)]


def main() -> int:
    """Create the archive of an installation, for container images. Return 0 if it exists afterward."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_pushdown.spark_submit.class_archive", description=main.__doc__
    )
    parser.add_argument("directory", type=Path, help="the value of class_archives or AIRFLOW_PUSHDOWN_CLASS_ARCHIVES")
    parser.add_argument("--spark-home", help="like the operators' spark_home")
    parser.add_argument("--spark-python", help="like the operators' spark_python")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    installation = find_installation(
        binary="spark-submit", spark_home=arguments.spark_home, spark_python=arguments.spark_python, environ=os.environ
    )
    environment = child_environment(os.environ, installation, extra={})
    archive = class_archive(arguments.directory, installation, environment)
    if archive is None:
        parser.error(
            "no archive can be used: Java or Spark's jars are not found, settings files must stay on the class path, "
            "or SPARK_SUBMIT_OPTS has options for class data sharing"
        )
    if not archive.is_usable:
        archive.create(installation, environment)
    return 0 if archive.is_usable else 1


if __name__ == "__main__":
    sys.exit(main())
