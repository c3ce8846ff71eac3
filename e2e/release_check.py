"""The check of a release: `python -m e2e.release_check dist`.

It does what a new user does who has only the distributions and the documentation: it runs the printed commands from the
installation of both sides to the first report, and the DAGs of the examples. Their folder has a package
`spark_jobs` of the user's own, because a directory of this project has the same name. The directory of a failed run is
kept for its logs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from demo.java import java_home
from e2e.api import AirflowApi
from e2e.documentation import DATA, dag_examples, failing_dag, first_steps, wrong_inputs
from e2e.processes import E2eError, Programs, wait_for
from e2e.services import AirflowServices

ROOT = Path(__file__).resolve().parents[1]
DAILY, MAPPED, JOIN, AVRO_TO_ORC = "daily_purchases", "purchases_by_region", "refunds_of_users", "avro_to_orc"
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")

_RUN_SECONDS = 1_200.0
_DROPPED_PREFIXES = ("AIRFLOW", "PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")
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
_READ_ROWS = """
import json, sys
from pyarrow import dataset
rows = dataset.dataset(sys.argv[1], format=sys.argv[2]).to_table().to_pylist()
print(json.dumps(rows, default=str))
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


@dataclass(frozen=True)
class Environments:
    """The Pythons of the two environments."""

    airflow: Path
    spark: Path


def follow_first_steps(dist: Path, run: Path, constraints: Mapping[str, Path], programs: Programs) -> Environments:
    """Run the commands of the pages from the installation to the first report, as printed but in other directories."""
    airflow, spark, data, home = run / "airflow", run / "spark", run / "first", run / "home"
    commands, files = first_steps()
    places = {
        "/opt/pushdown-spark": str(spark),
        f"{DATA}/": f"{data}/",
        **{f"constraints-{side}.txt": str(file) for side, file in constraints.items()},
    }

    def moved(text: str) -> str:
        for printed, place in places.items():
            text = text.replace(printed, place)
        return text

    venv.create(airflow, with_pip=True)
    (home / "dags").mkdir(parents=True)
    for name, code in files.items():
        (home / "dags" / name).write_text(moved(code), encoding="utf-8")
    variables = {
        "PATH": f"{airflow / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_FIND_LINKS": f"{os.environ.get('PIP_FIND_LINKS', '')} {dist}",
        "PIP_NO_COMPILE": "1",
        "AIRFLOW_HOME": str(home),
    }
    programs.run("first-steps", ["bash", "-euxc", moved("\n".join(commands))], **variables)
    environments = Environments(airflow / "bin" / "python", spark / "bin" / "python")
    if [row["message"] for row in rows(environments.spark, data / "errors")] != ["the disk is full"]:
        raise E2eError("the first DAG wrote other rows")
    return environments


