"""The command line: `airflow-pushdown doctor` and `airflow-pushdown pack-environment`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from airflow_pushdown.doctor import CheckStatus, Settings, diagnose
from airflow_pushdown.environment_archive import NotPackedError, environment_archive


def main() -> int:
    """Run the command of the arguments. Return 1 if it failed, or if a check of `doctor` failed, otherwise 0."""
    parser = argparse.ArgumentParser(prog="airflow-pushdown", description="Tools for installations of this provider.")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser("doctor", help="check both environments, Java, the connection and the directories")
    doctor.add_argument("--conn-id", default="spark_default", help="the connection to Spark")
    doctor.add_argument("--spark-home", help="like the operators' spark_home")
    doctor.add_argument("--spark-python", help="like the operators' spark_python")
    doctor.add_argument("--exchange-dir", help="like the operators' exchange_dir, for deploy mode cluster")
    doctor.add_argument("--exchange-conn-id", help="like the operators' exchange_conn_id")
    doctor.add_argument("--class-archives", help="like the operators' class_archives")
    doctor.add_argument("--packages", help="like the operators' packages")
    doctor.add_argument(
        "--source-conn-id",
        dest="source_conn_ids",
        action="append",
        default=[],
        help="a connection to a database or an object store; may be given several times",
    )
    pack = commands.add_parser("pack-environment", help="pack a Spark environment for executors, and print its path")
    pack.add_argument("environment", type=Path, help="the directory of a virtual environment with Spark's libraries")
    pack.add_argument("cache", type=Path, help="the directory for archives")
    pack.add_argument("--python-prefix", help="the prefix of Python on the workers, if it differs")
    options = vars(parser.parse_args())
    if options.pop("command") == "pack-environment":
        return pack_environment(**options)
    # As in `airflow connections get`: outside a task, only this setting makes Airflow look into its database.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    return doctor_report(Settings(**options))


def pack_environment(environment: Path, cache: Path, python_prefix: str | None) -> int:
    """Pack an environment and print the path of its archive. Return 1 if it cannot be packed."""
    try:
        print(environment_archive(environment, cache, python_prefix))
    except NotPackedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def doctor_report(settings: Settings) -> int:
    """Print one line for each check, and return 1 if one failed."""
    failures = 0
    for finding in diagnose(settings):
        print(finding, flush=True)
        failures += finding.status is CheckStatus.FAILED
    print(f"Failed checks: {failures}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
