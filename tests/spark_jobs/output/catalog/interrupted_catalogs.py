"""Tables of text files in the catalog, and attempts to write them that are killed or fail at a given operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from interrupted_files import InterruptedFiles, Tree, hidden_files, stage, without_interruption
from pyspark.sql import SparkSession

from pushdown_spark.contract import CatalogOutputSpec, OutputMode
from pushdown_spark.output.catalog.catalog_entry import CatalogEntry
from pushdown_spark.output.catalog.file_table import EntryUpdater, FileTableTarget, table_paths
from pushdown_spark.output.files.commit_log import CommitLog
from pushdown_spark.output.files.file_output import FileOutput
from pushdown_spark.output.source_protection import ReadPathProtection
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles

OLD = {"day=1": "old 1", "day=2": "old 2", "day=3": "old 3"}
NEW = {"day=2": "new 2", "day=3": "new 3", "day=4": "new 4"}
DATABASE = "faults"


class InterruptedEntry(CatalogEntry):
    """An entry that calls a function before each change."""

    def __init__(self, spark: SparkSession, table: str, before: Callable[[], None]) -> None:
        super().__init__(spark, DATABASE, table)
        self._before = before

    def create(self, statement: str, location: str) -> None:
        self._before()
        super().create(statement, location)

    def drop(self) -> None:
        self._before()
        super().drop()

    def add_partitions(self, partitions: object) -> None:
        self._before()
        super().add_partitions(partitions)  # type: ignore[arg-type]

    def remove_partitions(self, partitions: object) -> None:
        self._before()
        super().remove_partitions(partitions)  # type: ignore[arg-type]

    def refresh(self) -> None:
        self._before()
        super().refresh()


@dataclass
class Table:
    """A table of text files, partitioned by `day`, in a database with its own directory."""

    spark: SparkSession
    place: Path
    has_table: bool = True
    numbers: count[int] = field(default_factory=count)
    name: str = ""

    @property
    def directory(self) -> Path:
        return self.place / self.name

    def create(self) -> None:
        """Create a table with the old rows, or only its name. A kind of its own each time."""
        self.name = f"t{next(self.numbers)}"
        if self.has_table:
            self.fill()

    def fill(self) -> None:
        """Create the table with the old rows."""
        for partition, content in OLD.items():
            (self.directory / partition).mkdir(parents=True)
            (self.directory / partition / "part-0.txt").write_text(f"{content}\n")
        self.spark.sql(
            f"CREATE TABLE {DATABASE}.{self.name} (value STRING, day INT) USING text PARTITIONED BY (day) "
            f"LOCATION '{self.directory.as_uri()}'"
        )
        partitions = " ".join(f"PARTITION ({partition})" for partition in OLD)
        self.spark.sql(f"ALTER TABLE {DATABASE}.{self.name} ADD {partitions}")

    def exists(self) -> bool:
        return self.spark.catalog.tableExists(f"{DATABASE}.{self.name}")

    def rows(self) -> Tree:
        """Return the rows that readers see, by partition."""
        if not self.exists():
            return {}
        self.spark.catalog.refreshTable(f"{DATABASE}.{self.name}")
        actual: Tree = {}
        for row in self.spark.table(f"{DATABASE}.{self.name}").collect():
            actual.setdefault(f"day={row['day']}", []).append(row["value"])
        return {day: sorted(actual[day]) for day in sorted(actual)}

    def partitions(self) -> list[str]:
        partition_rows = self.spark.sql(f"SHOW PARTITIONS {DATABASE}.{self.name}").collect()
        return sorted(row["partition"] for row in partition_rows)

    def hidden_files(self) -> list[str]:
        return hidden_files(self.directory)

    def open_attempt(
        self,
        mode: OutputMode,
        run: str,
        files: InterruptedFiles | None = None,
        *,
        patience: float = 60.0,
        where: str = "",
    ) -> FileOutput:
        """Return an attempt to write the table."""
        files = files or without_interruption(InterruptedFiles)
        spec = CatalogOutputSpec(
            catalog_table=f"{DATABASE}.{self.name}",
            mode=mode,
            format="text",
            partition_by=("day",),
            replace_where=where or None,
        )
        entry = InterruptedEntry(self.spark, self.name, files.step)
        paths = table_paths(self.spark, entry, run)
        log = CommitLog(files, paths, patience=patience, catalog=EntryUpdater(entry, files, paths.output))
        target = FileTableTarget(self.spark, spec, entry, files, paths)
        return FileOutput(self.spark, target, log, ReadPathProtection(HadoopFiles(self.spark), paths, ()))

    def write(self, output: FileOutput, rows: Mapping[str, str] = NEW) -> None:
        """Make all steps of one attempt. Rows of a new table are staged by Spark, which knows their types."""
        if not output.prepare():
            return
        with output.transaction():
            if self.has_table:
                stage(output, {day: f"{content}\n" for day, content in rows.items()})
            else:
                values = ", ".join(f"('{content}', {day.partition('=')[2]})" for day, content in rows.items())
                output.stage(self.spark.sql(f"SELECT * FROM VALUES {values} AS t(value, day)"))

    def drop(self) -> None:
        with suppress(Exception):
            self.spark.sql(f"DROP TABLE IF EXISTS {DATABASE}.{self.name}")
