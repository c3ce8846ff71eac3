"""The findings of the doctor: one line for each check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    NOTE = "note"
    FAILED = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was checked, and what was found or what to do."""

    status: CheckStatus
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.status:<5} {self.subject:<17} {self.text}"


def ok(subject: str, text: str) -> Finding:
    """Return the finding of a check that passed."""
    return Finding(CheckStatus.OK, subject, text)


def note(subject: str, text: str) -> Finding:
    """Return information about something that not every job needs."""
    return Finding(CheckStatus.NOTE, subject, text)


def failure(subject: str, text: str) -> Finding:
    """Return the finding of a check that failed, with what to do."""
    return Finding(CheckStatus.FAILED, subject, text)
