"""Chromium, logged in to an api-server, and what the tests check on its pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from report_site import PASSWORD, READER, Site  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page

WIDTHS = (390, 1280, 2560)
AXE = Path(__file__).resolve().parents[3] / ".cache" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
"""The accessibility rules, which `make` installs if there is npm."""


_MAX_STOPS = 300
_FOCUSED_LINK = """() => {
    const tab = document.querySelector("iframe[title^=Pushdown]");
    const outer = document.activeElement;
    const focused = tab ? (outer === tab ? tab.contentDocument.activeElement : null) : outer;
    return focused?.tagName === "A" ? focused.textContent.trim() : null;
}"""


@contextmanager
def logged_in(site: Site, user: str = READER) -> Iterator[Page]:
    """Open Airflow in Chromium as a user, by default one who may read. Skip the test if there is no Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright, which drives the browser")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on PATH; as root: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # As root, as in containers, its own sandbox cannot be set up.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=chromium, args=options)
        window = browser.new_page(viewport={"width": 1280, "height": 1000})
        window.set_default_timeout(60_000)
        window.goto(site.address)
        window.fill("input[name=username]", user)
        window.fill("input[name=password]", PASSWORD)
        window.click("button[type=submit]")
        window.wait_for_url(lambda address: "/login" not in address)
        yield window
        browser.close()


def tab(page: Page) -> Frame:
    """Return the frame of the plugin's tab in Airflow's UI, when it has loaded."""
    frame = page.wait_for_selector("iframe[title^=Pushdown]").content_frame()
    assert frame is not None
    frame.wait_for_selector("h1", state="attached")
    return frame


def switch_theme(page: Page, theme: str) -> None:
    """Choose a theme the way in which Airflow's UI learns of a choice in another window."""
    page.evaluate(
        """theme => {
            localStorage.setItem("theme", theme);
            window.dispatchEvent(new StorageEvent("storage", {key: "theme", newValue: theme}));
        }""",
        theme,
    )
    page.wait_for_function("theme => document.documentElement.classList.contains(theme)", arg=theme)


def violations(page: Page | Frame) -> list[str]:
    """Return what axe-core finds on a page. Skip the test if it is not installed."""
    if not AXE.is_file():
        pytest.skip("npm is needed for the accessibility rules")
    page.evaluate(AXE.read_text("utf-8"))
    report = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:200]}" for rule in report["violations"] for node in rule["nodes"]
    ]


def overflow(page: Page | Frame) -> int:
    """Return by how many pixels a page is wider than its window."""
    root = "document.documentElement"
    return int(page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))


def labels_outside_boxes(page: Page | Frame) -> list[str]:
    """Return the labels of join trees that are wider than their boxes."""
    texts = page.locator("svg.tree g").evaluate_all(
        """groups => groups.flatMap(group => {
            const box = group.querySelector("rect").getBBox();
            return [...group.querySelectorAll(":scope > text")].filter(text => {
                const own = text.getBBox();
                return own.x < box.x || own.x + own.width > box.x + box.width || own.y < box.y - 1
                    || own.y + own.height > box.y + box.height + 1;
            }).map(text => text.textContent);
        })"""
    )
    return [str(text) for text in texts]


def pale_labels(page: Page | Frame) -> list[str]:
    """Return the labels of join trees whose contrast with their box is less than 4.5, which axe-core does not check."""
    texts = page.locator("svg.tree g").evaluate_all(
        """groups => {
            const luminance = element => {
                const [red, green, blue] = getComputedStyle(element).fill.match(/[\\d.]+/g).map(channel => {
                    const part = channel / 255;
                    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
                });
                return 0.05 + 0.2126 * red + 0.7152 * green + 0.0722 * blue;
            };
            return groups.flatMap(group => {
                const box = luminance(group.querySelector("rect"));
                return [...group.querySelectorAll(":scope > text")].filter(text => {
                    const own = luminance(text);
                    return Math.max(own, box) / Math.min(own, box) < 4.5;
                }).map(text => text.textContent);
            });
        }"""
    )
    return [str(text) for text in texts]


def unreadable_trees(page: Page | Frame) -> list[float]:
    """Return the scales of the visible join trees whose text is smaller than 9 pixels."""
    scales = page.locator("svg.tree").evaluate_all(
        """trees => trees.filter(tree => tree.checkVisibility()).map(
            tree => tree.getBoundingClientRect().width / tree.viewBox.baseVal.width)"""
    )
    return [scale for scale in scales if scale < 0.75]


def follow_by_keyboard(page: Page, text: str) -> None:
    """Press the tab key until a link of the plugin with this text has the focus, then enter.

    In Airflow's UI, links of the plugin are those within its tab.
    """
    for _ in range(_MAX_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate(_FOCUSED_LINK) == text:
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"the tab key does not reach {text}")


def brightness(color: str) -> float:
    """Return the mean of the channels of a computed color like `rgb(1, 2, 3)`."""
    parts = [float(part) for part in color.partition("(")[2].rstrip(")").split(",")[:3]]
    return sum(parts) / 3


def background(page: Page | Frame) -> float:
    return brightness(page.evaluate("getComputedStyle(document.body).backgroundColor"))
