"""Imports go one way: a layer imports itself and the layers before it. ARCHITECTURE.md shows the same order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPARK = ROOT / "spark_jobs" / "pushdown_spark"
LAYERS = (
    {"errors", "local_paths", "secret_text"},
    {"contract"},
    {"expressions"},
    {"projection"},
    {"runtime"},
    {"sources"},
    {"scan"},
    {"formats", "databases"},
    {"relations"},
    {"scan_planner"},
    {"result"},
    {"optimizer"},
    {"sql"},
    {"session"},
    {"output"},
    {"driver"},
    {"query_run"},
    {"connect"},
    {"job"},
    {"class_loading", "__main__"},
)
"""Packages and modules of pushdown_spark."""
PRIVATE = re.compile(r"\b_(ensure_initialized|gateway|gateway_client|jc|jdf|jo|jreader|jsc|jsparkSession|jvm|jwrite)\b")
"""The private attributes of PySpark that lead to the JVM."""
INTERFACES = {
    "__main__.py": r"def main\(",
    "cost.py": r"def estimate\(\s*files: Sequence\[\w+\],\s*query: \w+,",
    "data_source.py": r"class \w+\((ColumnarSource|DataSource)\):",
    "file_reader.py": r"class \w+\(FileScanTask\[",
    "metrics.py": r"class \w+\(FileMetrics\):",
    "planner.py": r"def plan_\w+\(spark: SparkSession, request: ScanRequest\)",
}
"""The names that several modules may have, and what each of these modules implements."""


def imports_in(path: Path, *, functions: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import in a file, except those for type checkers.

    `functions` is whether the imports in functions are included.
    """
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.FunctionDef) and not functions:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))


def package(module: str, name: str = "") -> str | None:
    """Return the package or top-level module of pushdown_spark that an import reads, or None for everything else."""
    first, *rest = module.split(".")
    if first != "pushdown_spark":
        return None
    return rest[0] if rest else name


def test_each_package_has_one_layer() -> None:
    actual = {path.stem for path in SPARK.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    names = [name for layer in LAYERS for name in layer]
    assert sorted(names) == sorted(actual - {"__init__"})


def test_layers_import_earlier_layers_only() -> None:
    number = {name: place for place, layer in enumerate(LAYERS) for name in layer}
    later = []
    for path in sorted(SPARK.rglob("*.py")):
        own = path.relative_to(SPARK).with_suffix("").parts[0]
        for module, name in imports_in(path):
            other = package(module, name)
            if other in number and own in number and number[other] > number[own]:
                later.append(f"{path.relative_to(ROOT)} imports {module}")
    assert later == []


@pytest.mark.parametrize(
    ("folder", "libraries"),
    [
        ("spark_jobs/pushdown_spark", "airflow|airflow_pushdown"),
        ("spark_jobs/pushdown_spark/contract", "airflow|airflow_pushdown|pyspark|py4j|pyarrow|sqlglot"),
        ("airflow_pushdown", "pyspark|py4j"),
    ],
)
def test_each_side_imports_its_own_libraries(folder: str, libraries: str) -> None:
    forbidden = re.compile(rf"({libraries})(\.|$)")
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    assert [str(path) for path in paths for module, _ in imports_in(path) if forbidden.match(module)] == []


def test_packages_import_no_private_names_of_others() -> None:
    private = []
    for path in sorted(SPARK.rglob("*.py")):
        own = path.relative_to(SPARK).with_suffix("").parts[0]
        for module, name in imports_in(path):
            if package(module) not in (None, own) and name.startswith("_") and not name.startswith("__"):
                private.append(f"{path.relative_to(ROOT)} imports {name} of {module}")
    assert private == []


def test_only_two_modules_use_private_attributes_of_pyspark() -> None:
    """A new release of Spark is then compared with these two, and with the table in ARCHITECTURE.md."""
    actual = {str(path.relative_to(SPARK)) for path in SPARK.rglob("*.py") if PRIVATE.search(path.read_text())}
    assert actual == {"runtime/jvm_gateway.py", "runtime/spark_internals.py"}


def test_no_module_imports_itself_through_others() -> None:
    """Functions may import later, as `databases/client.py` does for the client that it opens."""
    modules = ((path, ".".join(path.relative_to(SPARK.parent).with_suffix("").parts)) for path in SPARK.rglob("*.py"))
    names = {name.removesuffix(".__init__"): path for path, name in modules}
    earlier: dict[str, set[str]] = {}
    for own, path in names.items():
        imports = imports_in(path, functions=False)
        targets = {target for module, name in imports for target in (module, f"{module}.{name}")}
        earlier[own] = targets.intersection(names)
    assert set(TopologicalSorter(earlier).static_order()) == set(names)


def test_no_package_of_the_airflow_side_imports_itself_through_others() -> None:
    earlier: dict[str, set[str]] = {}
    for path in sorted((ROOT / "airflow_pushdown").rglob("*.py")):
        own, *_ = path.relative_to(ROOT / "airflow_pushdown").with_suffix("").parts
        modules = (f"{module}.{name}".split(".") for module, name in imports_in(path))
        packages = {parts[1] for parts in modules if parts[0] == "airflow_pushdown"}
        earlier.setdefault(own, set()).update(packages - {own})
    assert {"clusters", "operators"} <= set(TopologicalSorter(earlier).static_order())


def test_dataclasses_with_many_fields_take_keywords() -> None:
    """A swap of two strings passes the type checker."""
    long = []
    for path in sorted([*SPARK.rglob("*.py"), *(ROOT / "airflow_pushdown").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or not any(
                "dataclass" in ast.unparse(d) for d in node.decorator_list
            ):
                continue
            lines = [ast.unparse(line) for line in node.body if isinstance(line, ast.AnnAssign)]
            fields = [line for line in lines if "ClassVar" not in line]
            positional = next((place for place, line in enumerate(fields) if line == "_: KW_ONLY"), len(fields))
            if positional > 7 and not any("kw_only=True" in ast.unparse(d) for d in node.decorator_list):
                long.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert long == []


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted([*SPARK.rglob("*.py"), *(ROOT / "airflow_pushdown").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: actual for name, actual in places.items() if len(actual) > 1} == {}


def test_modules_share_a_name_only_to_implement_one_interface() -> None:
    modules: dict[str, list[Path]] = {}
    for path in sorted([*SPARK.rglob("*.py"), *(ROOT / "airflow_pushdown").rglob("*.py")]):
        if path.name != "__init__.py":
            modules.setdefault(path.name, []).append(path)
    shared = {name: actual for name, actual in modules.items() if len(actual) > 1}
    assert sorted(shared) == sorted(INTERFACES)
    implemented = {
        name: [re.search(INTERFACES[name], path.read_text()) for path in actual] for name, actual in shared.items()
    }
    assert [name for name, actual in implemented.items() if not all(actual)] == []


def test_functions_share_a_name_only_to_implement_one_interface() -> None:
    """Such modules have one name, as `formats/orc/cost.py` and `formats/avro/cost.py`."""
    modules: dict[str, set[str]] = {}
    for path in sorted([*SPARK.rglob("*.py"), *(ROOT / "airflow_pushdown").rglob("*.py")]):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, set()).add(path.name)
    shared = {name for name, actual in modules.items() if len(actual) > 1}
    # Programs; the public function and the pass that reorder joins; SQL for Spark and for a database.
    assert shared == {"main", "reorder_joins", "to_sql"}
