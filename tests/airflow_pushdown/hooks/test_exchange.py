"""The private directory that task and job share."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.hooks.exchange import Exchange
from pushdown_spark.contract import (
    DatabaseKind,
    JobResult,
    JobSpec,
    QuerySpec,
    RemoteConnection,
    SecretValues,
    SourceSpec,
)

SPEC = JobSpec(
    run_key="d/t/r/-1",
    sources={"s": SourceSpec.model_validate({"format": "json", "path": ["/x"], "schema": "a int"})},
    query=QuerySpec(source="s"),
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def directory(exchange: Exchange) -> Path:
    return Path(exchange.spec_location).parent


def test_only_the_owner_can_read_the_directory() -> None:
    exchange = Exchange.private()
    exchange.prepare(SPEC, SecretValues(hadoop={"fs.s3a.secret.key": "hush"}))
    assert mode(directory(exchange)) == 0o700
    assert {mode(file) for file in directory(exchange).iterdir()} == {0o600}
    exchange.discard()
    assert not directory(exchange).exists()


def test_the_job_spec_is_written_without_secrets() -> None:
    exchange = Exchange.private()
    exchange.prepare(SPEC, SecretValues(hadoop={"fs.s3a.secret.key": "hush"}))
    text = (directory(exchange) / "spec.json").read_text()
    spec = JobSpec.model_validate_json(text)
    assert "hush" not in text
    assert spec.sources == SPEC.sources
    assert spec.result_path == str(directory(exchange) / "result.json")
    assert spec.secrets_path is not None
    assert SecretValues.model_validate_json(Path(spec.secrets_path).read_bytes()).hadoop == {
        "fs.s3a.secret.key": "hush"
    }
    exchange.discard()


def test_the_connection_of_an_output_is_a_secret() -> None:
    exchange = Exchange.private()
    connection = RemoteConnection(kind=DatabaseKind.POSTGRESQL, database="d", host="h", password="hush-3")
    secrets = SecretValues(output=connection)
    exchange.prepare(SPEC, secrets)
    assert "hush-3" not in (directory(exchange) / "spec.json").read_text()
    assert "hush-3" not in repr(secrets)
    assert SecretValues.model_validate_json((directory(exchange) / "secrets.json").read_bytes()).output == connection
    assert (directory(exchange) / "secrets.json").stat().st_mode & 0o777 == 0o600
    exchange.discard()


def test_without_secrets_there_is_no_secrets_file() -> None:
    exchange = Exchange.private()
    exchange.prepare(SPEC, SecretValues())
    assert not (directory(exchange) / "secrets.json").exists()
    assert JobSpec.model_validate_json((directory(exchange) / "spec.json").read_bytes()).secrets_path is None
    exchange.discard()


def test_a_missing_or_invalid_result_is_none() -> None:
    exchange = Exchange.private()
    assert exchange.read_result() is None
    (directory(exchange) / "result.json").write_text('{"version": 1, "rows": ')
    assert exchange.read_result() is None
    (directory(exchange) / "result.json").write_text(JobResult(rows=3).model_dump_json())
    assert exchange.read_result() == JobResult(rows=3)
    exchange.discard()


def test_all_tries_of_one_run_share_a_directory(tmp_path: Path) -> None:
    first = Exchange.shared(str(tmp_path), "run 1")
    assert directory(Exchange.shared(str(tmp_path), "run 1")) == directory(first)
    assert directory(Exchange.shared(str(tmp_path), "run 2")) != directory(first)
    assert mode(directory(first)) == 0o700


def test_a_new_job_deletes_the_result_of_an_earlier_try(tmp_path: Path) -> None:
    exchange = Exchange.shared(str(tmp_path), "run")
    (directory(exchange) / "result.json").write_text(JobResult(rows=3).model_dump_json())
    exchange.prepare(SPEC, SecretValues())
    assert exchange.read_result() is None


@pytest.mark.parametrize("given", [None, "", "s3a://bucket/x", "/nowhere/at/all"])
def test_cluster_mode_requires_a_shared_directory(given: str | None) -> None:
    with pytest.raises(ConfigError, match="exchange_dir"):
        Exchange.shared(given, "run")
