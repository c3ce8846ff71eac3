"""File outputs over Spark Connect: the server stages the rows, and this process commits them.

Both must therefore see the same files. An output is refused unless the server finds a file that this process has just
written next to it, and a commit waits until this process sees every file that the server has staged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from pushdown_spark.contract import OutputSpec
from pushdown_spark.errors import BadSpecError, PushdownError
from pushdown_spark.local_paths import escape_glob, local_path
from pushdown_spark.output.files.commit_log import CommitLog
from pushdown_spark.output.files.file_output import FileOutput
from pushdown_spark.output.files.file_target import DirectoryTarget
from pushdown_spark.output.files.layout import OutputPaths
from pushdown_spark.output.files.moves import staged_files
from pushdown_spark.runtime.file_systems.file_paths import canonical_path, followed_path
from pushdown_spark.runtime.file_systems.local_files import LocalFiles
from pushdown_spark.sources.stores.listing import decode_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_LISTING = "binaryFile"
"""Spark's source that lists files without reading them."""
_WAIT_SECONDS, _PAUSE_SECONDS = 60.0, 0.5
"""How long a shared file system may take to show new files of the server."""


class ConnectFileOutput(FileOutput):
    """One attempt of one run to write files on a file system that this process shares with the server."""

    def prepare(self) -> bool:
        """Prepare the output. Raises BadSpecError also if the server does not see the files of this process."""
        if not super().prepare():
            return False
        try:
            _ = self._spark.read.format(_LISTING).load(escape_glob(self.paths.claim)).schema
        except AnalysisException as problem:
            self.abort()
            raise BadSpecError(
                f"output: the Spark Connect server does not see {self.paths.claim} of this worker; write to a "
                "directory that both have mounted under the same path, or use a connection of type spark"
            ) from problem
        return True

    def stage(self, frame: DataFrame) -> None:
        """Let the server write all rows to the staging directory, and wait until this process sees the files."""
        super().stage(frame)
        listing = self._spark.read.format(_LISTING).option("recursiveFileLookup", "true")
        server_files = {
            (row[0], row[1]) for row in listing.load(escape_glob(self.paths.rows)).select("path", "length").collect()
        }
        end = time.monotonic() + _WAIT_SECONDS
        while server_files != {(entry.path, entry.length) for entry in staged_files(self._files, self.paths)}:
            if time.monotonic() > end:
                raise PushdownError(
                    f"output: this worker does not see the files that the Spark Connect server wrote to "
                    f"{self.paths.rows}; write to a directory that both have mounted under the same path"
                )
            time.sleep(_PAUSE_SECONDS)

    def _save(self, writer: DataFrameWriter) -> None:
        """Write the files of the staging directory. The wait of `stage` replaces their number."""
        writer.save(self.paths.rows)


class _ReadFilesProtection:
    """The files that a job reads, which a commit must not replace."""

    def __init__(self, output: str, read_files: Callable[[], Iterable[str]]) -> None:
        self._output = output
        self._read_files = read_files

    def check(self, name: str, partitions: Sequence[str] = ("",)) -> None:
        """Raise BadSpecError if replacing partitions of the output would delete a file that the job reads."""
        directories = [f"{canonical_path(f'{self._output}/{partition}')}/" for partition in partitions]
        for uri in self._read_files():
            file = canonical_path(decode_uri(uri))
            if any(file.startswith(directory) for directory in directories):
                raise BadSpecError(
                    f"output: overwriting {name} would delete {local_path(file) or file}, which the job reads; write "
                    "to another directory"
                )


def open_connect_output(
    spark: SparkSession, output: OutputSpec, run_key: str, generation: str, read_files: Callable[[], Iterable[str]]
) -> ConnectFileOutput:
    """Return a new attempt of the run with this key to write an output. `read_files` returns URIs of the sources.

    Raises BadSpecError for a path that is not an absolute path of a file system that worker and server can share.
    """
    # As in Hadoop, `..` removes the name before it, also that of a link.
    directory = Path(os.path.normpath(local_path(output.path) or ""))
    parent, _, name = followed_path(f"file:{directory}").rpartition("/")
    if not directory.is_absolute() or not name:
        raise BadSpecError(
            f"output: over Spark Connect, {output.path!r} must be the absolute path of a directory that this "
            "worker and the server have mounted; for other file systems, use a connection of type spark"
        )
    paths = OutputPaths.of(parent, name, run_key)
    files = LocalFiles()
    target = DirectoryTarget(spark, output, files, paths, generation)
    return ConnectFileOutput(spark, target, CommitLog(files, paths), _ReadFilesProtection(paths.output, read_files))
