"""The base of all messages between the two sides."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """An immutable message that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
