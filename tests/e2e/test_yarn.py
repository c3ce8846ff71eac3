"""Jobs on a real YARN and HDFS: both deploy modes, credentials, kills, and what remains afterward."""

from __future__ import annotations

import getpass
import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow.sdk.io import get_fs
from cryptography.fernet import Fernet
from packable import packable_environment
from store_servers import AZURE_ACCOUNT, AZURE_KEY, azurite, run_program  # type: ignore[import-not-found]

from airflow_pushdown.clusters.drivers import DriverPhase
from airflow_pushdown.clusters.yarn import YarnDrivers
from airflow_pushdown.environment_archive import environment_archive
from airflow_pushdown.exceptions import (
    ConfigError,
    DriverKilledError,
    PushdownTaskError,
    SubmitFailedError,
    exception_for,
)
from airflow_pushdown.exchange.exchange import Exchange, ExchangeLocation
from airflow_pushdown.exchange.webhdfs import open_webhdfs
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.spark_submit.application import Application
from e2e.ports import HOST, free_port
from e2e.processes import Programs, wait_for
from pushdown_spark.contract import JobSpec, OutputSpec, QuerySpec, SecretValues, SourceSpec
from pushdown_spark.contract.encryption import KEY_ALIAS, KEY_VARIABLE

pytest.importorskip("hadoop_jars", reason="PYTHONPATH does not have the directory of the tests")
from hadoop_jars import httpfs_jars  # type: ignore[import-not-found]

from e2e.hadoop import HadoopCluster, server_jars
from e2e.yarn import store_key

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

SECRET = "hush-hush-3"
SECRETS = SecretValues(hadoop={"fs.s3a.secret.key": SECRET})
SECONDS = 300.0
IVY = Path(__file__).resolve().parents[2] / ".cache" / "ivy"
Submit = Callable[..., PushdownSubmitHook]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark_python: str) -> Iterator[HadoopCluster]:
    java = Path(os.environ["JAVA_HOME"])
    run = tmp_path_factory.mktemp("yarn")
    programs = Programs(run, dict(os.environ))
    try:
        cluster = HadoopCluster(programs, run, java / "bin" / "java", server_jars(Path(spark_python).parents[1]))
        cluster.start()
        yield cluster
    finally:
        programs.stop()


@pytest.fixture(scope="module")
def httpfs_address(cluster: HadoopCluster, spark_python: str) -> str:
    return cluster.start_httpfs(httpfs_jars(Path(spark_python).parents[1]))


@pytest.fixture
def httpfs(httpfs_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the id of a connection to an HttpFS server."""
    host, _, port = httpfs_address.partition(":")
    connection = {"conn_type": "webhdfs", "host": host, "port": int(port), "login": getpass.getuser()}
    monkeypatch.setenv("AIRFLOW_CONN_HTTPFS", json.dumps(connection))
    return "httpfs"


@pytest.fixture(scope="module")
def key() -> str:
    return Fernet.generate_key().decode()


@pytest.fixture(scope="module")
def provider(cluster: HadoopCluster, key: str) -> str:
    """Store the key in a credential provider on HDFS, which only its owner can read. Return its path."""
    return store_key(cluster.programs, cluster, key)


@pytest.fixture
def submission(
    cluster: HadoopCluster, spark_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> Iterator[Submit]:
    """Return a function that makes the hook of a small job. Every application must have ended afterward."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv(KEY_VARIABLE, key)
    lines = tmp_path / "lines.json"
    lines.write_text("".join(f'{{"k": {number}}}\n' for number in range(1000)))
    source = {"format": "json", "path": [lines.as_uri()], "schema": "k int", "reader": "pushdown"}
    jars = next(Path(spark_python).parents[1].glob("lib/python3.*/site-packages/pyspark/jars"))

    def make(
        mode: str,
        conf: dict[str, str] | None = None,
        on_started: Callable[[Application], None] | None = None,
        exchange_dir: str = f"{cluster.root}/exchange",
        exchange_conn_id: str | None = None,
        on_submitted: Callable[[str], None] | None = None,
        output: str = "out",
        **options: object,
    ) -> PushdownSubmitHook:
        monkeypatch.setenv(
            "AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": mode}})
        )
        spec = JobSpec(
            run_key=str(tmp_path),
            sources={"lines": SourceSpec.model_validate(source)},
            query=QuerySpec(source="lines", where="k = 77"),
            output=OutputSpec(path=f"{cluster.root}/{output}{tmp_path}"),
        )
        return PushdownSubmitHook.open(
            Submission(
                spec=spec,
                secrets=SECRETS,
                spark_python=spark_python,
                exchange_dir=exchange_dir,
                exchange_conn_id=exchange_conn_id,
                on_started=on_started,
                on_submitted=on_submitted,
            ),
            conn_id="yarn",
            conf={
                "spark.yarn.jars": f"local:{jars}/*",
                "spark.executor.instances": "1",
                "spark.executor.memory": "512m",
                "spark.driver.memory": "512m",
                **(conf or {}),
            },
            **options,
        )

    yield make
    assert cluster.running_applications() == frozenset()
    assert cluster.files("/exchange") == []


