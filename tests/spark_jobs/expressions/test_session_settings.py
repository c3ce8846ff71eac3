"""Session settings are read once for a query, and each query sees their current values."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pushdown_spark.expressions.session_settings import setting, shared_settings, temporary_settings
from pushdown_spark.session import PushdownSession

KEY = "spark.sql.caseSensitive"


def test_a_block_keeps_the_value_that_it_has_read_first(spark: SparkSession) -> None:
    with shared_settings():
        assert setting(spark, KEY, "false") == "false"
        spark.conf.set(KEY, "true")
        try:
            assert setting(spark, KEY, "false") == "false"
            with shared_settings():
                assert setting(spark, KEY, "false") == "true"
        finally:
            spark.conf.unset(KEY)


def test_temporary_settings_hold_within_a_block(spark: SparkSession) -> None:
    with shared_settings():
        assert setting(spark, KEY, "false") == "false"
        with temporary_settings(spark, {KEY: "true"}):
            assert setting(spark, KEY, "false") == "true"
        assert setting(spark, KEY, "false") == "false"


def test_sessions_of_one_application_have_their_own_values(spark: SparkSession) -> None:
    other = spark.newSession()
    with shared_settings():
        assert setting(spark, KEY, "false") == "false"
        other.conf.set(KEY, "true")
        assert setting(other, KEY, "false") == "true"


def test_each_query_of_a_session_sees_the_current_settings(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT '1' AS text, 2 AS n").write.parquet(str(tmp_path / "t"))
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path / "t"), format="parquet", reader="auto")

    def reason() -> str:
        return session.scan("t", where="n = 2").report()["t"].reason

    before = reason()
    with temporary_settings(spark, {"spark.sql.parquet.int96AsTimestamp": "false"}):
        assert "int96AsTimestamp" in reason()
    assert reason() == before
