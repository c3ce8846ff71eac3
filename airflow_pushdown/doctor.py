"""Checks of an installation: both environments, Java, the connection to Spark, and the directories of jobs."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata, resources
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from airflow_pushdown.exceptions import PushdownTaskError
from airflow_pushdown.hooks.archive_recording import OFF
from airflow_pushdown.hooks.class_archive import DIRECTORY_VARIABLE, class_archive
from airflow_pushdown.hooks.conf_directory import environment_script
from airflow_pushdown.hooks.connection import SparkConnectionHook
from airflow_pushdown.hooks.credentials import OBJECT_STORE_TYPES, airflow_connection, object_store_secrets
from airflow_pushdown.hooks.database_connections import database_connection
from airflow_pushdown.hooks.environment import (
    SPARK_PYTHON_VARIABLE,
    SparkInstallation,
    child_environment,
    find_installation,
)
from airflow_pushdown.hooks.exchange import Exchange
from airflow_pushdown.hooks.installation import (
    jars_home,
    require_supported_spark,
    spark_jars,
    spark_version,
    submit_settings,
)
from airflow_pushdown.hooks.java import OLDEST_JAVA, describe_java, find_java
from airflow_pushdown.hooks.spark_python import (
    INSTALL_COMMAND,
    SparkPython,
    describe_python,
    driver_python,
    require_libraries,
    require_matching_pyspark,
)
from airflow_pushdown.hooks.standalone import require_directory
from airflow_pushdown.packaging import job_archive
from pushdown_spark.contract.encryption import KEY_VARIABLE

_AIRFLOW_SIDE, _SPARK_SIDE = "airflow-pushdown", "pushdown-spark"
_CONNECT_SECONDS = 5
_ADDRESS = re.compile(r"(?:spark://)?(?P<host>[^:,/]+|\[[^\]]+\]):(?P<port>\d+)")
_HADOOP = re.compile(r"hadoop-client-api-(?P<version>\d.*)\.jar")
_JDBC_DRIVERS: Mapping[str, str] = {
    "PostgreSQL": "org.postgresql:postgresql",
    "MySQL": "com.mysql:mysql-connector-j",
    "MariaDB": "org.mariadb.jdbc:mariadb-java-client",
    "SQLite": "org.xerial:sqlite-jdbc",
}
"""Maven coordinates of drivers. The names of the jars start with the part after the colon."""


class CheckStatus(StrEnum):
    """The result of a check. A note is information about something that not every job needs."""

    OK = "ok"
    NOTE = "note"
    FAILED = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was checked, and what was found or what to do."""

    status: CheckStatus
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.status:<5} {self.subject:<17} {self.text}"


@dataclass(frozen=True)
class Settings:
    """The parameters of a task that decide where and how its job runs. The names are those of the operators."""

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
    yield from _airflow_packages()
    hook, finding = _connection(settings.conn_id)
    yield finding
    if hook is not None:
        yield from _master(hook, settings)
        yield from _installation(hook, settings)
        yield _exchange(hook, settings)
    yield _job_archive()
    for conn_id in settings.source_conn_ids:
        yield _source_connection(conn_id)


def _airflow_packages() -> Iterator[Finding]:
    """Yield the findings about the packages of this environment, by the requirements of the installed package."""
    try:
        distribution = metadata.distribution(_AIRFLOW_SIDE)
    except metadata.PackageNotFoundError:
        yield _failure("Airflow side", f'{_AIRFLOW_SIDE} is not installed; run pip install "{_AIRFLOW_SIDE}"')
        return
    python = platform.python_version()
    supported = distribution.metadata["Requires-Python"]
    if supported and not SpecifierSet(supported).contains(python, prereleases=True):
        yield _failure("Airflow Python", f"Python {python} is not supported; install Python {supported}")
    else:
        yield _ok("Airflow Python", f"Python {python}")
    requirements = [Requirement(text) for text in distribution.requires or ()]
    needed = [requirement for requirement in requirements if requirement.marker is None]
    problems = list(_unmet(needed, _installed_versions(requirement.name for requirement in needed)))
    if problems:
        yield _failure(
            "Airflow side", f'{"; ".join(problems)}; run pip install "{_AIRFLOW_SIDE}=={distribution.version}"'
        )
        return
    shown = ("apache-airflow", "apache-airflow-providers-apache-spark", _SPARK_SIDE)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in shown)
    yield _ok("Airflow side", f"{_AIRFLOW_SIDE} {distribution.version}, {versions}")


