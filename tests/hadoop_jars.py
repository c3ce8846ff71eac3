"""The jars of Hadoop's servers, from Maven Central."""

from __future__ import annotations

import os
from pathlib import Path

from unpack_servers import download, download_with_dependencies

ROOT = Path(__file__).parents[1]
_JARS = Path(os.environ.get("PUSHDOWN_HDFS_JARS", ROOT / ".cache" / "hdfs"))
"""The directory of the downloaded jars."""
_HTTPFS = "org.apache.hadoop:hadoop-hdfs-httpfs:3.4.2", "org.apache.hadoop:hadoop-hdfs-client:3.4.2"
_HTTPFS_JARS = Path(os.environ.get("PUSHDOWN_HTTPFS_JARS", ROOT / ".cache" / "httpfs"))


def hadoop_jars(spark_environment: Path) -> list[Path]:
    """Return the jars of HDFS and YARN, after downloading them once with Ivy, which is part of Spark."""
    _JARS.mkdir(parents=True, exist_ok=True)
    jars = []
    for coordinate in (ROOT / "requirements" / "hdfs.txt").read_text(encoding="utf-8").split():
        jar = _JARS / f"{coordinate.split(':')[1]}.jar"
        jars.append(jar if jar.exists() else download(spark_environment, coordinate, _JARS))
    return jars


def httpfs_jars(spark_environment: Path) -> list[Path]:
    """Return the jars of Hadoop's HttpFS server, after downloading them once with what they need."""
    for coordinate in _HTTPFS:
        _, name, version = coordinate.split(":")
        if not (_HTTPFS_JARS / f"{name}-{version}.jar").exists():
            download_with_dependencies(spark_environment, coordinate, _HTTPFS_JARS)
    return sorted(_HTTPFS_JARS.glob("*.jar"))
