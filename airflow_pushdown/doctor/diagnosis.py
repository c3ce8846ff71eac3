"""The checks of an installation: both environments, Java, the connection to Spark, and the directories of jobs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.clusters.standalone import local_directory
from airflow_pushdown.doctor.findings import Finding, failure, note, ok
from airflow_pushdown.doctor.installation import class_archives, java, optional_jars, spark_python
from airflow_pushdown.doctor.reachability import source_connection, spark_master
from airflow_pushdown.doctor.requirements import airflow_packages
from airflow_pushdown.exceptions import PushdownTaskError
from airflow_pushdown.exchange.exchange import Exchange
from airflow_pushdown.hooks.connect_client import uses_spark_connect
from airflow_pushdown.hooks.connection import SparkConnectionHook
from airflow_pushdown.packaging import job_archive
from airflow_pushdown.spark_submit.class_archive import DIRECTORY_VARIABLE
from airflow_pushdown.spark_submit.conf_directory import PACKAGES_KEY, environment_script, submit_settings
from airflow_pushdown.spark_submit.environment import child_environment
from airflow_pushdown.spark_submit.spark_installation import find_installation
from pushdown_spark.contract.encryption import KEY_VARIABLE


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of a task that decide where and how its job runs. They have the same names in the operators."""

    conn_id: str
    spark_home: str | None = None
    spark_python: str | None = None
    exchange_dir: str | None = None
    exchange_conn_id: str | None = None
    class_archives: str | None = None
    packages: str | None = None
    source_conn_ids: Sequence[str] = ()


def diagnose(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about an installation, without starting Spark."""
    yield from airflow_packages()
    hook, finding = _connection(settings.conn_id)
    yield finding
    if hook is not None:
        yield from spark_master(hook, settings.conn_id)
        yield from _installation(hook, settings)
        yield _exchange_files(hook, settings.exchange_dir, settings.exchange_conn_id)
    yield _program_archive()
    for conn_id in settings.source_conn_ids:
        yield source_connection(conn_id)


def _connection(conn_id: str) -> tuple[SparkConnectionHook | None, Finding]:
    if uses_spark_connect(conn_id):
        return None, note("connection", f"{conn_id}: a Spark Connect server, which is not checked here")
    try:
        hook = SparkConnectionHook(conn_id=conn_id)
    except PushdownTaskError as error:
        return None, failure("connection", str(error))
    mode = "cluster" if hook.is_cluster else "client"
    return hook, ok("connection", f"{conn_id}: master {hook.master}, deploy mode {mode}")


def _installation(hook: SparkConnectionHook, settings: Settings) -> Iterator[Finding]:
    """Yield the findings about spark-submit, its Python, its Java and its jars."""
    try:
        installation = find_installation(
            binary=hook.binary, spark_home=settings.spark_home, spark_python=settings.spark_python, environ=os.environ
        )
        installation.check_supported()
    except PushdownTaskError as error:
        yield failure("spark-submit", str(error))
        return
    yield ok("spark-submit", f"{installation.binary}, Spark {installation.version or 'of unknown version'}")
    environment = child_environment(os.environ, installation, extra={})
    spark_settings = submit_settings(installation, {PACKAGES_KEY: settings.packages} if settings.packages else {})
    yield java(environment)
    home = installation.jars_home
    script = None if home is None else environment_script(home, environment)
    if script is not None:
        yield note("Spark Python", f"{script} may set another Python and another Java, which are not checked here")
    elif hook.is_cluster:
        yield note("Spark Python", "the driver runs on the cluster, so its Python is not checked here")
    else:
        yield from spark_python(installation, spark_settings, environment)
    if not hook.is_cluster:
        yield class_archives(installation, settings.class_archives or os.environ.get(DIRECTORY_VARIABLE), environment)
    yield from optional_jars(installation, spark_settings)


def _exchange_files(hook: SparkConnectionHook, exchange_dir: str | None, exchange_conn_id: str | None) -> Finding:
    """Return whether the files of a job can be written, and whether they can have credentials."""
    subject = "exchange_dir" if hook.is_cluster else "temporary files"
    shared = hook.exchange_location(exchange_dir, f"doctor/{platform.node()}/{os.getpid()}", exchange_conn_id)
    try:
        exchange = Exchange.create_private()
        if hook.is_cluster:
            exchange.discard()
            if hook.is_standalone_cluster and shared.exchange_dir:
                local_directory(shared.exchange_dir)
            exchange = Exchange.open_shared(shared)
        keeps_secrets = exchange.keeps_secrets
        exchange.check()
    except PushdownTaskError as error:
        return failure(subject, str(error))
    except OSError as error:
        return failure(subject, f"{error.filename}: {error.strerror}; set TMPDIR to a directory that this user owns")
    location = shared.exchange_dir if hook.is_cluster else Path(exchange.spec_location).parent.parent
    if not keeps_secrets:
        return failure(
            subject,
            f"other users could read credentials in {location}; use another one, or set {KEY_VARIABLE} as for clusters",
        )
    key_note = f", and credentials are encrypted with {KEY_VARIABLE}" if exchange.has_key else ""
    return ok(subject, f"{location} is writable{key_note}")


def _program_archive() -> Finding:
    """Return whether the archive of the program of all jobs can be written."""
    try:
        return ok("job archive", str(job_archive()))
    except OSError as error:
        return failure("job archive", str(error))