def _connection(conn_id: str) -> tuple[SparkConnectionHook | None, Finding]:
    try:
        hook = SparkConnectionHook(conn_id=conn_id)
    except PushdownTaskError as error:
        return None, _failure("connection", str(error))
    mode = "cluster" if hook.is_cluster else "client"
    return hook, _ok("connection", f"{conn_id}: master {hook.master}, deploy mode {mode}")


def _master(hook: SparkConnectionHook, settings: Settings) -> Iterator[Finding]:
    """Yield whether the master is reachable, where this can be checked without Spark."""
    if hook.master.startswith("spark:"):
        addresses = [(match["host"].strip("[]"), int(match["port"])) for match in _ADDRESS.finditer(hook.master)]
        if not addresses:
            yield _failure("master", f"{hook.master} has no port; set the host to spark://host:7077")
            return
        advice = f"start the master, or correct host and port of the connection {settings.conn_id}"
        yield _reachable("master", hook.master, addresses, advice)
        if hook.is_standalone_cluster:
            servers = [(host, hook.rest_port) for host, _ in addresses]
            advice = (
                "drivers in deploy mode cluster are submitted to it; start the master with "
                f"spark.master.rest.enabled=true, or correct the extra rest-port of the connection {settings.conn_id}"
            )
            yield _reachable("REST server", f"port {hook.rest_port} of the master", servers, advice)
    elif hook.master.startswith("yarn") and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        yield _failure("master", "yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR on the worker; set one of them")


def _reachable(subject: str, name: str, addresses: Sequence[tuple[str, int]], advice: str) -> Finding:
    """Return whether at least one of several servers accepts connections."""
    problems = [problem for host, port in addresses if (problem := _unreachable(host, port))]
    if len(problems) == len(addresses):
        return _failure(subject, f"{'; '.join(problems)}; {advice}")
    return _ok(subject, f"{name} accepts connections")


def _installation(hook: SparkConnectionHook, settings: Settings) -> Iterator[Finding]:
    """Yield the findings about spark-submit, its Python, its Java and its jars."""
    try:
        installation = find_installation(
            binary=hook.binary,
            spark_home=settings.spark_home,
            spark_python=settings.spark_python,
            environ=os.environ,
        )
        require_supported_spark(installation)
    except PushdownTaskError as error:
        yield _failure("spark-submit", str(error))
        return
    yield _ok("spark-submit", f"{installation.binary}, Spark {spark_version(installation) or 'of unknown version'}")
    environment = child_environment(os.environ, installation, extra={})
    given = submit_settings(installation, {})
    yield _java(environment)
    home = jars_home(installation)
    script = None if home is None else environment_script(home, environment)
    if script is not None:
        yield _note("Spark Python", f"{script} may set another Python and another Java, which are not checked here")
    elif hook.is_cluster:
        yield _note("Spark Python", "the driver runs on the cluster, so its Python is not checked here")
    else:
        yield from _spark_python(installation, given, environment)
    yield from _class_archives(installation, settings, environment)
    yield from _optional_jars(installation, given, settings)


def _java(environment: Mapping[str, str]) -> Finding:
    program = find_java(environment)
    advice = f"install Java {OLDEST_JAVA} or newer, and set JAVA_HOME to its directory"
    if program is None:
        return _failure("Java", f"there is no Java in JAVA_HOME or on PATH; {advice}")
    java = describe_java(program)
    if java is None:
        return _failure("Java", f"{program} does not run; {advice}")
    if not java.is_supported:
        return _failure("Java", f"{program} is Java {java.version}; {advice}")
    return _ok("Java", f"{program}, Java {java.version}")


