"""CDS archives that jobs record themselves.

When the first job of an installation ends, its JVM writes an archive of the classes that the job used. Later jobs start
with this archive. If there is a problem, the job runs without an archive: the disk is full, another job is recording,
or the JVM cannot write an archive. Only an unsafe directory that the user has set is an error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.exceptions import PushdownTaskError
from airflow_pushdown.packaging import private_cache
from airflow_pushdown.spark_submit.class_archive import ClassArchive, class_archive, delete_unused
from airflow_pushdown.spark_submit.conf_directory import CLASS_PATH_KEY
from airflow_pushdown.spark_submit.jvm_options import user_options
from airflow_pushdown.spark_submit.spark_installation import SparkInstallation

OFF = "off"
"""The value of `class_archives`, or of its variable, that turns archives off."""

_DIRECTORY = "classes"
_SHORT_LIVED = "AIRFLOW_IS_K8S_EXECUTOR_POD"
"""Airflow sets this variable in a pod that runs one task. An archive would be lost with the pod."""
_SPACE = 1 << 30
"""Free bytes that the directory must have, about ten times the size of an archive."""
_UNUSED_DAYS = 30
_CRASHES = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGSEGV})
"""Signals that end a JVM because of its own failure, for example with a damaged archive."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ArchiveUse:
    """What one job does with an archive: it starts with it, or it records it and has its lock."""

    archive: ClassArchive
    is_recording: bool

    def configure(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return command and environment of spark-submit."""
        if self.is_recording:
            return self.archive.configure_recording(command, environment)
        return self.archive.configure(command, environment)

    def finish(self, returncode: int, *, has_result: bool) -> None:
        """Keep the recorded archive, or remember that the JVM cannot record. Without a result, keep nothing.

        If a JVM with the archive has crashed without a result, no later job uses the archive.
        """
        with contextlib.suppress(OSError):
            if self.is_recording and has_result:
                self.archive.keep_draft()
            elif not self.is_recording and not has_result and -returncode in _CRASHES:
                log.warning("The JVM crashed. Later jobs run without the CDS archive %s", self.archive.path)
                self.archive.give_up()

    def give_up(self) -> None:
        """Let later jobs run without an archive, because the JVM refuses its options."""
        with contextlib.suppress(OSError):
            self.archive.give_up()


@contextlib.contextmanager
def use_archive(
    directory: str | None, installation: SparkInstallation, environment: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[ArchiveUse | None]:
    """Yield how a job uses the archive of its installation, or None if it must run without one.

    `directory` is the value of `class_archives`. Without it, the archive is in this user's private directory.
    `settings` are the user's Spark settings, whose class path belongs to the archive. The lock of a recording is held
    until the block ends. Raises `ConfigError` for a `directory` that cannot be used.
    """
    with contextlib.ExitStack() as stack:
        try:
            use = _archive_use(directory, installation, environment, settings, stack)
        except (OSError, PushdownTaskError) as error:
            if directory is not None and isinstance(error, PushdownTaskError):
                raise
            log.debug("The job runs without a CDS archive: %s", error)
            use = None
        try:
            yield use
        finally:
            if use is not None and use.is_recording:
                with contextlib.suppress(OSError):
                    use.archive.delete_draft()


def _archive_use(
    parameter: str | None,
    installation: SparkInstallation,
    environment: Mapping[str, str],
    settings: Mapping[str, str],
    stack: contextlib.ExitStack,
) -> ArchiveUse | None:
    """Return how the job's JVM uses the archive, or None if it starts without one.

    A job that records holds the lock of the archive until `stack` is closed.
    """
    if parameter == OFF or (parameter is None and os.environ.get(_SHORT_LIVED)):
        return None
    directory = private_cache() / _DIRECTORY if parameter is None else Path(parameter)
    own_path = settings.get(CLASS_PATH_KEY, "")
    options = user_options(environment, settings)
    archive = class_archive(directory, installation, environment, class_path=own_path, options=options)
    if archive is None:
        return None
    if archive.is_decided:
        if not archive.is_usable:
            return None
        # Archives that have not been used for a while are deleted. An archive in an image is read-only.
        with contextlib.suppress(OSError):
            os.utime(archive.path)
        return ArchiveUse(archive, is_recording=False)
    if shutil.disk_usage(directory).free < _SPACE or not stack.enter_context(archive.lock()):
        return None
    # Another job may have recorded it in the meantime.
    if archive.is_decided:
        return ArchiveUse(archive, is_recording=False) if archive.is_usable else None
    with contextlib.suppress(OSError):
        delete_unused(directory, time.time() - _UNUSED_DAYS * 86_400)
    archive.prepare()
    log.info("The JVM of this job records its classes for later jobs, which takes some seconds when the job has ended")
    return ArchiveUse(archive, is_recording=True)
