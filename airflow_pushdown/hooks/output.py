"""Sorts what spark-submit prints by level, and finds in it the line that says why it failed."""

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

# From the surest sign of a cause to the weakest: a JVM that does not start, spark-submit's own complaint, an uncaught
# exception of the JVM, an exception printed bare (the last line of a Python traceback is one), the shell's complaint,
# an error that was logged.
_CAUSES = (
    re.compile(
        r"^(?P<cause>(?:Invalid (?:initial|maximum) heap size: |Too small (?:initial|maximum) heap|"
        r"Could not reserve enough space for ).*)"
    ),
    re.compile(r"^(?:Error|Exception): (?P<cause>.+)"),
    re.compile(r'^Exception in thread "[^"]*" (?P<cause>.+)'),
    re.compile(r"^(?P<cause>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b.*)"),
    re.compile(r"^(?P<cause>.+: (?:line \d+: .+|command not found|No such file or directory|Permission denied))$"),
    re.compile(r"^\d\S+ \S+ (?:ERROR|FATAL) \S+ (?P<cause>.+)"),
)

_REFUSALS = (
    (
        re.compile(r"heap size: |^Too small .* heap|^Could not reserve enough space|Driver memory must be"),
        "driver_memory: {cause}; give a size that Java takes and the machine has, such as '2g'",
    ),
    (re.compile(r"Executor memory must be"), "executor_memory: {cause}; give a size such as '2g'"),
    (
        re.compile(r"^(?:ModuleNotFoundError|ImportError): "),
        "spark_python: the job cannot run in its Python environment ({cause}); install "
        '"pushdown-spark[spark]" there, and remove pyspark-client',
    ),
)
"""Causes that another try would meet again, and what to do about them."""

_MAX_CAUSE = 500


class JobOutput:
    """Takes the lines of one job in order.

    A stack trace keeps the level of the line it belongs to, except that nobody needs to see the frames of a warning.
    """

    def __init__(self) -> None:
        self._level = logging.INFO
        self._causes: list[str | None] = [None] * len(_CAUSES)
        self._last = ""

    def level_of(self, line: str) -> int:
        """The level to log `line` at; also remembers what `cause` needs."""
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
        """The line that says best why the job failed; the last line if none says it."""
        return next((cause for cause in self._causes if cause is not None), self._last)[:_MAX_CAUSE]

    @property
    def refusal(self) -> str | None:
        """The parameter that made the job fail and what to do about it; None if the task may succeed the next time."""
        cause = self.cause
        return next((advice.format(cause=cause) for pattern, advice in _REFUSALS if pattern.search(cause)), None)

    def _remember(self, line: str) -> None:
        """Keep the first line of each kind: later ones tend to be consequences."""
        if line.strip():
            self._last = line.strip()
        for position, pattern in enumerate(_CAUSES):
            if self._causes[position] is None and (match := pattern.match(line)):
                self._causes[position] = match.group("cause").strip()
                return
