"""What everything that crosses the wall between the two sides has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Immutable, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
