"""The URLs of a release: `python -m e2e.release_sources DIRECTORY URL` adds them to exported sources.

Package registries show the README outside of the repository. Its links become absolute and lead to the tag of the
version, and the metadata of both distributions and Airflow's description of the provider name URLs of the project.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<target>[^)\s]+)\)")
_PROVIDER_URL = re.compile(r'(?<="external-doc-url": ")[^"]+')
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


def with_absolute_links(markdown: str, url: str, tag: str) -> str:
    """Return a page of the root directory with links to the files of a tag.

    >>> with_absolute_links("![A](docs/a.png) [b](docs/b.md#c) [d](https://d.org) [e](#e)", "https://g.org/o/r", "v1")
    '![A](https://g.org/o/r/raw/v1/docs/a.png) [b](https://g.org/o/r/blob/v1/docs/b.md#c) [d](https://d.org) [e](#e)'
    """
    return _LINK.sub(
        lambda link: (
            f"{link['image']}[{link['text']}]({url}/{'raw' if link['image'] else 'blob'}/{tag}/{link['target']})"
        ),
        markdown,
    )


def project_urls(url: str, tag: str) -> str:
    """Return the section of `pyproject.toml` with the URLs of the project."""
    pages = {
        "Homepage": url,
        "Documentation": f"{url}/blob/{tag}/docs/index.md",
        "Changelog": f"{url}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
    return "\n".join(["", "[project.urls]", *(f'{name} = "{page}"' for name, page in pages.items()), ""])


def add_urls(sources: Path, url: str) -> None:
    """Add the URLs of the project to the exported sources of both distributions."""
    (version,) = _VERSION.findall((sources / "airflow_pushdown" / "__init__.py").read_text(encoding="utf-8"))
    provider = sources / "airflow_pushdown" / "provider.py"
    page = f"{url}/blob/v{version}/docs/index.md"
    provider.write_text(_PROVIDER_URL.sub(page, provider.read_text(encoding="utf-8")), encoding="utf-8")
    for package in (sources, sources / "spark_jobs"):
        readme, project = package / "README.md", package / "pyproject.toml"
        readme.write_text(with_absolute_links(readme.read_text(encoding="utf-8"), url, f"v{version}"), encoding="utf-8")
        with project.open("a", encoding="utf-8") as file:
            file.write(project_urls(url, f"v{version}"))


def main() -> int:
    """Change the sources in the directory of the first argument. The second is the URL of the repository."""
    add_urls(Path(sys.argv[1]), sys.argv[2].rstrip("/"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
