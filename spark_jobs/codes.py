"""What can go wrong, as codes; apart from the contract, so that Python workers need not load pydantic."""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """What went wrong, coarse enough to decide whether to try again."""

    BAD_SPEC = "bad_spec"
    UNKNOWN_COLUMN = "unknown_column"
    KIND_MISMATCH = "kind_mismatch"
    BAD_PREDICATE = "bad_predicate"
    BAD_SCHEMA = "bad_schema"
    UNSAFE_SETTING = "unsafe_setting"
    MISSING_PATH = "missing_path"
    OUTPUT_EXISTS = "output_exists"
    OUTPUT_CONFLICT = "output_conflict"
    CHECK_FAILED = "check_failed"
    UNREADABLE_FILE = "unreadable_file"
    SCHEMA_CONFLICT = "schema_conflict"
    UNSAFE_INPUT = "unsafe_input"
    REMOTE_REFUSED = "remote_refused"
    REMOTE_FAILED = "remote_failed"
    DISK_FULL = "disk_full"
    WORKER_KILLED = "worker_killed"
    DRIVER_KILLED = "driver_killed"
    SUBMIT_FAILED = "submit_failed"
    SPARK = "spark"
    INTERNAL = "internal"

    @property
    def retryable(self) -> bool:
        """Whether the same task, run again unchanged, could succeed."""
        return self not in _FINAL_CODES


_FINAL_CODES = frozenset(
    {
        ErrorCode.BAD_SPEC,
        ErrorCode.UNKNOWN_COLUMN,
        ErrorCode.KIND_MISMATCH,
        ErrorCode.BAD_PREDICATE,
        ErrorCode.BAD_SCHEMA,
        ErrorCode.UNSAFE_SETTING,
        ErrorCode.OUTPUT_EXISTS,
        ErrorCode.OUTPUT_CONFLICT,
        ErrorCode.CHECK_FAILED,
        ErrorCode.SCHEMA_CONFLICT,
        ErrorCode.REMOTE_REFUSED,
    }
)
