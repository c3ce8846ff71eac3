"""Checks of a running product from within its network: `python -m e2e.deployed BASE_URL DEMO_DIRECTORY`.

The passwords are in the files of the container's secrets.
"""

from __future__ import annotations

import sys
from pathlib import Path

from e2e import ROOT
from e2e.api import AirflowApi
from e2e.checks import Deployment, check_examples, example_dags
from e2e.processes import E2eError, wait_for
from e2e.remote import load_flights

_SECRETS = Path("/run/secrets")
_START_SECONDS = 300.0


def main(base_url: str, demo: str) -> int:
    """Load the remote table, run every example DAG and check it. Return 0 if the checks pass."""
    try:
        database = {
            "host": "postgres",
            "dbname": "shop",
            "user": "shop",
            "password": (_SECRETS / "shop_password").read_text(encoding="utf-8").strip(),
        }
        load_flights(database, Path(demo) / "data")
        api = AirflowApi(base_url, "admin", (_SECRETS / "airflow_admin_password").read_text(encoding="utf-8").strip())
        wait_for("Airflow's services", api.is_healthy, _START_SECONDS)
        for line in check_examples(Deployment(api, Path(demo), "app-"), example_dags(ROOT / "dags")):
            print(f"  {line}")
    except E2eError as error:
        print(f"\nthe checks failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
