"""The command line: `pushdown explain|run --spec job.json`, `pushdown schema`."""

from __future__ import annotations

import argparse
import json
import os
import sys

from pushdown_spark.contract import JobSpec
from pushdown_spark.contract.message_schema import message_schema


def main() -> int:
    """Run the command of the arguments and return its exit code."""
    parser = argparse.ArgumentParser(prog="pushdown", description="Scans that read less, without Airflow.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in (("explain", "print the plan without running it"), ("run", "run the job")):
        commands.add_parser(command, help=text).add_argument("--spec", required=True, help="a JSON file")
    commands.add_parser("schema", help="print the JSON schema of job specs")
    arguments = parser.parse_args()
    if arguments.command == "schema":
        print(json.dumps(message_schema(JobSpec), indent=2))
        return 0
    # The schema needs no pyspark, so that it can be printed in Airflow's environment as well.
    try:
        from pushdown_spark.job import explain, run
    except ImportError as problem:
        print(f'{problem}; run pip install "pushdown-spark[spark]", without pyspark-client', file=sys.stderr)
        return 1
    # Workers must run the driver's Python, which may not be the first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return explain(arguments.spec) if arguments.command == "explain" else run(arguments.spec)


if __name__ == "__main__":
    sys.exit(main())
