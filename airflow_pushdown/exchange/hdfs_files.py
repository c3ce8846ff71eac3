"""Small files of HDFS over WebHDFS or HttpFS, which are written and read as a whole."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import uuid4

import requests
from fsspec.implementations.webhdfs import WebHDFS
from requests.adapters import HTTPAdapter

_TIMEOUT = (5, 30)
"""Seconds for the connection and for the response."""


class HdfsFiles(WebHDFS):  # type: ignore[misc] # fsspec has no types
    """A file system whose files are replaced in one step, and whose requests have time limits."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_options: object) -> None:
        """Write a file so that readers see the whole value or the earlier file."""
        target = self._strip_protocol(path)
        directory, _, name = target.rpartition("/")
        draft = f"{directory}/.{name}-{uuid4().hex}"
        self._make_directory(directory)
        try:
            response = self._call("CREATE", "put", draft, redirect=False)
            content_type = {"Content-Type": "application/octet-stream"}
            self.session.put(self._data_location(response), data=value, headers=content_type).raise_for_status()
            self._replace(draft, target)
        except BaseException:
            with suppress(Exception):
                self.rm_file(draft)
            raise

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_options: object) -> bytes:
        """Return the bytes of a file. Another file may replace it meanwhile, so its size is not requested before."""
        response = self._call("OPEN", path=path, redirect=False)
        # HttpFS returns the bytes at once.
        if "Location" in response.headers:
            response = self.session.get(self._data_location(response))
        if response.status_code == requests.codes.not_found:
            raise FileNotFoundError(path)
        response.raise_for_status()
        content: bytes = response.content
        return content[start:end]

    def _make_directory(self, path: str) -> None:
        """Create a missing directory. Whoever can write to its parent, such as a driver, can write to it."""
        options = {}
        with suppress(FileNotFoundError):
            permission = self.info(path.rpartition("/")[0] or "/")["permission"]
            # With the second option, HttpFS applies no umask.
            options = {"permission": permission, "unmaskedpermission": permission}
        self._call("MKDIRS", "put", path, **options)

    def _replace(self, source: str, target: str) -> None:
        """Rename a file to a target that may exist."""
        response = self._call("RENAME", "put", source, destination=target, renameoptions="OVERWRITE")
        # HttpFS ignores the option, and returns whether it has renamed the file.
        if response.content and not response.json()["boolean"]:
            self.rm_file(target)
            if not self._call("RENAME", "put", source, destination=target).json()["boolean"]:
                raise OSError(f"HDFS did not rename {source} to {target}")

    def _data_location(self, response: requests.Response) -> str:
        """Return the address of the data node that a response names."""
        return str(self._apply_proxy(response.headers["Location"]))

    def _connect(self) -> None:
        """Open a session with time limits, because fsspec has none."""
        super()._connect()
        for prefix in ("http://", "https://"):
            self.session.mount(prefix, _TimedAdapter())


class _TimedAdapter(HTTPAdapter):
    """Connections with a time limit for each request."""

    def send(self, *arguments: Any, **options: Any) -> requests.Response:  # noqa: ANN401 - those of requests
        """Send a request with the time limit, unless it has one."""
        return super().send(*arguments, **{**options, "timeout": options.get("timeout") or _TIMEOUT})
