"""Union scans: separate scans of file groups with different schemas, converted to the columns of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pushdown_spark.contract import ConjunctReport, SourceReport, known_sum
from pushdown_spark.contract.progress import SourceProgress
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.local_paths import escape_glob
from pushdown_spark.projection.file_locations import location, root_of
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.projection.schema_alignment import SchemaGroup, aligned_columns, ddl, select_columns
from pushdown_spark.runtime.query_metrics import StageCounts
from pushdown_spark.scan.base_scan import Scan, SparkCount, WorkerUse
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.request import ScanRequest, unsupported_conjunct

K = TypeVar("K")


@dataclass(frozen=True)
class FileGroup:
    """Files of a source that are read with one schema.

    `partition_schema` has the partition columns, `root` is the directory below which they start.
    """

    schema_group: SchemaGroup
    partition_schema: StructType
    root: str | None
    name_rule: NameRule

    @property
    def schema(self) -> StructType:
        """The schema that the files are read with, and the partition columns."""
        return StructType([*self.schema_group.schema.fields, *self.partition_schema.fields])

    def source(self, table_source: Source) -> Source:
        """Return the group as a source that declares its schema."""
        base = {} if self.root is None else {"basepath": escape_glob(self.root)}
        paths = tuple(map(escape_glob, self.schema_group.files))
        return replace(table_source, paths=paths, schema=ddl(self.schema), options={**table_source.options, **base})

    def output_schema(self, request: ScanRequest) -> StructType:
        """Return the requested columns that the group's DataFrame has."""
        data = select_columns(self.schema_group.schema, request.read_schema, name_rule=self.name_rule)
        return StructType([*data.fields, *(f for f in self.partition_schema.fields if f.name in request.columns)])

    def request(self, table_request: ScanRequest, source: Source, predicate_columns: frozenset[str]) -> ScanRequest:
        """Return the request for the group.

        The group gets the predicate only if all columns of the predicate have the table's types in the group. Spark
        evaluates the predicate over the columns of the table in any case.
        """
        group_schema = select_columns(self.schema_group.schema, table_request.read_schema, name_rule=self.name_rule)
        types = {field.name: field.dataType for field in group_schema.fields}
        has_same_types = (
            table_request.predicate is not None
            and table_request.predicate.tree is not None
            and all(
                types.get(field.name) == field.dataType
                for field in table_request.read_schema.fields
                if field.name in predicate_columns
            )
        )
        partition_names = self.partition_schema.fieldNames()
        return replace(
            table_request,
            source=source,
            schema=self.schema_group.schema,
            columns=tuple(name for name in table_request.columns if name in types or name in partition_names),
            predicate=table_request.predicate if has_same_types else None,
            pruned_schema=group_schema,
        )


def file_groups(
    schema_groups: Sequence[SchemaGroup], partition_schema: StructType, roots: Sequence[str], *, name_rule: NameRule
) -> Iterator[FileGroup]:
    """Yield a group for each schema and, if there are partition columns, for each root directory."""
    for schema_group in schema_groups:
        if not partition_schema.fields:
            yield FileGroup(schema_group, partition_schema, None, name_rule)
            continue
        by_root: dict[str, list[str]] = {}
        for file in schema_group.files:
            by_root.setdefault(root_of(file, roots) or location(file), []).append(file)
        for root, files in by_root.items():
            yield FileGroup(SchemaGroup(tuple(files), schema_group.schema), partition_schema, root, name_rule)


@dataclass(frozen=True)
class GroupScan:
    """The scan of a file group, and the columns of its DataFrame that the table's columns are made of."""

    scan: Scan
    schema: StructType


