"""Drivers on YARN whose resource manager does not respond."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from standalone_master import SPEC, MakeHook

from airflow_pushdown.clusters.yarn import TAGS_KEY
from airflow_pushdown.exceptions import SubmitFailedError
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.spark_submit.processes import JobProcess, session_members
from e2e.ports import HOST, free_port
from pushdown_spark.contract import SecretValues


@pytest.fixture
def make_yarn_hook(spark_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeHook:
    """Return a function that makes a hook for a try, with a resource manager that does not respond."""
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": f"http://{HOST}:{free_port()}"}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps(connection))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    def make(
        try_number: int, *, is_polled: bool = True, exchange_dir: Path = tmp_path, **options: str
    ) -> PushdownSubmitHook:
        submission = Submission(
            spec=SPEC, spark_python=spark_python, exchange_dir=str(exchange_dir), try_number=try_number
        )
        hook = PushdownSubmitHook.open(submission, conn_id="yarn", **options)
        assert not is_polled or hook.track_application()
        return hook

    return make


@pytest.mark.parametrize("is_polled", [True, False])
def test_a_retry_submits_nothing_while_it_is_not_known_whether_an_earlier_driver_runs(
    make_yarn_hook: MakeHook, is_polled: bool
) -> None:
    retry = make_yarn_hook(2, is_polled=is_polled)
    with pytest.raises(
        SubmitFailedError, match=r"of an earlier try may still run, and no other was submitted: http"
    ) as it:
        retry.submit()
    assert "check that workers reach the cluster manager" in str(it.value)
    assert retry.exchange.read_spec() is None


def test_the_deployments_of_airflow_on_one_cluster_tag_their_drivers_differently(
    make_yarn_hook: MakeHook, tmp_path: Path
) -> None:
    (tmp_path / "staging").mkdir()
    tags = [
        make_yarn_hook(number, exchange_dir=tmp_path / directory)._conf[TAGS_KEY]
        for number, directory in ((1, "."), (2, "."), (1, "staging"))
    ]
    assert tags[0] == tags[1] != tags[2]


def test_a_kill_without_access_to_the_cluster_ends_spark_submit(
    make_yarn_hook: MakeHook, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package for Kerberos is not installed here."""
    hook = make_yarn_hook(1, is_polled=False, keytab="/airflow.keytab", principal="airflow")
    sessions: list[int] = []

    def kill(process: JobProcess) -> None:
        sessions.append(process.session)
        killer.start()

    killer = threading.Thread(target=hook.on_kill)
    hook._job.run(["sleep", "600"], {"PATH": os.defpath}, (), on_start=kill)
    killer.join()
    assert session_members(sessions[0]) == []
    assert "may still run on the cluster: conn_id: the connection uses Kerberos" in capsys.readouterr().out


def test_files_of_an_earlier_try_show_that_its_driver_may_run(make_yarn_hook: MakeHook) -> None:
    first = make_yarn_hook(1)
    assert first._tagged_earlier_drivers() == []
    first.exchange.prepare(SPEC, SecretValues())
    with pytest.raises(SubmitFailedError, match="of an earlier try may still run"):
        make_yarn_hook(1)._tagged_earlier_drivers()
    first.exchange.discard()
