"""The hook with a real spark-submit, up to the start of a Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_pushdown.exceptions import ConfigError, DriverKilledError, SubmitFailedError
from airflow_pushdown.hooks.job_runner import mask_line
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.spark_submit.spark_installation import SparkSubmitNotFoundError
from pushdown_spark.contract import JobResult, JobSpec, QuerySpec, SecretValues, SourceSpec

SPEC = JobSpec(
    run_key="d/t/r/-1",
    sources={"s": SourceSpec.model_validate({"format": "json", "path": ["/x"]})},
    query=QuerySpec(source="s"),
)

MakeHook = Callable[..., PushdownSubmitHook]


@pytest.fixture
def make_hook(local_spark: str, spark_python: str) -> Iterator[MakeHook]:
    hooks: list[PushdownSubmitHook] = []

    def make(*, exchange_dir: Path | None = None, python: str = spark_python, **options: object) -> PushdownSubmitHook:
        submission = Submission(
            spec=SPEC, spark_python=python, exchange_dir=str(exchange_dir) if exchange_dir else None
        )
        hooks.append(PushdownSubmitHook.open(submission, **options))  # type: ignore[arg-type]
        return hooks[-1]

    yield make
    for hook in hooks:
        hook.release()


def command(hook: PushdownSubmitHook) -> list[str]:
    return hook._hide_secrets(hook.build_command("job.py"))


def test_a_missing_connection_is_an_error_and_not_yarn(make_hook: MakeHook) -> None:
    with pytest.raises(ConfigError, match=r"conn_id: there is no Airflow connection 'no_such_spark'"):
        make_hook(conn_id="no_such_spark")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ('{"deploy_mode": "client"}', "'deploy_mode'; it is spelled 'deploy-mode'"),
        ('{"spark-binary": "/usr/bin/evil"}', "spark-binary"),
        ('{"rest-port": null}', "'rest-port' None; set a number, or remove it"),
    ],
)
def test_invalid_connection_extras_raise(
    make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch, extra: str, message: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ODD", f'{{"conn_type": "spark", "host": "local[1]", "extra": {extra}}}')
    with pytest.raises(ConfigError, match=message):
        make_hook(conn_id="odd")


def test_a_kubernetes_master_without_its_provider_is_an_error_that_names_it(
    make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_K8S", '{"conn_type": "spark", "host": "k8s://https://cluster:443"}')
    with pytest.raises(ConfigError, match="apache-airflow-providers-cncf-kubernetes"):
        make_hook(conn_id="k8s")


def test_a_missing_spark_submit_raises(make_hook: MakeHook) -> None:
    with pytest.raises(SparkSubmitNotFoundError, match="spark-submit not found"):
        make_hook(spark_binary="no-such-spark-submit")


def test_cluster_mode_without_a_shared_directory_raises(make_hook: MakeHook) -> None:
    with pytest.raises(ConfigError, match="exchange_dir"):
        make_hook(deploy_mode="cluster")


def test_the_command_starts_the_job_with_the_users_settings(make_hook: MakeHook) -> None:
    hook = make_hook(conf={"spark.x": True, "spark.none": None, "spark.n": 3}, py_files="mine.zip", name="n")
    words = command(hook)
    assert words[-3:-1] == ["job.py", "--spec"]
    assert words[1:3] == ["--master", "local[1]"]
    settings = {words[i + 1] for i, word in enumerate(words) if word == "--conf"}
    assert settings == {"spark.log.level=WARN", "spark.x=true", "spark.n=3"}
    archive, own = words[words.index("--py-files") + 1].split(",")
    assert Path(archive).is_file()
    assert own == "mine.zip"


def test_the_log_level_may_be_changed(make_hook: MakeHook) -> None:
    assert "spark.log.level=INFO" in command(make_hook(conf={"spark.log.level": "INFO"}))


def test_settings_with_secret_names_are_not_on_the_command_line(make_hook: MakeHook) -> None:
    hook = make_hook(conf={"spark.hadoop.my.token": "tok\\en =1", "spark.x": "y"})
    words = command(hook)
    assert not any("tok" in word for word in words)
    assert "--load-spark-defaults" in words
    file = Path(words[words.index("--properties-file") + 1])
    assert file.stat().st_mode & 0o777 == 0o600
    assert "spark.hadoop.my.token tok\\\\en =1" in file.read_text()


def test_a_released_hook_leaves_no_settings_although_the_files_of_its_driver_stay(
    make_hook: MakeHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_YARN", '{"conn_type": "spark", "host": "yarn"}')
    hook = make_hook(
        conn_id="yarn", deploy_mode="cluster", exchange_dir=tmp_path, conf={"spark.hadoop.my.token": "hush-8"}
    )
    hook.exchange.prepare(SPEC, SecretValues())
    words = command(hook)
    file = Path(words[words.index("--properties-file") + 1])
    assert "hush-8" in file.read_text()
    hook.release()
    assert not file.parent.exists()
    assert hook.exchange.read_spec() is not None


def test_a_driver_on_a_cluster_gets_the_location_of_its_own_result(
    make_hook: MakeHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that YARN accepts after the next try has begun would otherwise run the spec of that try."""
    monkeypatch.setenv("AIRFLOW_CONN_YARN", '{"conn_type": "spark", "host": "yarn"}')
    hook = make_hook(conn_id="yarn", deploy_mode="cluster", exchange_dir=tmp_path)
    results = []
    for _ in range(2):
        hook.exchange.prepare(SPEC, SecretValues())
        words = command(hook)
        assert words[-4:] == ["--spec", hook.exchange.spec_location, "--result", hook.exchange.result_location]
        results.append(words[-1])
    assert len(set(results)) == 2
    hook.exchange.discard()


