"""Classification of any exception of a job as a `JobError`: a code, one line, and the first Python traceback."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence

from pushdown_spark import errors
from pushdown_spark.contract import ErrorCode, JobError
from pushdown_spark.runtime.error_rules import WORKER_TRACEBACK, classify_chain, error_in_chain, truncate_middle
from pushdown_spark.runtime.exception_chain import Link, exception_chain

MAX_TRACEBACK = 8 * 1024
"""The size limit of `JobError.traceback` in bytes of UTF-8."""

_MAX_LINE = 1000
_JVM_FRAME = re.compile(r"^\s+(?:at \S+\(.*\)|\.\.\. \d+ more)$")


def classify(exc: BaseException) -> JobError:
    """Return a failure as data: what went wrong, in one line, and whether a retry may succeed.

    The cause is an error of this package if the chain has one, also from a Python worker; then a condition of Spark or
    of a file system; then any other exception. The function does not raise, even if the JVM has ended.
    """
    chain = tuple(exception_chain(exc))
    result = classify_chain(chain)
    return JobError(
        code=result.code,
        message=_one_line(result.message),
        retryable=result.code.retryable,
        error_class=result.error_class,
        traceback=_first_traceback(exc, chain),
    )


def typed_error(
    exc: BaseException, *, about: str | None = None, text_error: ErrorCode = ErrorCode.BAD_PREDICATE
) -> errors.PushdownError:
    """Return an exception as an error of this package. Raise it `from` the exception.

    `about` is the parameter that the message starts with. `text_error` is the code for text that does not parse, since
    Spark's error is the same for predicates and schemas.
    """
    own = pushdown_error(exc)
    if own is not None:
        return own
    result = classify_chain(tuple(exception_chain(exc)))
    code = text_error if result.code is ErrorCode.BAD_PREDICATE else result.code
    message = f"{about}: {result.message}" if about else result.message
    classes = {error_class.code: error_class for error_class in errors.PushdownError.__subclasses__()}
    return classes.get(code, errors.PushdownError)(_one_line(message), code=code)


def pushdown_error(exc: BaseException) -> errors.PushdownError | None:
    """Return the error of this package that an exception is, wraps or reports from a Python worker, or None.

    A worker's error arrives as the text of its traceback. The last line has the qualified class name and the message,
    so messages must be single lines.
    """
    return error_in_chain(tuple(exception_chain(exc)))


def _one_line(message: str) -> str:
    return truncate_middle(" ".join(message.split()), _MAX_LINE)


def _first_traceback(exc: BaseException, chain: Sequence[Link]) -> str:
    """Return the traceback of a failed worker, otherwise that of the driver, without frames of the JVM."""
    in_worker = (WORKER_TRACEBACK.search(link.message) for link in chain)
    text = next((match.group() for match in in_worker if match), None)
    if text is None:
        lines = "".join(traceback.format_exception(exc)).splitlines()
        text = "\n".join(line for line in lines if not _JVM_FRAME.match(line))
        text = text[max(text.find("Traceback ("), 0) :]
    return truncate_middle(text, MAX_TRACEBACK)
