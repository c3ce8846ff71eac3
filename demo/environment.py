"""The environment variables with which the demo's Airflow finds its home, its DAGs, Spark and the data.

python -m demo.environment > .demo/env.sh      a file to source in a shell
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from demo.java import NoJavaError, java_home

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / ".demo"
AIRFLOW_ENVIRONMENT = ROOT / ".venv-airflow"
SPARK_ENVIRONMENT = ROOT / ".venv-spark"
SPARK_CONNECTION = {
    "conn_type": "spark",
    "host": "local[2]",
    "extra": {"deploy-mode": "client", "spark-binary": "spark-submit"},
}
DATABASE_CONNECTION = {"conn_type": "sqlite", "host": str(DEMO / "data" / "flights.db")}
"""The database into which `dags/flights_remote.py` writes the flights."""


def demo_variables() -> dict[str, str]:
    """Return the variables. PATH has only the directories to prepend to the existing PATH.

    Raises NoJavaError without a Java for Spark.
    """
    return {
        "AIRFLOW_HOME": str(DEMO / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(SPARK_CONNECTION),
        "AIRFLOW_CONN_FLIGHTS_DB": json.dumps(DATABASE_CONNECTION),
        "AIRFLOW_PUSHDOWN_DEMO_DIR": str(DEMO),
        "JAVA_HOME": str(java_home(SPARK_ENVIRONMENT)),
        "PYSPARK_PYTHON": str(SPARK_ENVIRONMENT / "bin" / "python"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": os.pathsep.join([str(AIRFLOW_ENVIRONMENT / "bin"), str(SPARK_ENVIRONMENT / "bin")]),
    }


def main() -> int:
    """Print the variables as shell commands."""
    try:
        variables = demo_variables()
    except NoJavaError as error:
        print(error, file=sys.stderr)
        return 1
    # Another SPARK_HOME would start that installation instead of ours.
    print("unset SPARK_HOME")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}" + ('":$PATH"' if name == "PATH" else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
