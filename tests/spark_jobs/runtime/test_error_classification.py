"""Errors of Spark, workers and the system become codes and messages of one line."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from pushdown_spark.contract import ErrorCode, JobError, JobSpec
from pushdown_spark.errors import (
    BadSchemaError,
    BadSpecError,
    OutputExistsError,
    PushdownError,
    UnreadableFileError,
    UnsafeInputError,
)
from pushdown_spark.runtime.error_classification import MAX_TRACEBACK, classify, pushdown_error, typed_error
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles


def failure(action: Callable[[], object]) -> BaseException:
    """Return the exception of an action, which must raise."""
    try:
        action()
    except BaseException as exc:
        return exc
    pytest.fail("nothing was raised")


def classify_failure(action: Callable[[], object]) -> JobError:
    """Return the error of an action, after checks that apply to every error."""
    error = classify(failure(action))
    assert "\n" not in error.message
    assert error.message
    assert error.retryable is error.code.retryable
    assert error.traceback is not None
    assert error.traceback.startswith("Traceback (most recent call last):")
    assert len(error.traceback.encode()) <= MAX_TRACEBACK
    assert "\tat org.apache" not in error.traceback
    return error


@pytest.fixture
def truncated_file(tmp_path: Path) -> Path:
    """Write a gzip file of JSON lines that ends in the middle."""
    noise = random.Random(7).randbytes(20_000).hex()
    data = gzip.compress("".join(f'{{"a": "{noise[i : i + 40]}"}}\n' for i in range(0, 40_000, 40)).encode())
    path = tmp_path / "cut short%20.json.gz"
    path.write_bytes(data[: len(data) // 2])
    return path


def test_a_missing_path_is_named_and_can_be_retried(spark: SparkSession) -> None:
    error = classify_failure(lambda: spark.read.schema("a int").json("/nowhere/*.json"))
    assert (error.code, error.error_class) == (ErrorCode.MISSING_PATH, "PATH_NOT_FOUND")
    assert error.message == "Path does not exist: file:/nowhere/*.json."


def test_truncated_gzip_has_the_position(spark: SparkSession, truncated_file: Path) -> None:
    error = classify_failure(lambda: spark.read.schema("a string").json(str(truncated_file.parent / "cut*")).collect())
    assert error.code is ErrorCode.UNREADABLE_FILE
    assert error.message == (
        f"cannot read {truncated_file}: its compressed data ends too early at byte {truncated_file.stat().st_size}; "
        "the file is truncated"
    )


@pytest.mark.parametrize("parent", ["a file", "/proc/none"])
def test_directory_that_cannot_be_created_is_final(spark: SparkSession, tmp_path: Path, parent: str) -> None:
    (tmp_path / "a file").touch()
    path = tmp_path / parent / "out"
    for action in (
        lambda: HadoopFiles(spark).write_text(str(path), ""),
        lambda: spark.range(1).write.json(str(path)),
    ):
        error = classify_failure(action)
        assert error.code is ErrorCode.BAD_SPEC
        assert "choose a path below a directory that the job may write to" in error.message
        assert str(tmp_path / parent) in error.message


def test_a_file_that_is_not_gzip_is_unreadable(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_text("a,b\n1,2\n" * 10)
    error = classify_failure(lambda: spark.read.schema("a int").csv(str(path)).collect())
    assert error.code is ErrorCode.UNREADABLE_FILE
    assert error.message == f"cannot read {path}: it is not a gzip file, or has other bytes after its compressed data"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda spark: spark.read.schema("a int").json("s9://x/y"), 'No FileSystem for scheme "s9"; check the path'),
        (lambda spark: spark.range(1).write.format("nosuch").save("/x"), "Failed to find the data source: nosuch."),
        (
            lambda spark: spark.range(1).write.option("compression", "zip").json("/x"),
            "The codec zip is not available. Available codecs are",
        ),
        (
            lambda spark: spark.read.json("s3a://bucket/x"),
            "Spark lacks the class org.apache.hadoop.fs.s3a.S3AFileSystem; submit the job with the package or jar",
        ),
    ],
)
def test_missing_classes_are_final(spark: SparkSession, action: Callable[[SparkSession], object], message: str) -> None:
    error = classify_failure(lambda: action(spark))
    assert (error.code, error.retryable) == (ErrorCode.BAD_SPEC, False)
    assert error.message.startswith(message)


def test_predicate_parse_error_has_the_position(spark: SparkSession) -> None:
    error = classify_failure(lambda: spark.range(1).where("id > 0 AND\nid = = 4"))
    assert (error.code, error.retryable) == (ErrorCode.BAD_PREDICATE, False)
    assert error.message == "Syntax error at or near '=' (line 2, character 6, at '= 4')"


def test_predicate_with_wrong_type_is_final(spark: SparkSession) -> None:
    error = classify_failure(lambda: spark.range(1).where("id = date'2020-01-01'"))
    assert error.code is ErrorCode.BAD_PREDICATE
    assert error.message.endswith('have incompatible types ("BIGINT" and "DATE").')


def test_schema_parse_error_has_the_position(spark: SparkSession) -> None:
    error = classify_failure(lambda: spark.read.schema("a int, b strng").json("/tmp"))
    assert error.code is ErrorCode.BAD_SCHEMA
    assert error.message == "Unsupported data type \"STRNG\" (line 1, character 10, at 'strng')"


def test_typed_error_names_the_parameter(spark: SparkSession) -> None:
    problem = failure(lambda: spark.read.schema("a int b").json("/tmp"))
    error = typed_error(problem, about="schema", text_error=ErrorCode.BAD_SCHEMA)
    assert isinstance(error, BadSchemaError)
    assert str(error) == "schema: Syntax error at or near 'b' (line 1, character 7, at 'b')"

    def wrap() -> None:
        raise error from problem

    assert classify_failure(wrap).error_class == "PARSE_SYNTAX_ERROR"
    assert typed_error(error) is error
    other = typed_error(failure(lambda: spark.range(1).selectExpr("cast('x' || id AS int)").collect()))
    assert (type(other), other.code) == (PushdownError, ErrorCode.SPARK)


def test_stopped_context_is_driver_killed() -> None:
    def work() -> None:
        raise RuntimeError("Job 3 cancelled because SparkContext was shut down")

    assert classify_failure(work).code is ErrorCode.DRIVER_KILLED


def test_unknown_column_suggests_similar_names(spark: SparkSession) -> None:
    error = classify_failure(lambda: spark.range(1).where("idd = 4"))
    assert (error.code, error.message) == (ErrorCode.UNKNOWN_COLUMN, "there is no column `idd`; did you mean `id`?")


def test_member_of_an_atomic_column_is_kind_mismatch(spark: SparkSession) -> None:
    assert classify_failure(lambda: spark.range(1).select("id.x")).code is ErrorCode.KIND_MISMATCH


def test_other_analysis_error_is_final(spark: SparkSession) -> None:
    error = classify_failure(
        lambda: spark.range(1).write.format("noop").partitionBy("x").mode("append").saveAsTable("a.b.c.d")
    )
    assert (error.code, error.retryable) == (ErrorCode.BAD_SPEC, False)


def test_an_existing_output_is_final(spark: SparkSession, tmp_path: Path) -> None:
    error = classify_failure(lambda: spark.range(1).write.parquet(str(tmp_path)))
    assert (error.code, error.retryable) == (ErrorCode.OUTPUT_EXISTS, False)


def test_bad_data_in_spark_is_one_sentence(spark: SparkSession) -> None:
    error = classify_failure(lambda: spark.range(1).selectExpr("cast('x' || id AS int)").collect())
    assert (error.code, error.error_class) == (ErrorCode.SPARK, "CAST_INVALID_INPUT")
    assert error.message.startswith('The value \'x0\' of the type "STRING" cannot be cast to "INT"')


def test_failing_python_function_has_its_own_traceback(spark: SparkSession) -> None:
    @udf("int")
    def boom(value):
        raise ValueError(f"bad value {value}\nsecond line")

    error = classify_failure(lambda: spark.range(1).select(boom("id")).collect())
    assert (error.code, error.error_class) == (ErrorCode.SPARK, "PYTHON_EXCEPTION")
    assert error.message.startswith("a Python worker failed: ")
    assert error.traceback is not None
    assert "in boom" in error.traceback
    assert "SQLSTATE" not in error.traceback


def test_long_traceback_is_truncated_in_the_middle(spark: SparkSession) -> None:
    @udf("int")
    def boom(value):
        raise ValueError("long " * 10_000 + "end")

    error = classify_failure(lambda: spark.range(1).select(boom("id")).collect())
    assert error.traceback is not None
    assert error.traceback.endswith("end")
    assert len(error.message) <= 1000


def test_error_of_a_worker_keeps_code_and_message(spark: SparkSession) -> None:
    @udf("int")
    def unsafe(value):
        raise UnsafeInputError(f"/data/ü.json at byte {value}: invalid UTF-8")

    problem = failure(lambda: spark.range(1).select(unsafe("id")).collect())
    actual = pushdown_error(problem)
    assert isinstance(actual, UnsafeInputError)
    assert str(actual) == "/data/ü.json at byte 0: invalid UTF-8"
    error = classify(problem)
    assert (error.code, error.message) == (ErrorCode.UNSAFE_INPUT, str(actual))
    assert error.traceback is not None
    assert "in unsafe" in error.traceback


def test_a_killed_python_worker_can_be_retried(spark: SparkSession) -> None:
    @udf("int")
    def die(value):
        os.kill(os.getpid(), signal.SIGKILL)
        return value

    error = classify_failure(lambda: spark.range(1).select(die("id")).collect())
    assert (error.code, error.retryable) == (ErrorCode.WORKER_KILLED, True)


def test_a_full_disk_of_a_worker_has_a_code_of_its_own(spark: SparkSession) -> None:
    @udf("int")
    def fill(value):
        with Path("/dev/full").open("wb") as full:
            full.write(b"x")
        return value

    assert classify_failure(lambda: spark.range(1).select(fill("id")).collect()).code is ErrorCode.DISK_FULL


def test_a_full_disk_of_the_driver_has_a_code_of_its_own(spark: SparkSession) -> None:
    stream = spark.sparkContext._jvm.java.io.FileOutputStream("/dev/full")
    assert classify_failure(lambda: stream.write(1)).code is ErrorCode.DISK_FULL
    assert classify_failure(lambda: Path("/dev/full").write_text("x")).code is ErrorCode.DISK_FULL


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of one megabyte. Skip the test if the machine does not allow it."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("mounting a small file system takes more rights than this user has")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_during_a_write_says_what_to_do(spark: SparkSession, small_disk: Path) -> None:
    frame = spark.range(200_000).selectExpr("uuid() AS noise")
    error = classify_failure(lambda: frame.write.csv(str(small_disk / "out")))
    assert error.code is ErrorCode.DISK_FULL
    assert "free some" in error.message


LOST_DRIVER = """
import os, signal
from pyspark.sql import SparkSession
from pushdown_spark.runtime.error_classification import classify

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
os.kill(pid, signal.SIGKILL)
try:
    spark.range(1).collect()
