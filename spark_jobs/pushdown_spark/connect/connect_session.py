"""Sessions of Spark Connect servers, which offer Spark's public API and no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException, PySparkImportError
from pyspark.sql import SparkSession

from pushdown_spark.contract import ErrorCode
from pushdown_spark.contract.versions import unsupported_spark
from pushdown_spark.errors import BadSpecError, PushdownError

_SECONDS = 10
"""The time in which a server must accept a connection. Spark's client would try for ten minutes."""


@contextmanager
def connect_session(url: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Open a session of the server at a `sc://` URL for a block, with session settings.

    Raises BadSpecError for a setting that a session cannot have, an unsupported server or missing libraries, and
    PushdownError if the server does not accept a connection.
    """
    try:
        _check_reachable(url)
        spark = SparkSession.builder.remote(url).getOrCreate()
    except (ImportError, PySparkImportError) as problem:
        raise BadSpecError(
            f'spark_python: {problem}; run pip install "pushdown-spark[spark,connect]" in its environment'
        ) from problem
    try:
        if reason := unsupported_spark(spark.version):
            raise BadSpecError(f"conn_id: the Spark Connect server: {reason}")
        for key, value in settings.items():
            try:
                spark.conf.set(key, value)
            except PySparkException as problem:
                raise BadSpecError(
                    f"conf: {key} cannot be set for a session of Spark Connect; remove it, or set it on the server"
                ) from problem
        yield spark
    finally:
        spark.stop()


def _check_reachable(url: str) -> None:
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder = DefaultChannelBuilder(url)
    channel = builder.toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=_SECONDS)
    except grpc.FutureTimeoutError as problem:
        raise PushdownError(
            f"conn_id: the Spark Connect server {builder.endpoint} did not accept a connection in {_SECONDS} seconds; "
            "start it, or correct host, port and use_ssl of the connection (a token needs TLS unless the host is "
            "localhost)",
            code=ErrorCode.SPARK,
        ) from problem
    finally:
        channel.close()
