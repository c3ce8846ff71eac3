"""Spark connections made with the form of Airflow's UI in Chromium, as the install page describes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.utils.db import initdb
from browser import logged_in  # type: ignore[import-not-found]
from report_site import ADMIN, api_server  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def page(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Return the page with all connections, opened by an administrator."""
    initdb()
    with api_server(project, tmp_path_factory.mktemp("site")) as site, logged_in(site, ADMIN) as window:
        window.goto(f"{site.address}/connections")
        yield window


def begin(page: Page, conn_id: str, host: str) -> None:
    """Open the form, choose the type Spark, and fill in the id and the host."""
    page.get_by_role("button", name="Add Connection").click()
    page.fill("input[name=connection_id]", conn_id)
    page.locator("[role=dialog] input[role=combobox]").fill("Spark")
    page.get_by_role("option", name="Spark", exact=True).click()
    page.fill("input[name=host]", host)


def save(page: Page, conn_id: str) -> None:
    """Save the form, and wait until the list shows the connection."""
    page.get_by_role("button", name="Save").click()
    page.locator("[role=dialog]").wait_for(state="detached")
    page.get_by_role("cell", name=conn_id, exact=True).wait_for()


def findings(conn_id: str) -> list[str]:
    """Return the lines of the command that the install page names."""
    command = [sys.executable, "-m", "airflow_pushdown", "doctor", "--conn-id", conn_id]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def test_a_host_alone_makes_a_connection_that_passes_all_checks(page: Page) -> None:
    begin(page, "spark_local", "local[2]")
    save(page, "spark_local")
    lines = findings("spark_local")
    assert "ok    connection        spark_local: master local[2], deploy mode client" in lines
    assert lines[-1] == "Failed checks: 0"


def test_extras_entered_as_json_are_kept_when_another_field_is_edited(page: Page) -> None:
    """The install page says where they go. The form keeps them when another field is edited."""
    begin(page, "spark_extras", "yarn")
    page.get_by_text("Extra Fields JSON", exact=True).click()
    page.locator("[role=dialog] .monaco-editor .view-lines").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text('{"deploy-mode": "cluster", "exchange-dir": "/no/such/directory"}')
    # The editor closes quotes and braces itself.
    page.keyboard.press("Control+Shift+End")
    page.keyboard.press("Delete")
    page.locator("input[name=connection_id]").click()
    save(page, "spark_extras")
    lines = findings("spark_extras")
    assert "ok    connection        spark_extras: master yarn, deploy mode cluster" in lines
    assert any(line.startswith("FAIL  exchange_dir") and "/no/such/directory" in line for line in lines)
