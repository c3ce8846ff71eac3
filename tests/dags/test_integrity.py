"""Every DAG of the project loads without connections, has the name of its file, and runs only on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # before Airflow 3.2
    from airflow.models.dagbag import DagBag

from airflow_pushdown.operators.base_operator import PushdownBaseOperator

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "dags", ROOT / "tests" / "e2e" / "dags"]


@pytest.fixture(params=FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def bag(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DagBag:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    return DagBag(dag_folder=str(request.param), bundle_path=request.param)


def test_dags_load_without_errors(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert bag.dags


def test_every_file_has_a_dag_of_its_name_or_several(bag: DagBag) -> None:
    dags: dict[str, set[str]] = {file.stem: set() for file in Path(str(bag.dag_folder)).glob("*.py")}
    for dag in bag.dags.values():
        dags[Path(dag.fileloc).stem].add(dag.dag_id)
    assert all(ids == {stem} or len(ids) > 1 for stem, ids in dags.items()), dags


def test_every_dag_uses_an_operator_and_does_not_catch_up(bag: DagBag) -> None:
    for dag in bag.dags.values():
        # A mapped task is not an instance of its operator.
        classes = [getattr(task, "operator_class", type(task)) for task in dag.tasks]
        assert any(issubclass(operator, PushdownBaseOperator) for operator in classes), dag.dag_id
        assert dag.catchup is False, dag.dag_id
