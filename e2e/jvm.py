"""What the JVMs of tests and end-to-end runs are started with; needs nothing but Python."""

from __future__ import annotations

from pathlib import Path

ARCHIVE = "classes.jsa"
"""The archive of Spark's classes in the directory of a Spark environment, as `make` has the JVM write it.

With Java's class data sharing, a JVM that starts maps them and does not read, check and link them again.
"""
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -XX:ReservedCodeCacheSize=400m -XX:-UseCodeCacheFlushing"
)
"""They live for seconds or minutes: the optimising compiler would take half of their time, the verifier a tenth.

Alone, the quick compiler has 48 MB for code: thousands of queries fill them, and sweeping takes a fifth of their time.
"""


def quick(environment: Path) -> str:
    """Options of the JVMs that start from a Spark environment: `QUICK`, and its archive of classes where there is one.

    A JVM with other jars or of another version does without the archive, and says nothing of it.
    """
    archive = environment / ARCHIVE
    if not archive.is_file() or not archive.stat().st_size or any(letter.isspace() for letter in str(archive)):
        return QUICK
    return f"{QUICK} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:class+path=off"


if __name__ == "__main__":
    print(QUICK)
