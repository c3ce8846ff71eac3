"""The base class of operators over files of one format, or over a table of Spark's catalog."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.base_operator import JobRequest, PushdownBaseOperator, query_of_rows
from airflow_pushdown.operators.values import entries, naming_parameters, sequence_as_list, switch
from airflow_pushdown.parameters import parameters_of
from airflow_pushdown.spark_settings import effective_value
from pushdown_spark.contract import ONLY_SOURCE, OrcOptions, SourceFormat, SourceSpec, TableSourceSpec


class PushdownFilesOperator(PushdownBaseOperator):
    """A scan of files of one format, or of a table of the catalog. Subclasses add the parameters of formats.

    :param path: Files, directories or globs to scan, on a local file system or an object store. Give either `path` or
        `table`. (templated)
    :param table: Table or view of Spark's catalog to scan, as `table`, `database.table` or `catalog.database.table`.
        The catalog knows its format and schema. (templated)
    :param schema: Schema of the files as Spark DDL. By default, the schema is inferred from the files. (templated)
    :param options: Reader options with Spark's names (header, sep, mode, dateFormat, mergeSchema and so on).
        (templated)
    :param columns: Columns to return: names, struct members (a.b, a(b, c)), array elements (a[0]), map entries
        (a['k']), `*`, and the implicit columns filename, filepath, fqn, suffix, modified, size and dir0 to dirN. Each
        may have an alias (`AS name`). By default, all columns of the schema. (templated)
    :param where: Predicate in Spark SQL. The scan returns the rows for which it is true. (templated)
    :param data_interval: Timestamp or date column. Adds the predicate for the run's data interval, start included and
        end excluded. Fails if the interval is empty, as it is with Airflow's default timetable for `@daily` and cron
        strings. (templated)
    :param limit: Maximum number of rows. The scan stops when it has enough rows. (templated)
    :param filter_pushdown: Whether the reader evaluates the predicate before it builds rows. Applies to Spark's readers
        and to the pushdown readers. (templated)
    :param reader: Reader to use: `spark` for Spark's own reader, `pushdown` for the pushdown reader, `auto` to choose
        by estimated cost. (templated)
    :param on_schema_conflict: Action if two files have types for one column that no common type holds without loss.
        `error` fails. `widen` applies Spark's type coercion. `null` keeps the type of the most files and returns NULL
        for the others. (templated)
    :param on_missing_column: Action if a file lacks a column that the schema or another file has: `null` returns NULL,
        `error` fails. (templated)
    :param implicit_names: New names of implicit columns, by their original names: filename, filepath, fqn, suffix,
        modified, size, and `dir` for the prefix of the directory columns. (templated)
    :param implicit_columns: Additional implicit columns, as import paths `package.module:Class` of subclasses of
        `ImplicitColumns`. (templated)
    :param kwargs: Parameters of `PushdownBaseOperator` and of Airflow's operators.
    """

    def __init__(
        self,
        *,
        path: str | list[str] | None = None,
        table: str | None = None,
        schema: str | None = None,
        options: dict[str, object] | None = None,
        columns: list[str] | None = None,
        where: str | None = None,
        data_interval: str | None = None,
        limit: int | None = None,
        filter_pushdown: bool | None = None,
        reader: str = "auto",
        on_schema_conflict: str = "error",
        on_missing_column: str = "null",
        implicit_names: dict[str, str] | None = None,
        implicit_columns: list[str] | None = None,
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(**kwargs)
        if path is None and table is None:
            raise TypeError("missing keyword argument 'path' or 'table'")
        self.path = path
        self.table = table
        self.schema = schema
        self.options = options
        self.columns = columns
        self.where = where
        self.data_interval = data_interval
        self.limit = limit
        self.filter_pushdown = filter_pushdown
        self.reader = reader
        self.on_schema_conflict = on_schema_conflict
        self.on_missing_column = on_missing_column
        self.implicit_names = implicit_names
        self.implicit_columns = implicit_columns
        self._declare_assets(self.path)

    @property
    @abstractmethod
    def source_format(self) -> object:
        """The format that the user gave. It is validated with the `SourceSpec`."""

    def orc_options(self) -> OrcOptions:
        """Return the ORC options. A `conf` entry for `sarg_to_filter` keeps `reader="auto"` from changing it."""
        return OrcOptions(sarg_to_filter=self.effective_switch("sarg_to_filter", None))

    def job_request(self) -> JobRequest:
        """Return one file source, and columns, predicate and limit over it."""
        with naming_parameters({}):
            query = query_of_rows(self.columns, self.where, self._interval, self.limit)
            source = self._source()
            if not isinstance(source, SourceSpec) or source.format is SourceFormat.ORC:
                # Validated again, because an ORC option may not fit the reader.
                source = source.model_validate({**dict(source), "orc": self.orc_options()})
        return JobRequest(sources={ONLY_SOURCE: source}, query=query)

    def _source(self) -> SourceSpec | TableSourceSpec:
        """Return the source. Raises `ConfigError` unless it has either a path or a table."""
        if (self.path is None) == (self.table is None):
            raise config_error("path: give either `path` or `table`, the name of a table in Spark's catalog")
        if self.table is None:
            return SourceSpec.model_validate({**self._common_fields(), **self.file_fields()})
        fields = self.file_fields()
        for name, default in {row.name: row.default for row in parameters_of(self.operator_name)}.items():
            if name in fields and getattr(self, name) != default:
                raise config_error(f"{name}: the catalog knows the files of table {self.table}; leave {name} out")
        return TableSourceSpec.model_validate({**self._common_fields(), "table": self.table})

    def _common_fields(self) -> dict[str, object]:
        """Return the fields that the specs of files and of tables share, from the rendered parameters."""
        return {
            "options": self.options,
            "reader": self.reader,
            "implicit_names": entries("implicit_names", self.implicit_names),
            "implicit_columns": sequence_as_list(self.implicit_columns) or (),
            "filter_pushdown": self.effective_switch("filter_pushdown", self.filter_pushdown),
        }

    def file_fields(self) -> dict[str, object]:
        """Return the fields of the `SourceSpec` that a table of the catalog does not have."""
        return {
            "format": self.source_format,
            "path": (self.path,) if isinstance(self.path, str) else sequence_as_list(self.path),
            "schema": self.schema,
            "on_schema_conflict": self.on_schema_conflict,
            "on_missing_column": self.on_missing_column,
        }

    def effective_switch(self, name: str, value: object) -> bool | None:
        """Return the effective value of a switch: the given value, else that of `conf`, else the default."""
        return effective_value(name, switch(name, value), entries("conf", self.conf), str(self.source_format))
