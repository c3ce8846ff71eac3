"""The check of a release: `python -m e2e.release_check dist`.

It does what a new user does who has only the distributions and the documentation: it runs the printed commands from the
installation of both sides to the first report, and the DAGs of the examples. Their folder has a package
`spark_jobs` of the user's own, because a directory of this project has the same name. The directory of a failed run is
kept for its logs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from e2e import ROOT
from e2e.api import AirflowApi
from e2e.checks import REPORT_LINK
from e2e.documentation import DATA, FIRST_DATA, dag_examples, failing_dag, first_steps, wrong_inputs
from e2e.processes import E2eError, Programs, wait_for
from e2e.release_artifacts import check_archives, check_image, check_types, replace_paths
from e2e.release_environments import Environments, clean_variables, output_of, rows
from e2e.services import AirflowServices

DAILY, MAPPED, JOIN, AVRO_TO_ORC = "daily_purchases", "purchases_by_region", "refunds_of_users", "avro_to_orc"
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")

_RUN_SECONDS = 1_200.0
_OWN_PACKAGE = "TITLE = 'jobs of the user'\n"
_IMPORTS_OWN_PACKAGE = "import spark_jobs\n\nassert spark_jobs.TITLE == 'jobs of the user'\n\n"
_WRITE_AVRO = """
import sys
import fastavro
fields = [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}]
records = [{"id": n, "amount": 50.0 * n} for n in range(5)]
with open(sys.argv[1], "wb") as file:
    fastavro.writer(file, {"type": "record", "name": "order", "fields": fields}, records)
"""
_IMPORT_MODULES = """
import importlib, json, pkgutil, sys
failed = {}
for package in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        try:
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        except ImportError as error:
            failed[module.name] = str(error)
print(json.dumps(failed))
"""
_OPTIONAL_MODULES = {"airflow_pushdown.lineage"}
"""Modules that only Airflow's OpenLineage provider imports."""


def follow_first_steps(dist: Path, run: Path, constraints: Mapping[str, Path], programs: Programs) -> Environments:
    """Run the commands of the pages from the installation to the first report, as printed but in other directories."""
    airflow, spark, data, home = run / "airflow", run / "spark", run / "first", run / "home"
    commands, files = first_steps()
    places = {
        "/opt/pushdown-spark": str(spark),
        f"{FIRST_DATA}/": f"{data}/",
        **{f"constraints-{side}.txt": str(file) for side, file in constraints.items()},
    }
    venv.create(airflow, with_pip=True)
    (home / "dags").mkdir(parents=True)
    for name, code in files.items():
        (home / "dags" / name).write_text(replace_paths(code, places), encoding="utf-8")
    shell = {
        "PATH": f"{airflow / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_FIND_LINKS": f"{os.environ.get('PIP_FIND_LINKS', '')} {dist}",
        "AIRFLOW_HOME": str(home),
    }
    programs.run("first-steps", ["bash", "-euxc", replace_paths("\n".join(commands), places)], **shell)
    environments = Environments(airflow / "bin" / "python", spark / "bin" / "python", shell)
    if [row["message"] for row in rows(environments.spark, data / "errors")] != ["the disk is full"]:
        raise E2eError("the first DAG wrote other rows")
    return environments


def check_installation(constraints: Mapping[str, Path], environments: Environments, directory: Path) -> None:
    """Raise `E2eError` unless all packages are pinned, and all modules can be imported with them."""
    packages = {"airflow": "airflow_pushdown", "spark": "pushdown_spark"}
    for side, python in (("airflow", environments.airflow), ("spark", environments.spark)):
        pins = constraints[side].read_text(encoding="utf-8").splitlines()
        pip_list = output_of(python, "-m", "pip", "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools")
        own = ("airflow-pushdown==", "pushdown-spark==")
        unpinned = [line for line in pip_list.splitlines() if line not in pins and not line.startswith(own)]
        if unpinned:
            raise E2eError(f"{constraints[side].name} lacks {unpinned}")
        # Airflow logs to the same stream.
        output = output_of(python, "-c", _IMPORT_MODULES, packages[side], AIRFLOW_HOME=str(directory))
        failures = json.loads(output.splitlines()[-1])
        if failures.keys() - _OPTIONAL_MODULES:
            raise E2eError(f"modules of {packages[side]} cannot be imported: {failures}")


def write_dags(folder: Path, data: Path) -> None:
    """Write the examples of the documentation, and a package of the user that they import."""
    (folder / "spark_jobs").mkdir(parents=True)
    (folder / "spark_jobs" / "__init__.py").write_text(_OWN_PACKAGE, encoding="utf-8")
    examples = dag_examples()
    for dag_id in (DAILY, MAPPED, JOIN, AVRO_TO_ORC):
        code = examples[dag_id].replace(f'"{DATA}/', f'"{data}/')
        (folder / f"{dag_id}.py").write_text(_IMPORTS_OWN_PACKAGE + code, encoding="utf-8")


