"""The base of all messages between the two sides, Spark's options in them, their problems, and short strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

OptionValue = str | bool | float | None
"""A value of an option, as PySpark's `option` accepts it. None leaves the option out."""


class Message(BaseModel):
    """An immutable message that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @classmethod
    def from_json(cls, content: str | bytes | None) -> Self | None:
        """Return the message of a JSON text, or None if there is none or if it is invalid."""
        try:
            return None if content is None else cls.model_validate_json(content)
        except ValidationError:
            return None


def _options_as_strings(options: object) -> object:
    """Write booleans and numbers as Spark does, and leave options out that are None. Other values stay as they are."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        return options
    return {key: _option_as_string(value) for key, value in options.items() if value is not None}


def _option_as_string(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


SparkOptions = Annotated[
    dict[str, str], BeforeValidator(_options_as_strings, json_schema_input_type=dict[str, OptionValue] | None)
]
"""Options with Spark's names. `True` and `4` become `"true"` and `"4"`."""


def problems_of(error: ValidationError) -> list[str]:
    """Return the problems of a validation by field, without the values."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        f"{_field_path(problem['loc'])}: {problem['msg'].removeprefix('Value error, ')}".removeprefix(": ")
        for problem in problems
    ]


def _field_path(steps: Sequence[int | str]) -> str:
    """Return the path of a field, without the tag that pydantic adds for the kind of a source in a job spec."""
    kinds = ("files", "remote") if steps[:1] == ("sources",) else ()
    return ".".join(str(step) for number, step in enumerate(steps) if number != 2 or step not in kinds)


def shorten(text: str, max_length: int) -> str:
    """Return a string of at most this number of characters. A longer one ends with an ellipsis.

    >>> shorten("level = 'ERROR'", 10)
    'level =...'
    """
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."
