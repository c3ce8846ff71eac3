"""Classification of any exception of a job as a `JobError`: a code, one line, and the first Python traceback."""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JNetworkError
from pydantic import ValidationError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from pushdown_spark import errors
from pushdown_spark.contract import ErrorCode, JobError
from pushdown_spark.projection.file_locations import location
from pushdown_spark.runtime.exception_chain import BRACKETED_CONDITION, Link, exception_chain
from pushdown_spark.runtime.filesystem import HadoopFiles

MAX_TRACEBACK = 8 * 1024
"""The size limit of `JobError.traceback` in bytes of UTF-8."""

_MAX_LINE = 1000
_AFTER_SENTENCE = re.compile(r"\s*SQLSTATE: .*", re.DOTALL)
_WORKER_ERROR = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): (.*)$", re.MULTILINE)
_WORKER_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n.*?(?=\n\tat |\s*SQLSTATE: |\Z)", re.DOTALL)
_RAISED_LINE = re.compile(r"^(?!Traceback|During handling|The above)\S.*$", re.MULTILINE)
_DATABASE_ERRORS = ("java.sql.SQL", "org.postgresql.util.PSQL")
_JVM_FRAME = re.compile(r"^\s+(?:at \S+\(.*\)|\.\.\. \d+ more)$")
_FILE_READ = re.compile(r"while reading file (.+?)\.\s")
_PARSE_POSITION = re.compile(r"\(line (\d+), pos (\d+)\)")
_PARSED_TEXT = re.compile(r"== SQL ==\n(.*?)\n-*\^\^\^", re.DOTALL)
_DENIALS = frozenset(
    {
        "java.nio.file.AccessDeniedException",
        "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException",
        "org.apache.hadoop.security.AccessControlException",
    }
)
_REJECTION = "org.apache.hadoop.fs.s3a.AWSBadRequestException"
"""Hadoop's exception for a request that Amazon rejects, as with an expired token. Often it has no reason."""
_NO_DIRECTORY = (
    "Mkdirs failed to create ",
    "Parent path is not a directory: ",
    "Destination exists and is not a directory: ",
)
"""Messages of Hadoop's file systems about a directory that cannot be created."""
_TRUNCATED = ("Unexpected end of input stream", "Unexpected end of ZLIB", "Compressed file ended")

_CODES_BY_CONDITION: Mapping[str, ErrorCode] = {
    "PATH_NOT_FOUND": ErrorCode.MISSING_PATH,
    "TABLE_OR_VIEW_NOT_FOUND": ErrorCode.MISSING_PATH,
    "SCHEMA_NOT_FOUND": ErrorCode.MISSING_PATH,
    "CATALOG_NOT_FOUND": ErrorCode.BAD_SPEC,
    "PATH_ALREADY_EXISTS": ErrorCode.OUTPUT_EXISTS,
    "TABLE_OR_VIEW_ALREADY_EXISTS": ErrorCode.OUTPUT_EXISTS,
    "INCOMPATIBLE_DATA_FOR_TABLE": ErrorCode.SCHEMA_CONFLICT,
    "CAST_OVERFLOW_IN_TABLE_INSERT": ErrorCode.CHECK_FAILED,
    "EXCEED_LIMIT_LENGTH": ErrorCode.CHECK_FAILED,
    "FAILED_READ_FILE": ErrorCode.UNREADABLE_FILE,
    "UNRESOLVED_COLUMN": ErrorCode.UNKNOWN_COLUMN,
    "UNRESOLVED_FIELD": ErrorCode.UNKNOWN_COLUMN,
    "FIELD_NOT_FOUND": ErrorCode.UNKNOWN_COLUMN,
    "INVALID_EXTRACT_BASE_FIELD_TYPE": ErrorCode.KIND_MISMATCH,
    "INVALID_EXTRACT_FIELD_TYPE": ErrorCode.KIND_MISMATCH,
    "DATATYPE_MISMATCH": ErrorCode.BAD_PREDICATE,
    "UNRESOLVED_ROUTINE": ErrorCode.BAD_PREDICATE,
    "WRONG_NUM_ARGS": ErrorCode.BAD_PREDICATE,
    "INVALID_WHERE_CONDITION": ErrorCode.BAD_PREDICATE,
    "DATA_SOURCE_NOT_FOUND": ErrorCode.BAD_SPEC,
    "CODEC_NOT_AVAILABLE": ErrorCode.BAD_SPEC,
    "INVALID_DRIVER_MEMORY": ErrorCode.BAD_SPEC,
    "INVALID_EXECUTOR_MEMORY": ErrorCode.BAD_SPEC,
    "UNSUPPORTED_DATATYPE": ErrorCode.BAD_SCHEMA,
    "INVALID_SCHEMA": ErrorCode.BAD_SCHEMA,
    "UNABLE_TO_INFER_SCHEMA": ErrorCode.BAD_SCHEMA,
}
"""Codes for Spark's error conditions by the part before the first dot."""