def check_installation(constraints: Mapping[str, Path], environments: Environments, directory: Path) -> None:
    """Raise `E2eError` unless all packages are pinned, and all modules can be imported with them."""
    packages = {"airflow": "airflow_pushdown", "spark": "pushdown_spark"}
    for side, python in (("airflow", environments.airflow), ("spark", environments.spark)):
        pins = constraints[side].read_text(encoding="utf-8").splitlines()
        installed = _output(python, "-m", "pip", "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools")
        own = ("airflow-pushdown==", "pushdown-spark==")
        unpinned = [line for line in installed.splitlines() if line not in pins and not line.startswith(own)]
        if unpinned:
            raise E2eError(f"{constraints[side].name} lacks {unpinned}")
        # Airflow logs to the same stream.
        printed = _output(python, "-c", _IMPORT_MODULES, packages[side], AIRFLOW_HOME=str(directory))
        failed = json.loads(printed.splitlines()[-1])
        if failed.keys() - _OPTIONAL_MODULES:
            raise E2eError(f"modules of {packages[side]} cannot be imported: {failed}")


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
    events = [
        {"user_id": hour % 3, "kind": "purchase", "event_time": f"{day}T{hour:02}:00:00Z"}
        for day in DAYS
        for hour in range(24)
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


def check_failing_tasks(
    directory: Path, environments: Environments, programs: Programs, settings: Mapping[str, str]
) -> None:
    """Raise `E2eError` unless the task of each other wrong input fails with its line."""
    data, errors = directory / "data", directory / "errors.jsonl"
    _write_json(data / "events", [{"id": 1, "kind": "a", "tags": []}])
    inputs = [*wrong_inputs("task start"), *wrong_inputs("job")]
    (directory / "dags").mkdir()
    (directory / "dags" / "failing.py").write_text(failing_dag("failing", inputs, data, errors), encoding="utf-8")
    variables = {**settings, "AIRFLOW_HOME": str(directory), "AIRFLOW__CORE__DAGS_FOLDER": str(directory / "dags")}
    variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{directory}/airflow.db"
    airflow = [str(environments.airflow), "-m", "airflow"]
    programs.run("failing-migrate", [*airflow, "db", "migrate"], **variables)
    # The command fails, because all tasks do.
    with contextlib.suppress(E2eError):
        programs.run("failing", [*airflow, "dags", "test", "failing", DAYS[0]], **variables)
    raised = dict(json.loads(line) for line in errors.read_text(encoding="utf-8").splitlines())
    found = [raised.get(str(number), "no error").replace(str(data), DATA) for number in range(len(inputs))]
    wrong = {one.code: line for one, line in zip(inputs, found, strict=True) if line != one.line}
    if wrong:
        raise E2eError(f"these inputs have other lines than in the documentation: {wrong}")


def rows(spark_python: Path, path: Path, file_format: str = "parquet") -> list[dict[str, object]]:
    """Return the rows of an output, sorted by their text."""
    return sorted(json.loads(_output(spark_python, "-c", _READ_ROWS, str(path), file_format)), key=str)


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
    found = {
        DAILY: daily,
        MAPPED: [[row["user_id"] for row in region] for region in regions],
        JOIN: rows(spark_python, data / JOIN),
        AVRO_TO_ORC: [row["amount"] for row in rows(spark_python, data / "orc", "orc")],
    }
    expected = {
        DAILY: [24, 24, 24],
        MAPPED: [[0, 2, 4, 6, 8]] * 2,
        JOIN: [{"name": "Ada", "kind": "purchase"}] * 24,
        AVRO_TO_ORC: [150.0, 200.0],
    }
    if found != expected:
        raise E2eError(f"outputs differ: {found} instead of {expected}")


def check_release(dist: Path, run: Path, constraints: str) -> None:
    """Check the distributions in a directory. `run` is an empty directory for environments, data and logs."""
    programs = Programs(run, _environment())
    try:
        files = {"airflow": dist / constraints, "spark": dist / "constraints-spark.txt"}
        environments = follow_first_steps(dist, run, files, programs)
        check_installation(files, environments, run / "home")
        print("the printed commands install both sides and run the first DAG", flush=True)
        data = run / "data"
        data.mkdir()
        write_data(data, environments.spark)
        write_dags(run / "dags", data)
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
        variables = {**_environment(), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database}
        check_wrong_inputs(run / "wrong", environments.airflow, variables)
        print("airflow dags list-import-errors has the line of each wrong input of a parse", flush=True)
        run_examples(api, services, data)
        check_outputs(data, environments.spark)
        print("the DAGs of the documentation wrote their rows", flush=True)
        check_failing_tasks(run / "failing", environments, programs, settings)
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
    arguments = parser.parse_args()
    (ROOT / ".e2e").mkdir(exist_ok=True)
    run = Path(tempfile.mkdtemp(prefix="release-", dir=ROOT / ".e2e"))
    try:
        check_release(arguments.dist.resolve(), run, arguments.constraints)
    except E2eError as error:
        print(f"{error}\nThe logs are in {run}", file=sys.stderr)
        return 1
    shutil.rmtree(run)
    return 0


def _environment() -> dict[str, str]:
    """Return this process's environment without Airflow, Spark and Python packages, with Java for Spark."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED_PREFIXES)}
    return {**kept, "JAVA_HOME": str(java_home(ROOT / ".venv-spark")), "SPARK_LOCAL_IP": "127.0.0.1"}


def _output(python: Path, *arguments: str, **variables: str) -> str:
    """Return what a Python prints. Raises `E2eError` if it fails."""
    command = [str(python), *arguments]
    run = subprocess.run(  # noqa: S603
        command, env={**_environment(), **variables}, cwd="/", capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        raise E2eError(f"{command} failed: {run.stderr[-2_000:]}")
    return run.stdout


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
