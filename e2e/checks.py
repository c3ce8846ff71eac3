"""Runs every example DAG through Airflow's REST API and checks states, results and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
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
    """A running product: its API, where the DAGs' data and outputs lie, and how its Spark names applications.

    `watch` raises when the deployment breaks down while it is waited for.
    """

    api: AirflowApi
    data_dir: Path
    application_prefix: str
    watch: Callable[[], None] = lambda: None


def example_dags(dags: Path) -> list[str]:
    """Ids of the DAGs of a directory, in which each file is named after its DAG."""
    return sorted(path.stem for path in dags.glob("*.py"))


def check_examples(deployment: Deployment, names: Sequence[str]) -> list[str]:
    """Run DAGs and check what they left; a line for each task.

    Raises `E2eError` with all that is not as it must be, tasks' logs included.
    """
    wait_for_dags(deployment, set(names))
    runs = {name: deployment.api.trigger(name, DAY) for name in names}
    # While the cluster works: reading 336,776 flights takes a moment.
    expected = expectations(deployment.data_dir / "data")
    for name, run in runs.items():
        wait_for_run(deployment, name, run)
    lines, problems = [], []
    for name, run in runs.items():
        for task, instance in deployment.api.tasks(name, run).items():
            found = check_task(deployment, name, run, task, expected.pop((name, task), None))
            lines.append(f"{name}.{task}: {instance['state']}, {instance['duration']} s")
            if instance["state"] != "success" or found:
                log = deployment.api.log(name, run, task, int(str(instance["try_number"])))
                problems.append(f"{lines[-1]}\n  " + "\n  ".join(found) + f"\n{log[-6000:]}")
    problems += [f"{name}.{task}: expected, but there is no such task" for name, task in expected if name in runs]
    if problems:
        raise E2eError("\n\n".join(problems))
    return lines


def wait_for_dags(deployment: Deployment, names: set[str]) -> None:
    """Wait until Airflow knows the DAGs; raises `E2eError` when it does not come to know them."""
    _wait(deployment, f"DAGs {sorted(names)} known to Airflow", lambda: names <= deployment.api.dags())


def wait_for_run(deployment: Deployment, dag_id: str, run_id: str) -> None:
    """Wait for the end of a run; raises `E2eError` when it does not come."""
    _wait(deployment, f"{dag_id}: end of run {run_id}", lambda: deployment.api.run_state(dag_id, run_id) in _ENDED)


def check_task(deployment: Deployment, dag_id: str, run_id: str, task_id: str, expected: Expected | None) -> list[str]:
    """What is not as it must be in result, output and report page of a task, in words; nothing where all is well."""
    value = deployment.api.returned(dag_id, run_id, task_id)
    if value is None:
        return [] if expected is None else ["the task returned nothing"]
    if expected is None:
        return ["the task returned a result, but e2e/expected.py does not say which rows it must write"]
    try:
        result = JobResult.from_xcom(TypeAdapter(dict[str, object]).validate_python(value))
    except ValidationError as problem:
        return [f"the task returned no JobResult: {problem}"]
    if result.error is not None:
        return [f"the job failed: {result.error.message}"]
    page = deployment.api.linked_page(dag_id, run_id, task_id, REPORT_LINK)
    return [*_of_result(result, expected, deployment), *_of_rows(result, expected), *_of_page(page, expected)]


def rows_of(output: Path, columns: tuple[str, ...]) -> Counter[Row]:
    """The rows of an output as texts of some of its columns."""
    file_format = "orc" if any(output.glob("*.orc")) else "parquet"
    table = ds.dataset(output, format=file_format).to_table(columns=list(columns))
    return Counter(as_row(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True))


def _of_result(result: JobResult, expected: Expected, deployment: Deployment) -> list[str]:
    problems = []
    if result.rows != expected.count:
        problems.append(f"the result says {result.rows} rows, there must be {expected.count}")
    if not (result.application_id or "").startswith(deployment.application_prefix):
        problems.append(f"application {result.application_id} did not run on the cluster")
    readers = {name: source.reader for name, source in result.sources.items()}
    if expected.reader not in readers.values():
        problems.append(f"reader {expected.reader} was not used, but {readers}")
    if result.output is None or not Path(result.output).is_relative_to(deployment.data_dir):
        problems.append(f"the output {result.output} is not below {deployment.data_dir}")
    return problems


def _of_rows(result: JobResult, expected: Expected) -> list[str]:
    if result.output is None:
        return []
    output = Path(result.output)
    if not (output / "_SUCCESS").is_file():
        return [f"{output} is not complete: it has no _SUCCESS"]
    if left := [path.name for path in output.parent.glob(f".{output.name}.*")]:
        return [f"{left} were left beside the output"]
    rows = rows_of(output, expected.columns)
    if expected.fits(rows):
        return []
    wrong, missing = rows - expected.rows, expected.rows - rows
    return [f"{rows.total()} rows in {output}; wrong: {list(wrong)[:3]}, missing: {list(missing)[:3]}"]


def _of_page(page: str, expected: Expected) -> list[str]:
    wanted = (f"Reader <b>{expected.reader}</b>", f"<b>{expected.count:,}</b> rows written")
    return [f"the page of the report does not say {text!r}" for text in wanted if text not in page]


def _wait(deployment: Deployment, what: str, reached: Callable[[], bool]) -> None:
    wait_for(what, reached, _RUN_SECONDS, deployment.watch, _POLL_SECONDS)
