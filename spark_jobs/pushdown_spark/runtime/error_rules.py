"""The rules that classify exceptions: each recognizes one kind of failure in an exception chain."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JNetworkError
from pydantic import ValidationError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from pushdown_spark import errors
from pushdown_spark.contract import ErrorCode
from pushdown_spark.contract.message import problems_of
from pushdown_spark.projection.file_locations import location
from pushdown_spark.runtime.exception_chain import BRACKETED_CONDITION, Link
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles

_AFTER_SENTENCE = re.compile(r"\s*SQLSTATE: .*", re.DOTALL)
_WORKER_ERROR = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): (.*)$", re.MULTILINE)
WORKER_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n.*?(?=\n\tat |\s*SQLSTATE: |\Z)", re.DOTALL)
_RAISED_LINE = re.compile(r"^(?!Traceback|During handling|The above)\S.*$", re.MULTILINE)
_DATABASE_ERRORS = ("java.sql.SQL", "org.postgresql.util.PSQL")
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
_DENIED_NUMBERS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_DENIED_MESSAGES = ("(Permission denied)", "(Read-only file system)")
"""The ends of Java's messages about local files."""
_REJECTION = "org.apache.hadoop.fs.s3a.AWSBadRequestException"
"""Hadoop's exception for a request that Amazon rejects, as with an expired token. Often it has no reason."""
_NO_DIRECTORY = (
    "Mkdirs failed to create ",
    "Parent path is not a directory: ",
    "Destination exists and is not a directory: ",
)
"""Messages of Hadoop's file systems about a directory that cannot be created."""
_UNWRITABLE_NAME = "Malformed input or input contains unmappable characters: "
"""The start of Java's message about a name that the locale cannot encode."""
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
class Classification:
    """The error code and the message of a recognized exception."""

    code: ErrorCode
    message: str
    error_class: str | None = None


def classify_chain(chain: Sequence[Link]) -> Classification:
    """Return the result of the first rule that recognizes an exception chain. The last rule recognizes all."""
    return next(result for rule in _RULES if (result := rule(chain)) is not None)


def error_in_chain(chain: Sequence[Link]) -> errors.PushdownError | None:
    """Return the error of this package in an exception chain, also one that a Python worker has raised, or None."""
    for link in chain:
        if isinstance(link.python, errors.PushdownError):
            return link.python
        marker = _WORKER_ERROR.search(link.message)
        kind = getattr(errors, marker.group(1), None) if marker else None
        if marker and isinstance(kind, type) and issubclass(kind, errors.PushdownError):
            return kind(marker.group(2))
    return None


def _own_error(chain: Sequence[Link]) -> Classification | None:
    own = error_in_chain(chain)
    if own is None:
        return None
    condition = next((link.condition for link in chain if link.condition), None)
    return Classification(own.code, str(own), condition)


def _invalid_spec(chain: Sequence[Link]) -> Classification | None:
    for link in chain:
        if isinstance(link.python, ValidationError):
            problems = "; ".join(problems_of(link.python))
            return Classification(ErrorCode.BAD_SPEC, f"the job spec is not valid: {problems}", link.kind)
    return None


def _disk_full(chain: Sequence[Link]) -> Classification | None:
    messages = ("No space left on device", "Disk quota exceeded")
    for link in chain:
        is_full = isinstance(link.python, OSError) and link.python.errno in (errno.ENOSPC, errno.EDQUOT)
        if is_full or any(text in link.message for text in messages):
            return Classification(
                ErrorCode.DISK_FULL,
                "no space left on a disk that the job writes to (output, or spark.local.dir for temporary files); "
                "free some and try again",
                _condition_or_kind(chain),
            )
    return None


def _lost_driver(chain: Sequence[Link]) -> Classification | None:
    if any(_is_lost_connection(link.python) for link in chain):
        message = (
            "the JVM of the Spark driver has ended (killed, or out of memory); raise driver_memory if its log has "
            "OutOfMemoryError, or else the memory limit of the worker or pod"
        )
        return Classification(ErrorCode.DRIVER_KILLED, message, chain[0].kind)
    return None


