"""The provider's description for Airflow, also in an installed wheel."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pytest
from airflow._shared.providers_discovery import _create_provider_info_schema_validator
from jsonschema import ValidationError
from packaging.requirements import Requirement

import airflow_pushdown
import pushdown_spark
from airflow_pushdown.provider import get_provider_info


def test_airflow_accepts_the_description() -> None:
    _create_provider_info_schema_validator().validate(get_provider_info())


def test_the_validator_rejects_an_invalid_description() -> None:
    with pytest.raises(ValidationError):
        _create_provider_info_schema_validator().validate({**get_provider_info(), "operators": "all of them"})


def test_all_modules_of_the_description_can_be_imported() -> None:
    info = get_provider_info()
    for kind in ("operators", "hooks"):
        entries = info[kind]
        assert isinstance(entries, list)
        for module in (name for entry in entries for name in entry["python-modules"]):
            assert importlib.import_module(module)
    links = info["extra-links"]
    assert isinstance(links, list)
    for module, _, name in (link.rpartition(".") for link in links):
        assert hasattr(importlib.import_module(module), name)


def test_a_spark_provider_that_may_lack_members_of_its_hook_or_operator_is_not_accepted(project: Path) -> None:
    project_table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    requirements = [Requirement(text) for text in project_table]
    (spark,) = [one for one in requirements if one.name == "apache-airflow-providers-apache-spark"]
    # 6.1 has no `durable`, and releases before it do not follow drivers on YARN and Kubernetes. The next major release
    # may change the members that hooks use.
    accepted = {version for version in ("5.3.0", "6.1.0", "6.2.0", "6.99.0", "7.0.0") if version in spark.specifier}
    assert accepted == {"6.2.0", "6.99.0"}


def test_integrations_are_declared() -> None:
    info = get_provider_info()
    names = {entry["integration-name"] for entry in info["integrations"]}  # type: ignore[attr-defined]
    integrations = {entry["integration-name"] for kind in ("operators", "hooks") for entry in info[kind]}  # type: ignore[attr-defined]
    assert integrations == names


def test_importing_the_description_imports_no_other_module(project: Path) -> None:
    code = (
        "import sys; before = set(sys.modules); import airflow_pushdown.provider; "
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["__future__", "airflow_pushdown", "airflow_pushdown.provider"]


@pytest.mark.starts
def test_the_wheel_installs_into_an_empty_environment_and_its_entry_point_loads(project: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    shutil.copytree(
        project / "airflow_pushdown", source / "airflow_pushdown", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(project / name, source)
    (wheel,) = build_wheel(source, tmp_path / "dist")

    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    install(wheel, python)
    code = (
        "from importlib.metadata import entry_points, files; "
        "point, = entry_points(group='apache_airflow_provider'); print(point.load()()['package-name']); "
        "plugin, = entry_points(group='airflow.plugins'); print(plugin.value); "
        "print(*files('airflow-pushdown'))"
    )
    run = subprocess.run([python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    name, plugin, listing = run.stdout.splitlines()
    assert name == "airflow-pushdown"
    assert plugin == "airflow_pushdown.plugin.plugin:PushdownPlugin"
    assert {
        "airflow_pushdown/operators/scan.py",
        "airflow_pushdown/plugin/templates/report.html",
        "airflow_pushdown/plugin/templates/style.css",
    } <= set(listing.split())
    assert not [name for name in listing.split() if name.startswith(("spark_jobs", "pushdown_spark"))]


def test_both_packages_have_one_version() -> None:
    assert airflow_pushdown.__version__ == pushdown_spark.__version__
    assert f"pushdown-spark=={pushdown_spark.__version__}" in (metadata.requires("airflow-pushdown") or [])


def build_wheel(source: Path, target: Path) -> list[Path]:
    uv = shutil.which("uv")
    command = (
        [uv, "build", "--wheel", "--quiet", "--out-dir", str(target), str(source)]
        if uv
        else [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(source)]
    )
    subprocess.run(command, check=True)
    return list(target.glob("*.whl"))


def install(wheel: Path, python: Path) -> None:
    uv = shutil.which("uv")
    command = (
        [uv, "pip", "install", "--quiet", "--no-deps", "--python", str(python), str(wheel)]
        if uv
        else [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    )
    subprocess.run(command, check=True)
