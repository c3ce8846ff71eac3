"""The job's side of the exchange with its task: the spec and the secrets to read, the result to write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from py4j.java_gateway import JavaClass, JavaObject
from py4j.protocol import Py4JJavaError
from pydantic import ValidationError

from pushdown_spark.contract import JobResult, SecretValues
from pushdown_spark.contract.driver_claim import claim
from pushdown_spark.contract.encryption import KEY_ALIAS, KEY_VARIABLE, KEY_WAYS, DecryptionError, decrypt, is_encrypted
from pushdown_spark.contract.progress import Progress, progress_path
from pushdown_spark.errors import BadSpecError
from pushdown_spark.local_paths import is_local, local_path
from pushdown_spark.runtime.file_systems.file_paths import moves_directories
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles
from pushdown_spark.runtime.jvm_gateway import class_of_process, start_jvm


def read_text(name: str, path: str, advice: str = "") -> str:
    """Return the content of a file. `name` is the parameter or field with its path or URI, for error messages.

    Raises `BadSpecError` with the advice if the file cannot be read.
    """
    try:
        if (local := local_path(path)) is not None:
            return Path(local).read_text(encoding="utf-8")
        text = SubmittedFiles(path).read_text(path)
    except (OSError, ValueError) as problem:
        raise BadSpecError(f"{name}: cannot read {path}: {problem}{advice}") from problem
    except Py4JJavaError as problem:
        raise BadSpecError(f"{name}: cannot read {path}: {problem.java_exception}{advice}") from problem
    if text is None:
        raise BadSpecError(f"{name}: cannot read {path}: there is no such file{advice}")
    return text


def claim_result(result_path: str) -> None:
    """Record that this driver runs the submission with this result. Raises `BadSpecError` if it must not.

    Only drivers of a standalone cluster do it. Spark starts them in a directory that has the driver's id as its name.
    """
    driver_id = Path.cwd().name
    try:
        is_own = claim(result_path, driver_id) == driver_id
    except FileNotFoundError:
        is_own = False
    except OSError as problem:
        raise BadSpecError(f"--result: cannot claim {result_path}: {problem}") from problem
    if not is_own:
        raise replaced_driver_error(result_path)


def replaced_driver_error(result_path: str) -> BadSpecError:
    """Return the error of a driver whose task has ended or has submitted another driver."""
    return BadSpecError(
        f"--result: the task no longer waits for {result_path}; it has ended or has submitted another driver"
    )


def read_secrets(path: str, spec_text: str = "", *, keep: bool = False) -> SecretValues:
    """Read the file of secrets and delete it, unless `keep`. Encrypted secrets belong to the text of a spec."""
    text = read_text("secrets_path", path, "; it can only be used once")
    if not keep:
        _delete(path)
    if is_encrypted(text):
        text = _decrypt_secrets(path, text, spec_text)
    try:
        return SecretValues.model_validate_json(text)
    except ValidationError:
        # Not chained, because the cause would show the content of the file.
        raise BadSpecError(f"secrets_path: {path} does not have secrets in the expected form") from None


def write_result(path: str, result: JobResult, spec_path: str | None = None) -> None:
    """Write the result so that readers see the whole file or none. `spec_path` is the location of the spec."""
    _write_text(path, result.model_dump_json(), spec_path)


def write_progress(result_path: str, progress: Progress, spec_path: str | None) -> None:
    """Write the progress of a driver on a cluster to the directory of its result."""
    _write_text(progress_path(result_path), progress.model_dump_json(exclude_none=True), spec_path)


def _write_text(path: str, text: str, spec_path: str | None) -> None:
    """Write a file so that readers see the whole file or none. Local paths do not need a JVM.

    If the spec has a URI without a file, the task was killed and has deleted its files. Another file would stay there.
    """
    local = local_path(path)
    if local is None:
        files = SubmittedFiles(path)
        if spec_path is None or is_local(spec_path) or files.exists(spec_path):
            files.write_text(path, text)
        return
    target = Path(local)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            # A temporary file is private. The task may run as another user of the directory's group.
            os.fchmod(file.fileno(), 0o600 | target.parent.stat().st_mode & 0o060)
            file.write(text)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _delete(path: str) -> None:
    try:
        if (local := local_path(path)) is None:
            SubmittedFiles(path).delete(path)
        else:
            Path(local).unlink()
    except (OSError, Py4JJavaError) as problem:
        raise BadSpecError(f"secrets_path: cannot delete {path}: {problem}; it can only be used once") from problem


def _decrypt_secrets(path: str, text: str, spec_text: str) -> str:
    """Return decrypted secrets. Raises `BadSpecError` without a key or with another key."""
    key = os.environ.get(KEY_VARIABLE) or SubmittedFiles(path).credential(KEY_ALIAS)
    if not key:
        raise BadSpecError(
            f"secrets_path: {path} is encrypted, and this driver has no key; give it the key of the worker by one of: "
            f"{KEY_WAYS}"
        )
    try:
        return decrypt(text, key, spec_text)
    except ValueError as problem:
        raise BadSpecError(
            f"secrets_path: the key of this driver is invalid: {problem}; give it the worker's {KEY_VARIABLE}"
        ) from None
    except DecryptionError as problem:
        raise BadSpecError(
            f"secrets_path: cannot decrypt {path}: {problem}; give worker and driver the same {KEY_VARIABLE}"
        ) from None


class SubmittedFiles(HadoopFiles):
    """Hadoop's file systems in the JVM that spark-submit started, or in a new JVM without one."""

    def __init__(self, path: str) -> None:
        """Open the file system of a URI."""
        start_jvm()
        self._path_class = self._java_class("org.apache.hadoop.fs.Path")
        settings = self._java_class("org.apache.spark.SparkConf")()
        utilities = self._java_class("org.apache.spark.deploy.SparkHadoopUtil").get()
        self._configuration = utilities.newConfiguration(settings)
        self.moves_directories = moves_directories(path)

    def credential(self, alias: str) -> str | None:
        """Return an entry of the Hadoop credential providers, or None if there is no provider or no entry."""
        characters = self._configuration.getPasswordFromCredentialProviders(alias)
        return None if characters is None else "".join(map(str, characters))

    def _create(self, path: str) -> JavaObject:
        """Return the stream of a new file. If its directory is missing, the task has ended, and this fails."""
        if not self.moves_directories:
            return super()._create(path)
        return self._system(path).createFile(self._path(path)).overwrite(True).build()

    def _java_class(self, name: str) -> JavaClass:
        return class_of_process(name)
