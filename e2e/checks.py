"""Checks of every example DAG through Airflow's REST API: states, results and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as ds
from pydantic import TypeAdapter, ValidationError

from e2e.api import AirflowApi
from e2e.expected import Expected, Row, as_row, expectations
from e2e.processes import E2eError, wait_for
from pushdown_spark.contract import JobResult

DAY = datetime(2026, 1, 1, tzinfo=UTC)
REPORT_LINK = "Pushdown report"
_RUN_SECONDS = 1200.0
_POLL_SECONDS = 1.0
_ENDED = ("success", "failed")


@dataclass(frozen=True)
class Deployment:
    """A running product: its API, the directory of the DAGs' data, and the prefix of Spark's application ids.

    `watch` raises an error if the deployment fails while a check waits.
    """

    api: AirflowApi
    data_dir: Path
    application_prefix: str
    watch: Callable[[], None] = lambda: None


def example_dags(dags: Path) -> list[str]:
    """Return the ids of the DAGs in a directory, where each file has the name of its DAG."""
    return sorted(path.stem for path in dags.glob("*.py"))


def check_examples(deployment: Deployment, names: Sequence[str]) -> list[str]:
    """Run DAGs and check their results. Return a line for each task.

    Raises `E2eError` with all problems and the logs of their tasks.
    """
    wait_for_dags(deployment, set(names))
    runs = {name: deployment.api.trigger(name, DAY) for name in names}
    # Reading the flights takes time, so it runs in parallel with the cluster.
    expected = expectations(deployment.data_dir / "data")
    for name, run in runs.items():
        wait_for_run(deployment, name, run)
    lines, problems = [], []
    for name, run in runs.items():
        for task, instance in deployment.api.tasks(name, run).items():
            keys = [key for key in expected if key[0] == name and key[1].partition(".")[0] == task]
            task_problems = check_task(deployment, name, run, task, {key[1]: expected.pop(key) for key in keys})
            lines.append(f"{name}.{task}: {instance['state']}, {instance['duration']} s")
            if instance["state"] != "success" or task_problems:
                log = deployment.api.log(name, run, task, int(str(instance["try_number"])))
                problems.append(f"{lines[-1]}\n  " + "\n  ".join(task_problems) + f"\n{log[-6000:]}")
    problems += [f"{name}.{task}: the DAG has no such task" for name, task in expected if name in runs]
    if problems:
        raise E2eError("\n\n".join(problems))
    return lines


def wait_for_dags(deployment: Deployment, names: set[str]) -> None:
    """Wait until Airflow has read the DAGs. Raises `E2eError` after a timeout."""
    _wait(deployment, f"DAGs {sorted(names)} known to Airflow", lambda: names <= deployment.api.dags())


def wait_for_run(deployment: Deployment, dag_id: str, run_id: str) -> None:
    """Wait for the end of a run. Raises `E2eError` after a timeout."""
    _wait(deployment, f"{dag_id}: end of run {run_id}", lambda: deployment.api.run_state(dag_id, run_id) in _ENDED)


def check_task(
    deployment: Deployment, dag_id: str, run_id: str, task_id: str, expected: Mapping[str, Expected]
) -> list[str]:
    """Return the problems in the result, outputs and report page of a task. Empty if there are none.

    `expected` has one entry under the id of the task, or one for each of its scans, `task.scan`.
    """
    value = deployment.api.return_value(dag_id, run_id, task_id)
    if value is None:
        return ["the task returned nothing"] if expected else []
    if not expected:
        return ["the task returned a result, but e2e/expected.py has no expected rows for it"]
    try:
        result = JobResult.from_xcom(TypeAdapter(dict[str, object]).validate_python(value))
    except ValidationError as error:
        return [f"the returned value is not a JobResult: {error}"]
    if result.error is not None:
        return [f"the job failed: {result.error.message}"]
    page = deployment.api.linked_page(dag_id, run_id, task_id, REPORT_LINK)
    scans = {f"{task_id}.{name}": result.of_scan(name) for name in result.scans}
    results = scans or {task_id: result}
    if results.keys() != expected.keys():
        return [f"there are results of {sorted(results)} instead of {sorted(expected)}"]
    return [
        problem
        for name, one in results.items()
        for problem in (
            *_result_problems(one, expected[name], deployment),
            *_output_problems(one, expected[name]),
            *_page_problems(page, expected[name]),
        )
    ]


def rows_of(output: Path, columns: tuple[str, ...]) -> Counter[Row]:
    """Return the rows of an output, as strings of some columns."""
    file_format = "orc" if any(output.glob("*.orc")) else "parquet"
    table = ds.dataset(output, format=file_format).to_table(columns=list(columns))
    return Counter(as_row(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True))


def _result_problems(result: JobResult, expected: Expected, deployment: Deployment) -> list[str]:
    problems = []
    if result.rows != expected.count:
        problems.append(f"the result has {result.rows} rows instead of {expected.count}")
    if not (result.application_id or "").startswith(deployment.application_prefix):
        problems.append(f"application {result.application_id} did not run on the cluster")
    readers = {name: source.reader for name, source in result.sources.items()}
    if expected.reader not in readers.values():
        problems.append(f"the readers are {readers} instead of {expected.reader}")
    if result.output is None or not Path(result.output).is_relative_to(deployment.data_dir):
        problems.append(f"the output {result.output} is not below {deployment.data_dir}")
    return problems


def _output_problems(result: JobResult, expected: Expected) -> list[str]:
    if result.output is None:
        return []
    output = Path(result.output)
    if not (output / "_SUCCESS").is_file():
        return [f"{output} is not complete: it has no _SUCCESS"]
    if leftovers := [path.name for path in output.parent.glob(f".{output.name}.*")]:
        return [f"leftover files next to the output: {leftovers}"]
    rows = rows_of(output, expected.columns)
    if expected.matches(rows):
        return []
    unexpected, missing = rows - expected.rows, expected.rows - rows
    return [f"{rows.total()} rows in {output}; unexpected: {list(unexpected)[:3]}, missing: {list(missing)[:3]}"]


def _page_problems(page: str, expected: Expected) -> list[str]:
    # Rows of one of several scans are in a table.
    fragments = (f">{expected.reader} reader", f">{expected.count:,}<")
    return [f"the report page lacks {fragment!r}" for fragment in fragments if fragment not in page]


def _wait(deployment: Deployment, what: str, is_done: Callable[[], bool]) -> None:
    wait_for(what, is_done, _RUN_SECONDS, deployment.watch, _POLL_SECONDS)