def write_data(data: Path, spark_python: Path) -> None:
    """Write the files that the examples read, except those of the daily DAG."""
    for region in ("eu", "us"):
        kinds = ("purchase", "refund")
        _write_json(data / "regions" / region, [{"user_id": n, "kind": kinds[n % 2]} for n in range(10)])
    (data / "users").mkdir()
    (data / "users" / "users.csv").write_text("id,name,country\n1,Ada,NL\n2,Bob,DE\n", encoding="utf-8")
    (data / "avro").mkdir()
    subprocess.run([spark_python, "-c", _WRITE_AVRO, data / "avro" / "orders.avro"], check=True)  # noqa: S603


def write_events(data: Path) -> None:
    """Write the events of the daily DAG and of the join."""
    events: list[dict[str, object]] = [
        {"user_id": hour % 3, "kind": kind, "event_time": f"{day}T{hour:02}:00:00Z"}
        for day in DAYS
        for hour in range(24)
        for kind in ("purchase", "refund")
    ]
    _write_json(data / "events", events)


def check_wrong_inputs(folder: Path, airflow: Path, environment: Mapping[str, str]) -> None:
    """Raise `E2eError` unless Airflow lists the line of each wrong input as an import error."""
    folder.mkdir()
    inputs = wrong_inputs("DAG parse")
    for number, wrong in enumerate(inputs):
        (folder / f"wrong_{number}.py").write_text(wrong.dag_file(f"wrong_{number}"), encoding="utf-8")
    command = [str(airflow), "-m", "airflow", "dags", "list-import-errors", "--local", "--output", "json"]
    variables = {**environment, "AIRFLOW__CORE__DAGS_FOLDER": str(folder), "AIRFLOW_HOME": str(folder.parent / "home")}
    # The command fails, because there are import errors.
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)  # noqa: S603
    missing = [wrong.line for wrong in inputs if json.dumps(wrong.line)[1:-1] not in run.stdout]
    if missing:
        raise E2eError(f"airflow dags list-import-errors lacks: {missing}\n{run.stderr[-2_000:]}")


def check_failing_tasks(directory: Path, airflow: Path, environment: Mapping[str, str]) -> None:
    """Raise `E2eError` unless the task of each other wrong input fails with its line."""
    data, dags = directory / "data", directory / "dags"
    _write_json(data / "events", [{"id": 1, "kind": "a", "tags": []}])
    inputs = [*wrong_inputs("task start"), *wrong_inputs("job")]
    dags.mkdir()
    (dags / "failing.py").write_text(failing_dag("failing", inputs, data), encoding="utf-8")
    variables = {
        **environment,
        "AIRFLOW_HOME": str(directory),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{directory}/airflow.db",
    }
    command = [str(airflow), "-m", "airflow"]
    subprocess.run([*command, "db", "migrate"], env=variables, capture_output=True, check=True)  # noqa: S603
    # The command fails, because all tasks do.
    test = [*command, "dags", "test", "failing", DAYS[0]]
    run = subprocess.run(test, env=variables, capture_output=True, text=True, check=False)  # noqa: S603
    output = (run.stdout + run.stderr).replace(str(data), DATA)
    missing = [wrong.line for wrong in inputs if f"{wrong.line}\n" not in output]
    if missing:
        raise E2eError(f"the tasks do not fail with: {missing}\n{output[-2_000:]}")


def run_examples(api: AirflowApi, services: AirflowServices, data: Path) -> None:
    """Run the DAGs. The daily DAG is a backfill, whose first tries fail because the data comes late."""
    watch = services.programs.check
    wait_for("DAGs", lambda: {DAILY, MAPPED, JOIN, AVRO_TO_ORC} <= api.dags(), _RUN_SECONDS, watch)
    api.unpause(DAILY)
    services.airflow(
        "airflow-backfill", "backfill", "create", "--dag-id", DAILY, "--from-date", DAYS[0], "--to-date", DAYS[-1]
    )
    wait_for("failed tries", lambda: "up_for_retry" in _task_states(api, DAILY), _RUN_SECONDS, watch)
    write_events(data)
    for dag_id in (MAPPED, JOIN, AVRO_TO_ORC):
        api.trigger(dag_id, datetime(2026, 1, 1, tzinfo=UTC))
    for dag_id in (DAILY, MAPPED, JOIN, AVRO_TO_ORC):
        wait_for(dag_id, lambda dag_id=dag_id: _is_done(api, dag_id), _RUN_SECONDS, watch)  # type: ignore[misc]


