"""Packs a Spark environment for the parameter `archives`: for clusters whose workers have Python but no libraries.

    python -m airflow_pushdown.packed /opt/spark /var/cache/airflow-pushdown

prints the path of an archive of the virtual environment in /opt/spark. It is packed once for each set of libraries.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

_LEFT_OUT = ("*/pyspark/jars/*", "*/pyspark/examples/*", "*/pyspark/data/*", "*/__pycache__/*")
"""Of PySpark, executors have what is not Python in their own installation."""


class NotPackedError(Exception):
    """An environment that cannot be packed, and why."""


def environment_archive(environment: Path, cache: Path, python_prefix: str | None = None) -> Path:
    """The archive of a virtual environment, in the directory `cache`; packed anew where its libraries have changed.

    `python_prefix` is where the workers' Python is installed, if that is elsewhere than on this machine (`/usr`).
    Raises `NotPackedError`, also where the package venv-pack2 is missing.
    """
    target = cache / f"spark-environment-{_fingerprint(environment, python_prefix)}.tar.gz"
    if not target.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".packing-") as directory:
            packed = Path(directory) / target.name
            _pack(environment, packed, python_prefix)
            packed.replace(target)
    return target


def _pack(environment: Path, packed: Path, python_prefix: str | None) -> None:
    try:
        import venv_pack
    except ModuleNotFoundError as error:
        raise NotPackedError("venv-pack2 is not installed; pip install 'airflow-pushdown[pack]'") from error
    try:
        venv_pack.pack(
            prefix=str(environment),
            output=str(packed),
            python_prefix=python_prefix,
            filters=[("exclude", pattern) for pattern in _LEFT_OUT],
        )
    except venv_pack.VenvPackException as error:
        raise NotPackedError(f"{environment} cannot be packed: {' '.join(str(error).split())}") from error


def _fingerprint(environment: Path, python_prefix: str | None) -> str:
    """A text that changes with the environment's Python, its libraries, and what the archive is to look like."""
    configuration = environment / "pyvenv.cfg"
    if not configuration.is_file():
        raise NotPackedError(f"{environment} is no virtual environment: it has no pyvenv.cfg")
    libraries = [str(path) for path in sorted(environment.glob("lib/python3.*/site-packages"))]
    versions = sorted(f"{each.name}=={each.version}" for each in distributions(path=libraries))
    parts = [configuration.read_text(encoding="utf-8"), str(python_prefix), *_LEFT_OUT, *versions]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def main() -> int:
    """Pack the environment that the arguments name, and print the path of its archive."""
    parser = argparse.ArgumentParser(prog="python -m airflow_pushdown.packed", description=__doc__.splitlines()[0])
    parser.add_argument("environment", type=Path, help="the directory of a virtual environment with Spark's libraries")
    parser.add_argument("cache", type=Path, help="the directory to keep archives in")
    parser.add_argument("--python-prefix", help="where Python is installed on the workers, if that is elsewhere")
    arguments = parser.parse_args()
    try:
        print(environment_archive(arguments.environment, arguments.cache, arguments.python_prefix))
    except NotPackedError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
