"""Spark's settings: those that spark-submit reads, and the replacement of their directory on the class path of a JVM.

Java's class data sharing does not work with a directory that has files on the class path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_pushdown.spark_submit.spark_installation import SparkInstallation

CONF_DIRECTORY = "SPARK_CONF_DIR"
"""The variable with the directory of Spark's settings."""
_HADOOP_DIRECTORIES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_DEFAULTS = "spark-defaults.conf"
_TEMPLATE = ".template"
PACKAGES_KEY = "spark.jars.packages"
JARS_KEY = "spark.jars"
CLASS_PATH_KEY = "spark.driver.extraClassPath"
_PROPERTIES_FILE = "--properties-file"
_LOAD_DEFAULTS = "--load-spark-defaults"
_PROPERTY = re.compile(
    r"^[ \t]*(?P<key>[^\s#!=:][^\s=:]*)(?:[ \t]*[=:]|[ \t])?[ \t]*(?P<value>.*?)[ \t\r]*$", re.MULTILINE
)
"""A line of a properties file. Java reads an entry without a value as an empty one."""


def submit_settings(
    installation: SparkInstallation,
    conf: Mapping[str, str],
    properties_file: str | None = None,
    conf_directory: str | None = None,
) -> dict[str, str]:
    """Return the settings that spark-submit will see: those of the properties file that it reads, and of `conf`.

    That is the user's file, or the file in the settings directory, by default in the settings directory of the
    installation.
    """
    directories = [Path(conf_directory)] if conf_directory else (home / "conf" for home in installation.homes())
    files = [Path(properties_file)] if properties_file else [directory / _DEFAULTS for directory in directories]
    text = next((file.read_text(encoding="utf-8") for file in files if file.is_file()), "")
    return {**{match["key"]: match["value"] for match in _PROPERTY.finditer(text)}, **conf}


def unmovable_file(home: Path, environment: Mapping[str, str]) -> Path | None:
    """Return a settings file that the JVM of spark-submit can only find on its class path, or None without one."""
    spark = [
        file
        for file in _files(_directory(home, environment))
        if file.name != _DEFAULTS and not file.name.endswith(_TEMPLATE)
    ]
    hadoop = [file for name in _HADOOP_DIRECTORIES if environment.get(name) for file in _files(Path(environment[name]))]
    return next(iter((*spark, *hadoop)), None)


def environment_script(home: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the script that sets variables of spark-submit, such as another Python or Java, or None without one."""
    script = _directory(home, environment) / "spark-env.sh"
    return script if script.is_file() else None


def without_directory(
    command: Sequence[str], environment: Mapping[str, str], home: Path, empty: Path
) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of spark-submit with the directory `empty` instead of its settings directory.

    A command without a properties file gets Spark's defaults as its properties file. If there are defaults and
    the command has `--load-spark-defaults`, both are returned unchanged.
    """
    defaults = _directory(home, environment) / _DEFAULTS
    if defaults.is_file() and _LOAD_DEFAULTS in command:
        return list(command), dict(environment)
    options = [_PROPERTIES_FILE, str(defaults)] if defaults.is_file() and _PROPERTIES_FILE not in command else []
    return [*command[:1], *options, *command[1:]], {**environment, CONF_DIRECTORY: str(empty)}


def _directory(home: Path, environment: Mapping[str, str]) -> Path:
    return Path(environment.get(CONF_DIRECTORY) or home / "conf")


def _files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