def _stopped_job(chain: Sequence[Link]) -> Classification | None:
    messages = ("SparkContext was shut down", "stopped SparkContext", "SparkContext is stopping")
    is_stopped = any(isinstance(link.python, KeyboardInterrupt | SystemExit) for link in chain)
    if is_stopped or any(text in link.message for link in chain for text in messages):
        return Classification(ErrorCode.DRIVER_KILLED, "the job was stopped from outside", chain[0].kind)
    return None


def _is_lost_connection(exc: BaseException | None) -> bool:
    """Return whether the JVM did not respond. Py4j then raises a plain error without a trace of the JVM."""
    is_unanswered = type(exc) is Py4JError and "Trace:" not in str(exc)
    return is_unanswered or isinstance(exc, Py4JNetworkError | ConnectionError)


def _killed_worker(chain: Sequence[Link]) -> Classification | None:
    messages = ("Python worker exited unexpectedly", "Python worker process terminated", "ExecutorLostFailure")
    for link in chain:
        if any(text in link.message for text in messages):
            return Classification(
                ErrorCode.WORKER_KILLED,
                "a worker of the job was killed or crashed, often for lack of memory; try again, with more "
                "spark.executor.memoryOverhead or fewer cores if it happens again",
                _condition_or_kind(chain),
            )
    return None


def _denied_access(chain: Sequence[Link]) -> Classification | None:
    """Return a final error for denied access: a retry would have the same credentials."""
    for link in chain:
        problem = link.python
        is_denied = isinstance(problem, OSError) and problem.errno in _DENIED_NUMBERS
        if is_denied or link.message.endswith(_DENIED_MESSAGES):
            message = f"access denied: {_sentence(link.message)}; let the user of the job read and write there"
            return Classification(ErrorCode.BAD_SPEC, message, link.kind)
        if link.kind in _DENIALS or link.kind == _REJECTION:
            hint = ", the credentials may have expired" if link.kind == _REJECTION else ""
            message = f"access denied{hint}: {_sentence(link.message)}; give the job credentials with this permission"
            return Classification(ErrorCode.BAD_SPEC, message, link.kind)
    return None


def _no_directory(chain: Sequence[Link]) -> Classification | None:
    """Return an error for a directory that cannot be created: a file has its name, or the job may not write there."""
    for link in chain:
        if link.message.startswith(_NO_DIRECTORY):
            message = f"{_sentence(link.message)}; choose a path below a directory that the job may write to"
            return Classification(ErrorCode.BAD_SPEC, message, link.kind)
    return None


def _unwritable_name(chain: Sequence[Link]) -> Classification | None:
    """Return an error for a path on a local disk with characters that the locale of a JVM does not have."""
    for link in chain:
        if link.message.startswith(_UNWRITABLE_NAME):
            path = _sentence(link.message).removeprefix(_UNWRITABLE_NAME)
            message = (
                f"Java cannot write the name {path} in the locale of its machine; set LC_ALL=C.UTF-8 for driver "
                "and executors, or use names of ASCII characters"
            )
            return Classification(ErrorCode.BAD_SPEC, message, link.kind)
    return None


def _database_error(chain: Sequence[Link]) -> Classification | None:
    """Return an error of a database through Spark's JDBC source. Access to the table was checked before."""
    for link in chain:
        if link.kind.startswith(_DATABASE_ERRORS):
            sentence = _sentence(link.message)
            bad_value = "Bad value for type" in sentence
            code = ErrorCode.SCHEMA_CONFLICT if bad_value else ErrorCode.REMOTE_FAILED
            return Classification(code, f"the database or its driver ended the read: {sentence}", link.kind)
    return None


def _unreadable_file(chain: Sequence[Link]) -> Classification | None:
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
            return Classification(ErrorCode.UNREADABLE_FILE, f"cannot read {location(path)}: {reason}", link.condition)
    return None