@dataclass(frozen=True)
class _Classification:
    """The result of a rule."""

    code: ErrorCode
    message: str
    error_class: str | None = None


def classify(exc: BaseException) -> JobError:
    """Return a failure as data: what went wrong, in one line, and whether a retry may succeed.

    The cause is an error of this package if the chain has one, also from a Python worker; then a condition of Spark or
    of a file system; then any other exception. The function does not raise, even if the JVM has ended.
    """
    chain = tuple(exception_chain(exc))
    result = _classify_chain(chain)
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
    result = _classify_chain(tuple(exception_chain(exc)))
    code = text_error if result.code is ErrorCode.BAD_PREDICATE else result.code
    message = f"{about}: {result.message}" if about else result.message
    classes = {error_class.code: error_class for error_class in errors.PushdownError.__subclasses__()}
    return classes.get(code, errors.PushdownError)(_one_line(message), code=code)


def pushdown_error(exc: BaseException) -> errors.PushdownError | None:
    """Return the error of this package that an exception is, wraps or reports from a Python worker, None without one.

    A worker's error arrives as the text of its traceback. The last line has the qualified class name and the message,
    so messages must be single lines.
    """
    return _pushdown_error(tuple(exception_chain(exc)))


def _classify_chain(chain: Sequence[Link]) -> _Classification:
    return next(result for rule in _RULES if (result := rule(chain)) is not None)


def _one_line(message: str) -> str:
    return _truncate_middle(" ".join(message.split()), _MAX_LINE)


def _pushdown_error(chain: Sequence[Link]) -> errors.PushdownError | None:
    for link in chain:
        if isinstance(link.python, errors.PushdownError):
            return link.python
        marker = _WORKER_ERROR.search(link.message)
        kind = getattr(errors, marker.group(1), None) if marker else None
        if marker and isinstance(kind, type) and issubclass(kind, errors.PushdownError):
            return kind(marker.group(2))
    return None


def _own_error(chain: Sequence[Link]) -> _Classification | None:
    own = _pushdown_error(chain)
    if own is None:
        return None
    condition = next((link.condition for link in chain if link.condition), None)
    return _Classification(own.code, str(own), condition)


def _invalid_spec(chain: Sequence[Link]) -> _Classification | None:
    for link in chain:
        if isinstance(link.python, ValidationError):
            problems = [
                f"{_spec_path(problem['loc']) or 'spec'}: {problem['msg'].removeprefix('Value error, ')}"
                for problem in link.python.errors(include_url=False, include_input=False)
            ]
            return _Classification(ErrorCode.BAD_SPEC, f"the job spec is not valid: {'; '.join(problems)}", link.kind)
    return None


def _spec_path(steps: Sequence[int | str]) -> str:
    """Return the path of a field in the spec, without the tag that pydantic adds for the kind of a source."""
    kinds = ("files", "remote") if steps[:1] == ("sources",) else ()
    return ".".join(str(step) for number, step in enumerate(steps) if number != 2 or step not in kinds)


def _disk_full(chain: Sequence[Link]) -> _Classification | None:
    messages = ("No space left on device", "Disk quota exceeded")
    for link in chain:
        is_full = isinstance(link.python, OSError) and link.python.errno in (errno.ENOSPC, errno.EDQUOT)
        if is_full or any(text in link.message for text in messages):
            return _Classification(
                ErrorCode.DISK_FULL,
                "no space left on a disk that the job writes to (output, or spark.local.dir for temporary files); "
                "free some and try again",
                _condition_or_kind(chain),
            )
    return None


def _driver_gone(chain: Sequence[Link]) -> _Classification | None:
    if any(_is_lost_connection(link.python) for link in chain):
        message = "the JVM of the Spark driver has ended (killed, or out of memory); see the end of its log"
        return _Classification(ErrorCode.DRIVER_KILLED, message, chain[0].kind)
    return None