def test_the_users_properties_file_is_merged_with_secret_settings(make_hook: MakeHook, tmp_path: Path) -> None:
    own = tmp_path / "own.properties"
    own.write_text("spark.mine 1")
    words = command(make_hook(conf={"spark.a.password": "hushhush"}, properties_file=str(own)))
    assert words.count("--properties-file") == 1
    assert "--load-spark-defaults" not in words
    text = Path(words[words.index("--properties-file") + 1]).read_text()
    assert text.splitlines() == ["spark.mine 1", "spark.a.password hushhush"]


def test_values_of_secret_names_are_masked_in_the_log(make_hook: MakeHook) -> None:
    hook = make_hook()
    assert hook.mask(["--conf", "spark.my.token=abc", "spark.x=y"]) == "--conf spark.my.token=*** spark.x=y"
    assert mask_line("set fs.s3a.access.key=abc and a=b") == "set fs.s3a.access.key=*** and a=b"


@pytest.mark.parametrize(
    "parameters",
    [
        {"conf": {"spark.executor.extraJavaOptions": "-Xss4m -Djavax.net.ssl.keyStorePassword=hushhush -Da=b"}},
        {"conf": {"spark.jars.repositories": "https://me:hushhush@nexus/maven"}},
        {"repositories": "https://me:hushhush@nexus/maven"},
    ],
)
def test_credentials_in_values_are_hidden(make_hook: MakeHook, parameters: dict[str, Any]) -> None:
    hook = make_hook(**parameters)
    words = command(hook)
    assert "hushhush" not in " ".join(words)
    assert "hushhush" in Path(words[words.index("--properties-file") + 1]).read_text()
    assert "hushhush" not in hook.mask([word for text in parameters.values() for word in _words(text)])


def _words(value: str | dict[str, str]) -> list[str]:
    return [value] if isinstance(value, str) else [f"{key}={text}" for key, text in value.items()]


