"""The command line: `airflow-pushdown doctor` checks an installation."""

from __future__ import annotations

import argparse
import os
import sys

from airflow_pushdown.doctor import CheckStatus, Settings, diagnose


def main() -> int:
    """Run the command of the arguments. Return 1 if a check failed, otherwise 0."""
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
    options = vars(parser.parse_args())
    del options["command"]
    # As in `airflow connections get`: outside a task, only this setting makes Airflow look into its database.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    return doctor_report(Settings(**options))


def doctor_report(settings: Settings) -> int:
    """Print one line for each check, and return 1 if one failed."""
    failed = 0
    for finding in diagnose(settings):
        print(finding, flush=True)
        failed += finding.status is CheckStatus.FAILED
    print(f"Failed checks: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
