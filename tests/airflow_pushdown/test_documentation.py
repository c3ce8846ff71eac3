"""The documentation agrees with the code: links lead somewhere, examples load, and, nightly, printed commands run.

The title of a `console` block names the shell that its commands are for. A block whose title is a file name is that
file. Commands of `make` are only checked to exist, because most take minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from airflow_pushdown import operators
from e2e.documentation import BLOCK, all_blocks, blocks, first_steps
from pushdown_spark.contract import JobSpec

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "spark_jobs" / "README.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
TESTED_ELSEWHERE = ("get-started.md", "install.md")
"""Pages whose commands `make release-check` runs in new environments."""
SPARK, AIRFLOW = "Spark environment", "Airflow environment"
"""Titles of blocks whose commands run in these tests."""
NOT_RUN = {
    "Airflow worker": "needs the paths of a cluster; `make release-check` packs an environment",
    "Any shell": "tests/e2e/test_wheels.py installs the packages, without a registry",
    "Benchmarks": "a measurement takes minutes",
    "Cluster": "needs the paths of a cluster; `make release-check` packs an environment",
    "Docker": "needs Docker",
    "Web server": "runs until it is stopped",
}


def pages_with(title: str) -> list[Path]:
    """Return the pages with commands for a shell."""
    return [page for page in PAGES if any(block.title == title for block in all_blocks(page))]


def run_page(
    page: Path, title: str, directory: Path, environment: dict[str, str], before: tuple[str, ...] = ()
) -> None:
    """Create the files of a page in a directory. Run commands to prepare it, then the page's commands for a shell."""
    for block in all_blocks(page):
        if block.is_file:
            file = directory / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.code, encoding="utf-8")
    commands = [*before, *(c for block in all_blocks(page) if block.title == title for c in block.commands)]
    process = subprocess.run(
        ["bash", "-euxc", "\n".join(commands)],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr[-4000:]}"


@cache
def anchors(page: Path) -> set[str]:
    headings = HEADING.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_point_to_existing_files_and_headings(page: Path) -> None:
    for link in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: no heading has this name"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_examples_parse(page: Path) -> None:
    for code in blocks(page, "python"):
        compile(code, str(page), "exec")


def test_dags_load_in_airflow(tmp_path: Path) -> None:
    dags = [code for page in (ROOT / "docs").glob("*.md") for code in blocks(page, "python") if "with DAG(" in code]
    for number, code in enumerate(dags):
        # Several pages show the DAG of the README.
        (tmp_path / f"dag_{number}.py").write_text(code.replace('with DAG("', f'with DAG("{number}_'), encoding="utf-8")
    bag = DagBag(dag_folder=str(tmp_path), bundle_path=tmp_path, bundle_name="documentation")
    assert bag.import_errors == {}
    assert len(bag.dags) == len(dags) > 0


def test_operators_of_examples_can_be_created() -> None:
    """Examples with an ellipsis, and whole DAG files, are checked elsewhere."""
    created = 0
    for page in PAGES:
        for code in blocks(page, "python"):
            if "Operator(" not in code or "..." in code or "with DAG(" in code:
                continue
            with DAG("example", schedule=None, start_date=datetime(2026, 1, 1)):
                exec(compile(code, str(page), "exec"), dict(vars(operators)))
            created += 1
    assert created >= 15


def test_the_documented_job_spec_is_valid() -> None:
    (spec,) = [code for page in PAGES for code in blocks(page, "json") if '"run_key"' in code]
    JobSpec.model_validate_json(spec)


def test_documented_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.M))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"(?:`|\$ )make ([a-z0-9-]+)", text):
            assert target in targets, f"{page.name}: make {target}"


def test_the_makefile_names_existing_tests() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    paths = re.findall(r"\btests/[\w/.]+", makefile)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_architecture_names_existing_files_and_definitions() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    references = re.findall(r"`((?:S|airflow_pushdown)/[\w/]+\.\w+)`(?:: `(\w+)`)?", text)
    assert len(references) > 20
    for path, name in references:
        source = (ROOT / re.sub("^S/", "spark_jobs/pushdown_spark/", path)).read_text(encoding="utf-8")
        assert not name or re.search(rf"^\s*(?:def |class )?{name}\b", source, re.M), f"{path} has no {name}"


