"""Takes Spark's directory of settings off a JVM's class path where spark-submit can be told otherwise what is in it.

Java shares no classes with a JVM that has a directory with files on its class path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_VARIABLE = "SPARK_CONF_DIR"
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_DEFAULTS = "spark-defaults.conf"
_TEMPLATE = ".template"
_PROPERTIES, _BOTH = "--properties-file", "--load-spark-defaults"


def what_stays(home: Path, environment: Mapping[str, str]) -> Path | None:
    """A file of settings that the JVM of a spark-submit finds on its class path only, if there is one."""
    spark = [file for file in _files(_directory(home, environment)) if not _can_go(file)]
    hadoop = [file for name in _HADOOP if environment.get(name) for file in _files(Path(environment[name]))]
    return next(iter((*spark, *hadoop)), None)


def without_directory(
    command: Sequence[str], environment: Mapping[str, str], home: Path, empty: Path
) -> tuple[list[str], dict[str, str]]:
    """The same spark-submit with the directory `empty` in place of that of its settings, none of which is lost.

    Without a properties file of its own a command names Spark's defaults as one; with one Spark reads them only where
    it is told to, and then the command stays as it is.
    """
    defaults = _directory(home, environment) / _DEFAULTS
    if defaults.is_file() and _BOTH in command:
        return list(command), dict(environment)
    named = [_PROPERTIES, str(defaults)] if defaults.is_file() and _PROPERTIES not in command else []
    return [*command[:1], *named, *command[1:]], {**environment, _VARIABLE: str(empty)}


def _directory(home: Path, environment: Mapping[str, str]) -> Path:
    return Path(environment.get(_VARIABLE) or home / "conf")


def _files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _can_go(file: Path) -> bool:
    return file.name == _DEFAULTS or file.name.endswith(_TEMPLATE)
