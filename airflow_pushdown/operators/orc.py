"""The operator for lazy ORC scans: filter columns first, other columns only for row groups with a match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.base_operator import all_renderers, all_template_fields
from airflow_pushdown.operators.file_operator import PushdownFilesOperator
from airflow_pushdown.operators.values import input_note, naming_parameters
from airflow_pushdown.parameters import DEFAULT_MIN_SEEK_SIZE, LAZY_ORC, SOURCE_FORMATS
from pushdown_spark.contract import OrcOptions

_AUTO = "auto"


class LazyOrcScanOperator(PushdownFilesOperator):
    """Scan ORC files: read the filter columns first, and the other columns only for row groups with a match.

    All parameters are keyword-only and can be mapped with `.partial().expand()`. The operator also accepts every
    parameter of `SparkSubmitOperator` except `application`, `application_args` and `java_class`. The task returns a
    report of the pushed conjuncts, the residual predicate, and the stripes, row groups and bytes that were read. If the
    job fails, the task pushes the report to XCom before it raises the error.

    :param sarg_to_filter: Whether Spark's ORC reader filters rows before it reads the other columns. The pushdown
        reader always does. By default, reader `auto` decides. (templated)
    :param use_selected: Whether Spark skips its own evaluation of an exact filter. Needs reader `pushdown`. (templated)
    :param partial_reads: Maximum number of separate reads of the other columns in a stripe, after which one read
        continues to its end. 0 means one read from the first match on. `auto` decides by the gaps between matches.
        Pushdown reader only. (templated)
    :param min_seek_size: Gaps of up to this many bytes between two reads are read, because a seek costs more. Pushdown
        reader only. (templated)
    :param kwargs: Parameters of `PushdownFilesOperator`, `PushdownBaseOperator` and Airflow's operators.
    """

    operator_name: ClassVar[str] = LAZY_ORC
    template_fields: Sequence[str] = all_template_fields(LAZY_ORC)
    template_fields_renderers: ClassVar[dict[str, str]] = all_renderers(LAZY_ORC)
    ui_color = "#cfdde8"

    def __init__(
        self,
        *,
        sarg_to_filter: bool | None = None,
        use_selected: bool = False,
        partial_reads: int | str = _AUTO,
        min_seek_size: int = DEFAULT_MIN_SEEK_SIZE,
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(**kwargs)
        self.sarg_to_filter = sarg_to_filter
        self.use_selected = use_selected
        self.partial_reads = partial_reads
        self.min_seek_size = min_seek_size
        self._check_literals(LazyOrcScanOperator)

    @property
    def source_format(self) -> object:
        """The format `orc`."""
        return SOURCE_FORMATS[LAZY_ORC]

    def orc_options(self) -> OrcOptions:
        """Return the ORC options. Raises `ConfigError` if one is invalid."""
        with naming_parameters({}):
            return OrcOptions.model_validate(
                {
                    "sarg_to_filter": self.effective_switch("sarg_to_filter", self.sarg_to_filter),
                    "use_selected": self.use_selected,
                    "partial_reads": _partial_reads(self.partial_reads),
                    "min_seek_size": self.min_seek_size,
                }
            )


def _partial_reads(value: object) -> int | None:
    """Return the parameter `partial_reads` as a number, or None for `auto`."""
    if value == _AUTO:
        return None
    try:
        return TypeAdapter(NonNegativeInt).validate_python(value)
    except ValidationError as error:
        raise config_error(f"partial_reads: give a number of reads, 0 or more, or 'auto'{input_note(value)}") from error
