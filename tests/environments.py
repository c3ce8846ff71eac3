"""Spark environments for tests: virtual environments that share libraries and override single packages."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import venv
import zipfile
from pathlib import Path


def libraries_of(python: str) -> Path:
    """Return the directory of the packages of a Python."""
    command = [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def environment(directory: Path, *wheels: Path, libraries: Path | None = None) -> Path:
    """Create an environment with wheels, and return its Python. Other packages come from `libraries`.

    Editable packages are not shared, because Python does not read the .pth files of a directory that another .pth file
    names.
    """
    venv.create(directory, with_pip=False)
    python = directory / "bin" / "python"
    if wheels:
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
        subprocess.run([*command, *map(str, wheels)], check=True)
    if libraries is not None:
        (site,) = (directory / "lib").glob("python*/site-packages")
        (site / "libraries.pth").write_text(f"{libraries}\n")
    return python


def with_spark(python: Path, spark_python: str) -> Path:
    """Link the programs of Spark, as pip installs them, next to a Python."""
    for script in Path(spark_python).parent.glob("*spark*"):
        (python.parent / script.name).symlink_to(script)
    return python


def wheel(directory: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """Write a wheel with these files, and return its path."""
    stem = f"{name.replace('-', '_')}-{version}"
    content = {
        **files,
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in content.items())
    path = directory / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name_in_archive, text in content.items():
            archive.writestr(name_in_archive, text)
        archive.writestr(f"{stem}.dist-info/RECORD", f"{record}{stem}.dist-info/RECORD,,\n")
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
