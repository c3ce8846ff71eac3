"""The address of YARN's resource manager in Hadoop's configuration, and what is not the response of one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from airflow_pushdown.hooks.drivers import ClusterUnreachableError, StandaloneDrivers, YarnDrivers
from airflow_pushdown.hooks.yarn import configured_address
from e2e.ports import HOST, free_port

Configure = Callable[[Mapping[str, str]], None]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Configure:
    """Return a function that writes the settings of YARN, without the prefix of their names."""

    def write(settings: Mapping[str, str]) -> None:
        entries = "".join(
            f"<property><name>yarn.{key}</name><value>{value}</value></property>" for key, value in settings.items()
        )
        (tmp_path / "yarn-site.xml").write_text(f"<configuration>{entries}</configuration>")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    return write


@pytest.fixture
def server() -> Iterator[str]:
    """Run an HTTP server, and return its host and port."""
    server = ThreadingHTTPServer((HOST, 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"{HOST}:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def serve(server: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], str]:
    """Return a function that lets the server respond to everything with a JSON document, and returns its address."""

    def respond(document: object) -> str:
        def do_get(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(HTTPStatus.OK)
            handler.end_headers()
            handler.wfile.write(json.dumps(document).encode())

        monkeypatch.setattr(BaseHTTPRequestHandler, "do_GET", do_get, raising=False)
        return f"http://{server}"

    return respond


@pytest.mark.parametrize("document", [{}, [], "", {"apps": [{}]}, {"apps": {"app": {"id": "a"}}}, {"app": None}])
def test_the_response_of_another_server_does_not_mean_that_there_is_no_driver(
    serve: Callable[[object], str], document: object
) -> None:
    address = serve(document)
    calls: list[Callable[[], object]] = [
        lambda: YarnDrivers(address).find("tag", are_active=True),
        lambda: YarnDrivers(address).status("application_1_1"),
        lambda: StandaloneDrivers([address]).status("driver-1"),
    ]
    for call in calls:
        with pytest.raises(ClusterUnreachableError, match="not the response of a"):
            call()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"resourcemanager.hostname": "rm"}, "http://rm:8088"),
        ({"resourcemanager.hostname": "rm", "http.policy": "HTTPS_ONLY"}, "https://rm:8090"),
        (
            {
                "resourcemanager.hostname": "rm",
                "resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:80",
            },
            "http://rm:80",
        ),
        ({"resourcemanager.ha.rm-ids": "a", "resourcemanager.webapp.address.a": "rm-a:1"}, "http://rm-a:1"),
        ({"resourcemanager.ha.rm-ids": "a", "resourcemanager.hostname.a": "rm-a"}, "http://rm-a:8088"),
    ],
)
def test_the_configuration_names_the_address(
    configure: Configure, settings: Mapping[str, str], expected: str | None
) -> None:
    configure(settings)
    assert configured_address() == expected


def test_the_second_of_two_is_used_while_the_first_is_away(configure: Configure, server: str) -> None:
    away = f"{HOST}:{free_port()}"
    names = {"resourcemanager.ha.rm-ids": "a, b", "resourcemanager.webapp.address.a": away}
    configure({**names, "resourcemanager.webapp.address.b": server})
    assert configured_address() == f"http://{server}"
    configure({**names, "resourcemanager.webapp.address.b": away})
    assert configured_address() == f"http://{away}"
