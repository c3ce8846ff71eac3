"""The Java that spark-submit starts, and its version.

The checkout's `make` imports this module before any package is installed, so it needs only the standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MIN_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r"java\.specification\.version = (?:1\.)?(\d+)$", re.MULTILINE)
_HOME = re.compile(r"java\.home = (.+)$", re.MULTILINE)
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Java:
    """A Java runtime as it describes itself, because links may mislead."""

    version: int
    home: str

    @property
    def is_supported(self) -> bool:
        """Whether Spark runs on it."""
        return self.version >= MIN_JAVA


def find_java(environment: Mapping[str, str]) -> Path | None:
    """Return the Java program that spark-submit will start, or None if there is none."""
    home = environment.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH", os.defpath))
    return Path(java).resolve() if java else None


def describe_java(java: Path) -> Java | None:
    """Run a Java program to get its version and home. Return None if it does not run."""
    try:
        run = subprocess.run(  # noqa: S603 - runs the installed java
            [str(java), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version, home = _VERSION.search(run.stderr), _HOME.search(run.stderr)
    return Java(int(version[1]), home[1]) if version and home else None
