"""Checks of the Spark installation of this machine: its Java, its Python, its CDS archives and its jars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from airflow_pushdown.doctor.findings import Finding, failure, note, ok
from airflow_pushdown.doctor.requirements import SPARK_SIDE, job_requirements, python_version, spark_packages
from airflow_pushdown.exceptions import PushdownTaskError
from airflow_pushdown.spark_submit.archive_recording import OFF
from airflow_pushdown.spark_submit.class_archive import class_archive
from airflow_pushdown.spark_submit.conf_directory import JARS_KEY, PACKAGES_KEY
from airflow_pushdown.spark_submit.java import MIN_JAVA, describe_java, find_java
from airflow_pushdown.spark_submit.spark_installation import SPARK_PYTHON_VARIABLE, SparkInstallation
from airflow_pushdown.spark_submit.spark_python import check_libraries, check_pyspark, describe_python, driver_python

_HADOOP = re.compile(r"hadoop-client-api-(?P<version>\d.*)\.jar")
_JDBC_DRIVERS: Mapping[str, str] = {
    "PostgreSQL": "org.postgresql:postgresql",
    "MySQL": "com.mysql:mysql-connector-j",
    "MariaDB": "org.mariadb.jdbc:mariadb-java-client",
    "SQLite": "org.xerial:sqlite-jdbc",
}
"""Maven coordinates of drivers. The names of the jars start with the part after the colon."""


def java(environment: Mapping[str, str]) -> Finding:
    """Return the finding about the Java that spark-submit starts."""
    program = find_java(environment)
    advice = f"install Java {MIN_JAVA} or newer, and set JAVA_HOME to its directory"
    if program is None:
        return failure("Java", f"there is no Java in JAVA_HOME or on PATH; {advice}")
    runtime = describe_java(program)
    if runtime is None:
        return failure("Java", f"{program} does not run; {advice}")
    if not runtime.is_supported:
        return failure("Java", f"{program} is Java {runtime.version}; {advice}")
    return ok("Java", f"{program}, Java {runtime.version}")


def spark_python(
    installation: SparkInstallation, settings: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield the findings about the Python of drivers on this machine, and about the libraries in it."""
    requirements = job_requirements()
    executable = driver_python(settings, environment)
    names = (SPARK_SIDE, *(requirement.name for requirement in requirements))
    python = describe_python(executable, environment, names) if executable else None
    if python is None:
        yield failure(
            "Spark Python",
            f"{executable or 'python3'} does not run; set {SPARK_PYTHON_VARIABLE} to the Python of the Spark "
            "environment",
        )
        return
    try:
        check_pyspark(python, installation.binary, installation.version)
        check_libraries(python)
    except PushdownTaskError as error:
        yield failure("Spark Python", str(error))
        return
    yield python_version("Spark Python", python.executable, python.version, SPARK_SIDE)
    yield spark_packages(python, requirements)


def class_archives(installation: SparkInstallation, directory: str | None, environment: Mapping[str, str]) -> Finding:
    """Return the finding about CDS archives in the `directory` of the parameter or of its variable."""
    subject = "CDS archives"
    if not directory:
        return note(subject, "the first task records one, in a private temporary directory of its user")
    if directory == OFF:
        return note(subject, "no archives")
    try:
        archive = class_archive(Path(directory), installation, environment)
    except PushdownTaskError as error:
        return failure(subject, str(error))
    if archive is None:
        return note(subject, f"{directory} is not used with this Java and these settings")
    if archive.is_decided and not archive.is_usable:
        return note(subject, f"the archive could not be recorded; to try again, delete {archive.path}")
    state = "exists" if archive.is_usable else "will be recorded by the first task"
    return ok(subject, f"{archive.path} {state}")


def optional_jars(installation: SparkInstallation, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about jars that only some jobs need."""
    names = [jar.name for jar in installation.jars]
    requests = f"{settings.get(PACKAGES_KEY, '')},{settings.get(JARS_KEY, '')}"
    if _has_jar("hadoop-aws", names, requests):
        yield ok("S3", "hadoop-aws is available")
    else:
        hadoop = next((match["version"] for name in names if (match := _HADOOP.fullmatch(name))), "VERSION")
        text = f'tasks with s3a: paths need packages="org.apache.hadoop:hadoop-aws:{hadoop}"'
        uses_s3 = any(key.startswith("spark.hadoop.fs.s3a.") for key in settings)
        yield failure("S3", f"Spark is configured for s3a, but {text}") if uses_s3 else note("S3", text)
    drivers = [
        name for name, artifact in _JDBC_DRIVERS.items() if _has_jar(artifact.partition(":")[2], names, requests)
    ]
    text = f"drivers of {', '.join(drivers)}" if drivers else 'no drivers; only transport="jdbc" needs them'
    yield ok("JDBC", text) if drivers else note("JDBC", text)


def _has_jar(name: str, jars: Iterable[str], requests: str) -> bool:
    """Return whether Spark has a jar, or loads it because of packages and jars of the settings."""
    return any(jar.startswith(f"{name}-") for jar in jars) or re.search(rf"\b{name}\b", requests) is not None