def with_provider(path: str) -> dict[str, str]:
    return {"spark.hadoop.hadoop.security.credential.provider.path": path}


def finish(hook: PushdownSubmitHook, check: Callable[[], None] = lambda: None) -> None:
    """Run the job to its end, call `check` before the task reads the result, and check the rows."""
    try:
        hook.submit()
        check()
        result = hook.collect()
    finally:
        hook.release()
    assert result.error is None, result.error
    assert result.rows == 1
    assert (result.application_id or "").startswith("application_")
    assert [source.reader for source in result.sources.values()] == ["pushdown"]


def test_no_driver_is_found_for_a_run_without_one(cluster: HadoopCluster) -> None:
    drivers = YarnDrivers([cluster.http])
    for only_active in (True, False):
        assert drivers.find("airflow-pushdown-none", only_active=only_active) == []
    assert drivers.status("application_1_0001").phase is DriverPhase.MISSING


def test_a_reader_of_the_exchange_sees_whole_files(cluster: HadoopCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
    writer, reader = (
        Exchange.open_shared(ExchangeLocation(f"{cluster.root}/exchange", "read while written")) for _ in range(2)
    )
    lines = SourceSpec.model_validate({"format": "json", "path": ["/lines"]})
    specs = [
        JobSpec(run_key=run_key, sources={"lines": lines}, query=QuerySpec(source="lines"))
        for run_key in ("short", "long" * 100)
    ]
    contents: list[JobSpec | None] = []
    end = threading.Event()

    def read() -> None:
        while not end.is_set():
            contents.append(reader.read_spec())

    writer.prepare(specs[0], SecretValues())
    thread = threading.Thread(target=read)
    thread.start()
    for number in range(200):
        writer.prepare(specs[number % 2], SecretValues())
    end.set()
    thread.join()
    writer.discard()
    assert {None if spec is None else spec.run_key for spec in contents} == {spec.run_key for spec in specs}
    assert cluster.files("/exchange") == []


def test_the_directory_of_a_run_has_the_permissions_of_the_exchange(
    cluster: HadoopCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
    system = open_webhdfs(cluster.root, None)
    system.mkdir("/shared")
    system.chmod("/shared", "770")
    exchange = Exchange.open_shared(ExchangeLocation(f"{cluster.root}/shared", "run"))
    exchange.take_over(1)
    assert [directory["permission"] for directory in system.ls("/shared", detail=True)] == ["770"]
    exchange.discard()
    assert system.ls("/shared") == []


def test_files_are_replaced_read_and_deleted_over_httpfs(
    cluster: HadoopCluster, httpfs: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_PUSHDOWN_EXCHANGE_KEY", key)
    system = open_webhdfs(cluster.root, httpfs)
    system.mkdir("/gateway")
    system.chmod("/gateway", "770")

    def names(directory: str) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in system.ls(directory, detail=False))

    exchange = Exchange.open_shared(ExchangeLocation(f"{cluster.root}/gateway", "run", httpfs))
    lines = SourceSpec.model_validate({"format": "json", "path": ["/lines"]})
    for run_key in ("long" * 1000, "short"):
        exchange.prepare(JobSpec(run_key=run_key, sources={"lines": lines}, query=QuerySpec(source="lines")), SECRETS)
        spec = exchange.read_spec()
        assert spec is not None
        assert spec.run_key == run_key
    assert exchange.read_result() is None
    (directory,) = names("/gateway")
    assert system.info(f"/gateway/{directory}")["permission"] == "770"
    assert names(f"/gateway/{directory}") == ["secrets.json", "spec.json"]
    exchange.discard()
    assert names("/gateway") == []


def test_a_user_without_permission_is_named_over_httpfs(
    cluster: HadoopCluster, httpfs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_webhdfs(cluster.root, httpfs).mkdir("/closed")
    connection = json.loads(os.environ["AIRFLOW_CONN_HTTPFS"])
    monkeypatch.setenv("AIRFLOW_CONN_HTTPFS", json.dumps({**connection, "login": "stranger"}))
    with pytest.raises(SubmitFailedError, match=r"user=stranger.*check exchange_conn_id"):
        Exchange.open_shared(ExchangeLocation(f"{cluster.root}/closed", "run", httpfs)).take_over(1)


def test_a_task_reaches_the_exchange_of_its_job_over_httpfs(submission: Submit, provider: str, httpfs: str) -> None:
    finish(submission("cluster", with_provider(provider), exchange_conn_id=httpfs))


def test_a_job_exchanges_its_files_through_an_azure_store(
    submission: Submit,
    provider: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The server has no TLS, so the scheme is `abfs`."""
    pytest.importorskip("airflow.providers.microsoft.azure", reason="installed by `make stores` alone")
    port, host, container = free_port(), f"{AZURE_ACCOUNT}.dfs.core.windows.net", "lake"
    account = f"AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};BlobEndpoint=http://{HOST}:{port}/{AZURE_ACCOUNT}"
    connection = {"connection_string": f"DefaultEndpointsProtocol=http;{account};"}
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"conn_type": "adls", "extra": connection}))
    hadoop = {
        f"spark.hadoop.fs.azure.account.key.{host}": AZURE_KEY,
        "spark.hadoop.fs.azure.abfs.endpoint": f"{HOST}:{port}",
        "spark.hadoop.fs.azure.always.use.https": "false",
        "spark.hadoop.fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        # The emulator has the protocol of accounts without a hierarchical namespace.
        "spark.hadoop.fs.azure.account.hns.enabled": "false",
        "spark.hadoop.fs.azure.fns.account.service.type": "BLOB",
    }
    (tmp_path / "store").mkdir()
    with run_program(azurite(port), port, tmp_path / "store"):
        system = get_fs("abfs", "store")
        system.mkdir(container)

        def files() -> list[str]:
            system.invalidate_cache()
            return [path.partition(".")[2] for path in system.find(container)]

        def check_files() -> None:
            assert "spec.json" in files()
            assert "secrets.json" not in files()

        hook = submission(
            "cluster",
            {**with_provider(provider), **hadoop, "spark.jars.ivy": str(IVY)},
            exchange_dir=f"abfs://{container}@{host}/exchange",
            exchange_conn_id="store",
            packages="org.apache.hadoop:hadoop-azure:3.5.0",
            exclude_packages="com.microsoft.azure:azure-storage",
        )
        finish(hook, check_files)
        assert files() == []
    output = capfd.readouterr()
    for secret in (SECRET, AZURE_KEY):
        assert secret not in output.out + output.err


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_job_writes_its_rows_and_shows_no_secret(
    submission: Submit, cluster: HadoopCluster, provider: str, key: str, mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pages: list[Application] = []
    finish(submission(mode, with_provider(provider), pages.append))
    output = capfd.readouterr()
    logs = cluster.logs() if mode == "cluster" else ""
    for secret in (SECRET, key):
        assert secret not in output.out + output.err + logs
    if mode == "cluster":
        assert {f"/proxy/{page.application_id}/" in str(page.ui) for page in pages} == {True}


def test_a_driver_decrypts_with_the_key_in_its_machines_environment(submission: Submit, key: str) -> None:
    # The test's node managers have no such variable, so the setting stands for their environment.
    finish(submission("cluster", {f"spark.yarn.appMasterEnv.{KEY_VARIABLE}": key}))


def test_a_driver_without_the_key_fails_and_names_the_ways_to_pass_it(submission: Submit) -> None:
    hook = submission("cluster")
    hook.submit()
    result = hook.collect()
    assert result.error is not None
    error = exception_for(result.error)
    assert isinstance(error, ConfigError)
    for way in ("secretKeyRef", KEY_ALIAS, KEY_VARIABLE):
        assert way in str(error)


def test_a_packed_environment_runs_the_driver_and_the_executors(
    submission: Submit, provider: str, spark_python: str, tmp_path: Path
) -> None:
    archive = environment_archive(packable_environment(spark_python, tmp_path / "copy"), tmp_path / "cache")
    python = {"PYSPARK_PYTHON": "./environment/bin/python"}
    finish(submission("cluster", with_provider(provider), archives=f"{archive.as_uri()}#environment", env_vars=python))


def test_an_application_is_polled_after_spark_submit_has_ended(submission: Submit, provider: str) -> None:
    hook = submission("cluster", with_provider(provider), yarn_track_via_rm_api=True)
    try:
        hook.submit()
        hook._start_yarn_application_status_tracking(str(hook._yarn_application_id))
        assert hook.collect().rows == 1
    finally:
        hook.release()


class Submitted:
    """A job that is submitted in another thread, to kill it."""

    def __init__(self, hook: PushdownSubmitHook, cluster: HadoopCluster) -> None:
        self.hook = hook
        self._cluster = cluster
        self._before = set(cluster.applications())
        self.error: PushdownTaskError | None = None
        self._thread = threading.Thread(target=self._submit)
        self._thread.start()

    def reaches(self, *states: str) -> str:
        """Wait until the application has one of the states. Return its id."""
        wait_for(f"an application in {states}", lambda: bool(self._in(states)), SECONDS, poll_seconds=0.05)
        return self._in(states)[0]

    def ends(self) -> PushdownTaskError | None:
        """Wait for the end of the job. Return its error, or None if it has succeeded."""
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        return self.error

    def _in(self, states: tuple[str, ...]) -> list[str]:
        actual = self._cluster.applications().items()
        return [key for key, app in actual if key not in self._before and app["state"] in states]

    def _submit(self) -> None:
        try:
            self.hook.submit()
            result = self.hook.collect()
            self.error = exception_for(result.error) if result.error is not None else None
        except PushdownTaskError as error:
            self.error = error
        finally:
            self.hook.release()


@pytest.mark.parametrize("stage", [("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED"), ("RUNNING",)])
def test_a_killed_task_kills_its_application(
    submission: Submit, cluster: HadoopCluster, provider: str, stage: tuple[str, ...]
) -> None:
    job = Submitted(submission("cluster", with_provider(provider)), cluster)
    application = job.reaches(*stage)
    job.hook.on_kill()
    assert isinstance(job.ends(), DriverKilledError)
    wait_for("the end of the application", lambda: not cluster.running_applications(), SECONDS)
    assert cluster.applications()[application]["state"] == "KILLED"


def test_a_kill_before_spark_submit_has_submitted_leaves_no_application(
    submission: Submit, cluster: HadoopCluster, provider: str
) -> None:
    """YARN gives out an id before that. The command takes as long as a submission."""
    hook = submission(
        "cluster",
        with_provider(provider),
        on_submitted=lambda _driver_id: hook.on_kill(),
        post_submit_commands=["sleep 20"],
    )
    assert hook.track_application()
    earlier = cluster.applications()
    with pytest.raises(DriverKilledError):
        hook.submit()
    hook.release()
    assert cluster.applications() == earlier


def test_the_same_run_of_another_deployment_does_not_kill_the_application(
    submission: Submit, cluster: HadoopCluster, provider: str
) -> None:
    conf = with_provider(provider)
    job = Submitted(submission("cluster", conf), cluster)
    application = job.reaches("RUNNING")
    finish(submission("cluster", conf, exchange_dir=f"{cluster.root}/other-exchange", output="other-out"))
    assert job.ends() is None
    assert cluster.applications()[application]["finalStatus"] == "SUCCEEDED"
    assert cluster.files("/other-exchange") == []


def test_the_next_try_kills_the_application_that_a_killed_worker_has_left(
    submission: Submit, cluster: HadoopCluster, provider: str
) -> None:
    worker = multiprocessing.get_context("fork").Process(target=submission("cluster", with_provider(provider)).submit)
    worker.start()
    wait_for("an application", lambda: bool(cluster.running_applications()), SECONDS)
    (application,) = cluster.running_applications()
    worker.kill()
    worker.join()

    finish(submission("cluster", with_provider(provider)))

    assert cluster.applications()[application]["state"] == "KILLED"


def test_a_lost_machine_of_the_driver_fails_the_task_and_the_next_try_is_complete(
    submission: Submit, cluster: HadoopCluster, provider: str
) -> None:
    job = Submitted(submission("cluster", with_provider(provider)), cluster)
    application = job.reaches("RUNNING")
    node = cluster.node_of(application)
    cluster.programs.kill_machine(node)
    assert application in str(job.ends())

    cluster.start_machine(node)

    finish(submission("cluster", with_provider(provider)))
