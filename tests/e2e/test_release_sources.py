"""The URLs that a release adds to its sources lead to files of the repository."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from e2e.release_sources import add_urls
from pushdown_spark import __version__

URL = "https://example.org/owner/project"


def test_readmes_have_no_relative_links_and_both_distributions_have_urls(project: Path, tmp_path: Path) -> None:
    names = [f"{package}{name}" for package in ("", "spark_jobs/") for name in ("README.md", "pyproject.toml")]
    for name in (*names, "airflow_pushdown/__init__.py", "airflow_pushdown/provider.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(project / name, tmp_path / name)
    add_urls(tmp_path, URL)
    assert f'"external-doc-url": "{URL}/blob/' in (tmp_path / "airflow_pushdown/provider.py").read_text()
    for package in (tmp_path, tmp_path / "spark_jobs"):
        metadata = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert metadata["urls"]["Homepage"] == URL
        links = re.findall(r"\]\(([^)]+)\)", (package / "README.md").read_text(encoding="utf-8"))
        assert all(link.startswith(("https://", "#")) for link in links)
        tag = f"/v{__version__}/"
        own = [*links, *metadata["urls"].values()]
        paths = [link.partition(tag)[2].partition("#")[0] for link in own if link.startswith(URL) and tag in link]
        assert len(paths) >= 2
        assert all((project / path).is_file() for path in paths), paths