def _stopped(chain: Sequence[Link]) -> _Classification | None:
    messages = ("SparkContext was shut down", "stopped SparkContext", "SparkContext is stopping")
    is_stopped = any(isinstance(link.python, KeyboardInterrupt | SystemExit) for link in chain)
    if is_stopped or any(text in link.message for link in chain for text in messages):
        return _Classification(ErrorCode.DRIVER_KILLED, "the job was stopped from outside", chain[0].kind)
    return None


def _is_lost_connection(exc: BaseException | None) -> bool:
    """Return whether the JVM did not respond. Py4j then raises a plain error without a trace of the JVM."""
    is_unanswered = type(exc) is Py4JError and "Trace:" not in str(exc)
    return is_unanswered or isinstance(exc, Py4JNetworkError | ConnectionError)


def _worker_killed(chain: Sequence[Link]) -> _Classification | None:
    messages = ("Python worker exited unexpectedly", "Python worker process terminated", "ExecutorLostFailure")
    for link in chain:
        if any(text in link.message for text in messages):
            return _Classification(
                ErrorCode.WORKER_KILLED,
                "a worker of the job was killed or crashed, often for lack of memory; try again, with more "
                "spark.executor.memoryOverhead or fewer cores if it happens again",
                _condition_or_kind(chain),
            )
    return None


def _access_denied(chain: Sequence[Link]) -> _Classification | None:
    """Return a final error for denied access: a retry would have the same credentials."""
    for link in chain:
        if link.kind in _DENIALS or link.kind == _REJECTION:
            hint = ", the credentials may have expired" if link.kind == _REJECTION else ""
            message = f"access denied{hint}: {_sentence(link.message)}; give the job credentials with this permission"
            return _Classification(ErrorCode.BAD_SPEC, message, link.kind)
    return None


def _no_directory(chain: Sequence[Link]) -> _Classification | None:
    """Return an error for a directory that cannot be created: a file has its name, or the job may not write there."""
    for link in chain:
        if link.message.startswith(_NO_DIRECTORY):
            message = f"{_sentence(link.message)}; choose a path below a directory that the job may write to"
            return _Classification(ErrorCode.BAD_SPEC, message, link.kind)
    return None


def _database_failed(chain: Sequence[Link]) -> _Classification | None:
    """Return an error of a database through Spark's JDBC source. Access to the table was checked before."""
    for link in chain:
        if link.kind.startswith(_DATABASE_ERRORS):
            sentence = _sentence(link.message)
            bad_value = "Bad value for type" in sentence
            code = ErrorCode.SCHEMA_CONFLICT if bad_value else ErrorCode.REMOTE_FAILED
            return _Classification(code, f"the database or its driver ended the read: {sentence}", link.kind)
    return None


def _unreadable_file(chain: Sequence[Link]) -> _Classification | None:
    for link in chain:
        file = _FILE_READ.search(link.message)
        if link.family == "FAILED_READ_FILE" and file:
            path = unquote(file.group(1))
            cause = chain[-1]
            reason = _sentence(cause.message) or cause.kind
            if any(text in cause.message for text in _TRUNCATED):
                reason = f"its compressed data ends too early{_end_position(path)}; the file is truncated"
            elif cause.message == "not a gzip file":
                reason = "it is not a gzip file, or has other bytes after its compressed data"
            return _Classification(ErrorCode.UNREADABLE_FILE, f"cannot read {location(path)}: {reason}", link.condition)
    return None


def _bad_text(chain: Sequence[Link]) -> _Classification | None:
    """Return a parse error with its line and character, both counted from 1, and the text from there on."""
    for link in chain:
        position, text = _PARSE_POSITION.search(link.message), _PARSED_TEXT.search(link.message)
        if isinstance(link.python, ParseException) and position and text:
            code = _CODES_BY_CONDITION.get(link.family, ErrorCode.BAD_PREDICATE)
            line, offset = int(position.group(1)), int(position.group(2))
            lines = text.group(1).splitlines()
            rest = lines[line - 1][offset:] if line <= len(lines) else ""
            where = f"line {line}, character {offset + 1}, at {_truncate_middle(rest, 60)!r}"
            sentence = _sentence(link.message).rstrip(".")
            return _Classification(code, f"{sentence} ({where})", link.condition)
    return None


def _unknown_column(chain: Sequence[Link]) -> _Classification | None:
    for link in chain:
        if link.family == "UNRESOLVED_COLUMN" and "objectName" in link.parameters:
            proposal = link.parameters.get("proposal")
            hint = f"; did you mean {proposal}?" if proposal else ""
            message = f"there is no column {link.parameters['objectName']}{hint}"
            return _Classification(ErrorCode.UNKNOWN_COLUMN, message, link.condition)
    return None


