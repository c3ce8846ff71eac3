"""JVM options of tests and end-to-end runs. This module needs only Python."""

from __future__ import annotations

from pathlib import Path

ARCHIVE = "classes.jsa"
"""The class data sharing (CDS) archive in the directory of a Spark environment, which `make` creates.

A JVM maps the classes of the archive instead of reading, verifying and linking them.
"""
FAST_START_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -XX:ReservedCodeCacheSize=400m -XX:-UseCodeCacheFlushing"
)
"""Options of short-lived JVMs: no optimizing compiler, and no bytecode verifier.

The code cache is larger than the default, because thousands of queries fill it and sweeping it is slow.
"""


def jvm_options(environment: Path) -> str:
    """Return the options of JVMs that start from a Spark environment, with its CDS archive if it exists.

    A JVM with other jars or of another version ignores the archive without a message.
    """
    archive = environment / ARCHIVE
    if not archive.is_file() or not archive.stat().st_size or any(letter.isspace() for letter in str(archive)):
        return FAST_START_OPTIONS
    return f"{FAST_START_OPTIONS} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:class+path=off"


if __name__ == "__main__":
    print(FAST_START_OPTIONS)
