"""Drivers of a real API server of Kubernetes, which `make kubernetes` builds.

Most tests set the phases of pods themselves. In the others, a kubelet runs the entry point of our image as processes of
this machine, with the arguments, variables and files of the pods. There are no containers.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from cryptography.fernet import Fernet

from airflow_pushdown.clusters.drivers import DriverPhase, DriverStatus
from airflow_pushdown.clusters.kubernetes import RUN_LABEL
from airflow_pushdown.clusters.yarn import run_tag
from airflow_pushdown.exceptions import ConfigError, DriverKilledError, SubmitFailedError
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.triggers.driver import DriverEvent, DriverTrigger
from e2e.kubelet import Kubelet
from e2e.kubernetes import NAMESPACE, KubernetesApi
from e2e.ports import HOST, free_port
from e2e.processes import Programs, wait_for
from pushdown_spark.contract import JobResult, JobSpec, OutputSpec, QuerySpec, SecretValues, SourceSpec
from pushdown_spark.contract.encryption import KEY_VARIABLE

pytest.importorskip("airflow.providers.cncf.kubernetes", reason="installed by `make kubernetes` alone")

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
BINARIES = ROOT / ".cache" / "kubernetes"
SECRET = "hush-hush-5"
SECRETS = SecretValues(hadoop={"fs.s3a.secret.key": SECRET})
KEY_ENTRY = ("airflow-pushdown", "key")
SECONDS = 120.0
MakeHook = Callable[..., PushdownSubmitHook]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    if not (BINARIES / "kube-apiserver").is_file():
        pytest.skip("there is no API server: `make kubernetes` builds it")
    run = tmp_path_factory.mktemp("kubernetes")
    programs = Programs(run, dict(os.environ))
    try:
        api = KubernetesApi(programs, run, BINARIES)
        api.start()
        yield api
    finally:
        programs.stop()


@pytest.fixture
def key() -> str:
    return Fernet.generate_key().decode()


@pytest.fixture
def make_hook(
    api: KubernetesApi, key: str, spark_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeHook]:
    """Return a function that makes a hook for the cluster. The API server never gets a secret."""
    (tmp_path / "exchange").mkdir()
    extra = {"deploy-mode": "cluster", "namespace": NAMESPACE, "exchange-dir": str(tmp_path / "exchange")}
    connection = {"conn_type": "spark", "host": api.master, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_K8S", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER", "False")
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", str(api.kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
    monkeypatch.setenv(KEY_VARIABLE, key)
    spec = JobSpec(
        run_key=str(tmp_path),
        sources={"s": SourceSpec.model_validate({"format": "json", "path": ["/x"]})},
        query=QuerySpec(source="s"),
    )

    def make(
        generation: str = "", spec: JobSpec = spec, conf: Mapping[str, str] | None = None, **options: object
    ) -> PushdownSubmitHook:
        submission = Submission(
            spec=spec.model_copy(update={"generation": generation}), secrets=SECRETS, spark_python=spark_python
        )
        return PushdownSubmitHook.open(
            submission,
            conn_id="k8s",
            conf={
                "spark.kubernetes.container.image": "pushdown:test",
                "spark.kubernetes.file.upload.path": tmp_path.as_uri(),
                "spark.kubernetes.submission.waitAppCompletion": "false",
                f"spark.kubernetes.driver.secretKeyRef.{KEY_VARIABLE}": ":".join(KEY_ENTRY),
                **(conf or {}),
            },
            track_driver_via_k8s_api=True,
            **options,  # type: ignore[arg-type]
        )

    yield make
    for pod in api.pods():
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}")
    requests = api.audit_log.read_text(encoding="utf-8")
    assert SECRET not in requests
    assert key not in requests


def files(tmp_path: Path) -> list[Path]:
    """Return the files that jobs have left in the exchange directory."""
    return list((tmp_path / "exchange").rglob("*.json"))


def submit(hook: PushdownSubmitHook) -> tuple[str, str]:
    """Submit a job. Return the id of its driver and the name of the pod."""
    hook.submit()
    driver_id = str(hook.driver_id)
    return driver_id, driver_id.removeprefix(f"{NAMESPACE}:")


def write_result(hook: PushdownSubmitHook, result: JobResult) -> None:
    """Write a result as the driver does."""
    Path(hook.exchange.result_location).write_text(result.model_dump_json())


def test_a_driver_pod_has_the_program_the_tag_and_a_reference_to_the_key(
    make_hook: MakeHook, api: KubernetesApi, tmp_path: Path
) -> None:
    hook = make_hook()
    _, name = submit(hook)
    hook.release()

    pod = api.pods()[name]
    labels: dict[str, str] = pod["metadata"]["labels"]  # type: ignore[assignment]
    assert labels["spark-role"] == "driver"
    assert labels[RUN_LABEL] == run_tag(hook.exchange.spec_location)
    (container,) = pod["spec"]["containers"]  # type: ignore[misc]
    assert container["image"] == "pushdown:test"
    reference = {"name": KEY_ENTRY[0], "key": KEY_ENTRY[1]}
    assert {"name": KEY_VARIABLE, "valueFrom": {"secretKeyRef": reference}} in container["env"]
    exchange = hook.exchange
    assert container["args"][-4:] == ["--spec", exchange.spec_location, "--result", exchange.result_location]
    assert any(argument.endswith("/job.py") for argument in container["args"])
    # The files of a submission to a cluster stay until the task has the result.
    assert len(files(tmp_path)) == 2


def test_the_result_of_a_driver_that_has_succeeded_is_returned_and_its_pod_deleted(
    make_hook: MakeHook, api: KubernetesApi, tmp_path: Path
) -> None:
    hook = make_hook()
    driver_id, name = submit(hook)
    assert hook.phase_of(driver_id) is DriverPhase.ACTIVE
    write_result(hook, JobResult(rows=3))
    api.set_phase(name, "Succeeded")

    hook.wait_for_driver(driver_id)

    assert hook.collect() == JobResult(rows=3)
    assert api.pods() == {}
    assert files(tmp_path) == []


@pytest.mark.parametrize("phase", ["Failed", None], ids=["failed", "deleted"])
def test_a_driver_without_a_result_is_an_error_with_the_phase_of_its_pod(
    make_hook: MakeHook, api: KubernetesApi, phase: str | None
) -> None:
    hook = make_hook()
    driver_id, name = submit(hook)
    if phase is None:
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    else:
        api.set_phase(name, phase)

    hook.wait_for_driver(driver_id)

    with pytest.raises(DriverKilledError, match=phase or "Kubernetes does not know the driver pod"):
        hook.collect()
    # A failed pod stays for its log.
    assert set(api.pods()) == ({name} if phase else set())


@pytest.fixture
def kubelet(api: KubernetesApi, key: str, spark_python: str, tmp_path: Path) -> Iterator[Kubelet]:
    """Run all pods during a test."""
    home = next(Path(spark_python).parents[1].glob("lib/python3.*/site-packages/pyspark"))
    environment = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": spark_python, "SPARK_LOCAL_IP": HOST}
    entrypoint = [str(ROOT / "docker" / "kubernetes-entrypoint.sh")]
    kubelet = Kubelet(api, api.programs, tmp_path / "pods", entrypoint, environment, {KEY_ENTRY: key})
    with kubelet.serving():
        yield kubelet


def real_job(make_hook: MakeHook, api: KubernetesApi, tmp_path: Path) -> PushdownSubmitHook:
    """Return the hook of a job whose driver and executor run."""
    (tmp_path / "lines.json").write_text("".join(f'{{"k": {number}}}\n' for number in range(1000)))
    source = {"format": "json", "path": [str(tmp_path / "lines.json")], "schema": "k int", "reader": "pushdown"}
    spec = JobSpec(
        run_key=str(tmp_path),
        sources={"lines": SourceSpec.model_validate(source)},
        query=QuerySpec(source="lines", where="k = 77"),
        output=OutputSpec(path=str(tmp_path / "out")),
    )
    conf = {
        "spark.kubernetes.driver.master": f"https://{HOST}:{api.port}",
        "spark.kubernetes.authenticate.driver.mounted.oauthTokenFile": str(api.token_file),
        "spark.kubernetes.authenticate.driver.mounted.caCertFile": str(api.certificate),
        # All pods have the same address.
        "spark.driver.port": str(free_port()),
        "spark.driver.blockManager.port": str(free_port()),
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
    }
    return make_hook(spec=spec, conf=conf)


def test_a_driver_and_an_executor_run_in_their_pods(
    make_hook: MakeHook, api: KubernetesApi, kubelet: Kubelet, tmp_path: Path
) -> None:
    hook = real_job(make_hook, api, tmp_path)
    driver_id, name = submit(hook)

    hook.wait_for_driver(driver_id)

    log = kubelet.log(name)
    result = hook.collect()
    hook.release()
    assert result.error is None, log
    assert result.rows == 1
    assert (result.application_id or "").startswith("spark-")
    assert [source.reader for source in result.sources.values()] == ["pushdown"]
    assert [pod for pod in kubelet.started if pod.endswith("-exec-1")]
    wait_for("the end of all pods", lambda: not api.pods(), SECONDS)
    assert files(tmp_path) == []
    for secret in (SECRET, *kubelet.secrets.values()):
        assert secret not in log


def test_the_driver_of_a_killed_task_ends_with_its_pod(
    make_hook: MakeHook, api: KubernetesApi, kubelet: Kubelet, tmp_path: Path
) -> None:
    hook = real_job(make_hook, api, tmp_path)
    _, name = submit(hook)
    wait_for("the driver", lambda: kubelet.is_running(name), SECONDS)
    hook.on_kill()
    hook.release()
    wait_for("the end of the driver", lambda: not kubelet.is_running(name), SECONDS)
    assert files(tmp_path) == []
    assert not (tmp_path / "out").exists()


def test_a_killed_driver_is_an_error(make_hook: MakeHook, api: KubernetesApi, kubelet: Kubelet, tmp_path: Path) -> None:
    hook = real_job(make_hook, api, tmp_path)
    driver_id, name = submit(hook)
    wait_for("the driver", lambda: kubelet.is_running(name), SECONDS)
    kubelet.kill(name)
    hook.wait_for_driver(driver_id)
    with pytest.raises(DriverKilledError, match="Failed"):
        hook.collect()


def test_a_killed_task_deletes_its_pod_and_its_files(make_hook: MakeHook, api: KubernetesApi, tmp_path: Path) -> None:
    hook = make_hook()
    submit(hook)
    hook.on_kill()
    hook.release()
    assert api.pods() == {}
    assert files(tmp_path) == []


def test_a_retry_continues_with_the_pod_of_a_killed_worker(make_hook: MakeHook, api: KubernetesApi) -> None:
    first = make_hook()
    worker = multiprocessing.get_context("fork").Process(target=first.submit)
    worker.start()
    wait_for("the pod", lambda: bool(api.pods()), SECONDS)
    worker.kill()
    worker.join()
    (name,) = api.pods()

    assert make_hook().earlier_driver() == f"{NAMESPACE}:{name}"
    write_result(first, JobResult(rows=4))
    api.set_phase(name, "Succeeded")
    retry = make_hook()
    assert retry.earlier_driver() == f"{NAMESPACE}:{name}"
    retry.wait_for_driver(str(retry.driver_id))
    assert retry.collect() == JobResult(rows=4)


def test_a_cleared_task_deletes_the_earlier_pod(make_hook: MakeHook, api: KubernetesApi) -> None:
    submit(make_hook("0 now"))
    hook = make_hook("1 now")
    assert hook.earlier_driver() is None
    assert api.pods() == {}


def test_a_try_that_does_not_continue_replaces_the_earlier_pod(make_hook: MakeHook, api: KubernetesApi) -> None:
    _, first = submit(make_hook())
    _, second = submit(make_hook())
    assert first != second
    assert set(api.pods()) == {second}


def test_a_trigger_waits_for_the_end_of_a_pod(make_hook: MakeHook, api: KubernetesApi) -> None:
    hook = make_hook()
    driver_id, name = submit(hook)
    drivers = hook.drivers()
    assert drivers is not None
    trigger = DriverTrigger(drivers.kind, drivers.settings(), driver_id, asdict(hook.shared_location), poll_seconds=0.2)
    _, arguments = trigger.serialize()

    async def wait() -> DriverEvent:
        wait_task = asyncio.create_task(anext(DriverTrigger(**json.loads(json.dumps(arguments))).run()))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        assert not wait_task.done()
        await asyncio.to_thread(api.set_phase, name, "Running")
        await asyncio.sleep(1)
        assert not wait_task.done()
        await asyncio.to_thread(api.set_phase, name, "Succeeded")
        return DriverEvent.from_payload((await wait_task).payload)

    event = asyncio.run(wait())
    assert event == DriverEvent(driver_id, DriverStatus(DriverPhase.SUCCEEDED, "Succeeded"))


def test_a_trigger_deletes_the_pod_of_a_task_that_a_user_has_cleared(
    make_hook: MakeHook, api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = make_hook()
    driver_id, _ = submit(hook)
    drivers = hook.drivers()
    assert drivers is not None
    trigger = DriverTrigger(drivers.kind, drivers.settings(), driver_id, asdict(hook.shared_location), poll_seconds=0.2)
    trigger.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1)
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_given: {"r": {"t": "failed"}})
    asyncio.run(trigger.on_kill())
    assert api.pods() == {}
    assert files(tmp_path) == []


def test_no_second_driver_is_submitted_if_the_api_server_denies_access(
    make_hook: MakeHook, api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver_id, name = submit(make_hook())
    configuration = json.loads(api.kubeconfig.read_text())
    configuration["users"][0]["user"]["token"] = "another"
    (tmp_path / "other.json").write_text(json.dumps(configuration))
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", str(tmp_path / "other.json"))
    with pytest.raises(SubmitFailedError, match="may still run, and no other was submitted: Kubernetes: 401"):
        make_hook().phase_of(driver_id)
    assert set(api.pods()) == {name}


def test_no_second_driver_is_submitted_if_the_api_server_does_not_respond(
    make_hook: MakeHook, tmp_path: Path, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver_id, _ = submit(make_hook())
    configuration = json.loads(api.kubeconfig.read_text())
    configuration["clusters"][0]["cluster"]["server"] = f"https://{HOST}:{free_port()}"
    (tmp_path / "other.json").write_text(json.dumps(configuration))
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", str(tmp_path / "other.json"))
    with pytest.raises(SubmitFailedError, match="may still run, and no other was submitted: Kubernetes: "):
        make_hook().phase_of(driver_id)


def test_a_deferred_task_needs_the_namespace_of_its_pod(
    make_hook: MakeHook, api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"deploy-mode": "cluster", "exchange-dir": str(tmp_path / "exchange")}
    monkeypatch.setenv("AIRFLOW_CONN_K8S", json.dumps({"conn_type": "spark", "host": api.master, "extra": extra}))
    with pytest.raises(ConfigError, match=r"conn_id: connection 'k8s' has no namespace.*set its extra 'namespace'"):
        make_hook().defer()


def test_a_worker_without_access_to_kubernetes_is_an_error_that_names_the_settings(
    make_hook: MakeHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", str(tmp_path / "missing.json"))
    with pytest.raises(ConfigError, match=r"conn_id: Airflow has no access to Kubernetes .*config_file"):
        make_hook().phase_of("default:pod")
