"""Archives of a Spark environment for the parameter `archives`, for clusters whose workers lack the libraries.

    airflow-pushdown pack-environment /opt/spark /var/cache/airflow-pushdown

prints the path of an archive of the virtual environment in /opt/spark. It is packed once for each set of libraries.
"""

from __future__ import annotations

import hashlib
import tempfile
from importlib.metadata import distributions
from pathlib import Path

_EXCLUDED = ("*/pyspark/jars/*", "*/pyspark/examples/*", "*/pyspark/data/*", "*/__pycache__/*")
"""Files that executors have in their own installation of Spark."""


class NotPackedError(Exception):
    """An environment cannot be packed."""


def environment_archive(environment: Path, cache: Path, python_prefix: str | None = None) -> Path:
    """Return the archive of a virtual environment in the directory `cache`, after packing it if its libraries changed.

    `python_prefix` is the prefix of the workers' Python if it differs from this machine (`/usr`). Raises
    `NotPackedError`, also if the package venv-pack2 is missing.
    """
    target = cache / f"spark-environment-{_fingerprint(environment, python_prefix)}.tar.gz"
    if not target.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".packing-") as directory:
            draft = Path(directory) / target.name
            _pack(environment, draft, python_prefix)
            draft.replace(target)
    return target


def _pack(environment: Path, archive: Path, python_prefix: str | None) -> None:
    try:
        import venv_pack
    except ModuleNotFoundError as error:
        raise NotPackedError("venv-pack2 is not installed; pip install 'airflow-pushdown[pack]'") from error
    try:
        venv_pack.pack(
            prefix=str(environment),
            output=str(archive),
            python_prefix=python_prefix,
            filters=[("exclude", pattern) for pattern in _EXCLUDED],
        )
    except venv_pack.VenvPackException as error:
        raise NotPackedError(f"{environment} cannot be packed: {' '.join(str(error).split())}") from error


def _fingerprint(environment: Path, python_prefix: str | None) -> str:
    """Return a hash of the environment's Python, its libraries, and the settings of the archive."""
    configuration = environment / "pyvenv.cfg"
    if not configuration.is_file():
        raise NotPackedError(
            f"{environment} is not a virtual environment: it has no pyvenv.cfg; give the directory of one"
        )
    libraries = [str(path) for path in sorted(environment.glob("lib/python3.*/site-packages"))]
    versions = sorted(f"{library.name}=={library.version}" for library in distributions(path=libraries))
    parts = [configuration.read_text(encoding="utf-8"), str(python_prefix), *_EXCLUDED, *versions]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
