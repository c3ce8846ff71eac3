"""The output of spark-submit: log levels of its lines, and the line with the cause of a failure."""

from __future__ import annotations

import logging
import re

_LOG4J = re.compile(r"^\d\d(?:\d\d)?[/-]\d\d[/-]\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_FRAME = re.compile(r"^\s+(?:at |\.\.\. \d+ more)")
_CONTINUED = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+[A-Z]\w*(?:Error|Exception)\b")

# From the most to the least certain sign of a cause.
_CAUSES = (
    # A JVM that does not start.
    re.compile(
        r"^(?P<cause>(?:Invalid (?:initial|maximum) heap size: |Too small (?:initial|maximum) heap|"
        r"Could not reserve enough space for ).*)"
    ),
    # An error of spark-submit.
    re.compile(r"^(?:Error|Exception): (?P<cause>.+)"),
    # An uncaught exception of the JVM.
    re.compile(r'^Exception in thread "[^"]*" (?P<cause>.+)'),
    # An exception without a prefix, such as the last line of a Python traceback.
    re.compile(r"^(?P<cause>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b.*)"),
    # An error of the shell.
    re.compile(r"^(?P<cause>.+: (?:line \d+: .+|command not found|No such file or directory|Permission denied))$"),
    # A logged error.
    re.compile(r"^\d\S+ \S+ (?:ERROR|FATAL) \S+ (?P<cause>.+)"),
)

_REFUSED_JVM = re.compile(
    r"^(?:Error occurred during initialization of (?:VM|boot layer)|Error: Could not create the Java Virtual Machine)"
)

_FINAL_CAUSES = (
    (
        re.compile(r"heap size: |^Too small .* heap|^Could not reserve enough space|Driver memory must be"),
        "driver_memory: {cause}; use a size that Java accepts and the machine has, such as '2g'",
    ),
    (re.compile(r"Executor memory must be"), "executor_memory: {cause}; use a size such as '2g'"),
    (
        re.compile(r"^(?:ModuleNotFoundError|ImportError): "),
        "spark_python: the job cannot run in its Python environment ({cause}); install "
        '"pushdown-spark[spark]" there, and remove pyspark-client',
    ),
)
"""Causes that a retry would meet again, and advice for each."""

_MAX_CAUSE_CHARACTERS = 500


class SubmitOutput:
    """The output of one spark-submit. Lines are added in order.

    A stack trace has the level of the line before it. Frames of warnings have level DEBUG.
    """

    def __init__(self) -> None:
        self._level = logging.INFO
        self._causes: list[str | None] = [None] * len(_CAUSES)
        self._last = ""
        self._is_jvm_refused = False

    def add(self, line: str) -> int:
        """Add the next line, which may be the cause of a failure. Return its log level."""
        if match := _LOG4J.match(line):
            self._level = _LEVELS[match.group(1)]
        elif not _FRAME.match(line) and not _CONTINUED.match(line):
            self._level = logging.INFO
        self._remember(line)
        if _FRAME.match(line) and self._level < logging.ERROR:
            return logging.DEBUG
        return self._level

    @property
    def cause(self) -> str:
        """The most likely cause of a failure, the last line if no line matches."""
        return next((cause for cause in self._causes if cause is not None), self._last)[:_MAX_CAUSE_CHARACTERS]

    @property
    def note(self) -> str:
        """The cause for an error message, and where the other lines are."""
        return f"see its output in the log above, last line: {self.cause}" if self.cause else "it printed no lines"

    @property
    def final_error(self) -> str | None:
        """The parameter that caused the failure with advice, or None if a retry may succeed."""
        cause = self.cause
        return next((advice.format(cause=cause) for pattern, advice in _FINAL_CAUSES if pattern.search(cause)), None)

    @property
    def is_jvm_refused(self) -> bool:
        """Whether a JVM did not start because of its options, other than those for its memory."""
        return self._is_jvm_refused and self.final_error is None

    def _remember(self, line: str) -> None:
        """Keep the first line of each kind, because later ones tend to be consequences."""
        self._is_jvm_refused = self._is_jvm_refused or _REFUSED_JVM.match(line) is not None
        if line.strip():
            self._last = line.strip()
        for position, pattern in enumerate(_CAUSES):
            if self._causes[position] is None and (match := pattern.match(line)):
                self._causes[position] = match.group("cause").strip()
                return
