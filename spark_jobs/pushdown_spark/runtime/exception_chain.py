"""Chains of exceptions: an exception and its causes, in Python and in the JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

BRACKETED_CONDITION = re.compile(r"^\s*\[([A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*")
"""The error condition at the start of the messages of Spark's errors."""
_CAUSE = re.compile(r"^Caused by: ([\w.$]+): (.*?)(?=\n\tat |\nCaused by: |\Z)", re.MULTILINE | re.DOTALL)
"""A cause in the stack trace of a Spark Connect server: the class and the message."""


@dataclass(frozen=True)
class Link:
    """One exception of a chain, from Python or from the JVM."""

    kind: str
    message: str
    condition: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    python: BaseException | None = None

    @property
    def family(self) -> str:
        """The error condition up to its first dot, or an empty string without a condition."""
        return (self.condition or "").partition(".")[0]


def root_message(exc: BaseException) -> str:
    """Return the message of the innermost cause, for example of a database driver or file system."""
    return list(exception_chain(exc))[-1].message


def exception_chain(exc: BaseException) -> Iterator[Link]:
    """Yield the exception and its causes, outermost first. Causes in the JVM come before causes in Python."""
    visited: set[int] = set()
    current: BaseException | None = exc
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield from _links(current)
        current = current.__cause__


def _links(exc: BaseException) -> Iterator[Link]:
    if isinstance(exc, Py4JJavaError):
        yield from _jvm_links(exc.java_exception)
        return
    condition, parameters = None, {}
    if isinstance(exc, PySparkException):
        try:
            condition, parameters = exc.getCondition(), exc.getMessageParameters() or {}
        except Py4JError:
            condition = None
    yield Link(type(exc).__name__, str(exc), condition, parameters, exc)
    origin = getattr(exc, "_origin", None)
    if origin is not None:
        yield from list(_jvm_links(origin))[1:]
    # With Spark Connect, the causes are only known as text.
    for kind, message in _CAUSE.findall(getattr(exc, "_stacktrace", None) or ""):
        yield _jvm_link(kind, message)


def _jvm_links(exception: JavaObject | None) -> Iterator[Link]:
    """Yield the chain of causes in the JVM, until the JVM no longer responds."""
    while exception is not None:
        try:
            kind, message = str(exception.getClass().getName()), str(exception.getMessage() or "")
            exception = exception.getCause()
        except (Py4JError, OSError):
            return
        yield _jvm_link(kind, message)


def _jvm_link(kind: str, message: str) -> Link:
    condition = BRACKETED_CONDITION.match(message)
    return Link(kind, message, condition.group(1) if condition else None)