except Exception as exc:
    print("code:", classify(exc).code.value)
"""


@pytest.mark.starts
def test_a_killed_jvm_is_driver_killed() -> None:
    root = str(Path(__file__).resolve().parents[3] / "spark_jobs")
    environment = {**os.environ, "PYTHONPATH": root}
    process = subprocess.run([sys.executable, "-c", LOST_DRIVER], env=environment, capture_output=True, text=True)
    assert "code: driver_killed" in process.stdout.splitlines()


def test_interrupt_is_driver_killed() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    assert classify_failure(stop).code is ErrorCode.DRIVER_KILLED


def test_a_pushdown_error_inside_an_error_of_spark_keeps_its_code() -> None:
    def wrap() -> None:
        try:
            raise PushdownError("conf: unsafe", code=ErrorCode.UNSAFE_SETTING)
        except PushdownError as exc:
            raise RuntimeError("wrapped") from exc

    error = classify_failure(wrap)
    assert (error.code, error.message, error.retryable) == (ErrorCode.UNSAFE_SETTING, "conf: unsafe", False)
    assert pushdown_error(UnreadableFileError("x")) is not None
    assert pushdown_error(ValueError("pushdown_spark.errors.NoSuchError: x")) is None


def test_invalid_spec_names_the_field_without_its_value() -> None:
    spec = {"run_key": "r", "sources": {"s": {"format": "jsonx", "path": ["secret-place"]}}, "query": {"source": "s"}}
    error = classify_failure(lambda: JobSpec.model_validate(spec))
    assert error.code is ErrorCode.BAD_SPEC
    assert error.message.startswith("the job spec is not valid: sources.s.format: Input should be 'json'")
    assert "secret-place" not in error.message


def test_own_errors_have_no_error_class() -> None:
    """Airflow shows the name of its exception before the message, so that an error class would appear twice."""
    error = classify(OutputExistsError("output: /x exists already"))
    assert (error.code, error.error_class, error.message) == (
        ErrorCode.OUTPUT_EXISTS,
        None,
        "output: /x exists already",
    )


def test_unexpected_error_is_internal() -> None:
    error = classify_failure(lambda: {}["x"])
    assert (error.code, error.message) == (ErrorCode.INTERNAL, "KeyError: 'x'")


def test_outermost_own_error_takes_precedence() -> None:
    def wrap() -> None:
        try:
            raise UnreadableFileError("inner")
        except UnreadableFileError as exc:
            raise BadSpecError("outer") from exc

    assert classify_failure(wrap).message == "outer"
