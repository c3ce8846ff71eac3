"""The private directory for the spec, the secrets and the result of a job."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Self
from uuid import uuid4

from pydantic import ValidationError

from airflow_pushdown.exceptions import config_error
from pushdown_spark.contract import JobResult, JobSpec, SecretValues

_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


class Exchange:
    """The directory of one job, with mode 0700 and files of mode 0600."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def private(cls) -> Self:
        """Create a directory for a driver on this machine."""
        return cls(Path(tempfile.mkdtemp(prefix="airflow-pushdown-")))

    @classmethod
    def shared(cls, exchange_dir: str | None, run_key: str) -> Self:
        """Create the directory of one run below `exchange_dir`, for a driver on another machine.

        All tries of a run share it, so that a retry can read the result of a job that outlived its task. Raises
        `ConfigError` if `exchange_dir` is missing or this worker cannot use it.
        """
        if not exchange_dir:
            raise config_error(
                "exchange_dir: deploy mode cluster runs the driver on another machine; set a directory that "
                "worker and driver share"
            )
        if _URI.match(exchange_dir):
            raise config_error(f"exchange_dir: {exchange_dir} is a URI; set the path of a mounted, shared directory")
        if not Path(exchange_dir).is_dir():
            raise config_error(f"exchange_dir: {exchange_dir} is not a directory on this worker")
        directory = Path(exchange_dir) / hashlib.sha256(run_key.encode()).hexdigest()[:32]
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise config_error(
                f"exchange_dir: cannot create a directory below {exchange_dir} ({error.strerror})"
            ) from error
        return cls(directory)

    @property
    def spec_path(self) -> Path:
        """The path of the job spec."""
        return self.directory / "spec.json"

    @property
    def result_path(self) -> Path:
        """The path of the result of the last job that was prepared.

        Each job has its own, because a driver may outlive its try and write a result later than the next one.
        """
        spec = self.read_spec()
        return self.directory / "result.json" if spec is None or spec.result_path is None else Path(spec.result_path)

    @property
    def secrets_path(self) -> Path:
        """The path of the credentials, which the job reads and deletes."""
        return self.directory / "secrets.json"

    @property
    def properties_path(self) -> Path:
        """The path of settings that must not appear on a command line."""
        return self.directory / "spark.properties"

    def prepare(self, spec: JobSpec, secrets: SecretValues) -> None:
        """Write the spec and the credentials of a new job. The results of earlier tries are deleted."""
        for earlier in self.directory.glob("result*.json"):
            earlier.unlink(missing_ok=True)
        result_path = self.directory / f"result-{uuid4().hex}.json"
        secrets_path = None
        if secrets:
            secrets_path = str(self.secrets_path)
            self.write(self.secrets_path, secrets.model_dump_json())
        spec_with_paths = spec.model_copy(update={"result_path": str(result_path), "secrets_path": secrets_path})
        self.write(self.spec_path, spec_with_paths.model_dump_json(by_alias=True, exclude_none=True))

    def write(self, path: Path, text: str) -> None:
        """Write a new file of mode 0600. An existing file, which may have another mode, is deleted."""
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)

    def read_result(self) -> JobResult | None:
        """Return the result of the job, None if it is missing or invalid."""
        try:
            return JobResult.model_validate_json(self.result_path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def read_spec(self) -> JobSpec | None:
        """Return the spec of the last job that was prepared, None if it is missing or invalid."""
        try:
            return JobSpec.model_validate_json(self.spec_path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def discard(self) -> None:
        """Delete the directory and its content."""
        shutil.rmtree(self.directory, ignore_errors=True)