def _spark_python(
    installation: SparkInstallation, settings: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield the findings about the Python of drivers on this machine, and about the libraries in it."""
    requirements = _job_requirements()
    executable = driver_python(settings, environment)
    names = (_SPARK_SIDE, *(requirement.name for requirement in requirements))
    python = describe_python(executable, environment, names) if executable else None
    if python is None:
        yield _failure(
            "Spark Python",
            f"{executable or 'python3'} does not run; set {SPARK_PYTHON_VARIABLE} to the Python of the Spark "
            "environment",
        )
        return
    try:
        require_matching_pyspark(python, installation.binary, spark_version(installation))
        require_libraries(python)
    except PushdownTaskError as error:
        yield _failure("Spark Python", str(error))
        return
    supported = metadata.metadata(_SPARK_SIDE)["Requires-Python"]
    if supported and not SpecifierSet(supported).contains(python.version, prereleases=True):
        yield _failure("Spark Python", f"{executable} is Python {python.version}; install Python {supported}")
    else:
        yield _ok("Spark Python", f"{executable}, Python {python.version}")
    yield _spark_packages(python, requirements)


def _spark_packages(python: SparkPython, requirements: Iterable[Requirement]) -> Finding:
    """Return the finding about the packages of the Spark environment, by the requirements of jobs."""
    airflow_version = metadata.version(_SPARK_SIDE)
    version = python.distributions.get(_SPARK_SIDE)
    problems = list(_unmet(requirements, python.distributions))
    if version not in (None, airflow_version):
        problems.append(f"{_SPARK_SIDE} is {version} here and {airflow_version} in Airflow's environment")
    if problems:
        advice = f"run {python.executable} -m {INSTALL_COMMAND.replace(']', f']=={airflow_version}')}"
        return _failure("Spark side", f"{'; '.join(problems)}; {advice}")
    pyspark = python.distributions.get("pyspark", "of the Spark installation")
    return _ok("Spark side", f"{_SPARK_SIDE} {version or 'sent with each job'}, pyspark {pyspark}")


def _class_archives(
    installation: SparkInstallation, settings: Settings, environment: Mapping[str, str]
) -> Iterator[Finding]:
    directory = settings.class_archives or os.environ.get(DIRECTORY_VARIABLE)
    if directory is None or directory == OFF:
        state = (
            "no archives" if directory else "the first task records one, in a private temporary directory of its user"
        )
        yield _note("class archives", state)
        return
    try:
        archive = class_archive(Path(directory), installation, environment)
    except PushdownTaskError as error:
        yield _failure("class archives", str(error))
        return
    if archive is None:
        yield _note("class archives", f"{directory} is not used with this Java and these settings")
    elif archive.is_settled and not archive.is_usable:
        yield _note("class archives", f"the archive could not be recorded; to try again, delete {archive.path}")
    else:
        state = "exists" if archive.is_usable else "will be recorded by the first task"
        yield _ok("class archives", f"{archive.path} {state}")


def _optional_jars(installation: SparkInstallation, given: Mapping[str, str], settings: Settings) -> Iterator[Finding]:
    """Yield the findings about jars that only some jobs need."""
    names = [jar.name for jar in spark_jars(installation)]
    named = f"{settings.packages or given.get('spark.jars.packages', '')},{given.get('spark.jars', '')}"
    if _has_jar("hadoop-aws", names, named):
        yield _ok("S3", "hadoop-aws is available")
    else:
        hadoop = next((match["version"] for name in names if (match := _HADOOP.fullmatch(name))), "VERSION")
        text = f'tasks with s3a: paths need packages="org.apache.hadoop:hadoop-aws:{hadoop}"'
        uses_s3 = any(key.startswith("spark.hadoop.fs.s3a.") for key in given)
        yield _failure("S3", f"Spark is configured for s3a, but {text}") if uses_s3 else _note("S3", text)
    drivers = [name for name, artifact in _JDBC_DRIVERS.items() if _has_jar(artifact.partition(":")[2], names, named)]
    text = f"drivers of {', '.join(drivers)}" if drivers else 'no drivers; only transport="jdbc" needs them'
    yield _ok("JDBC", text) if drivers else _note("JDBC", text)


def _has_jar(name: str, jars: Iterable[str], named: str) -> bool:
    """Return whether Spark has a jar, or loads it because of packages and jars of the settings."""
    return any(jar.startswith(f"{name}-") for jar in jars) or re.search(rf"\b{name}\b", named) is not None


def _exchange(hook: SparkConnectionHook, settings: Settings) -> Finding:
    """Return whether the files of a job can be written, and whether they can have credentials."""
    subject = "exchange_dir" if hook.is_cluster else "temporary files"
    directory = settings.exchange_dir or hook.exchange_extras[0]
    conn_id = settings.exchange_conn_id or hook.exchange_extras[1]
    try:
        exchange = Exchange.create_private()
        if hook.is_cluster:
            exchange.discard()
            if hook.is_standalone_cluster and directory:
                require_directory(directory)
            run_key = f"doctor/{platform.node()}/{os.getpid()}"
            exchange = Exchange.open_shared(directory, run_key, conn_id)
        keeps_secrets = exchange.keeps_secrets
        exchange.check()
    except PushdownTaskError as error:
        return _failure(subject, str(error))
    except OSError as error:
        return _failure(subject, f"{error.filename}: {error.strerror}; set TMPDIR to a directory that this user owns")
    location = directory if hook.is_cluster else Path(exchange.spec_location).parent.parent
    if not keeps_secrets:
        return _failure(
            subject,
            f"other users could read credentials in {location}; use another one, or set {KEY_VARIABLE} as for clusters",
        )
    encrypted = f", and credentials are encrypted with {KEY_VARIABLE}" if exchange.has_key else ""
    return _ok(subject, f"{location} is writable{encrypted}")


def _job_archive() -> Finding:
    try:
        return _ok("job archive", str(job_archive()))
    except OSError as error:
        return _failure("job archive", str(error))


def _source_connection(conn_id: str) -> Finding:
    """Return the finding about a connection to a database or an object store."""
    subject = "source"
    try:
        connection = airflow_connection("source_conn_id", conn_id)
        if connection.conn_type in OBJECT_STORE_TYPES:
            object_store_secrets(connection)
            return _ok(subject, f"{conn_id}: object store")
        database = database_connection(connection)
    except PushdownTaskError as error:
        return _failure(subject, str(error))
    if database.host is None:
        is_file = Path(database.database).is_file()
        missing = f"{conn_id}: there is no file {database.database} on this machine; correct the connection's host"
        return _ok(subject, f"{conn_id}: {database.database}") if is_file else _failure(subject, missing)
    problem = _unreachable(database.host, database.server_port)
    if problem:
        return _failure(subject, f"{conn_id}: {problem}; start the server, or correct host and port of the connection")
    return _ok(subject, f"{conn_id}: {database.kind} on {database.host}:{database.server_port} accepts connections")


def _unreachable(host: str, port: int) -> str | None:
    """Return why a server does not accept connections, None if it does."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        return f"{host}:{port} does not accept connections ({error.strerror or error})"
    return None


def _job_requirements() -> list[Requirement]:
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


def _ok(subject: str, text: str) -> Finding:
    return Finding(CheckStatus.OK, subject, text)


def _note(subject: str, text: str) -> Finding:
    return Finding(CheckStatus.NOTE, subject, text)


def _failure(subject: str, text: str) -> Finding:
    return Finding(CheckStatus.FAILED, subject, text)
