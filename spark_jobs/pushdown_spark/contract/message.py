"""The base of all messages between the two sides, the problems of invalid ones, and the shortening of strings."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError


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


def problems_of(error: ValidationError) -> list[str]:
    """Return the problems of a validation by field, without the values."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].removeprefix('Value error, ')}".removeprefix(": ")
        for problem in problems
    ]


def shorten(text: str, longest: int) -> str:
    """Return a string of at most this number of characters. A longer one ends with an ellipsis.

    >>> shorten("level = 'ERROR'", 10)
    'level =...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