class UnionScan(Scan):
    """The scans of all file groups of a source."""

    def __init__(
        self, groups: Sequence[GroupScan], schema: StructType, implicit_columns: Sequence[str], *, name_rule: NameRule
    ) -> None:
        """`schema` has the table columns to return, `implicit_columns` the implicit columns that all groups return."""
        self._groups = tuple(groups)
        self._schema = schema
        self._implicit_columns = tuple(implicit_columns)
        self._name_rule = name_rule

    @property
    def is_by_spark(self) -> bool:
        """Whether Spark's readers read all groups."""
        return all(group.scan.is_by_spark for group in self._groups)

    @property
    def _is_mixed(self) -> bool:
        """Whether Spark's readers count some of the rows, and the pushdown readers the others."""
        return len({group.scan.is_by_spark for group in self._groups}) > 1

    @property
    def spark_counts(self) -> frozenset[SparkCount]:
        """The counts that Spark's input metrics have of every group."""
        return frozenset.intersection(*(group.scan.spark_counts for group in self._groups))

    def add_spark_counts(self, report: SourceReport, counts: StageCounts) -> SourceReport:
        """Return the report with Spark's counts, unless they are only those of some groups."""
        return report if self._is_mixed else super().add_spark_counts(report, counts)

    def counts_result_rows(self, *, has_predicate: bool) -> bool:
        """Return whether the groups count the rows of the result in the same way."""
        return not self._is_mixed and super().counts_result_rows(has_predicate=has_predicate)

    @property
    def session_conf(self) -> dict[str, str]:
        """The settings of all groups."""
        return {key: value for group in self._groups for key, value in group.scan.session_conf.items()}

    def frame(self) -> DataFrame:
        """Return the rows of the groups one after the other, in the columns of the table."""
        return reduce(DataFrame.unionAll, map(self._convert, self._groups))

    def _convert(self, group: GroupScan) -> DataFrame:
        columns = aligned_columns(group.schema, self._schema, name_rule=self._name_rule)
        return group.scan.frame().selectExpr(*columns, *map(quote_name, self._implicit_columns))

    @property
    def worker_use(self) -> WorkerUse:
        """The most that a group uses workers."""
        return max(group.scan.worker_use for group in self._groups)

    def close(self) -> None:
        """Close the scans of all groups."""
        for group in self._groups:
            group.scan.close()

    def progress(self) -> SourceProgress | None:
        """Return the sum of the groups' progress, or None if one group does not know it."""
        group_progress = [progress for group in self._groups if (progress := group.scan.progress()) is not None]
        if len(group_progress) < len(self._groups):
            return None
        return SourceProgress(**_sum_by_kind([progress.model_dump() for progress in group_progress]))

    def report(self) -> SourceReport:
        """Return the sum of the groups' reports. A count that one group does not know is unknown."""
        reports = [group.scan.report() for group in self._groups]
        return SourceReport(
            reader=" and ".join(sorted({report.reader for report in reports})),
            carrier=" and ".join(sorted({report.carrier for report in reports if report.carrier})) or None,
            reason="; ".join(dict.fromkeys(report.reason for report in reports)),
            conjuncts=_merge_conjuncts(reports),
            columns=tuple(dict.fromkeys(name for report in reports for name in report.columns)),
            files_total=sum(report.files_total for report in reports),
            files_read=known_sum(report.files_read for report in reports),
            bytes_total=sum(report.bytes_total for report in reports),
            bytes_read=known_sum(report.bytes_read for report in reports),
            bytes_searched=known_sum(report.bytes_searched for report in reports),
            rows_decoded=known_sum(report.rows_decoded for report in reports),
            rows_after_pushdown=known_sum(report.rows_after_pushdown for report in reports),
            skipped=_sum_by_kind([report.skipped for report in reports]),
            units={
                kind: _sum_by_kind([report.units.get(kind, {}) for report in reports])
                for kind in dict.fromkeys(kind for report in reports for kind in report.units)
            },
            bytes_by_purpose=_sum_by_kind([report.bytes_by_purpose for report in reports]),
            notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        )


def _sum_by_kind(counts: Sequence[dict[K, int]]) -> dict[K, int]:
    total: Counter[K] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _merge_conjuncts(reports: Sequence[SourceReport]) -> tuple[ConjunctReport, ...]:
    """Return each conjunct with the least pushdown of all groups."""
    conjuncts = max((report.conjuncts for report in reports), key=len, default=())
    pushed_by_group = [{conjunct.sql for conjunct in report.conjuncts if conjunct.pushed_as} for report in reports]
    return tuple(
        conjunct
        if all(conjunct.sql in pushed for pushed in pushed_by_group)
        else unsupported_conjunct(conjunct.sql, "some files have another schema, and only Spark filters their rows")
        for conjunct in conjuncts
    )