def _parse_error(chain: Sequence[Link]) -> Classification | None:
    """Return a parse error with its line and character, both counted from 1, and the text from there on."""
    for link in chain:
        position, text = _PARSE_POSITION.search(link.message), _PARSED_TEXT.search(link.message)
        if isinstance(link.python, ParseException) and position and text:
            code = _CODES_BY_CONDITION.get(link.family, ErrorCode.BAD_PREDICATE)
            line, offset = int(position.group(1)), int(position.group(2))
            lines = text.group(1).splitlines()
            rest = lines[line - 1][offset:] if line <= len(lines) else ""
            where = f"line {line}, character {offset + 1}, at {truncate_middle(rest, 60)!r}"
            sentence = _sentence(link.message).rstrip(".")
            return Classification(code, f"{sentence} ({where})", link.condition)
    return None


def _unknown_column(chain: Sequence[Link]) -> Classification | None:
    for link in chain:
        if link.family == "UNRESOLVED_COLUMN" and "objectName" in link.parameters:
            proposal = link.parameters.get("proposal")
            hint = f"; did you mean {proposal}?" if proposal else ""
            message = f"there is no column {link.parameters['objectName']}{hint}"
            return Classification(ErrorCode.UNKNOWN_COLUMN, message, link.condition)
    return None


def _spark_condition(chain: Sequence[Link]) -> Classification | None:
    for link in reversed(chain):
        if code := _CODES_BY_CONDITION.get(link.family):
            return Classification(code, _sentence(link.message), link.condition)
    return None


def _missing_library(chain: Sequence[Link]) -> Classification | None:
    """Return a final error for a file system or codec whose classes Spark lacks."""
    cause = chain[-1]
    if cause.kind == "org.apache.hadoop.fs.UnsupportedFileSystemException":
        return Classification(ErrorCode.BAD_SPEC, f"{_sentence(cause.message)}; check the path's scheme", cause.kind)
    if cause.kind == "java.lang.ClassNotFoundException":
        missing = _sentence(cause.message).removeprefix("Class ").removesuffix(" not found")
        message = f"Spark lacks the class {missing}; submit the job with the package or jar that has it"
        return Classification(ErrorCode.BAD_SPEC, message, cause.kind)
    return None


def _worker_exception(chain: Sequence[Link]) -> Classification | None:
    for link in chain:
        if match := WORKER_TRACEBACK.search(link.message):
            error_lines = _RAISED_LINE.findall(match.group())
            error = error_lines[-1] if error_lines else _sentence(link.message)
            return Classification(ErrorCode.SPARK, f"a Python worker failed: {error}", link.condition or link.kind)
    return None


def _other_error(chain: Sequence[Link]) -> Classification:
    """Return any other error. Spark's analysis errors are final, its other errors not; Python errors are internal."""
    outermost, cause = chain[0], chain[-1]
    with_condition = next((link for link in reversed(chain) if link.condition), None)
    if isinstance(outermost.python, AnalysisException):
        return Classification(ErrorCode.BAD_SPEC, _sentence(outermost.message), outermost.condition)
    if outermost.python is None or isinstance(outermost.python, PySparkException):
        main = with_condition or cause
        message = _sentence(main.message) or main.kind
        if cause is not main and cause.message:
            message = f"{message} ({cause.kind.rpartition('.')[2]}: {_sentence(cause.message)})"
        return Classification(ErrorCode.SPARK, message, main.condition or main.kind)
    return Classification(ErrorCode.INTERNAL, f"{outermost.kind}: {_sentence(outermost.message)}", outermost.kind)


_Rule = Callable[[Sequence[Link]], Classification | None]
_RULES: tuple[_Rule, ...] = (
    _own_error,
    _invalid_spec,
    _disk_full,
    _lost_driver,
    _stopped_job,
    _killed_worker,
    _denied_access,
    _no_directory,
    _unwritable_name,
    _database_error,
    _unreadable_file,
    _parse_error,
    _unknown_column,
    _spark_condition,
    _missing_library,
    _worker_exception,
    _other_error,
)


def _end_position(path: str) -> str:
    """Return the end of a truncated file for a message, or an empty string if it cannot be determined."""
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


def truncate_middle(text: str, size: int) -> str:
    """Return a string of at most `size` bytes. A longer one keeps its start, a quarter of these bytes, and its end."""
    data = text.encode()
    if len(data) <= size:
        return text
    gap = " ... "
    head = (size - len(gap)) // 4
    tail = size - len(gap) - head
    return data[:head].decode(errors="ignore") + gap + data[-tail:].decode(errors="ignore")
