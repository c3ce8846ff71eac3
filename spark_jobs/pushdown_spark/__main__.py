"""The command line: `pushdown explain|run --spec job.json`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pushdown_spark.job import explain, run


def main() -> int:
    """Run the command of the arguments and return its exit code."""
    parser = argparse.ArgumentParser(prog="pushdown", description="Scans that read less, without Airflow.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in (("explain", "print the plan without running it"), ("run", "run the job")):
        commands.add_parser(command, help=text).add_argument("--spec", required=True, type=Path, help="a JSON file")
    arguments = parser.parse_args()
    # Workers must run the driver's Python, which may not be the first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return explain(arguments.spec) if arguments.command == "explain" else run(arguments.spec)


if __name__ == "__main__":
    sys.exit(main())
