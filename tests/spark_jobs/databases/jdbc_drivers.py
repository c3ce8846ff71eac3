"""The JDBC drivers of the tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pushdown_spark.contract import ErrorCode
from pushdown_spark.databases.read.jdbc import DRIVERS
from pushdown_spark.databases.sql.remote_table import Dialect
from pushdown_spark.runtime.error_classification import classify

KINDS = ("postgresql", "mariadb", "mysql", "mysql by its own driver")
OWN_DRIVER = DRIVERS[Dialect.MYSQL][-1]
NEEDS_DRIVERS = [pytest.mark.nightly, pytest.mark.usefixtures("drivers")]


def error_of(read: Callable[[], object]) -> tuple[ErrorCode, str]:
    with pytest.raises(Exception) as problem:  # noqa: PT011 -- what Spark makes of an executor's error is not ours
        read()
    error = classify(problem.value)
    return error.code, error.message
