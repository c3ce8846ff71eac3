"""Settings of spark-submit with credentials, which must not be on a command line or in a log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pushdown_spark.secret_text import has_url_password, is_secret_setting

_ASSIGNMENT = re.compile(r"(?P<key>[^=\s]+)=(?P<value>.*)", re.DOTALL)
_PROPERTIES_FILE = "--properties-file"
_REPOSITORIES = "--repositories"


def mask_setting(word: str) -> str:
    """Return `key=value` with a masked value if it may have a credential, another word unchanged.

    >>> mask_setting("spark.my.password=hush"), mask_setting("spark.ui.port=1"), mask_setting("--conf")
    ('spark.my.password=***', 'spark.ui.port=1', '--conf')
    >>> mask_setting("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net=hush")
    'spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net=***'
    """
    match = _ASSIGNMENT.fullmatch(word)
    if match:
        return f"{match['key']}=***" if is_secret_setting(match["key"], match["value"]) else word
    return "***" if has_url_password(word) else word


def separate_secrets(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command without the settings that may have credentials, and these settings.

    >>> separate_secrets(["spark-submit", "--conf", "a.token=x", "--conf", "b=1", "job.py"])
    (['spark-submit', '--conf', 'b=1', 'job.py'], {'a.token': 'x'})
    >>> separate_secrets(["spark-submit", "--repositories", "https://me:hush@nexus/maven", "job.py"])
    (['spark-submit', 'job.py'], {'spark.jars.repositories': 'https://me:hush@nexus/maven'})
    """
    secrets: dict[str, str] = {}
    words: list[str] = []
    arguments = iter(command)
    for argument in arguments:
        if argument not in ("--conf", _REPOSITORIES):
            words.append(argument)
            continue
        setting = next(arguments, "")
        key, _, value = (f"spark.jars.repositories={setting}" if argument == _REPOSITORIES else setting).partition("=")
        if is_secret_setting(key, value):
            secrets[key] = value
        else:
            words += [argument, setting]
    return words, secrets


def properties_text(entries: Mapping[str, str], properties_file: str | None) -> str:
    """Return a Java properties file with `entries` after those of the user's file."""
    user_settings = Path(properties_file).read_text(encoding="utf-8") if properties_file else ""
    return "\n".join([user_settings, *(f"{key} {_escape(value)}" for key, value in entries.items()), ""])


def with_properties(command: Sequence[str], file: Path, *, replaces: bool) -> list[str]:
    """Return a command that reads a properties file, instead of the one that it reads now if `replaces`."""
    words = list(command)
    if replaces:
        words[words.index(_PROPERTIES_FILE) + 1] = str(file)
    else:
        # Without the last option, a properties file replaces the installation's spark-defaults.conf.
        words[1:1] = [_PROPERTIES_FILE, str(file), "--load-spark-defaults"]
    return words


def _escape(value: str) -> str:
    """Return a value for a Java properties file, with escaped backslashes, line ends and leading spaces."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{text}" if text.startswith((" ", "\t")) else text
