"""Checks values that parameters have once templates are rendered, with errors that name the parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pydantic import TypeAdapter, ValidationError

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.parameters import serialise_all

_SHOWN_INPUT = 60


def listed(value: object) -> object:
    """A sequence of whatever kind (mapping hands out lazy ones) as a list; text stays text, to be refused by name."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def entries(name: str, value: object) -> dict[str, str]:
    """A dict parameter as Spark wants it: None dropped, booleans in lower case, the rest as text."""
    with naming_parameters({"": name}):
        return serialise_all(TypeAdapter(dict[str, object] | None).validate_python(value))


def switch(name: str, value: object) -> bool | None:
    """An on/off parameter, which a template may have turned into text; None when it was not given."""
    with naming_parameters({"": name}):
        return TypeAdapter(bool | None).validate_python(value)


@contextmanager
def naming_parameters(names: Mapping[str, str]) -> Iterator[None]:
    """Turn a validation error into one line that names the operator's parameter.

    `names` maps fields of the validated model to parameters called otherwise; the empty name stands for a single value.
    """
    try:
        yield
    except ValidationError as error:
        lines = []
        for details in error.errors(include_url=False, include_context=False):
            if details["type"] == "extra_forbidden":
                details["msg"] = "there is no such parameter"
            where = details["loc"]
            head = str(where[0]) if where else ""
            parameter = ".".join([names.get(head, head), *map(str, where[1:])])
            said = details["msg"].removeprefix("Value error, ").replace("tuple", "list").replace("Tuple", "List")
            # A check of several parameters names them itself.
            name = f"{parameter.lstrip('.')}: " if parameter.strip(".") else ""
            lines.append(f"{name}{said}{shown(details['input'])}")
        # Pydantic's own words would follow the line, with the names of its models and addresses of its pages.
        raise config_error("; ".join(lines)) from None


def shown(value: object) -> str:
    """The refused value for a message, if it is short enough to help."""
    if isinstance(value, str | int | float | bool):
        text = repr(value)
        return f" (got {text if len(text) <= _SHOWN_INPUT else text[:_SHOWN_INPUT] + '...'})"
    return ""
