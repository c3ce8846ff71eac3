"""Archives of Spark's classes, with which the JVM of a job starts in two thirds of the time.

Java calls it class data sharing: a JVM maps classes that another one has read, checked and linked before. An archive
belongs to one Java and one set of jars; a JVM that it does not fit does without it.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.hooks.conf_directory import what_stays, without_directory
from airflow_pushdown.hooks.environment import SparkInstallation, child_environment, find_installation
from airflow_pushdown.hooks.output import JobOutput
from airflow_pushdown.hooks.packages import spark_jars
from airflow_pushdown.hooks.processes import JobProcess
from airflow_pushdown.packaging import job_archive, package_directory

DIRECTORY_VARIABLE = "AIRFLOW_PUSHDOWN_CLASS_ARCHIVES"

_OPTIONS = "SPARK_SUBMIT_OPTS"
_CHOSEN = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
"""Options of the JVM by which a user has settled the matter."""
_SILENT = "-Xlog:cds*=off -Xlog:class+path=off"
_BRIEF = "-XX:TieredStopAtLevel=1"
"""For the JVM that makes an archive: it lives for seconds, a third of which the optimising compiler would take."""
_SEPARATORS = ':"\\'
_LEAST_SIGNAL = 129
"""Exit codes of programs that a signal ended, from here on."""

_EMPTY = "no-settings"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one installation, made or not: a file that has no bytes where none can be made.

    `home` is Spark's. With the archive its JVMs have another directory for settings, which is empty.
    """

    path: Path
    home: Path

    @property
    def known(self) -> bool:
        """Whether it is there, or it is known that it cannot be made."""
        return self.path.exists()

    @property
    def usable(self) -> bool:
        """Whether it is there."""
        return self.known and self.path.stat().st_size > 0

    def used_by(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Command and environment of a spark-submit whose JVM maps the archive, where there is one."""
        if not self.usable:
            return list(command), dict(environment)
        return self._with_option(command, environment, f'"-XX:SharedArchiveFile={self.path}"')

    def _with_option(
        self, command: Sequence[str], environment: Mapping[str, str], option: str
    ) -> tuple[list[str], dict[str, str]]:
        words, variables = without_directory(command, environment, self.home, self.path.parent / _EMPTY)
        options = (environment.get(_OPTIONS), option, _SILENT)
        return words, {**variables, _OPTIONS: " ".join(filter(None, options))}

    def make(
        self,
        installation: SparkInstallation,
        environment: Mapping[str, str],
        started: Callable[[JobProcess], None] = lambda _: None,
    ) -> None:
        """Run a job of up to a minute that makes it, unless another task is at it; `started` is told of the job.

        What goes wrong is logged, and kept in an empty file: the next task does not try again.
        """
        try:
            with self._claimed() as mine:
                if mine and not self.known:
                    self._make(installation, environment, started)
        except OSError as error:
            log.warning(
                "Jobs go on without an archive of classes: %s cannot be written (%s)", self.path, error.strerror
            )

    def _make(
        self, installation: SparkInstallation, environment: Mapping[str, str], started: Callable[[JobProcess], None]
    ) -> None:
        log.info("Making %s, once, in up to a minute: jobs start sooner with it", self.path)
        draft = self.path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        option = f'{_BRIEF} "-XX:ArchiveClassesAtExit={draft}"'
        try:
            (self.path.parent / _EMPTY).mkdir(exist_ok=True)
            code, cause = _run(*self._with_option(_command(installation), environment, option), started)
            if code == 0 and draft.is_file():
                draft.replace(self.path)
                return
        finally:
            draft.unlink(missing_ok=True)
        log.warning("Jobs go on without an archive of classes, which could not be made: %s", cause)
        if 0 <= code < _LEAST_SIGNAL:
            self.path.touch()
            log.warning("No other will be tried before %s is deleted", self.path)

    @contextmanager
    def _claimed(self) -> Iterator[bool]:
        """Whether nobody else is making this archive; the system forgets the claim with its process."""
        with self.path.with_suffix(".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def class_archive(
    directory: str | None, installation: SparkInstallation, environment: Mapping[str, str]
) -> ClassArchive | None:
    """The archive for jobs of an installation in `directory`, which is made if it is not there.

    None without a directory, where Java or Spark's jars are not found, where the environment's options for the JVM
    settle the matter, and where files of settings have to stay on the class path, which is logged. Raises `ConfigError`
    for a directory that others may write to, who could swap the code, or that options cannot name.
    """
    if not directory or any(option in environment.get(_OPTIONS, "") for option in _CHOSEN):
        return None
    java = _java(environment)
    jars = spark_jars(installation)
    if java is None or not jars:
        return None
    home = jars[0].parent.parent
    stays = what_stays(home, environment)
    if stays is not None:
        log.info("No archive of classes is used: Java wants no directory with files on the class path, as %s is", stays)
        return None
    place = _own(Path(directory).absolute())
    seen = hashlib.sha256()
    for file in (java, *jars):
        info = file.stat()
        seen.update(f"{file} {info.st_size} {info.st_mtime_ns}\n".encode())
    return ClassArchive(place / f"spark-{seen.hexdigest()[:16]}.jsa", home)


def _own(directory: Path) -> Path:
    if any(sign in str(directory) for sign in _SEPARATORS):
        raise config_error(f"class_archives: {directory}: options of the JVM cannot name a path with {_SEPARATORS}")
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        mode = directory.stat().st_mode
    except OSError as error:
        raise config_error(f"class_archives: {directory} cannot be used ({error.strerror})") from error
    if mode & stat.S_IWOTH:
        raise config_error(f"class_archives: anybody may write to {directory}, and what lies there runs as code")
    return directory


def _java(environment: Mapping[str, str]) -> Path | None:
    """The program that spark-submit will start."""
    home = environment.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH", os.defpath))
    return Path(found).resolve() if found else None


def _command(installation: SparkInstallation) -> list[str]:
    """Spark on this machine alone, whatever its defaults say."""
    words = [installation.binary, "--master", "local[2]", "--deploy-mode", "client", "--conf", "spark.ui.enabled=false"]
    program = package_directory() / "class_loading.py"
    return [*words, "--conf", "spark.log.level=WARN", "--py-files", str(job_archive()), str(program)]


def _run(command: list[str], environment: Mapping[str, str], started: Callable[[JobProcess], None]) -> tuple[int, str]:
    """Run to the end; the exit code, and what went wrong if it did."""
    output = JobOutput()
    job = JobProcess(command, environment)
    try:
        started(job)
        for line in job.lines():
            output.level_of(line)
            log.debug("%s", line)
    except BaseException:
        job.kill()
        raise
    return job.wait(), output.cause


def main() -> int:
    """Make the archive of an installation, for images: 0 where it is there in the end."""
    parser = argparse.ArgumentParser(prog="python -m airflow_pushdown.hooks.class_archive", description=main.__doc__)
    parser.add_argument("directory", help="what class_archives, or AIRFLOW_PUSHDOWN_CLASS_ARCHIVES, will name")
    parser.add_argument("--spark-home", help="as the operators' spark_home")
    parser.add_argument("--spark-python", help="as the operators' spark_python")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    installation = find_installation(
        binary="spark-submit",
        spark_home=arguments.spark_home,
        spark_python=arguments.spark_python,
        environ=os.environ,
    )
    environment = child_environment(os.environ, installation, extra={})
    archive = class_archive(arguments.directory, installation, environment)
    if archive is None:
        parser.error(
            "none can be used: Java or Spark's jars are not found, files of settings have to stay on the class path, "
            "or SPARK_SUBMIT_OPTS is about archives already"
        )
    archive.make(installation, environment)
    return 0 if archive.usable else 1


if __name__ == "__main__":
    sys.exit(main())