def test_a_standalone_cluster_gets_the_provider_of_credentials_and_no_credential(
    make_hook: MakeHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STANDALONE", '{"conn_type": "spark", "host": "spark://master", "port": 7077}')
    parameters = {"conn_id": "standalone", "deploy_mode": "cluster", "exchange_dir": tmp_path}
    key = "spark.hadoop.hadoop.security.credential.provider.path"
    hook = make_hook(**parameters, conf={key: "jceks://file/keys.jceks"})
    assert f"{key}=jceks://file/keys.jceks" in command(hook)
    with pytest.raises(ConfigError, match="a standalone cluster starts the driver with all settings"):
        command(make_hook(**parameters, conf={"spark.hadoop.fs.s3a.secret.key": "hushhush"}))


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("12xyz", "Invalid maximum heap size: -Xmx12xyz"),
        ("100000000g", "Invalid maximum heap size: -Xmx100000000g|Could not reserve enough space"),
        ("1k", "Too small maximum heap"),
    ],
)
def test_an_invalid_driver_memory_is_not_retried(make_hook: MakeHook, size: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"driver_memory: (?:{message})"):
        make_hook(driver_memory=size).submit()


def test_a_failed_spark_submit_raises_a_one_line_reason(make_hook: MakeHook, tmp_path: Path) -> None:
    hook = make_hook(exchange_dir=tmp_path, deploy_mode="cluster")
    with pytest.raises(SubmitFailedError, match="Cluster deploy mode is not compatible") as error:
        hook.submit()
    assert str(error.value).startswith("spark-submit failed with exit code 1: ")
    assert "\n" not in str(error.value)


def test_an_unsupported_spark_version_raises_before_the_start(make_hook: MakeHook, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.9.jar").touch()
    binary = tmp_path / "bin" / "spark-submit"
    binary.write_text("#!/bin/sh\nexit 0\n")
    binary.chmod(0o755)
    python = tmp_path / "bin" / "python"
    python.symlink_to("/bin/false")
    with pytest.raises(ConfigError, match=r"spark_python: .*jobs need Spark 4\.0 to 4\.3, and this is Spark 3\.5\.9"):
        make_hook(python=str(python))


def test_a_python_without_pyspark_raises(make_hook: MakeHook, tmp_path: Path, spark_python: str) -> None:
    binary = str(Path(spark_python).parent / "spark-submit")
    hook = make_hook(python="/bin/false", spark_binary=binary)
    with pytest.raises(SubmitFailedError, match="spark-class"):
        hook.submit()


def test_the_job_directory_is_deleted_after_the_job(make_hook: MakeHook) -> None:
    hook = make_hook()
    hook.exchange.prepare(SPEC, hook._submission.secrets)
    hook.release()
    assert not Path(hook.exchange.spec_location).parent.exists()


def test_a_retry_on_a_cluster_reads_the_result_of_the_first_tries_job(make_hook: MakeHook, tmp_path: Path) -> None:
    first = make_hook(deploy_mode="cluster", exchange_dir=tmp_path)
    first.exchange.prepare(SPEC, first._submission.secrets)
    first.release()
    result = Path(first.exchange.result_location)
    result.write_text(JobResult(rows=3).model_dump_json())
    assert make_hook(deploy_mode="cluster", exchange_dir=tmp_path).collect() == JobResult(rows=3)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_clean_up_keeps_the_result(
    make_hook: MakeHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = make_hook(deploy_mode="cluster", exchange_dir=tmp_path)
    hook.exchange.prepare(SPEC, hook._submission.secrets)
    result = Path(hook.exchange.result_location)
    result.write_text(JobResult(rows=3).model_dump_json())
    unlink = Path.unlink

    def fail(path: Path, missing_ok: bool = False) -> None:
        if path.name == "owner":
            raise OSError("the file system failed")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", fail)
    assert hook.collect() == JobResult(rows=3)
    assert result.exists()


def test_a_killed_job_has_no_result_and_its_shared_directory_is_empty(make_hook: MakeHook, tmp_path: Path) -> None:
    hook = make_hook(deploy_mode="cluster", exchange_dir=tmp_path)
    hook.exchange.prepare(SPEC, hook._submission.secrets)
    hook.on_kill()
    hook.release()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DriverKilledError, match="the task was killed"):
        hook.collect()


def test_a_job_without_a_result_raises(make_hook: MakeHook) -> None:
    with pytest.raises(SubmitFailedError, match="ended without a result"):
        make_hook().collect()
