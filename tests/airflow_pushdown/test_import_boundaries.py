"""Imports between the two sides: the Airflow side never imports Spark, the Spark side never imports Airflow."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

WALLS = [("airflow_pushdown", {"pyspark", "py4j"}), ("pushdown_spark", {"airflow", "airflow_pushdown"})]

BLOCKER = """
import importlib, pkgutil, sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError("beyond the wall: " + name)
sys.meta_path.insert(0, Wall())
package = importlib.import_module({package!r})
count = 0
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        count += 1
print(count)
"""


def package_directory(project: Path, package: str) -> Path:
    return project / "spark_jobs" / package if package == "pushdown_spark" else project / package


def imported_names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


@pytest.mark.parametrize(("package", "blocked"), WALLS)
def test_no_module_of_one_side_imports_the_other(package: str, blocked: set[str], project: Path) -> None:
    files = list(package_directory(project, package).rglob("*.py"))
    assert files
    crossed = [
        f"{file.relative_to(project)}: {name}"
        for file in files
        for name in imported_names(file)
        if name.partition(".")[0] in blocked
    ]
    assert crossed == []


def test_the_contract_needs_only_pydantic() -> None:
    code = "import sys, pushdown_spark.contract.report_text; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pydantic" in run.stdout.split()
    assert {"airflow", "pyspark", "py4j", "pyarrow", "sqlglot"}.isdisjoint(run.stdout.split())


@pytest.mark.parametrize(("package", "blocked"), WALLS)
def test_every_module_can_be_imported_without_the_other_side(
    package: str, blocked: set[str], project: Path, spark_python: str
) -> None:
    python = sys.executable if package == "airflow_pushdown" else spark_python
    code = BLOCKER.format(package=package, blocked=blocked)
    run = subprocess.run([python, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.split()[-1]) > 5
