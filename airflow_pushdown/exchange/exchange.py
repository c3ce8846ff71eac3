"""The exchange of the spec, the credentials and the result of a job between a task and its driver."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from airflow.sdk.log import mask_secret

from airflow_pushdown.exceptions import PushdownTaskError, config_error
from airflow_pushdown.exchange.exchange_files import PRIVATE, SHARED_WITH_GROUP, DirectoryFiles, ExchangeFiles, open_uri
from pushdown_spark.contract import JobResult, JobSpec, SecretValues
from pushdown_spark.contract.encryption import KEY_VARIABLE, KEY_WAYS, encrypt
from pushdown_spark.contract.progress import Progress, progress_path
from pushdown_spark.local_paths import local_path

_SPEC, _SECRETS, _OWNER = "spec.json", "secrets.json", "owner"
_RESULT_NAME = re.compile(r"result[-\w]*\.json$")
_NEW_KEY = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"


@dataclass(frozen=True)
class ExchangeLocation:
    """Where the tries of a run share files with their drivers on other machines.

    `conn_id` is the Airflow connection that gives the worker access to `exchange_dir`, if that is a URI.
    """

    exchange_dir: str | None
    run_key: str
    conn_id: str | None = None


class Exchange:
    """The files of one job: its spec, its credentials, its progress and its result.

    `key` encrypts the credentials. Without it, no other user may be able to read the files. `own` is the directory of
    the files if only this task uses it.
    """

    def __init__(self, files: ExchangeFiles, key: str | None = None, own: Path | None = None) -> None:
        self._files = files
        self._key = key
        self._own = own
        self._hidden: Path | None = None

    @classmethod
    def create_private(cls) -> Self:
        """Create a directory of mode 0700 for a driver on this machine."""
        directory = Path(tempfile.mkdtemp(prefix="airflow-pushdown-"))
        return cls(DirectoryFiles(directory), own=directory)

    @classmethod
    def open_shared(cls, location: ExchangeLocation) -> Self:
        """Open the files of one run, for a driver on another machine.

        All tries of a run share them, so that a retry can read the result of a job that outlived its task. Raises
        `ConfigError` if the location has no directory, or if this worker cannot use it.
        """
        exchange_dir = location.exchange_dir
        if not exchange_dir:
            raise config_error(
                "exchange_dir: deploy mode cluster runs the driver on another machine; set a directory or URI that "
                "worker and driver share"
            )
        key = os.environ.get(KEY_VARIABLE) or None
        if key is not None:
            mask_secret(key)
        name = hashlib.sha256(location.run_key.encode()).hexdigest()[:32]
        local = local_path(exchange_dir)
        if local is None:
            return cls(open_uri(exchange_dir, name, location.conn_id), key)
        parent = Path(local)
        if not parent.is_dir():
            raise config_error(
                f"exchange_dir: {exchange_dir} is not a directory on this worker; create it, or mount it here"
            )
        files = DirectoryFiles(parent / name, PRIVATE if key is None else SHARED_WITH_GROUP)
        try:
            files.create()
        except OSError as error:
            raise config_error(
                f"exchange_dir: cannot create a directory below {exchange_dir} ({error.strerror}); let the user of the "
                "worker write there"
            ) from error
        return cls(files, key)

    @property
    def spec_location(self) -> str:
        """The path or URI of the job spec, which is the argument of the program."""
        return self._files.location(_SPEC)

    @property
    def result_location(self) -> str:
        """The path or URI of the result of the last job that was prepared."""
        return self._files.location(self._result_name())

    @property
    def private_directories(self) -> list[Path]:
        """The directories of this machine that only this task uses."""
        return [directory for directory in (self._own, self._hidden) if directory is not None]

    @property
    def has_key(self) -> bool:
        """Whether credentials are encrypted."""
        return self._key is not None

    @property
    def keeps_secrets(self) -> bool:
        """Whether credentials can be written: they are encrypted, or no other user can read the files."""
        return self._key is not None or self._files.is_private

    def prepare(self, spec: JobSpec, secrets: SecretValues) -> None:
        """Write the spec and the credentials of a new job. The result of an earlier try is deleted.

        Raises `ConfigError` if others could read the credentials.
        """
        result = self._result_name()
        self._files.delete(result, progress_path(result), _SECRETS)
        # Each job has its own result, because a driver may outlive its try and write one later than the next try.
        result_path = self._files.location(f"result-{uuid4().hex}.json")
        secrets_path = self._files.location(_SECRETS) if secrets else None
        complete = spec.model_copy(update={"result_path": result_path, "secrets_path": secrets_path})
        text = complete.model_dump_json(by_alias=True, exclude_none=True)
        if secrets:
            self._files.write(_SECRETS, self._protect(secrets.model_dump_json(), text))
        self._files.write(_SPEC, text)

    def hide(self, properties: str) -> Path:
        """Write settings that must not appear on a command line to a private file of this machine."""
        if self._hidden is None:
            self._hidden = Path(tempfile.mkdtemp(prefix="airflow-pushdown-"))
        files = DirectoryFiles(self._hidden)
        files.write("spark.properties", properties)
        return Path(files.location("spark.properties"))

    def delete_hidden(self) -> None:
        """Delete the private file with settings, which only spark-submit needs."""
        if self._hidden is not None:
            shutil.rmtree(self._hidden, ignore_errors=True)
            self._hidden = None

    def read_result(self) -> JobResult | None:
        """Return the result of the job, or None if it is missing or invalid."""
        return JobResult.from_json(self._files.read(self._result_name()))

    def read_progress(self) -> Progress | None:
        """Return the progress of the job, or None if there is none. A failure to read it is ignored."""
        try:
            content = self._files.read(progress_path(self._result_name()))
        except PushdownTaskError:
            return None
        return Progress.from_json(content)

    def read_spec(self) -> JobSpec | None:
        """Return the spec of the last job that was prepared, or None if it is missing or invalid."""
        return JobSpec.from_json(self._files.read(_SPEC))

    def take_over(self, try_number: int) -> None:
        """Record the try that uses the files from now on. An earlier try may still be running."""
        self._files.write(_OWNER, str(try_number))

    def is_taken_over(self, try_number: int) -> bool:
        """Return whether a later try than this one uses the files."""
        content = self._files.read(_OWNER)
        return content is not None and int(content) > try_number

    def check(self) -> None:
        """Write and read a file, then delete everything. Raises a `PushdownTaskError` if that fails.

        A key that cannot encrypt is an error as well.
        """
        try:
            if self._key is not None:
                self._protect("{}", "{}")
            self._files.write(_SPEC, "{}")
            if self._files.read(_SPEC) != b"{}":
                raise config_error(
                    f"exchange_dir: {self.spec_location} was written, but reading it returned something else; use a "
                    "directory or URI that supports files"
                )
        finally:
            self.discard()

    def discard(self) -> None:
        """Delete all files of the job, the result and the spec that names it last."""
        self.delete_hidden()
        result = self._result_name()
        self._files.delete(_SECRETS, progress_path(result), _OWNER, result, _SPEC)
        self._files.close()

    def _result_name(self) -> str:
        """Return the name of the result of the last job that was prepared."""
        spec = self.read_spec()
        match = None if spec is None or spec.result_path is None else _RESULT_NAME.search(spec.result_path)
        return "result.json" if match is None else match[0]

    def _protect(self, secrets: str, spec: str) -> str:
        """Return the text to write for the credentials. Encrypted text can only be decrypted with the same spec."""
        if self._key is not None:
            try:
                return encrypt(secrets, self._key, spec)
            except ValueError as error:
                raise config_error(f"{KEY_VARIABLE} on this worker: {error}; create one with {_NEW_KEY}") from error
        if self._files.is_private:
            return secrets
        raise config_error(
            f"exchange_dir: the job has credentials, and others may read {self._files.location(_SECRETS)}; set "
            f"{KEY_VARIABLE} on the worker to a key ({_NEW_KEY}), and give the driver the same key by one of: "
            f"{KEY_WAYS}. Or use a mounted directory, with one user for worker and driver"
        )