def check_outputs(data: Path, spark_python: Path) -> None:
    """Raise `E2eError` unless the outputs have the rows that the examples describe."""
    daily = [len(rows(spark_python, data / "purchases" / day)) for day in DAYS]
    regions = [rows(spark_python, data / "purchases_by_region" / region) for region in ("eu", "us")]
    rows_by_format = {
        DAILY: daily,
        MAPPED: [[row["user_id"] for row in region] for region in regions],
        JOIN: rows(spark_python, data / JOIN),
        AVRO_TO_ORC: [row["amount"] for row in rows(spark_python, data / "orc", "orc")],
    }
    expected = {
        DAILY: [24, 24, 24],
        MAPPED: [[0, 2, 4, 6, 8]] * 2,
        JOIN: [{"name": "Ada", "kind": "refund"}] * 24,
        AVRO_TO_ORC: [150.0, 200.0],
    }
    if rows_by_format != expected:
        raise E2eError(f"outputs differ: {rows_by_format} instead of {expected}")


def check_reports(api: AirflowApi) -> None:
    """Raise `E2eError` unless the link of each task opens its report. Mapped tasks have a report for each instance."""
    for dag_id in (DAILY, JOIN, AVRO_TO_ORC):
        for run_id in api.runs(dag_id):
            for task_id in api.tasks(dag_id, run_id):
                if "rows written" not in api.linked_page(dag_id, run_id, task_id, REPORT_LINK):
                    raise E2eError(f"the page of {dag_id}.{task_id} has no report")


def check_release(dist: Path, run: Path, constraints: str, builder: str | None) -> None:
    """Check the distributions in a directory. `run` is an empty directory for environments, data and logs.

    `builder` is a program that builds images, None to leave out the printed image.
    """
    programs = Programs(run, clean_variables())
    try:
        files = {"airflow": dist / constraints, "spark": dist / "constraints-spark.txt"}
        environments = follow_first_steps(dist, run, files, programs)
        check_installation(files, environments, run / "home")
        print("the printed commands install both sides and run the first DAG", flush=True)
        check_archives(run, environments, programs)
        print(
            "the printed commands pack the Spark side, and executors that only have the archive run a DAG", flush=True
        )
        if builder is not None:
            check_image(builder, dist, run, files, programs)
            print("the printed image runs the first DAG", flush=True)
        data = run / "data"
        data.mkdir()
        write_data(data, environments.spark)
        write_dags(run / "dags", data)
        check_types(run / "dags", environments.airflow)
        print("mypy accepts the DAGs of the documentation", flush=True)
        settings = {
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_PUSHDOWN_SPARK_PYTHON": str(environments.spark),
            "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "9",
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "5",
        }
        database = f"sqlite:///{run}/airflow.db"
        services = AirflowServices(
            programs, run, database, {"dags": run / "dags"}, settings, python=str(environments.airflow)
        )
        api = services.start()
        variables = {**clean_variables(), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database}
        check_wrong_inputs(run / "wrong", environments.airflow, variables)
        print("airflow dags list-import-errors has the line of each wrong input of a parse", flush=True)
        run_examples(api, services, data)
        check_outputs(data, environments.spark)
        check_reports(api)
        print("the DAGs of the documentation wrote their rows and reports", flush=True)
        check_failing_tasks(run / "failing", environments.airflow, {**variables, **settings})
        print("tasks with wrong inputs fail with the lines of the documentation", flush=True)
    finally:
        programs.stop()


def main() -> int:
    """Check the release in the directory of the argument. Return 0 if it works."""
    parser = argparse.ArgumentParser(prog="python -m e2e.release_check", description="Check a release as a new user.")
    parser.add_argument("dist", type=Path, help="the directory with both wheels and the constraint files")
    parser.add_argument(
        "--constraints", default="constraints-airflow.txt", help="the file of the Airflow to check with"
    )
    parser.add_argument("--builder", help="also build the image of the install page with this program, such as docker")
    arguments = parser.parse_args()
    (ROOT / ".e2e").mkdir(exist_ok=True)
    run = Path(tempfile.mkdtemp(prefix="release-", dir=ROOT / ".e2e"))
    try:
        check_release(arguments.dist.resolve(), run, arguments.constraints, arguments.builder)
    except E2eError as error:
        print(f"{error}\nThe logs are in {run}", file=sys.stderr)
        return 1
    shutil.rmtree(run)
    return 0


def _write_json(directory: Path, records: list[dict[str, object]]) -> None:
    directory.mkdir(parents=True)
    (directory / "rows.json").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def _task_states(api: AirflowApi, dag_id: str) -> set[str]:
    """Return the states of the tasks of all runs of a DAG."""
    return {str(task["state"]) for run_id in api.runs(dag_id) for task in api.tasks(dag_id, run_id).values()}


def _is_done(api: AirflowApi, dag_id: str) -> bool:
    """Return whether all runs of a DAG succeeded. Raises `E2eError` if one failed."""
    states = api.runs(dag_id)
    if "failed" in states.values():
        raise E2eError(f"{dag_id} failed: {states}")
    return bool(states) and set(states.values()) == {"success"}


if __name__ == "__main__":
    sys.exit(main())
