"""The results of the last run of a scan DAG: for each task the report, the output path and a few rows.

. .demo/env.sh && python -m demo.show flights_scan

The exit code is 1 if the run or one of its tasks failed or has no result.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.sdk.bases.xcom import BaseXCom
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select

from pushdown_spark.contract import JobResult
from pushdown_spark.contract.report_text import render_text

SAMPLE_ROWS = 3


@dataclass(frozen=True)
class TaskOutcome:
    """The state and result of a task. `result` is None if the job wrote no result."""

    task_id: str
    state: str
    result: JobResult | None

    @property
    def is_success(self) -> bool:
        """Whether both Airflow and the job report success."""
        return self.state == TaskInstanceState.SUCCESS and self.result is not None and self.result.error is None


def last_run(dag_id: str) -> list[TaskOutcome]:
    """Return the tasks of the newest run of a DAG in the order of their start. Empty if it never ran."""
    with create_session() as session:
        newest = select(DagRun).where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc()).limit(1)
        run = session.scalars(newest).one_or_none()
        if run is None:
            return []
        reports = select(XComModel).where(
            XComModel.dag_id == dag_id, XComModel.run_id == run.run_id, XComModel.key == BaseXCom.XCOM_RETURN_KEY
        )
        results = {
            row.task_id: JobResult.from_xcom(XComModel.deserialize_value(row)) for row in session.scalars(reports)
        }
        instances = [(ti.start_date, ti) for ti in run.get_task_instances(session=session) if ti.start_date is not None]
        return [
            TaskOutcome(ti.task_id, str(ti.state), results.get(ti.task_id))
            for _, ti in sorted(instances, key=lambda pair: pair[0])
        ]


def sample(output: str) -> str:
    """Return the first rows of a Parquet or ORC output as a table."""
    file_format = "orc" if any(Path(output).glob("*.orc")) else "parquet"
    table = ds.dataset(output, format=file_format).head(SAMPLE_ROWS)
    lines = [table.column_names, *([str(cell) for cell in row.values()] for row in table.to_pylist())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _show(outcome: TaskOutcome) -> None:
    print(f"\n{f'--- {outcome.task_id} ({outcome.state}) ':-<100}")
    if outcome.result is None:
        print("The job has no result. The reason is in the log above.")
        return
    print(render_text(outcome.result))
    if outcome.is_success and outcome.result.output is not None:
        print(f"\nThe first rows of {outcome.result.output}")
        print("\n".join(f"  {line}" for line in sample(outcome.result.output).splitlines()))


def main(dag_id: str) -> int:
    """Print the outcome of every task of the newest run. Return 0 if all succeeded."""
    outcomes = last_run(dag_id)
    for outcome in outcomes:
        _show(outcome)
    outputs = {str(Path(o.result.output).parent) for o in outcomes if o.result is not None and o.result.output}
    if outcomes and all(outcome.is_success for outcome in outcomes):
        print(f"\nAll {len(outcomes)} tasks of {dag_id} succeeded. Output: {', '.join(sorted(outputs))}")
        return 0
    failures = [outcome.task_id for outcome in outcomes if not outcome.is_success]
    print(f"\n{dag_id} did not succeed: {', '.join(failures) or 'no task ran'}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
