"""A client of WebHDFS that reads byte ranges of files.

The name node redirects each read to a data node that has the bytes. The protocol is Hadoop's:
https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, build_opener

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")

_FINAL = frozenset({"AccessControlException", "FileNotFoundException", "SecurityException"})
"""Exceptions of Hadoop that another request does not change."""


class WebHdfs:
    """A client of one HDFS. One of its name nodes is active at a time.

    `seconds` is the time limit of a connection and of each wait for bytes. Each name node is asked up to `attempts`
    times, because the data node that it chooses may be down.

    Reads raise FileNotFoundError for a missing file, and OSError with Hadoop's exception and message otherwise.
    """

    def __init__(self, name_nodes: Sequence[str], user: str, *, seconds: float = 60, attempts: int = 3) -> None:
        self._name_nodes = list(name_nodes)
        self._user = user
        self._seconds = seconds
        self._attempts = attempts
        # Hadoop's own clients ignore the proxies of the environment too.
        self._opener = build_opener(ProxyHandler({}))

    def open_input_file(self, path: str) -> WebHdfsFile:
        """Open a file of an absolute path. This requests its attributes, but no content."""
        return WebHdfsFile(self, path, self.request(path, "GETFILESTATUS", {}, _file_attributes))

    def request(
        self, path: str, operation: str, parameters: Mapping[str, int], receive: Callable[[HTTPResponse], T]
    ) -> T:
        """Send a request, and return what `receive` makes of the response."""
        query = urlencode({"op": operation, "user.name": self._user, **parameters})
        failure: Exception | None = None
        for _ in range(self._attempts):
            for node in list(self._name_nodes):
                try:
                    url = f"http://{node}/webhdfs/v1{quote(path)}?{query}"
                    with self._opener.open(url, timeout=self._seconds) as response:
                        result = receive(response)
                except HTTPError as problem:
                    name, failure = _remote_failure(problem)
                    if name in _FINAL:
                        raise failure from None
                except (OSError, HTTPException, ValueError) as problem:
                    failure = OSError(f"{node}: {problem}")
                else:
                    # The active name node comes first from now on.
                    self._name_nodes.sort(key=node.__ne__)
                    return result
        raise failure or OSError("there is no name node")


class WebHdfsFile:
    """An open file. It has the methods of pyarrow's files that readers of objects use."""

    def __init__(self, client: WebHdfs, path: str, attributes: Mapping[str, int]) -> None:
        self._client = client
        self._path = path
        self._position = 0
        self.attributes = attributes
        """The numbers of the file's status, as Hadoop's JSON names them."""

    @property
    def version(self) -> bytes:
        """An identifier of the version of the file."""
        parts = (self.attributes.get(name, 0) for name in ("fileId", "modificationTime", "length"))
        return " ".join(map(str, parts)).encode()

    def size(self) -> int:
        """Return the size in bytes."""
        return self.attributes["length"]

    def seek(self, position: int) -> int:
        """Move to a position without a request. Return it."""
        self._position = position
        return position

    def readinto(self, target: WriteableBuffer) -> int:
        """Fill the target from the position on. Return the number of bytes, which is less only at the end of file."""
        view = memoryview(target).cast("B")

        def receive(response: HTTPResponse) -> int:
            count = 0
            while count < len(view) and (size := response.readinto(view[count:])):
                count += size
            return count

        count = 0
        if len(view):
            bounds = {"offset": self._position, "length": len(view)}
            count = self._client.request(self._path, "OPEN", bounds, receive)
        self._position += count
        return count

    def close(self) -> None:
        """Do nothing. A file holds no connection."""


def _file_attributes(response: HTTPResponse) -> dict[str, int]:
    """Return the numbers of a file's status. Raises ValueError for a response of another kind."""
    content = json.load(response)
    status = content.get("FileStatus") if isinstance(content, dict) else None
    if not isinstance(status, dict) or status.get("type") != "FILE":
        raise ValueError("the response is not the status of a file")
    return {name: int(status[name]) for name in ("fileId", "length", "modificationTime") if name in status}


def _remote_failure(problem: HTTPError) -> tuple[str, OSError]:
    """Return the name of Hadoop's exception in a response, and an error with it and its message."""
    content = problem.read()
    try:
        remote = json.loads(content)["RemoteException"]
        name, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        name, message = f"HTTP {problem.code}", str(problem.reason)
    if name == "FileNotFoundException":
        return name, FileNotFoundError(message)
    return name, OSError(f"{name}: {message}")
