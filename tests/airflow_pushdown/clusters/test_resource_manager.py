"""The addresses of YARN's resource managers in Hadoop's configuration, and what is not the response of one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from airflow_pushdown.clusters.drivers import ClusterUnreachableError, DriverPhase
from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.clusters.yarn import YarnDrivers, configured_addresses
from airflow_pushdown.triggers.driver import drivers_of
from e2e.ports import HOST, free_port

Configure = Callable[[Mapping[str, str]], None]
Serve = Callable[..., str]


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
def serve() -> Iterator[Serve]:
    """Return a function that starts an HTTP server, and returns its address.

    The server responds to everything with a JSON document.
    """
    servers = []

    def start(document: object, status: HTTPStatus = HTTPStatus.OK) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            do_PUT = do_GET  # noqa: N815

        server = ThreadingHTTPServer((HOST, 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://{HOST}:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("document", [{}, [], "", {"apps": [{}]}, {"apps": {"app": {"id": "a"}}}, {"app": None}])
def test_the_response_of_another_server_does_not_mean_that_there_is_no_driver(serve: Serve, document: object) -> None:
    address = serve(document)
    calls: list[Callable[[], object]] = [
        lambda: YarnDrivers([address]).find("tag", only_active=True),
        lambda: YarnDrivers([address]).status("application_1_1"),
        lambda: StandaloneDrivers([address]).status("driver-1"),
    ]
    for call in calls:
        with pytest.raises(ClusterUnreachableError, match="not the response of a"):
            call()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ""),
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
        (
            {
                "resourcemanager.ha.rm-ids": "a, b",
                "resourcemanager.hostname.a": "rm-a",
                "resourcemanager.webapp.address.b": "rm-b:1",
            },
            "http://rm-a:8088 http://rm-b:1",
        ),
    ],
)
def test_the_configuration_names_the_addresses(
    configure: Configure, settings: Mapping[str, str], expected: str
) -> None:
    configure(settings)
    assert configured_addresses() == expected.split()


@pytest.mark.parametrize("other", ["away", "standby", "gateway"])
def test_a_deferred_task_continues_with_another_resource_manager(serve: Serve, other: str) -> None:
    """The settings are those that its trigger keeps. A standby that knows no active one responds with other content."""
    responses = {
        "away": lambda: f"http://{HOST}:{free_port()}",
        "standby": lambda: serve("There is no active RM right now"),
        "gateway": lambda: serve({"error": "no route"}, HTTPStatus.NOT_FOUND),
    }
    present = serve(
        {
            "app": {"state": "RUNNING"},
            "apps": {"app": [{"id": "application_1_1", "startedTime": 1}]},
            "state": "RUNNING",
        }
    )
    drivers = drivers_of("yarn", YarnDrivers([responses[other](), present]).settings())
    assert drivers.status("application_1_1").phase is DriverPhase.ACTIVE
    assert drivers.find("tag", only_active=True) == ["application_1_1"]
    drivers.kill("application_1_1")
    assert drivers.settings()["addresses"][0] == present


def test_only_a_resource_manager_knows_that_there_is_no_application(serve: Serve) -> None:
    error = {"RemoteException": {"exception": "NotFoundException", "message": "app with id: 1 not found"}}
    resource_manager, gateway = serve(error, HTTPStatus.NOT_FOUND), serve({}, HTTPStatus.NOT_FOUND)
    assert YarnDrivers([resource_manager]).status("application_1_1").phase is DriverPhase.MISSING
    with pytest.raises(ClusterUnreachableError, match="404"):
        YarnDrivers([gateway]).status("application_1_1")
