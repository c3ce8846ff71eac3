"""What a file output writes: a directory, or a table of files in Spark's catalog."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pushdown_spark.contract import OutputMode, OutputSpec, OutputSummary
from pushdown_spark.errors import BadSpecError
from pushdown_spark.output.files.commit_record import CommitRecord
from pushdown_spark.output.files.journal import CatalogChange
from pushdown_spark.output.files.layout import OutputPaths
from pushdown_spark.output.files.partition_names import PartitionNames
from pushdown_spark.output.target_checks import check_visible_partitions, partition_keys
from pushdown_spark.runtime.file_systems.base_files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OVERWRITE_OPTION = "partitionoverwritemode"
_OVERWRITE_SETTING = "spark.sql.sources.partitionOverwriteMode"


class FileTarget(ABC):
    """The decisions in which a directory and a table differ. The defaults are those of a directory.

    `FileOutput` holds the lock of the output when it prepares and when it commits.
    """

    spec: OutputSpec
    """How the files are written, with the effective mode. `find_commit` may change it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The path or the table, as the user gave it."""

    @property
    def summary_fields(self) -> Mapping[str, str]:
        """The fields of the summary that name the table and its directory."""
        return {}

    def find_commit(self) -> tuple[int | None, OutputSummary] | None:
        """Return rows and summary of an earlier attempt of the run that this one must not replace, or None if none has.

        This is the first call of `prepare`, after the repair of an interrupted commit.
        """
        return None

    def record_commit(  # noqa: B027 - the catalog has the record of a table
        self, files: tuple[str, ...], rows: int | None, summary: OutputSummary, *, is_complete: bool
    ) -> None:
        """Record a commit for `find_commit`, before its first move and, with `is_complete`, after its last."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the target exists. Raises a typed error if it cannot take rows."""

    @abstractmethod
    def existing_partition_columns(self) -> list[str] | None:
        """Return the partition columns as existing directories spell them, or None if there are none to follow."""

    def stored_rows(self, frame: DataFrame) -> DataFrame:
        """Return the rows to stage, as the target stores them. Raises SchemaConflictError if it cannot."""
        return frame

    @abstractmethod
    def check_partitions(self, partitions: Sequence[str]) -> None:
        """Raise a typed error if the run cannot write rows of these partitions.

        Without partitions, the call comes before the rows are computed.
        """

    def partitions_to_remove(self, _partitions: Sequence[str]) -> Sequence[str]:
        """Return the partitions that a commit replaces although it has no rows for them."""
        return ()

    def catalog_change(
        self, _partitions: Sequence[str], _removals: Sequence[str], _rows: int | None
    ) -> CatalogChange | None:
        """Return the change of the catalog after the moves of a commit, or None if the target is not a table.

        Raises a typed error if the target has changed since `prepare`.
        """
        return None


class DirectoryTarget(FileTarget):
    """A directory that no catalog knows. With the `generation` of the job, its commits are recorded for a retry."""

    def __init__(
        self, spark: SparkSession, spec: OutputSpec, files: Files, paths: OutputPaths, generation: str | None = None
    ) -> None:
        self.spec = with_effective_mode(spark, spec)
        self._spark = spark
        self._files = files
        self._location = paths.output
        self._record = None if generation is None else CommitRecord.of(files, paths, generation, spec.mode)
        self._names: PartitionNames | None = None
        """Spark's names of partitions, known after `stored_rows`."""

    @property
    def name(self) -> str:
        """The path."""
        return self.spec.path

    def find_commit(self) -> tuple[int | None, OutputSummary] | None:
        """Return the recorded commit of an earlier attempt."""
        return None if self._record is None else self._record.find()

    def record_commit(
        self, files: tuple[str, ...], rows: int | None, summary: OutputSummary, *, is_complete: bool
    ) -> None:
        """Write the record of the commit, if its mode needs one."""
        if self._record is not None:
            self._record.write(files, rows, summary, is_complete=is_complete)

    def exists(self) -> bool:
        """Return whether the directory exists."""
        return self._files.exists(self._location)

    def existing_partition_columns(self) -> list[str] | None:
        """Return the keys of the directories, outermost first, or None if the directory is empty."""
        return partition_keys(self._files, self._location)

    def stored_rows(self, frame: DataFrame) -> DataFrame:
        """Return the rows as they are."""
        self._names = PartitionNames(self._spark, frame.schema, is_declared=False)
        return frame

    def check_partitions(self, partitions: Sequence[str]) -> None:
        """Raise BadSpecError or UnwritableValueError for directories that Spark would not read."""
        check_visible_partitions(self.spec.partition_by, partitions)

    def partitions_to_remove(self, partitions: Sequence[str]) -> Sequence[str]:
        """Return the directories with the values of a partition under another name, such as `month=01` for `month=1`.

        Other programs choose other names, and Spark would read their rows as rows of the same partition.
        """
        if self.spec.mode is not OutputMode.OVERWRITE_PARTITIONS or self._names is None:
            return ()
        own_values = set(self._names.of(partitions).values())
        directories: dict[str, tuple[str, ...]] = {"": ()}
        for depth in range(1, len(self.spec.partition_by) + 1):
            prefixes = {values[:depth] for values in own_values}
            below = {
                directory: self._files.names(f"{self._location}/{directory}".rstrip("/")) for directory in directories
            }
            own = self._names.of({name for names in below.values() for name in names})
            directories = {
                f"{directory}/{name}".lstrip("/"): values
                for directory, names in below.items()
                for name in names
                if (values := (*directories[directory], *own[name])) in prefixes
            }
        return sorted(directories.keys() - set(partitions))


def with_effective_mode(spark: SparkSession, spec: OutputSpec) -> OutputSpec:
    """Return a spec with its effective mode: Spark's dynamic overwrite, by option or setting, replaces partitions."""
    setting = spark.conf.get(_OVERWRITE_SETTING, None) or "static"
    overwrite = {key.lower(): value for key, value in spec.options.items()}.get(OVERWRITE_OPTION, setting).lower()
    if overwrite not in ("static", "dynamic"):
        raise BadSpecError(f"output_options: partitionOverwriteMode must be 'static' or 'dynamic', not {overwrite!r}")
    if spec.mode is OutputMode.OVERWRITE and spec.partition_by and overwrite == "dynamic":
        return spec.model_copy(update={"mode": OutputMode.OVERWRITE_PARTITIONS})
    return spec
