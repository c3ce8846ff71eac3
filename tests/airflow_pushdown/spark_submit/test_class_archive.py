"""Archives of Spark's classes: built by a real JVM, mapped by later JVMs. They never fail a job."""

from __future__ import annotations

import json
import logging
import os
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.spark_submit.archive_recording import use_archive
from airflow_pushdown.spark_submit.class_archive import DIRECTORY_VARIABLE, ClassArchive, class_archive
from airflow_pushdown.spark_submit.environment import child_environment
from airflow_pushdown.spark_submit.spark_installation import SparkInstallation, find_installation
from pushdown_spark.contract import JobSpec, QuerySpec, SourceSpec

OPTIONS = "SPARK_SUBMIT_OPTS"


@pytest.fixture(autouse=True)
def no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the JVM options of the tests, whose own archive would prevent another one."""
    monkeypatch.delenv(OPTIONS, raising=False)


@pytest.fixture
def installation(spark_python: str) -> SparkInstallation:
    return find_installation(binary="spark-submit", spark_home=None, spark_python=spark_python, environ=os.environ)


@pytest.fixture
def archive(tmp_path: Path, installation: SparkInstallation) -> ClassArchive:
    archive = class_archive(tmp_path / "archives", installation, os.environ)
    assert archive is not None
    return archive


@pytest.fixture
def environment(installation: SparkInstallation) -> dict[str, str]:
    return child_environment(os.environ, installation, extra={})


def java(place: Path, script: str) -> Path:
    """Return a Java home whose `java` program is a script."""
    program = place / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return place / "java"


def hook(installation: SparkInstallation, rows: Path) -> PushdownSubmitHook:
    source = {"format": "json", "path": [str(rows)], "schema": "a bigint"}
    spec = JobSpec(
        run_key="d/t/r/-1", sources={"s": SourceSpec.model_validate(source)}, query=QuerySpec(source="s", where="a > 1")
    )
    return PushdownSubmitHook.open(Submission(spec=spec, spark_python=installation.python))


def mapped_fraction(class_list: Path) -> float:
    """Return the share of Spark's SQL classes that a JVM has mapped, from its log of loaded classes."""
    spark = [line for line in class_list.read_text().splitlines() if "org.apache.spark.sql" in line]
    return sum("shared objects file (top)" in line for line in spark) / len(spark)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.json"
    path.write_text("".join(json.dumps({"a": number}) + "\n" for number in range(5)))
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the archives that jobs record."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"airflow-pushdown-{os.getuid()}" / "classes"


