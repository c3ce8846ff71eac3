"""Fixtures of all tests: an Airflow home, set before Airflow is imported, and the Spark session."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from databases import NoServerError, Server, mariadb, mysql, postgresql
from hypothesis import settings
from nightly_cases import (  # noqa: F401
    pytest_collection_modifyitems,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

from e2e import jvm

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = pytest.StashKey[dict[str, str]]()

os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm.jvm_options(ROOT / ".venv-spark"))

if find_spec("airflow") is not None:
    home = tempfile.mkdtemp(prefix="airflow-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ.update(
        AIRFLOW_HOME=home,
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{home}/airflow.db",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Use the same Hypothesis examples in each run. Only nightly runs try new ones."""
    settings.register_profile("repeated", derandomize=True)
    if config.option.markexpr != "nightly":
        settings.load_profile("repeated")


@pytest.fixture(scope="session")
def project() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the Spark session of all tests: local, two cores, UTC. Its workers can import `pushdown_spark`."""
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), str(ROOT / "spark_jobs"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    # Every error that a test expects would be logged with the whole stack of Spark's: half of what it costs.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    session = (
        SparkSession.builder.master("local[2]")
        .appName("airflow_pushdown tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    request.config.stash[SETTINGS] = session.conf.getAll
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def _settings_of_the_session(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if a module changes settings of the shared session, because later tests would use them."""
    yield
    if SETTINGS not in request.config.stash:
        return
    from pyspark.errors import SparkNoSuchElementException
    from pyspark.sql import SparkSession

    session, before = SparkSession.getActiveSession(), request.config.stash[SETTINGS]
    if session is None:
        return

    def value_of(key: str) -> str | None:
        # With a default value, Spark does not return its own.
        try:
            return session.conf.get(key)
        except SparkNoSuchElementException:
            return None

    after = session.conf.getAll
    left = {}
    for key in sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)):
        value = value_of(key)
        session.conf.set(key, before[key]) if key in before else session.conf.unset(key)
        if value_of(key) != value:
            left[key] = value
    assert not left, f"{request.module.__name__} did not restore settings: {left}"


@pytest.fixture(scope="session")
def spark_python() -> str:
    """Return the Python of the Spark environment: the operators' choice, or the one that `make` installs."""
    python = os.environ.get("AIRFLOW_PUSHDOWN_SPARK_PYTHON") or str(ROOT / ".venv-spark" / "bin" / "python")
    if not Path(python).is_file():
        pytest.fail("set AIRFLOW_PUSHDOWN_SPARK_PYTHON to the Python of the Spark environment, or run `make install`")
    return python


@pytest.fixture
def local_spark(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the default connection id, which is set to a Spark with one core on this machine."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]", "extra": {"deploy-mode": "client"}}'
    )
    return "spark_default"


@pytest.fixture(scope="session")
def register_dag() -> Callable[[DAG], None]:
    """Return a function that adds a DAG to the test run's database, which `DAG.test` requires."""
    try:
        from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    except ImportError:  # before Airflow 3.2
        from airflow.models.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()

    def register(dag: DAG) -> None:
        with create_session() as session:
            session.merge(DagBundleModel(name="tests"))
        bag = DagBag(dag_folder=os.devnull)
        bag.bag_dag(dag)
        sync_bag_to_db(bag, bundle_name="tests", bundle_version="1")

    return register


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    """Run a PostgreSQL server for this test run."""
    yield from _serving(postgresql)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Server]:
    """Run a MariaDB server for this test run."""
    yield from _serving(mariadb)


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[Server]:
    """Run a MySQL server for this test run."""
    yield from _serving(mysql)


def _serving(start: Callable[[], AbstractContextManager[Server]]) -> Iterator[Server]:
    """Yield a server. Skip the test with installation advice if its programs are missing."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except NoServerError as problem:
            pytest.skip(str(problem))
        yield server
