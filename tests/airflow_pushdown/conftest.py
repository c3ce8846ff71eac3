"""Fixtures of several directories: a standalone master, and hooks that submit to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from standalone_master import SECRETS, SPEC, START_SECONDS, MakeHook, connect, is_active, start_master

from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from e2e.ports import HOST, free_port
from e2e.processes import Programs, wait_for
from pushdown_spark.contract.progress import Progress


@pytest.fixture(scope="session")
def drivers(spark_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneDrivers]:
    """Run a Spark master with a REST server, and return its drivers."""
    programs = Programs(tmp_path_factory.mktemp("master"), dict(os.environ))
    try:
        cluster = StandaloneDrivers([start_master(programs, spark_python, HOST, free_port())])
        wait_for("the Spark master", lambda: is_active(cluster), START_SECONDS, programs.check)
        yield cluster
    finally:
        programs.stop()


@pytest.fixture
def make_hook(
    drivers: StandaloneDrivers, spark_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeHook:
    """Return a function that makes a hook for the cluster."""
    connect(monkeypatch, drivers.settings()["addresses"])  # type: ignore[arg-type]

    def make(
        generation: str = "",
        on_progress: Callable[[Progress], None] | None = None,
        try_number: int = 1,
        leaves_driver: Callable[[], bool] | None = None,
        **options: object,
    ) -> PushdownSubmitHook:
        submission = Submission(
            spec=SPEC.model_copy(update={"generation": generation}),
            secrets=SECRETS,
            spark_python=spark_python,
            exchange_dir=str(tmp_path),
            on_progress=on_progress,
            leaves_driver=leaves_driver,
            try_number=try_number,
        )
        return PushdownSubmitHook.open(submission, conn_id="cluster", **options)  # type: ignore[arg-type]

    return make
