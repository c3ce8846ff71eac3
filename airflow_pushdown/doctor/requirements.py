"""Checks of the packages of both environments, by the requirements of the two distributions."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata, resources

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from airflow_pushdown.doctor.findings import Finding, failure, ok
from airflow_pushdown.spark_submit.spark_python import INSTALL_COMMAND, SparkPython

AIRFLOW_SIDE, SPARK_SIDE = "airflow-pushdown", "pushdown-spark"
"""The distributions."""


def airflow_packages() -> Iterator[Finding]:
    """Yield the findings about the packages of this environment, by the requirements of the installed package."""
    try:
        distribution = metadata.distribution(AIRFLOW_SIDE)
    except metadata.PackageNotFoundError:
        yield failure("Airflow side", f'{AIRFLOW_SIDE} is not installed; run pip install "{AIRFLOW_SIDE}"')
        return
    yield python_version("Airflow Python", sys.executable, platform.python_version(), AIRFLOW_SIDE)
    requirements = [Requirement(text) for text in distribution.requires or ()]
    required = [requirement for requirement in requirements if requirement.marker is None]
    problems = list(_unmet(required, _installed_versions(requirement.name for requirement in required)))
    if problems:
        yield failure(
            "Airflow side", f'{"; ".join(problems)}; run pip install "{AIRFLOW_SIDE}=={distribution.version}"'
        )
        return
    packages = ("apache-airflow", "apache-airflow-providers-apache-spark", SPARK_SIDE)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    yield ok("Airflow side", f"{AIRFLOW_SIDE} {distribution.version}, {versions}")


def python_version(subject: str, executable: str, version: str, distribution: str) -> Finding:
    """Return whether a distribution of this environment supports a version of Python."""
    versions = metadata.metadata(distribution)["Requires-Python"]
    if versions and not SpecifierSet(versions).contains(version, prereleases=True):
        return failure(subject, f"{executable} is Python {version}; install Python {versions}")
    return ok(subject, f"{executable}, Python {version}")


def spark_packages(python: SparkPython, requirements: Iterable[Requirement]) -> Finding:
    """Return the finding about the packages of the Spark environment, by the requirements of jobs."""
    airflow_version = metadata.version(SPARK_SIDE)
    version = python.distributions.get(SPARK_SIDE)
    problems = list(_unmet(requirements, python.distributions))
    if version not in (None, airflow_version):
        problems.append(f"{SPARK_SIDE} is {version} here and {airflow_version} in Airflow's environment")
    if problems:
        advice = f"run {python.executable} -m {INSTALL_COMMAND.replace(']', f']=={airflow_version}')}"
        return failure("Spark side", f"{'; '.join(problems)}; {advice}")
    pyspark = python.distributions.get("pyspark", "of the Spark installation")
    return ok("Spark side", f"{SPARK_SIDE} {version or 'sent with each job'}, pyspark {pyspark}")


def job_requirements() -> list[Requirement]:
    """Return the requirements of jobs, which are a file of the Spark side."""
    lines = resources.files("pushdown_spark").joinpath("requirements.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]


def _installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the packages that this environment has."""
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _unmet(requirements: Iterable[Requirement], versions: Mapping[str, str]) -> Iterator[str]:
    """Yield the requirements that installed versions do not meet. Spark itself may bring PySpark."""
    for requirement in requirements:
        version = versions.get(requirement.name)
        if version is None and requirement.name != "pyspark":
            yield f"{requirement.name} is missing"
        elif version is not None and not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} is {version}, not {requirement.specifier}"
