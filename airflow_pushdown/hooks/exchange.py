"""The private directory through which a job gets its description and secrets and gives back its result."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from airflow_pushdown.exceptions import config_error
from pushdown_spark.contract import JobResult, JobSpec, SecretValues

_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


class Exchange:
    """One job's directory: mode 0700, every file in it 0600."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def private(cls) -> Self:
        """A new directory on this machine, for a driver that runs on this machine."""
        return cls(Path(tempfile.mkdtemp(prefix="airflow-pushdown-")))

    @classmethod
    def shared(cls, exchange_dir: str | None, run_key: str) -> Self:
        """The directory of one run below `exchange_dir`, for a driver that runs elsewhere.

        The same for every try of a run, so that a retry can pick up the result of a job that outlived its task.
        Raises `ConfigError` when `exchange_dir` is missing or no directory that this worker can use.
        """
        if not exchange_dir:
            raise config_error(
                "exchange_dir: deploy mode cluster runs the driver on another machine; give a directory that "
                "worker and driver both see"
            )
        if _URI.match(exchange_dir):
            raise config_error(f"exchange_dir: {exchange_dir} is a URI; give the path of a mounted, shared directory")
        if not Path(exchange_dir).is_dir():
            raise config_error(f"exchange_dir: {exchange_dir} is not a directory on this worker")
        directory = Path(exchange_dir) / hashlib.sha256(run_key.encode()).hexdigest()[:32]
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise config_error(
                f"exchange_dir: cannot make a directory below {exchange_dir} ({error.strerror})"
            ) from error
        return cls(directory)

    @property
    def spec_path(self) -> Path:
        """Where the job's description lies."""
        return self.directory / "spec.json"

    @property
    def result_path(self) -> Path:
        """Where the job writes its result."""
        return self.directory / "result.json"

    @property
    def secrets_path(self) -> Path:
        """Where the credentials lie until the job has read and deleted them."""
        return self.directory / "secrets.json"

    @property
    def properties_path(self) -> Path:
        """Where settings lie that must not appear on a command line."""
        return self.directory / "spark.properties"

    def prepare(self, spec: JobSpec, secrets: SecretValues) -> None:
        """Write description and credentials for a new job; a result that an earlier try left is removed."""
        self.result_path.unlink(missing_ok=True)
        secrets_path = None
        if secrets.hadoop or secrets.remote:
            secrets_path = str(self.secrets_path)
            self.write(self.secrets_path, secrets.model_dump_json())
        placed = spec.model_copy(update={"result_path": str(self.result_path), "secrets_path": secrets_path})
        self.write(self.spec_path, placed.model_dump_json(by_alias=True, exclude_none=True))

    def write(self, path: Path, text: str) -> None:
        """Write a file of mode 0600, anew: an existing file of another mode is not reused."""
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)

    def read_result(self) -> JobResult | None:
        """The job's result, or None where it left none that can be read."""
        try:
            return JobResult.model_validate_json(self.result_path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def discard(self) -> None:
        """Remove the directory with everything in it."""
        shutil.rmtree(self.directory, ignore_errors=True)