def _spark_condition(chain: Sequence[Link]) -> _Classification | None:
    for link in reversed(chain):
        if code := _CODES_BY_CONDITION.get(link.family):
            return _Classification(code, _sentence(link.message), link.condition)
    return None


def _missing_library(chain: Sequence[Link]) -> _Classification | None:
    """Return a final error for a file system or codec whose classes Spark lacks."""
    cause = chain[-1]
    if cause.kind == "org.apache.hadoop.fs.UnsupportedFileSystemException":
        return _Classification(ErrorCode.BAD_SPEC, f"{_sentence(cause.message)}; check the path's scheme", cause.kind)
    if cause.kind == "java.lang.ClassNotFoundException":
        missing = _sentence(cause.message).removeprefix("Class ").removesuffix(" not found")
        message = f"Spark lacks the class {missing}; submit the job with the package or jar that has it"
        return _Classification(ErrorCode.BAD_SPEC, message, cause.kind)
    return None


def _worker_exception(chain: Sequence[Link]) -> _Classification | None:
    for link in chain:
        if match := _WORKER_TRACEBACK.search(link.message):
            raised = _RAISED_LINE.findall(match.group())
            error = raised[-1] if raised else _sentence(link.message)
            return _Classification(ErrorCode.SPARK, f"a Python worker failed: {error}", link.condition or link.kind)
    return None


def _other_error(chain: Sequence[Link]) -> _Classification:
    """Return any other error. Spark's analysis errors are final, its other errors not; Python errors are internal."""
    outermost, cause = chain[0], chain[-1]
    named = next((link for link in reversed(chain) if link.condition), None)
    if isinstance(outermost.python, AnalysisException):
        return _Classification(ErrorCode.BAD_SPEC, _sentence(outermost.message), outermost.condition)
    if outermost.python is None or isinstance(outermost.python, PySparkException):
        main = named or cause
        message = _sentence(main.message) or main.kind
        if cause is not main and cause.message:
            message = f"{message} ({cause.kind.rpartition('.')[2]}: {_sentence(cause.message)})"
        return _Classification(ErrorCode.SPARK, message, main.condition or main.kind)
    return _Classification(ErrorCode.INTERNAL, f"{outermost.kind}: {_sentence(outermost.message)}", outermost.kind)


_Rule = Callable[[Sequence[Link]], _Classification | None]
_RULES: tuple[_Rule, ...] = (
    _own_error,
    _invalid_spec,
    _disk_full,
    _driver_gone,
    _stopped,
    _worker_killed,
    _access_denied,
    _no_directory,
    _database_failed,
    _unreadable_file,
    _bad_text,
    _unknown_column,
    _spark_condition,
    _missing_library,
    _worker_exception,
    _other_error,
)


def _end_position(path: str) -> str:
    """Return the end of a truncated file for a message, empty if it cannot be determined."""
    session = SparkSession.getActiveSession()
    if session is None:
        return ""
    try:
        return f" at byte {HadoopFiles(session).length(path)}"
    except (Py4JError, PySparkException, OSError):
        return ""


def _sentence(message: str) -> str:
    """Return the first line of a message without the bracketed condition, SQLSTATE, query plan and stack trace."""
    text = _AFTER_SENTENCE.sub("", BRACKETED_CONDITION.sub("", message)).strip()
    return text.splitlines()[0].strip() if text else ""


def _condition_or_kind(chain: Sequence[Link]) -> str:
    return next((link.condition for link in chain if link.condition), chain[-1].kind)


def _first_traceback(exc: BaseException, chain: Sequence[Link]) -> str:
    """Return the traceback of a failed worker, otherwise that of the driver, without frames of the JVM."""
    in_worker = (_WORKER_TRACEBACK.search(link.message) for link in chain)
    text = next((match.group() for match in in_worker if match), None)
    if text is None:
        lines = "".join(traceback.format_exception(exc)).splitlines()
        text = "\n".join(line for line in lines if not _JVM_FRAME.match(line))
        text = text[max(text.find("Traceback ("), 0) :]
    return _truncate_middle(text, MAX_TRACEBACK)


def _truncate_middle(text: str, size: int) -> str:
    """Return at most `size` bytes of a text: the first quarter and the last three quarters of them."""
    data = text.encode()
    if len(data) <= size:
        return text
    gap = " ... "
    head = (size - len(gap)) // 4
    tail = size - len(gap) - head
    return data[:head].decode(errors="ignore") + gap + data[-tail:].decode(errors="ignore")
