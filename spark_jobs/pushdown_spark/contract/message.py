"""The base of all messages between the two sides, and the shortening of their strings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """An immutable message that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def shorten(text: str, longest: int) -> str:
    """Return a text of at most this number of characters. A longer one ends with an ellipsis.

    >>> shorten("level = 'ERROR'", 10)
    'level =...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
