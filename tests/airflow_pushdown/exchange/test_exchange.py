"""The private directory that task and job share."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from airflow_pushdown.exceptions import ConfigError, SubmitFailedError
from airflow_pushdown.exchange.exchange import Exchange, ExchangeLocation
from airflow_pushdown.exchange.exchange_files import SHARED_WITH_GROUP, DirectoryFiles
from pushdown_spark.contract import (
    DatabaseKind,
    JobResult,
    JobSpec,
    QuerySpec,
    RemoteConnection,
    SecretValues,
    SourceSpec,
)
from pushdown_spark.contract.encryption import KEY_VARIABLE, decrypt
from pushdown_spark.contract.progress import Progress, progress_path

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
    exchange = Exchange.create_private()
    exchange.prepare(SPEC, SecretValues(hadoop={"fs.s3a.secret.key": "hush"}))
    assert mode(directory(exchange)) == 0o700
    assert {mode(file) for file in directory(exchange).iterdir()} == {0o600}
    exchange.discard()
    assert not directory(exchange).exists()


def test_the_job_spec_is_written_without_secrets() -> None:
    exchange = Exchange.create_private()
    exchange.prepare(SPEC, SecretValues(hadoop={"fs.s3a.secret.key": "hush"}))
    text = (directory(exchange) / "spec.json").read_text()
    spec = JobSpec.model_validate_json(text)
    assert "hush" not in text
    assert spec.sources == SPEC.sources
    assert spec.result_path == exchange.result_location
    assert Path(exchange.result_location).parent == directory(exchange)
    assert spec.secrets_path is not None
    assert SecretValues.model_validate_json(Path(spec.secrets_path).read_bytes()).hadoop == {
        "fs.s3a.secret.key": "hush"
    }
    exchange.discard()


def test_the_connection_of_an_output_is_a_secret() -> None:
    exchange = Exchange.create_private()
    connection = RemoteConnection(kind=DatabaseKind.POSTGRESQL, database="d", host="h", password="hush-3")
    secrets = SecretValues(output=connection)
    exchange.prepare(SPEC, secrets)
    assert "hush-3" not in (directory(exchange) / "spec.json").read_text()
    assert "hush-3" not in repr(secrets)
    assert SecretValues.model_validate_json((directory(exchange) / "secrets.json").read_bytes()).output == connection
    assert (directory(exchange) / "secrets.json").stat().st_mode & 0o777 == 0o600
    exchange.discard()


def test_a_reader_sees_the_old_or_the_new_file_while_another_process_replaces_it(tmp_path: Path) -> None:
    files = DirectoryFiles(tmp_path / "run", SHARED_WITH_GROUP)
    files.write("owner", "0")
    last = 500

    def replace() -> None:
        for number in range(1, last + 1):
            files.write("owner", str(number))

    writer = threading.Thread(target=replace)
    writer.start()
    contents = [files.read("owner")]
    while writer.is_alive():
        contents.append(files.read("owner"))
    writer.join()
    assert set(contents) <= {str(number).encode() for number in range(last + 1)}
    assert files.read("owner") == str(last).encode()
    assert [(file.name, mode(file)) for file in files.directory.iterdir()] == [("owner", 0o660)]


def test_without_secrets_there_is_no_secrets_file() -> None:
    exchange = Exchange.create_private()
    exchange.prepare(SPEC, SecretValues())
    assert not (directory(exchange) / "secrets.json").exists()
    assert JobSpec.model_validate_json((directory(exchange) / "spec.json").read_bytes()).secrets_path is None
    exchange.discard()


def test_a_missing_or_invalid_result_is_none() -> None:
    exchange = Exchange.create_private()
    assert exchange.read_result() is None
    exchange.prepare(SPEC, SecretValues())
    assert exchange.read_result() is None
    Path(exchange.result_location).write_text('{"version": 1, "rows": ')
    assert exchange.read_result() is None
    Path(exchange.result_location).write_text(JobResult(rows=3).model_dump_json())
    assert exchange.read_result() == JobResult(rows=3)
    exchange.discard()


def test_missing_or_invalid_progress_is_none(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    exchange.prepare(SPEC, SecretValues())
    assert exchange.read_progress() is None
    path = Path(progress_path(exchange.result_location))
    path.write_text('{"files_done": 1, ')
    assert exchange.read_progress() is None
    path.write_text(Progress(files_done=1, files_total=2).model_dump_json())
    assert exchange.read_progress() == Progress(files_done=1, files_total=2)
    exchange.prepare(SPEC, SecretValues())
    assert exchange.read_progress() is None, "it was the progress of an earlier try"
    assert not path.exists()
    path.mkdir()
    assert Exchange.open_shared(ExchangeLocation(str(tmp_path), "run")).read_progress() is None
    exchange.discard()


def test_all_tries_of_one_run_share_a_directory(tmp_path: Path) -> None:
    first = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run 1"))
    assert directory(Exchange.open_shared(ExchangeLocation(str(tmp_path), "run 1"))) == directory(first)
    assert directory(Exchange.open_shared(ExchangeLocation(str(tmp_path), "run 2"))) != directory(first)
    assert mode(directory(first)) == 0o700


def test_a_new_job_deletes_the_result_of_an_earlier_try(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    exchange.prepare(SPEC, SecretValues())
    earlier = Path(exchange.result_location)
    earlier.write_text(JobResult(rows=3).model_dump_json())
    exchange.prepare(SPEC, SecretValues())
    assert exchange.read_result() is None
    assert not earlier.exists()


def test_a_late_result_of_an_earlier_try_is_ignored(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    exchange.prepare(SPEC, SecretValues())
    earlier = Path(exchange.result_location)
    exchange.prepare(SPEC, SecretValues())
    earlier.write_text(JobResult(rows=3).model_dump_json())
    assert exchange.read_result() is None


def test_a_try_writes_its_files_although_an_earlier_one_has_deleted_the_directory(tmp_path: Path) -> None:
    earlier, later = (Exchange.open_shared(ExchangeLocation(str(tmp_path), "run")) for _ in range(2))
    earlier.discard()
    later.prepare(SPEC, SecretValues())
    assert mode(directory(later)) == 0o700
    assert later.read_spec() is not None


def test_a_file_that_cannot_be_read_is_an_error_with_its_path(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    owner = directory(exchange) / "owner"
    owner.mkdir()
    with pytest.raises(SubmitFailedError, match=rf"^user \S+ of this worker cannot read {owner} \(IsADirectoryError"):
        exchange.is_taken_over(1)


def test_a_later_try_takes_over(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    assert not exchange.is_taken_over(1)
    exchange.take_over(2)
    assert (exchange.is_taken_over(1), exchange.is_taken_over(2)) == (True, False)
    exchange.discard()


@pytest.mark.parametrize("value", [None, "", "/nowhere/at/all", "file:///nowhere/at/all"])
def test_cluster_mode_requires_a_shared_directory(value: str | None) -> None:
    with pytest.raises(ConfigError, match="exchange_dir"):
        Exchange.open_shared(ExchangeLocation(value, "run"))


SECRETS = SecretValues(hadoop={"fs.s3a.secret.key": "hush-4"})


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """Set a key for the worker and return it."""
    key = Fernet.generate_key().decode()
    monkeypatch.setenv(KEY_VARIABLE, key)
    return key


def test_a_key_encrypts_the_credentials_for_their_spec(tmp_path: Path, key: str) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(tmp_path.as_uri(), "run"))
    exchange.prepare(SPEC, SECRETS)
    spec, secrets = (directory(exchange) / name for name in ("spec.json", "secrets.json"))
    assert "hush-4" not in secrets.read_text() + spec.read_text()
    plain = decrypt(secrets.read_text(), key, spec.read_text())
    assert SecretValues.model_validate_json(plain) == SECRETS
    exchange.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("key")
def test_with_a_key_worker_and_driver_may_be_users_of_one_group(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    exchange.prepare(SPEC, SECRETS)
    assert mode(directory(exchange)) == 0o770
    assert {mode(file) for file in directory(exchange).iterdir()} == {0o660}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
@pytest.mark.usefixtures("key")
def test_a_driver_of_another_user_exchanges_files_by_the_group_of_the_mount() -> None:
    group, stranger = 61_001, 61_002
    with tempfile.TemporaryDirectory() as mount:
        Path(mount).chmod(0o755)
        shared = Path(mount) / "exchange"
        shared.mkdir()
        os.chown(shared, 0, group)
        shared.chmod(0o2775)
        exchange = Exchange.open_shared(ExchangeLocation(str(shared), "run"))
        exchange.prepare(SPEC, SECRETS)
        result = exchange.result_location

        def run(script: str, members_of: int) -> int:
            command = ["/bin/sh", "-c", script, "sh", str(directory(exchange)), result]
            process = subprocess.run(
                command, check=False, capture_output=True, user=61_000, group=members_of, extra_groups=[]
            )
            return process.returncode

        assert run('cat "$1/spec.json"', stranger) != 0
        assert run('cat "$1/spec.json" "$1/secrets.json" && rm "$1/secrets.json"', group) == 0
        assert run("""echo '{"rows": 3}' > "$1/draft" && mv "$1/draft" "$2" """, group) == 0
        assert exchange.read_result() == JobResult(rows=3)
        exchange.discard()
        assert list(shared.iterdir()) == []


def test_an_invalid_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "password")
    with pytest.raises(ConfigError, match=f"{KEY_VARIABLE} on this worker: the key must be 32 random bytes"):
        Exchange.open_shared(ExchangeLocation(str(tmp_path), "run")).prepare(SPEC, SECRETS)


def test_without_a_key_credentials_are_not_written_where_others_can_read(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    directory(exchange).chmod(0o755)
    with pytest.raises(ConfigError, match="others may read") as error:
        exchange.prepare(SPEC, SECRETS)
    assert list(directory(exchange).iterdir()) == []
    for way in (KEY_VARIABLE, "secretKeyRef", "hadoop.security.credential.provider.path", "mounted directory"):
        assert way in str(error.value)
    exchange.prepare(SPEC, SecretValues())
    assert exchange.read_spec() is not None


def test_a_directory_that_an_earlier_try_has_deleted_is_created_again(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    Exchange.open_shared(ExchangeLocation(str(tmp_path), "run")).discard()
    exchange.prepare(SPEC, SECRETS)
    assert mode(directory(exchange)) == 0o700
    assert exchange.read_spec() is not None


def test_hidden_settings_stay_on_this_machine(tmp_path: Path) -> None:
    exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), "run"))
    path = exchange.hide("spark.my.secret hush-5")
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert tmp_path not in path.parents
    exchange.discard()
    assert not path.parent.exists()


def test_a_scheme_without_a_file_system_names_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"cannot open nosuch://bucket/x .*install the Airflow provider"):
        Exchange.open_shared(ExchangeLocation("nosuch://bucket/x", "run"))
