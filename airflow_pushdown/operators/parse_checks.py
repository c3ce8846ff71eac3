"""Mistakes in parameters that no template can correct, so that they show when Airflow parses the DAG file."""

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
"""Stands for a value that only the run knows, such as the XCom of another task."""
_DECISIVE = ("sources", "scans", "format")
"""Parameters whose values decide which other parameters are valid."""
_ALTERNATIVES = ("path",)
"""Optional parameters that an operator needs, unless another parameter replaces them."""


def check_literals(operator: JobOperator) -> None:
    """Raise `ConfigError` for mistakes that do not depend on values with templates.

    The job spec is built twice: with templates as text, and with defaults in the place of values that a template may
    render to anything. A mistake that both find does not depend on templates, unless it is about such a value.
    """
    parameters = {parameter.field: parameter for parameter in parameters_of(operator.operator_name)}
    given = {name: getattr(operator, name) for name in operator.template_fields}
    open_names = [name for name, value in given.items() if _is_open(value)]
    if any(name in _DECISIVE for name in open_names):
        return
    text_values = {name: _as_text(given[name], parameters.get(name)) for name in open_names}
    error_with_text = _error(operator, text_values)
    if error_with_text is None:
        return
    mappings = {name: _without_open_values(value) for name, value in given.items() if isinstance(value, Mapping)}
    default_values = {name: _default(parameters.get(name), text_values[name]) for name in open_names}
    error_with_defaults = _error(operator, mappings | default_values)
    if error_with_defaults is None:
        return
    in_both = [text for text in _problems(error_with_text) if text in _problems(error_with_defaults)]
    unknown = {parameters[name].name if name in parameters else name for name in open_names}
    mistakes = [text for text in in_both if _parameter(text) not in unknown]
    if mistakes:
        raise ConfigError(error_with_text.job_error.model_copy(update={"message": "; ".join(mistakes)})) from None


def _is_open(value: object) -> bool:
    """Return whether a value may become anything when the task runs: a template without other text, or an object.

    >>> _is_open("{{ params.limit }}"), _is_open("/data/{{ ds }}"), _is_open(["{{ ds }}"])
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
    return text if parameter.required or parameter.field in _ALTERNATIVES else parameter.signature_default


def _without_open_values(value: object) -> object:
    """Return a dict without the entries that may become anything."""
    if not isinstance(value, Mapping):
        return value
    return {name: _without_open_values(part) for name, part in value.items() if not _is_open(part)}


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
