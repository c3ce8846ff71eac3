"""Real PostgreSQL and MariaDB servers of a test run: on free loopback ports, in directories that vanish afterwards."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.ports import HOST, free_port

DATABASE = "shop"
USER = "reader"
PATIENCE_SECONDS = 90
"""A server takes a moment to see that a client has gone, PostgreSQL up to 2 s; a loaded machine may take its time."""
_START_SECONDS = 60
_STOP_SECONDS = 30


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether something comes about while anybody would still wait for it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


class NoServerError(Exception):
    """A server cannot be had on this machine; the message says what to install."""


class ServerError(Exception):
    """An installed server does not do what it is told; the message is what it said."""


@dataclass(frozen=True)
class Server:
    """A running server with one database, whose owner the user is. `ca_file` signed the server's certificate."""

    kind: str
    port: int
    password: str
    ca_file: Path
    client: str

    def connection(self, **changes: object) -> dict[str, object]:
        """How to reach it, with the names that a remote connection gives its parts."""
        return {
            "kind": self.kind,
            "host": HOST,
            "port": self.port,
            "database": DATABASE,
            "user": USER,
            "password": self.password,
            **changes,
        }

    def airflow_connection(self, **changes: object) -> str:
        """The same as an Airflow connection in JSON."""
        parts = {"login": USER, "password": self.password, "host": HOST, "port": self.port, "schema": DATABASE}
        kind = "postgres" if self.kind == "postgresql" else "mysql"
        return json.dumps({"conn_type": kind, **parts, **changes})

    def execute(self, *statements: str) -> str:
        """Run statements as the owner of the database; what they print, columns separated by tabs."""
        host, port = ("-h", HOST), ("-p" if self.kind == "postgresql" else "-P", str(self.port))
        if self.kind == "postgresql":
            options = ("-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", DATABASE)
        else:
            charset = "--default-character-set=utf8mb4"
            options = ("--no-defaults", "--batch", "--raw", "-N", charset, "-u", USER, DATABASE)
        run = subprocess.run(
            [self.client, *options[:1], *host, *port, *options[1:]],
            input=";\n".join((*statements, "")),
            env={**os.environ, "PGPASSWORD": self.password, "MYSQL_PWD": self.password},
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise ValueError(run.stderr)
        return run.stdout


@contextmanager
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server while it runs. Raises NoServerError where its programs are missing."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    path = os.pathsep.join([*map(str, reversed(programs)), os.environ.get("PATH", "")])
    names = ("initdb", "postgres", "psql")
    found = {name: shutil.which(name, path=path) for name in names}
    if missing := [name for name in names if found[name] is None]:
        raise NoServerError(f"{', '.join(missing)} not found: install PostgreSQL's server (apt-get install postgresql)")
    with _home("postgres") as (home, account):
        password, port = secrets.token_urlsafe(18), free_port()
        ca_file = _certificate(home)
        (home / "password").write_text(password)
        _hand_over(home, account)
        data = home / "data"
        _run(
            [
                *(str(found["initdb"]), "-D", str(data), "-U", USER, "--pwfile", str(home / "password"), "-N"),
                *("--auth-local=reject", "--auth-host=scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8"),
            ],
            account,
        )
        settings = {
            "listen_addresses": HOST,
            "port": port,
            "unix_socket_directories": home,
            "fsync": "off",
            "ssl": "on",
            "ssl_cert_file": home / "server.crt",
            "ssl_key_file": home / "server.key",
            "timezone": "Europe/Vienna",
        }
        command = [str(found["postgres"]), "-D", str(data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with _running(command, account, home, port):
            server = Server("postgresql", port, password, ca_file, str(found["psql"]))
            # Accepting connections is not yet taking them: start-up has to end first.
            _until_it_answers([server.client, "-h", HOST, "-p", str(port), "-U", USER, "-d", "postgres"], server)
            yield server


@contextmanager
def mariadb() -> Iterator[Server]:
    """A MariaDB server while it runs. Raises NoServerError where its programs are missing."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    names = ("mariadbd", "mariadb-install-db", "mariadb")
    found = {name: shutil.which(name, path=path) for name in names}
    if missing := [name for name in names if found[name] is None]:
        raise NoServerError(
            f"{', '.join(missing)} not found: install MariaDB's server (apt-get install mariadb-server)"
        )
    with _home("mysql") as (home, account):
        password, port = secrets.token_urlsafe(18), free_port()
        ca_file = _certificate(home)
        first = home / "first.sql"
        first.write_text(
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;\n"
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{password}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        )
        _hand_over(home, account)
        data = home / "data"
        _run(
            [
                *(str(found["mariadb-install-db"]), "--no-defaults", f"--datadir={data}", "--skip-test-db"),
                *("--auth-root-authentication-method=normal", "--innodb-flush-method=nosync"),
            ],
            account,
        )
        settings = {
            "datadir": data,
            "socket": home / "socket",
            "pid-file": home / "pid",
            "port": port,
            "bind-address": HOST,
            "innodb-flush-log-at-trx-commit": 0,
            "innodb-flush-method": "nosync",
            "ssl-cert": home / "server.crt",
            "ssl-key": home / "server.key",
            "default-time-zone": "+02:00",
            "skip-name-resolve": 1,
            "init-file": first,
        }
        command = [str(found["mariadbd"]), "--no-defaults", *(f"--{name}={value}" for name, value in settings.items())]
        with _running(command, account, home, port):
            server = Server("mysql", port, password, ca_file, str(found["mariadb"]))
            _until_it_answers(
                [server.client, "--no-defaults", "-h", HOST, "-P", str(port), "-u", USER, "-e", "SELECT 1"], server
            )
            yield server


@contextmanager
def _home(user: str) -> Iterator[tuple[Path, Mapping[str, object]]]:
    """A directory for a server, and as whom it runs: servers refuse to run as root."""
    home = Path(tempfile.mkdtemp(prefix=f"airflow-pushdown-{user}-"))
    account: dict[str, object] = {"user": user, "group": user, "extra_groups": []} if os.getuid() == 0 else {}
    try:
        yield home, account
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _hand_over(home: Path, account: Mapping[str, object]) -> None:
    for place in (home, *home.iterdir()):
        if account:
            shutil.chown(place, str(account["user"]), str(account["group"]))
        place.chmod(0o600)
    (home / "server.crt").chmod(0o644)
    home.chmod(0o755)


def _certificate(home: Path) -> Path:
    """A certificate for this machine, signed by itself, that is also what clients trust."""
    certificate, key = home / "server.crt", home / "server.key"
    if shutil.which("openssl") is None:
        raise NoServerError("openssl not found: install it (apt-get install openssl)")
    _run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName=DNS:localhost,IP:{HOST}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        {},
    )
    return certificate


def _run(command: Sequence[str], account: Mapping[str, object]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **account)  # type: ignore[call-overload]
    if run.returncode:
        raise ServerError(f"{command[0]} failed: {run.stderr or run.stdout}")


@contextmanager
def _running(command: Sequence[str], account: Mapping[str, object], home: Path, port: int) -> Iterator[None]:
    log = home / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd="/", **account)  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _listening(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"{command[0]} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _until_it_answers(command: Sequence[str], server: Server) -> None:
    """Make the database, once the server lets its owner in."""
    deadline = time.monotonic() + _START_SECONDS
    environment = {**os.environ, "PGPASSWORD": server.password, "MYSQL_PWD": server.password}
    statement = f"CREATE DATABASE {DATABASE}" if server.kind == "postgresql" else ""
    while True:
        run = subprocess.run(
            command, input=statement, env=environment, capture_output=True, text=True, check=False, cwd="/"
        )
        if run.returncode == 0:
            return
        if time.monotonic() > deadline:
            raise ServerError(f"the server does not let its owner in: {run.stderr}")
        time.sleep(0.1)
