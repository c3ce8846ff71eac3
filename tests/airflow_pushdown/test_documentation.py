"""The documentation agrees with the code: links lead somewhere, examples parse, and printed commands exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pushdown_spark.contract import JobSpec

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "spark_jobs" / "README.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)
HEADING = re.compile(r"^#+ (.+)$", re.M)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def blocks(page: Path, language: str) -> Iterator[str]:
    """Yield the code blocks of a language, without the indentation of a list item."""
    for found, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if found == language:
            indent = len(code) - len(code.lstrip(" "))
            yield re.sub(rf"^ {{{indent}}}", "", code, flags=re.M)


@cache
def anchors(page: Path) -> set[str]:
    headings = HEADING.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_to_files_and_headings(page: Path) -> None:
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


def test_documented_job_specs_are_valid() -> None:
    found = [json.loads(code) for code in blocks(ROOT / "docs" / "pyspark.md", "json")]
    assert found
    for spec in found:
        JobSpec.model_validate(spec)


def test_documented_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.M))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"(?:`|\$ )make ([a-z0-9-]+)", text):
            assert target in targets, f"{page.name}: make {target}"


def test_schema_of_job_specs_is_printed_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; from pushdown_spark.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "schema"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"run_key", "sources", "query", "output"} <= json.loads(done.stdout)["properties"].keys()


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
