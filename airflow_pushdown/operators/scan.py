"""The operator for scans of files of any format: columns, a predicate and a limit over one source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_pushdown.operators.base_operator import all_renderers, all_template_fields
from airflow_pushdown.operators.file_operator import PushdownFilesOperator
from airflow_pushdown.parameters import SCAN


class PushdownScanOperator(PushdownFilesOperator):
    """Scan files of any format, or a table of Spark's catalog, and skip data that cannot match.

    All parameters are keyword-only and can be mapped with `.partial().expand()`. The operator also accepts every
    parameter of `SparkSubmitOperator` except `application`, `application_args` and `java_class`. The task returns a
    report of the pushed conjuncts, the residual predicate, and the bytes and rows that were read and skipped. If the
    job fails, the task pushes the report to XCom before it raises the error.

    :param format: Format of the files: json, csv, avro, orc, parquet, text, iceberg or delta. (templated)
    :param max_malformed: Maximum number of malformed JSON or CSV lines before the task fails. Spark's reader then
        parses every line, and the report shows the number of malformed lines. (templated)
    :param kwargs: Parameters of `PushdownFilesOperator`, `PushdownBaseOperator` and Airflow's operators.
    """

    operator_name: ClassVar[str] = SCAN
    template_fields: Sequence[str] = all_template_fields(SCAN)
    template_fields_renderers: ClassVar[dict[str, str]] = all_renderers(SCAN)
    ui_color = "#cfe8d5"

    def __init__(
        self,
        *,
        format: str | None = None,
        max_malformed: int | None = None,
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(**kwargs)
        if format is None and self.path is not None:
            raise TypeError("missing keyword argument 'format'")
        self.format = format
        self.max_malformed = max_malformed
        self._check_literals(PushdownScanOperator)

    def file_fields(self) -> dict[str, object]:
        """Return the fields of the `SourceSpec` that a table does not have, with those of line formats."""
        return {**super().file_fields(), "max_malformed": self.max_malformed}

    @property
    def source_format(self) -> object:
        """The format that the user gave."""
        return self.format