def test_a_parameter_passes_at_most_20_modules() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    walk = text.partition("**`where` of")[2].partition("\n\nSpark parses")[0]
    modules: set[str] = set()
    for step, count in re.findall(r"^\| .* \| (.*) \| (\d+) \|$", walk, re.M):
        modules.update(re.findall(r"`((?:S|airflow_pushdown)/[\w/]+\.py)`", step))
        assert len(modules) == int(count), step
    assert 10 < len(modules) <= 20
    assert f"passes {len(modules)} modules" in walk


def test_the_ten_changes_name_existing_files() -> None:
    changes = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Ten changes")[2]
    files = re.findall(r"`([\w/]+(?:/|\.(?:py|md|txt|html)))`", changes)
    assert len(files) > 40
    for name in files:
        assert any((ROOT / top / name).exists() for top in ("", "spark_jobs/pushdown_spark")), name


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_block_of_commands_names_its_shell(page: Path) -> None:
    if page.name in TESTED_ELSEWHERE:
        return
    for block in all_blocks(page):
        if block.language != "console":
            continue
        assert block.commands
        if not block.title:
            assert all(command.startswith("make ") for command in block.commands), block.commands
        else:
            assert block.title in (SPARK, AIRFLOW, *NOT_RUN)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_modules_of_commands_exist(page: Path) -> None:
    for block in all_blocks(page):
        for module in re.findall(r"python -m ([\w.]+)", "\n".join(block.commands)):
            assert find_spec(module) or (ROOT / f"{module.replace('.', '/')}.py").is_file(), module


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database of Airflow without DAGs."""
    file = tmp_path_factory.mktemp("airflow") / "airflow.db"
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(file.parent),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{file}",
    }
    subprocess.run(
        [Path(sys.executable).with_name("airflow"), "db", "migrate"], env=environment, check=True, capture_output=True
    )
    return file


@pytest.mark.nightly
@pytest.mark.parametrize("page", pages_with(SPARK), ids=lambda page: page.name)
def test_commands_for_the_spark_environment_run(page: Path, tmp_path: Path, spark_python: str) -> None:
    programs = str(Path(spark_python).parent)
    run_page(page, SPARK, tmp_path, {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ""})


@pytest.mark.nightly
@pytest.mark.parametrize("page", pages_with(AIRFLOW), ids=lambda page: page.name)
def test_commands_for_the_airflow_environment_run(page: Path, tmp_path: Path, empty_database: Path) -> None:
    programs = Path(sys.executable).parent
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
    }
    # Airflow's services, which a reader has running, create the database and read the DAGs.
    shutil.copy(empty_database, tmp_path / "airflow.db")
    run_page(page, AIRFLOW, tmp_path, environment, ("airflow dags reserialize",))


def test_commands_for_tests_find_tests() -> None:
    paths = re.findall(r'TESTS="?(tests/\S+)', (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(paths) == 4
    assert all((ROOT / path).exists() for path in paths)


def test_schema_of_job_specs_is_printed_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; from pushdown_spark.__main__ import main; sys.exit(main())"
    process = subprocess.run([sys.executable, "-c", code, "schema"], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert {"run_key", "sources", "query", "output"} <= json.loads(process.stdout)["properties"].keys()


def test_a_job_without_the_libraries_of_jobs_names_the_extra() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "pushdown_spark", "run", "--spec", "job.json"], capture_output=True, text=True
    )
    assert process.returncode == 1
    assert len(process.stderr.splitlines()) == 1
    assert 'run pip install "pushdown-spark[spark]"' in process.stderr


def test_the_navigation_of_the_site_has_every_page_once() -> None:
    _, _, navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    page_names = re.findall(r": (\S+\.md)$", navigation, re.M)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(path for path in page_names if not path.startswith("project/")) == sorted(pages)
    assert all((ROOT / path.removeprefix("project/")).is_file() for path in page_names if path.startswith("project/"))


def test_first_steps_of_the_release_check_leave_out_the_tour() -> None:
    """The tour needs a checkout, and starts a web server that does not end."""
    commands, files = first_steps()
    assert files.keys() == {"first_scan.py"}
    assert commands[-1] == "airflow dags test first_scan 2026-01-01"


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