@pytest.mark.nightly
def test_the_second_job_starts_with_the_classes_of_the_first(
    installation: SparkInstallation,
    cache: Path,
    rows: Path,
    tmp_path: Path,
    local_spark: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = hook(installation, rows)
    first.submit()
    assert first.collect().rows == 3
    assert sorted(file.suffix for file in cache.iterdir()) == ["", ".bytes", ".jsa", ".lock"]
    assert cache.stat().st_mode & 0o022 == 0
    class_list = tmp_path / "loaded"
    monkeypatch.setenv(OPTIONS, f"-Xlog:class+load:file={class_list}")
    second = hook(installation, rows)
    second.submit()
    assert second.collect().rows == 3
    assert mapped_fraction(class_list) > 0.5


@pytest.mark.nightly
def test_a_jvm_that_refuses_to_record_runs_the_job_anyway(
    installation: SparkInstallation,
    cache: Path,
    rows: Path,
    tmp_path: Path,
    local_spark: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = tmp_path / "options"
    options.write_text(f"-XX:SharedArchiveFile={tmp_path}/missing.jsa\n")
    monkeypatch.setenv(OPTIONS, f"-XX:VMOptionsFile={options}")
    job = hook(installation, rows)
    job.submit()
    assert job.collect().rows == 3
    (archive,) = cache.glob("*.jsa")
    assert archive.stat().st_size == 0


def test_no_archive_is_used_if_the_settings_of_another_directory_name_one(
    installation: SparkInstallation, rows: Path, tmp_path: Path, local_spark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -XX:SharedArchiveFile=/mine.jsa\n")
    job = hook(installation, rows)
    environment = {**os.environ, OPTIONS: ""}
    with use_archive(None, installation, environment, job._settings) as archive:
        assert archive is None


@pytest.mark.nightly
@pytest.mark.parametrize("damage", ["truncated", "changed", "foreign"])
def test_a_damaged_archive_is_ignored(
    installation: SparkInstallation, cache: Path, rows: Path, local_spark: str, damage: str
) -> None:
    hook(installation, rows).submit()
    (path,) = cache.glob("*.jsa")
    content = bytearray(path.read_bytes())
    path.unlink()
    middle = len(content) // 2
    if damage == "changed":
        content[middle : middle + 4096] = bytes(255 - byte for byte in content[middle : middle + 4096])
    path.write_bytes({"truncated": content[:middle], "changed": content, "foreign": b"not an archive"}[damage])
    job = hook(installation, rows)
    job.submit()
    assert job.collect().rows == 3


@pytest.mark.nightly
def test_a_job_maps_the_classes_that_another_one_loaded(
    installation: SparkInstallation,
    archive: ClassArchive,
    rows: Path,
    tmp_path: Path,
    local_spark: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class_list = tmp_path / "loaded"
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(archive.path.parent))
    first = hook(installation, rows)
    first.submit()
    assert first.collect().rows == 3
    old_stat = archive.path.stat()
    assert old_stat.st_size > 0
    assert sorted(file.suffix for file in archive.path.parent.iterdir()) == ["", ".bytes", ".jsa", ".lock"]
    monkeypatch.setenv(OPTIONS, f"-Xlog:class+load:file={class_list}")
    settings = tmp_path / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 3\n")
    (settings / "log4j2.properties.template").write_text("")
    monkeypatch.setenv("SPARK_CONF_DIR", str(settings))
    second = hook(installation, rows)
    second.submit()
    assert second.collect().rows == 3
    assert archive.path.stat().st_ino == old_stat.st_ino
    assert mapped_fraction(class_list) > 0.5


def automatic(
    installation: SparkInstallation,
    environment: dict[str, str],
    settings: dict[str, str] | None = None,
    directory: str | None = None,
) -> tuple[bool, bool]:
    """Return whether a job has an archive, and whether it records it."""
    with use_archive(directory, installation, environment, settings or {}) as archive:
        return archive is not None, archive is not None and archive.is_recording


def record_classes(installation: SparkInstallation, environment: dict[str, str]) -> ClassArchive:
    """Return the archive that a job has recorded."""
    with use_archive(None, installation, environment, {}) as first:
        assert first is not None
        first.archive._draft.write_bytes(b"classes")
        first.finish(0, has_result=True)
    return first.archive


def test_other_jobs_run_without_an_archive_while_one_job_records_it(
    installation: SparkInstallation, environment: dict[str, str], cache: Path
) -> None:
    with use_archive(None, installation, environment, {}) as first:
        assert first is not None
        assert first.is_recording
        assert automatic(installation, environment) == (False, False)
        first.archive.configure_recording(["spark-submit"], environment)
        first.archive._draft.write_bytes(b"classes")
        first.finish(0, has_result=True)
    assert first.archive.path.read_bytes() == b"classes"
    assert automatic(installation, environment) == (True, False)
    # Another class path has another archive.
    assert automatic(installation, environment, {"spark.driver.extraClassPath": "/jars/a.jar"}) == (True, True)


def test_a_recording_deletes_unused_archives_and_no_file_of_another_program(
    installation: SparkInstallation, environment: dict[str, str], cache: Path
) -> None:
    used = record_classes(installation, environment)
    unused = {cache / f"spark-0123456789abcdef.{suffix}" for suffix in ("jsa", "bytes", "draft", "lock")}
    foreign = {cache / name for name in ("classes.jsa", "spark-events.jsa", "spark-0123456789abcdef")}
    for file in (*unused, *foreign, *used.path.parent.glob(f"{used.path.stem}.*")):
        file.touch()
        os.utime(file, (0, 0))
    os.utime(used.path)
    assert automatic(installation, environment, {"spark.driver.extraClassPath": "/jars/a.jar"}) == (True, True)
    assert [file for file in unused if file.exists()] == []
    assert [file for file in foreign if not file.exists()] == []
    assert used.is_usable


def test_an_archive_that_was_cut_short_is_recorded_again(
    installation: SparkInstallation, environment: dict[str, str], cache: Path
) -> None:
    record_classes(installation, environment).path.write_bytes(b"class")
    assert automatic(installation, environment) == (True, True)


def test_a_job_without_a_result_leaves_no_archive(
    installation: SparkInstallation, environment: dict[str, str], cache: Path
) -> None:
    with use_archive(None, installation, environment, {}) as first:
        assert first is not None
        first.archive._draft.write_bytes(b"half of the classes")
        first.finish(-9, has_result=False)
    assert not list(cache.glob("*.jsa"))
    assert not list(cache.glob("*.draft"))
    assert automatic(installation, environment) == (True, True)


def test_a_java_that_cannot_record_is_not_asked_again(
    installation: SparkInstallation, environment: dict[str, str], cache: Path
) -> None:
    with use_archive(None, installation, environment, {}) as first:
        assert first is not None
        first.finish(1, has_result=True)
    assert automatic(installation, environment) == (False, False)


def test_an_archive_is_not_used_again_after_a_crash_of_the_jvm(
    installation: SparkInstallation, environment: dict[str, str], cache: Path
) -> None:
    record_classes(installation, environment)
    with use_archive(None, installation, environment, {}) as second:
        assert second is not None
        second.finish(-signal.SIGSEGV, has_result=False)
    assert automatic(installation, environment) == (False, False)


@pytest.mark.parametrize(
    ("variables", "settings"),
    [
        ({"JAVA_TOOL_OPTIONS": "-Xshare:off"}, {}),
        ({OPTIONS: "-XX:+AutoCreateSharedArchive"}, {}),
        ({}, {"spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=/mine.jsa"}),
    ],
)
def test_a_user_who_configures_class_data_sharing_gets_no_archive(
    installation: SparkInstallation,
    environment: dict[str, str],
    cache: Path,
    variables: dict[str, str],
    settings: dict[str, str],
) -> None:
    assert automatic(installation, {**environment, **variables}, settings) == (False, False)


def test_a_pod_of_one_task_uses_and_records_no_archive(
    installation: SparkInstallation, environment: dict[str, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    assert automatic(installation, environment) == (False, False)


@pytest.mark.parametrize("kind", ["writable by all", "a file", "a link"])
def test_a_cache_that_others_may_change_is_not_used(
    installation: SparkInstallation, environment: dict[str, str], cache: Path, kind: str, tmp_path: Path
) -> None:
    if kind == "a file":
        cache.parent.touch()
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir()
        cache.parent.symlink_to(tmp_path / "elsewhere")
    else:
        cache.parent.mkdir()
        cache.parent.chmod(0o777)
    assert automatic(installation, environment) == (False, False)


def test_an_archive_that_cannot_be_created_says_why(
    installation: SparkInstallation,
    archive: ClassArchive,
    environment: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong = {**environment, "JAVA_HOME": str(java(tmp_path, "echo 'Error: not today' >&2; exit 1"))}
    archive.create(installation, wrong)
    assert "could not be created: not today" in caplog.text
    assert not archive.is_decided
    assert not list(tmp_path.rglob("*.draft"))


def test_the_reason_names_files_that_must_stay_on_the_class_path(
    installation: SparkInstallation, environment: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "log4j2.properties").write_text("")
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR"):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            assert class_archive(tmp_path / "a", installation, {**environment, name: str(tmp_path)}) is None
        assert f"does not allow {tmp_path / 'log4j2.properties'} on the class path" in caplog.text


def test_pods_use_the_archive_in_a_named_directory(
    installation: SparkInstallation, archive: ClassArchive, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image: pods of one task use the archive, and cannot write next to it."""
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    directory = str(archive.path.parent)
    assert automatic(installation, environment, directory=directory) == (True, True)
    assert automatic(installation, environment, directory="off") == (False, False)
    lock = archive.path.with_suffix(".lock")
    lock.unlink()
    lock.mkdir()
    assert automatic(installation, environment, directory=directory) == (False, False)
    archive._draft.write_bytes(b"classes")
    archive.keep_draft()
    assert automatic(installation, environment, directory=directory) == (True, False)
    archive.path.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="class_archives: other users may write to"):
        automatic(installation, environment, directory=directory)


def test_each_java_version_and_set_of_jars_has_its_own_archive(tmp_path: Path, installation: SparkInstallation) -> None:
    def place(home: Path, env: Mapping[str, str] = os.environ) -> str | None:
        other = SparkInstallation(binary=installation.binary, python=None, home=str(home))
        archive = class_archive(tmp_path / "archives", other, env)
        return archive.path.name if archive else None

    jars = tmp_path / "home" / "jars"
    jars.mkdir(parents=True)
    assert place(tmp_path / "home") is None
    (jars / "a.jar").write_bytes(b"a")
    first = place(tmp_path / "home")
    assert first is not None
    assert place(tmp_path / "home") == first
    (jars / "b.jar").write_bytes(b"b")
    assert place(tmp_path / "home") not in (first, None)
    (jars / "b.jar").unlink()
    assert place(tmp_path / "home", {**os.environ, "JAVA_HOME": str(java(tmp_path, "exit 1"))}) not in (first, None)
    assert place(tmp_path / "home", {**os.environ, "JAVA_HOME": str(tmp_path / "no")}) is None


def test_no_archive_is_used_with_conflicting_options(tmp_path: Path, installation: SparkInstallation) -> None:
    for option in ("-XX:SharedArchiveFile=/x.jsa", "-Xshare:off"):
        assert class_archive(tmp_path, installation, {OPTIONS: option}) is None


def test_other_java_options_and_paths_with_special_characters_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "with blank" / "a.jsa"
    file.parent.mkdir()
    file.write_bytes(b"classes")
    _, variables = ClassArchive(file, tmp_path).configure(["spark-submit"], {OPTIONS: "-Dmine=1"})
    assert variables[OPTIONS].startswith(f'-Dmine=1 "-XX:SharedArchiveFile={file}" ')


def test_an_unsuitable_archive_directory_is_rejected(tmp_path: Path, installation: SparkInstallation) -> None:
    with pytest.raises(ConfigError, match=r"class_archives: .* the path becomes a JVM option and must not contain"):
        class_archive(tmp_path / "a:b", installation, os.environ)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"class_archives: .* cannot be used"):
        class_archive(tmp_path / "file", installation, os.environ)


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_directory_that_others_may_write_to_is_rejected(
    tmp_path: Path, installation: SparkInstallation, mode: int
) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(ConfigError, match="class_archives: other users may write to"):
        class_archive(tmp_path, installation, os.environ)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a directory to another user")
def test_a_directory_of_another_user_is_rejected(tmp_path: Path, installation: SparkInstallation) -> None:
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 61_000, -1)
    with pytest.raises(ConfigError, match="class_archives: other users may write to"):
        class_archive(tmp_path, installation, os.environ)
