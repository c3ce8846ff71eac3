"""The job reads its spec and its credentials, and writes its result, where its task on another machine finds them."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import JobResult, JobSpec, QuerySpec, SourceSpec
from pushdown_spark.contract.driver_claim import REPLACED, claim
from pushdown_spark.contract.encryption import KEY_ALIAS, KEY_VARIABLE, encrypt
from pushdown_spark.contract.progress import Progress
from pushdown_spark.driver.job_exchange import (
    SubmittedFiles,
    claim_result,
    read_secrets,
    read_text,
    write_progress,
    write_result,
)
from pushdown_spark.errors import BadSpecError
from pushdown_spark.job import main
from pushdown_spark.runtime.jvm_gateway import java_class

KEY = base64.urlsafe_b64encode(os.urandom(32)).decode()
SECRETS = '{"hadoop": {"fs.s3a.secret.key": "hush"}}'


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


@pytest.fixture
def provider(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """Store the key in a Hadoop credential provider that spark-submit names."""
    path = f"localjceks://file{tmp_path}/keys.jceks"
    configuration = java_class(spark, "org.apache.hadoop.conf.Configuration")()
    configuration.set("hadoop.security.credential.provider.path", path)
    factory = java_class(spark, "org.apache.hadoop.security.alias.CredentialProviderFactory")
    store = factory.getProviders(configuration).get(0)
    characters = java_class(spark, "java.nio.CharBuffer").allocate(len(KEY))
    store.createCredentialEntry(KEY_ALIAS, characters.put(KEY).array())
    store.flush()
    system, setting = java_class(spark, "java.lang.System"), "spark.hadoop.hadoop.security.credential.provider.path"
    system.setProperty(setting, path)
    yield
    system.clearProperty(setting)


def write_encrypted(tmp_path: Path, key: str = KEY, spec: str = "spec") -> str:
    path = tmp_path / "secrets.json"
    path.write_text(encrypt(SECRETS, key, spec))
    return str(path)


def test_files_are_read_written_and_deleted_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path.as_uri()}/a b.json"
    files = SubmittedFiles(path)
    assert files.read_text(path) is None
    files.write_text(path, '{"ü": 1}')
    assert files.read_text(path) == (tmp_path / "a b.json").read_text() == '{"ü": 1}'
    files.delete(path)
    assert not list(tmp_path.glob("*.json"))


def test_a_file_system_that_hadoop_lacks_is_named(spark: SparkSession) -> None:
    with pytest.raises(BadSpecError, match=r'--spec: cannot read nosuch://x/y: .*No FileSystem for scheme "nosuch"'):
        read_text("--spec", "nosuch://x/y")


def test_the_environment_has_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    path = write_encrypted(tmp_path)
    assert read_secrets(path, "spec").hadoop == {"fs.s3a.secret.key": "hush"}
    assert not Path(path).exists()


@pytest.mark.usefixtures("provider")
def test_a_credential_provider_has_the_key(tmp_path: Path) -> None:
    assert read_secrets(write_encrypted(tmp_path), "spec").hadoop == {"fs.s3a.secret.key": "hush"}


def test_without_a_key_the_error_names_the_ways_to_pass_it(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadSpecError, match="this driver has no key") as error:
        read_secrets(write_encrypted(tmp_path), "spec")
    for way in (KEY_VARIABLE, KEY_ALIAS, "secretKeyRef"):
        assert way in str(error.value)


@pytest.mark.parametrize(
    ("key", "spec", "reason"),
    [
        (KEY, "another spec", "another key or for another job spec"),
        (base64.urlsafe_b64encode(bytes(32)).decode(), "spec", "another key or for another job spec"),
        ("password", "spec", "the key of this driver is invalid"),
    ],
    ids=["spec", "key", "no key"],
)
def test_a_wrong_key_or_spec_does_not_decrypt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, spec: str, reason: str
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(BadSpecError, match=reason) as error:
        read_secrets(write_encrypted(tmp_path), spec)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(("directory_mode", "file_mode"), [(0o700, 0o600), (0o770, 0o660), (0o775, 0o660)])
def test_the_group_of_a_shared_directory_can_read_the_result(
    tmp_path: Path, directory_mode: int, file_mode: int
) -> None:
    directory = tmp_path / "exchange"
    directory.mkdir()
    directory.chmod(directory_mode)
    write_result(str(directory / "result.json"), JobResult(rows=1))
    assert (directory / "result.json").stat().st_mode & 0o777 == file_mode


def test_a_result_that_cannot_be_written_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "result.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write_result(str(tmp_path / "result.json"), JobResult(rows=1))
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test in the directory of a driver, as a worker of a standalone cluster does. Return the driver's id."""
    directory = tmp_path / "driver-20260131120000-0001"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory.name


def test_the_next_try_finds_the_driver_that_has_claimed_its_submission(driver: str, tmp_path: Path) -> None:
    result = str(tmp_path / "result-1.json")
    claim_result(result)
    assert claim(result, REPLACED) == driver
    # A supervised driver starts again with the same id.
    claim_result(result)


def test_a_driver_that_was_replaced_before_its_start_does_not_run(driver: str, tmp_path: Path) -> None:
    result = str(tmp_path / "result-1.json")
    assert claim(result, REPLACED) == REPLACED
    with pytest.raises(BadSpecError, match="the task no longer waits"):
        claim_result(result)


def test_a_driver_whose_task_has_deleted_its_files_does_not_run(driver: str, tmp_path: Path) -> None:
    with pytest.raises(BadSpecError, match="the task no longer waits"):
        claim_result(str(tmp_path / "deleted" / "result-1.json"))


@pytest.mark.parametrize("options", [[], ["--claim"]])
def test_a_driver_does_not_run_the_spec_of_another_submission(
    driver: str, tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "spec.json"
    job = JobSpec(
        run_key="k",
        sources={"s": SourceSpec.model_validate({"format": "json", "path": ["/x"]})},
        query=QuerySpec(source="s"),
        result_path=str(tmp_path / "result-2.json"),
    )
    spec.write_text(job.model_dump_json(by_alias=True, exclude_none=True))
    assert main(["--spec", str(spec), "--result", str(tmp_path / "result-1.json"), *options]) == 1
    assert "the task no longer waits" in capsys.readouterr().err
    assert not (tmp_path / "result-2.json").exists()


def test_a_claim_without_content_belongs_to_a_process_that_has_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pushdown_spark.contract.driver_claim._CONTENT_SECONDS", 0.0)
    (tmp_path / "result-1.json.driver").touch()
    assert claim(str(tmp_path / "result-1.json"), REPLACED) == ""


def test_progress_replaces_that_before_it(tmp_path: Path) -> None:
    for done in (1, 2):
        write_progress(str(tmp_path / "result-a.json"), Progress(tasks_done=done, tasks_total=2), None)
    (path,) = tmp_path.iterdir()
    assert path.name == "progress-a.json"
    assert Progress.from_json(path.read_bytes()) == Progress(tasks_done=2, tasks_total=2)
    with pytest.raises(FileNotFoundError):
        write_progress(str(tmp_path / "deleted" / "result-a.json"), Progress(), None)
