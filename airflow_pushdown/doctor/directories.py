"""Checks of the directories of jobs: the exchange of their files, and the archive of their program."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from airflow_pushdown.doctor.findings import Finding, failure, ok
from airflow_pushdown.exceptions import PushdownTaskError
from airflow_pushdown.hooks.connection import SparkConnectionHook
from airflow_pushdown.hooks.exchange import Exchange
from airflow_pushdown.hooks.standalone import require_directory
from airflow_pushdown.packaging import job_archive
from pushdown_spark.contract.encryption import KEY_VARIABLE


def exchange_files(hook: SparkConnectionHook, exchange_dir: str | None, exchange_conn_id: str | None) -> Finding:
    """Return whether the files of a job can be written, and whether they can have credentials."""
    subject = "exchange_dir" if hook.is_cluster else "temporary files"
    shared = hook.exchange_location(exchange_dir, f"doctor/{platform.node()}/{os.getpid()}", exchange_conn_id)
    try:
        exchange = Exchange.create_private()
        if hook.is_cluster:
            exchange.discard()
            if hook.is_standalone_cluster and shared.exchange_dir:
                require_directory(shared.exchange_dir)
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
    encrypted = f", and credentials are encrypted with {KEY_VARIABLE}" if exchange.has_key else ""
    return ok(subject, f"{location} is writable{encrypted}")


def program_archive() -> Finding:
    """Return whether the archive of the program of all jobs can be written."""
    try:
        return ok("job archive", str(job_archive()))
    except OSError as error:
        return failure("job archive", str(error))
