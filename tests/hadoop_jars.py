"""The jars of Hadoop's servers, from Maven Central."""

from __future__ import annotations

import os
from pathlib import Path

from unpack_servers import download

ROOT = Path(__file__).parents[1]
_JARS = Path(os.environ.get("PUSHDOWN_HDFS_JARS", ROOT / ".cache" / "hdfs"))
"""The directory of the downloaded jars."""


def hadoop_jars(spark_environment: Path) -> list[Path]:
    """Return the jars of HDFS and YARN, after downloading them once with Ivy, which is part of Spark."""
    _JARS.mkdir(parents=True, exist_ok=True)
    found = []
    for coordinate in (ROOT / "requirements" / "hdfs.txt").read_text(encoding="utf-8").split():
        jar = _JARS / f"{coordinate.split(':')[1]}.jar"
        found.append(jar if jar.exists() else download(spark_environment, coordinate, _JARS))
    return found
