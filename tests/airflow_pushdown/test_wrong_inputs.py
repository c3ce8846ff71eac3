"""The table of wrong inputs in docs/wrong-inputs.md: each input produces its line, at the time that the table says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.sdk import DAG, Context

from airflow_pushdown import operators
from airflow_pushdown.exceptions import exception_for
from airflow_pushdown.operators.base_operator import PushdownBaseOperator
from e2e.documentation import DATA, DOCS, WrongInput, wrong_inputs
from pushdown_spark.contract import JobResult

RUN_SPECS = """
import sys
from pushdown_spark.contract import JobSpec
from pushdown_spark.job import JobRun
for line in sys.stdin:
    print("RESULT", JobRun(JobSpec.model_validate_json(line)).execute().model_dump_json(), flush=True)
"""


def create(wrong: WrongInput, task_id: str = "scan", data: Path = Path(DATA)) -> PushdownBaseOperator:
    """Return a task with a wrong input, whose data is in another directory."""
    task: PushdownBaseOperator = eval(wrong.task(task_id, data), {"operators": operators})
    return task


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "rows.json").write_text('{"id": 1, "kind": "a", "tags": []}\n')
    return tmp_path


def test_every_row_of_the_table_of_wrong_inputs_is_tested() -> None:
    rows = re.findall(r"^\| `.*\| (?:DAG parse|task start|job) \|", (DOCS / "wrong-inputs.md").read_text(), re.M)
    assert len(rows) == len(wrong_inputs()) >= 30


@pytest.mark.parametrize("wrong", wrong_inputs("DAG parse"), ids=lambda wrong: wrong.code)
def test_constructors_raise_the_documented_error(wrong: WrongInput) -> None:
    with pytest.raises(Exception) as error:  # noqa: PT011 - the line is compared
        create(wrong)
    assert str(error.value) == wrong.line


@pytest.mark.starts
def test_airflow_lists_the_documented_import_errors(tmp_path: Path) -> None:
    """The real command, with one file for each input."""
    folder = tmp_path / "dags"
    folder.mkdir()
    for number, wrong in enumerate(wrong_inputs("DAG parse")):
        (folder / f"wrong_{number}.py").write_text(wrong.dag_file(f"wrong_{number}"))
    environment = {**os.environ, "AIRFLOW__CORE__DAGS_FOLDER": str(folder), "AIRFLOW_HOME": str(tmp_path / "home")}
    environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{tmp_path}/airflow.db"
    airflow = [sys.executable, "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env=environment, check=True, capture_output=True)
    command = [*airflow, "dags", "list-import-errors", "--local", "--output", "json"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    # Airflow prints warnings before the list.
    entries = json.loads(next(line for line in process.stdout.splitlines() if line.startswith("[{")))
    import_errors = {Path(entry["filepath"]).stem: entry["error"] for entry in entries}
    for number, wrong in enumerate(wrong_inputs("DAG parse")):
        assert wrong.line in import_errors[f"wrong_{number}"]


def test_tasks_fail_with_the_documented_line_before_spark_starts(
    data: Path,
    local_spark: str,
    spark_python: str,
    register_dag: Callable[[DAG], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_PUSHDOWN_SPARK_PYTHON", spark_python)
    # A JVM that starts would fail with another error.
    monkeypatch.setenv("JAVA_HOME", str(data / "no-java"))
    errors: dict[str, BaseException | str | None] = {}

    def remember(context: Context) -> None:
        errors[context["ti"].task_id] = context.get("exception")

    with DAG(
        "wrong_inputs", schedule=None, start_date=datetime(2026, 1, 1), default_args={"on_failure_callback": [remember]}
    ) as dag:
        for number, wrong in enumerate(wrong_inputs("task start")):
            create(wrong, f"wrong_{number}", data)
    register_dag(dag)
    dag.test(logical_date=datetime(2026, 1, 1, tzinfo=UTC))
    actual = {
        wrong.code: str(errors.get(f"wrong_{number}")).replace(str(data), DATA)
        for number, wrong in enumerate(wrong_inputs("task start"))
    }
    assert actual == {wrong.code: wrong.line for wrong in wrong_inputs("task start")}


@pytest.mark.e2e
def test_jobs_fail_with_the_documented_line(data: Path, project: Path, spark_python: str) -> None:
    specs = []
    for wrong in wrong_inputs("job"):
        task = create(wrong, data=data)
        specs.append(task.build_spec("d/t/r/-1").model_dump_json(by_alias=True, exclude_none=True))
    environment = {**os.environ, "PYTHONPATH": str(project / "spark_jobs"), "PYSPARK_PYTHON": spark_python}
    environment["PYSPARK_SUBMIT_ARGS"] = "--master local[1] pyspark-shell"
    process = subprocess.run(
        [spark_python, "-c", RUN_SPECS],
        input="\n".join(specs),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    results = [
        JobResult.model_validate_json(line.removeprefix("RESULT "))
        for line in process.stdout.splitlines()
        if line.startswith("RESULT ")
    ]
    actual = {
        wrong.code: "no error" if result.error is None else str(exception_for(result.error)).replace(str(data), DATA)
        for wrong, result in zip(wrong_inputs("job"), results, strict=True)
    }
    assert actual == {wrong.code: wrong.line for wrong in wrong_inputs("job")}
