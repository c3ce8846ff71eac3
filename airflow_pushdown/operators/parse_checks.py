"""The check for mistakes in parameters that Airflow can report when it parses the DAG file."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.parameters import Parameter, parameters_of

if TYPE_CHECKING:
    from airflow_pushdown.operators.job_operator import JobOperator

_DELIMITERS = ("{{", "{%", "{#")
_PLACEHOLDER = "{{ unknown }}"
"""The text of a value that is only known during the run, such as the XCom of another task."""
_DECIDING_PARAMETERS = ("sources", "scans", "format")
"""Parameters that decide which other parameters are valid. If one of them has a template, nothing is checked."""
_REPLACEABLE_PARAMETERS = ("path",)
"""Optional parameters that an operator needs, unless another parameter replaces them."""


def check_literals(operator: JobOperator) -> None:
    """Raise `ConfigError` for mistakes that do not depend on values with templates.

    A template may render to any value, so the job spec is built twice: once with the text of the templates, and once
    with the defaults of these parameters. A mistake is reported if it occurs both times and is not about a parameter
    with a template.
    """
    parameters = {parameter.field: parameter for parameter in parameters_of(operator.operator_name)}
    values = {name: getattr(operator, name) for name in operator.template_fields}
    template_names = [name for name, value in values.items() if _may_be_anything(value)]
    if any(name in _DECIDING_PARAMETERS for name in template_names):
        return

    # 1. Build the job spec with the text of the templates. Most DAG files have no mistakes, so this ends here.
    text_values = {name: _as_text(values[name], parameters.get(name)) for name in template_names}
    error_with_text = _error(operator, text_values)
    if error_with_text is None:
        return

    # 2. Build it with defaults, because the text of a template may itself be the mistake.
    mappings = {name: _without_templates(value) for name, value in values.items() if isinstance(value, Mapping)}
    default_values = {name: _default(parameters.get(name), text_values[name]) for name in template_names}
    error_with_defaults = _error(operator, mappings | default_values)
    if error_with_defaults is None:
        return

    # 3. Report the mistakes that occur both times and are about parameters without templates.
    in_both = [text for text in _problems(error_with_text) if text in _problems(error_with_defaults)]
    parameters_with_templates = {parameters[name].name if name in parameters else name for name in template_names}
    mistakes = [text for text in in_both if _parameter(text) not in parameters_with_templates]
    if mistakes:
        raise ConfigError(error_with_text.job_error.model_copy(update={"message": "; ".join(mistakes)})) from None


def _may_be_anything(value: object) -> bool:
    """Return whether a value may have any type when the task runs: a template without other text, or an object.

    >>> _may_be_anything("{{ params.limit }}"), _may_be_anything("/data/{{ ds }}"), _may_be_anything(["{{ ds }}"])
    (True, False, False)
    """
    if isinstance(value, str):
        return value.strip().startswith(_DELIMITERS) and value.strip().endswith("}")
    return not isinstance(value, bool | int | float | Mapping | Sequence | set | frozenset | None)


def _as_text(value: object, parameter: Parameter | None) -> object:
    """Return a template as the text of a parameter that accepts strings, otherwise the default."""
    if parameter is not None and "str" not in parameter.type:
        return parameter.signature_default
    return value if isinstance(value, str) else _PLACEHOLDER


def _default(parameter: Parameter | None, text: object) -> object:
    """Return the default of a parameter, or the text of its template if the operator needs a value."""
    if parameter is None:
        return None
    return text if parameter.required or parameter.field in _REPLACEABLE_PARAMETERS else parameter.signature_default


def _without_templates(value: object) -> object:
    """Return a dict without the entries that may have any type when the task runs."""
    if not isinstance(value, Mapping):
        return value
    return {name: _without_templates(part) for name, part in value.items() if not _may_be_anything(part)}


def _error(operator: JobOperator, values: Mapping[str, object]) -> ConfigError | None:
    """Return the error of the operator with other values of some attributes, or None if its job spec is valid."""
    draft = copy.copy(operator)
    # Assigning attributes one by one would register dependencies on other tasks.
    vars(draft).update(values)
    try:
        draft.build_spec("parse")
    except ConfigError as error:
        return error
    return None


def _problems(error: ConfigError) -> Sequence[str]:
    """Return the problems of an error, which may be about several parameters."""
    return error.problems or [error.job_error.message]


def _parameter(problem: str) -> str:
    """Return the name of the parameter at the beginning of an error message.

    >>> _parameter("sources.flights.reader: Input should be 'auto'")
    'sources'
    """
    return problem.partition(":")[0].partition(".")[0]
