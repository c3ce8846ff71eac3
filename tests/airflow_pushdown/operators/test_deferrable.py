"""The parameter `deferrable`, and the settings with which OpenLineage's Spark listener finds the task of a job."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from airflow.sdk import DAG, Context
from airflow_versions import stores_driver_ids

from airflow_pushdown.clusters.yarn import WAIT_KEY
from airflow_pushdown.exceptions import ConfigError, config_error
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.operators import PushdownScanOperator

START = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER = '{"conn_type": "spark", "host": "spark://nowhere", "port": 7077, "extra": {"deploy-mode": "cluster"}}'


@pytest.fixture(autouse=True)
def _installation(monkeypatch: pytest.MonkeyPatch, spark_python: str) -> None:
    monkeypatch.setenv("AIRFLOW_PUSHDOWN_SPARK_PYTHON", spark_python)


def hook_of(**parameters: object) -> PushdownSubmitHook:
    operator = PushdownScanOperator(task_id="scan", path="/in", format="csv", **parameters)
    operator._submission = Submission(spec=operator.build_spec("k"), exchange_dir=operator.exchange_dir)
    return operator._get_hook()


def test_deploy_mode_client_is_an_error_when_the_dag_is_parsed() -> None:
    with pytest.raises(ConfigError, match=r"deferrable: only a driver on a cluster.*deploy_mode is client"):
        PushdownScanOperator(task_id="scan", path="/in", format="csv", deferrable=True, deploy_mode="client")


def test_deferring_with_an_authentication_object_is_an_error() -> None:
    with pytest.raises(ConfigError, match="yarn_rm_auth"):
        PushdownScanOperator(task_id="scan", path="/in", format="csv", deferrable=True, yarn_rm_auth=object())


@pytest.mark.usefixtures("local_spark")
def test_a_connection_with_deploy_mode_client_is_an_error_when_the_task_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    task = PushdownScanOperator(task_id="scan", path="/in", format="csv", deferrable=True)
    ti = SimpleNamespace(dag_id="d", task_id="scan", run_id="r", map_index=-1, xcom_push=lambda **_link: None)
    with pytest.raises(ConfigError, match="deploy mode of the connection 'spark_default' is client"):
        task.execute({"ti": ti})  # type: ignore[typeddict-item]
    # The cache of the program has the number of the user in its name.
    assert list(tmp_path.glob("airflow-pushdown-????????")) == []


@pytest.mark.parametrize(("value", "is_deferred"), [(None, True), (True, True), (False, False)])
def test_tasks_defer_by_default_if_airflows_setting_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: bool | None, is_deferred: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", CLUSTER)
    assert hook_of(conn_id="cluster", exchange_dir=str(tmp_path), deferrable=value).is_deferred is is_deferred


@pytest.mark.usefixtures("local_spark")
def test_default_deferrable_does_not_apply_in_deploy_mode_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert not hook_of().is_deferred


@stores_driver_ids
@pytest.mark.parametrize(
    ("extra", "conf", "is_polled"),
    [
        ({"yarn_resourcemanager_webapp_address": "http://manager:8088"}, {}, True),
        ({}, {}, False),
        ({"yarn_resourcemanager_webapp_address": "http://manager:8088"}, {WAIT_KEY: "true"}, False),
        ({"yarn_resourcemanager_webapp_address": "http://manager:8088"}, {WAIT_KEY: "false"}, True),
        ({}, {WAIT_KEY: "false"}, False),
    ],
    ids=["address", "no address", "spark-submit waits", "spark-submit does not wait", "nothing could wait"],
)
def test_a_task_polls_its_application_on_yarn_if_it_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extra: dict[str, str], conf: dict[str, str], is_polled: bool
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster", **extra}}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))
    operator = PushdownScanOperator(
        task_id="scan", path="/in", format="csv", conn_id="cluster", conf=conf, exchange_dir=str(tmp_path)
    )
    operator._submission = Submission(spec=operator.build_spec("k"), exchange_dir=operator.exchange_dir)
    hook = operator._get_hook()
    # The provider's operator refuses a durable task whose application it cannot poll.
    assert (hook.drivers() is not None, operator.durable) == (is_polled, is_polled)
    hook.wait_in_spark_submit()
    assert hook._conf.get(WAIT_KEY) == (conf.get(WAIT_KEY) if is_polled else "true")


class Command(PushdownScanOperator):
    """A scan operator that keeps its settings and OpenLineage's id of its run, and fails before it submits."""

    settings: ClassVar[dict[str, str]] = {}
    run_id: ClassVar[str] = ""

    def execute(self, context: Context) -> dict[str, object]:
        macros = pytest.importorskip("airflow.providers.openlineage.plugins.macros")
        type(self).run_id = macros.lineage_run_id(context["ti"])
        return super().execute(context)

    def _get_hook(self) -> PushdownSubmitHook:
        words = super()._get_hook()._build_spark_submit_command("job.py")
        entries = (words[at + 1].partition("=") for at, word in enumerate(words) if word == "--conf")
        type(self).settings = {key: value for key, _, value in entries}
        raise config_error("conn_id: this test submits nothing")


@pytest.mark.usefixtures("local_spark")
def test_openlineage_finds_the_task_and_the_run_of_a_job(register_dag: Callable[[DAG], None]) -> None:
    with DAG("lineage_parent", schedule=None, start_date=START) as dag:
        Command(task_id="scan", path="/in", format="csv", openlineage_inject_parent_job_info=True)
    register_dag(dag)
    assert dag.test(logical_date=START).state == "failed"
    settings = {key.removeprefix("spark.openlineage."): value for key, value in Command.settings.items()}
    assert settings["parentJobName"] == "lineage_parent.scan"
    assert settings["parentJobNamespace"] == "default"
    assert settings["parentRunId"] == Command.run_id
    assert settings["rootParentJobName"] == "lineage_parent"
    assert settings["rootParentRunId"] != Command.run_id
