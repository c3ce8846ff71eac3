"""Real PostgreSQL, MariaDB and MySQL servers on free loopback ports, in temporary directories."""

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
CERTIFIED = "certified"
"""A user that gets in with a client's certificate alone."""
MYSQL_HOME = Path(
    os.environ.get("AIRFLOW_PUSHDOWN_MYSQL_HOME") or Path(__file__).resolve().parents[1] / ".cache" / "mysql"
)
"""MySQL's own server, with `bin/mysqld`; by default the one that `make` unpacks, as Debian has no package of it."""
PATIENCE_SECONDS = 90
"""A server takes a moment to see that a client has gone, PostgreSQL up to 2 s; a loaded machine may take its time."""
_START_SECONDS = 60
_STOP_SECONDS = 30


def wait_until(condition: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within the timeout."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


class NoServerError(Exception):
    """A server whose programs are missing on this machine. The message says what to install."""


class ServerError(Exception):
    """A failed command of an installed server. The message is the server's."""


@dataclass(frozen=True)
class Server:
    """A running server with one database, which the user owns.

    `ca_file` signed the server's certificate. `product` is the server's name, `kind` the kind of a remote connection.
    """

    product: str
    kind: str
    port: int
    password: str
    ca_file: Path
    client: str

    def connection(self, **changes: object) -> dict[str, object]:
        """Return the connection with the field names of a remote connection."""
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
        """Return the connection as JSON of an Airflow connection."""
        parts = {"login": USER, "password": self.password, "host": HOST, "port": self.port, "schema": DATABASE}
        kind = "postgres" if self.kind == "postgresql" else "mysql"
        return json.dumps({"conn_type": kind, **parts, **changes})

    def numbers(self, most: int) -> str:
        """Return a FROM item with a column `seq` of the integers from 1 to `most`, at most some hundred thousand."""
        if self.product == "postgresql":
            return f"generate_series(1, {most}) seq"
        if self.product == "mariadb":
            return f"seq_1_to_{most}"
        digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
        number = " + ".join(f"t{place}.d * {10**place}" for place in range(6))
        tables = ", ".join(f"({digits}) t{place}" for place in range(6))
        return f"(SELECT 1 + {number} AS seq FROM {tables} HAVING seq <= {most}) seq"

    def client_certificate(self, directory: Path, *, curve: bool = False) -> tuple[Path, Path]:
        """Return a client certificate of `CERTIFIED` and its key, which the server trusts."""
        certificate, key, request = (directory / f"client.{kind}" for kind in ("crt", "key", "csr"))
        kind = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1") if curve else ("rsa:2048",)
        new = ("openssl", "req", "-newkey", *kind, "-nodes", "-subj", f"/CN={CERTIFIED}")
        _run([*new, "-keyout", str(key), "-out", str(request)], {})
        signed_by = ("-CA", str(self.ca_file), "-CAkey", str(self.ca_file.with_suffix(".key")), "-set_serial", "2")
        _run(["openssl", "x509", "-req", "-in", str(request), *signed_by, "-out", str(certificate)], {})
        key.chmod(0o600)
        return certificate, key

    def execute(self, *statements: str) -> str:
        """Run statements as the owner of the database. Return their output, with tabs between columns."""
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
    """Run a PostgreSQL server. Raises NoServerError if its programs are missing."""
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
        access = data / "pg_hba.conf"
        access.write_text(f"hostssl all {CERTIFIED} {HOST}/32 cert\n{access.read_text()}")
        settings = {
            "listen_addresses": HOST,
            "port": port,
            "unix_socket_directories": home,
            "fsync": "off",
            "ssl": "on",
            "ssl_cert_file": home / "server.crt",
            "ssl_key_file": home / "server.key",
            "ssl_ca_file": home / "server.crt",
            "timezone": "Europe/Vienna",
        }
        command = [str(found["postgres"]), "-D", str(data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with _running(command, account, home, port):
            server = Server("postgresql", "postgresql", port, password, ca_file, str(found["psql"]))
            # Accepting connections is not yet taking them: start-up has to end first.
            _until_it_answers([server.client, "-h", HOST, "-p", str(port), "-U", USER, "-d", "postgres"], server)
            server.execute(f"CREATE ROLE {CERTIFIED} LOGIN")
            yield server


@contextmanager
def mariadb() -> Iterator[Server]:
    """Run a MariaDB server. Raises NoServerError if its programs are missing."""
    found = _programs("mariadb-server", "mariadbd", "mariadb-install-db", "mariadb")
    with _home("mysql") as (home, account):
        server = _mysql_server("mariadb", home, found["mariadb"])
        _hand_over(home, account)
        data = home / "data"
        _run(
            [
                *(found["mariadb-install-db"], "--no-defaults", f"--datadir={data}", "--skip-test-db"),
                *("--auth-root-authentication-method=normal", "--innodb-flush-method=nosync"),
            ],
            account,
        )
        with _mysql_running(server, found["mariadbd"], home, account):
            yield server


@contextmanager
def mysql() -> Iterator[Server]:
    """Run a MySQL server. Raises NoServerError if its programs are missing."""
    found = _programs("mariadb-client", "mariadb")
    program = MYSQL_HOME / "bin" / "mysqld"
    if not program.is_file():
        raise NoServerError(f"{program} not found: `make .cache/mysql/.unpacked` brings MySQL's own server")
    with _home("mysql") as (home, account):
        # Where the server's account may read it, which a checkout need not be.
        shutil.copytree(MYSQL_HOME, home / "program", symlinks=True)
        server = _mysql_server("mysql", home, found["mariadb"])
        _hand_over(home, account)
        (home / "program").chmod(0o755)
        own = str(home / "program" / "bin" / "mysqld")
        _run([own, "--no-defaults", f"--datadir={home / 'data'}", "--initialize-insecure"], account)
        with _mysql_running(server, own, home, account, "--mysqlx=0", "--secure-file-priv="):
            yield server


def _mysql_server(product: str, home: Path, client: str) -> Server:
    """Return a server to be started in a directory, its certificate, and its first statements."""
    password = secrets.token_urlsafe(18)
    (home / "first.sql").write_text(
        f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;\n"
        f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{password}';\n"
        f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        f"CREATE USER '{CERTIFIED}'@'%' IDENTIFIED BY '{password}' REQUIRE X509;\n"
        f"GRANT ALL ON *.* TO '{CERTIFIED}'@'%';\n"
    )
    return Server(product, "mysql", free_port(), password, _certificate(home), client)


@contextmanager
def _mysql_running(
    server: Server, program: str, home: Path, account: Mapping[str, object], *options: str
) -> Iterator[None]:
    settings = {
        "datadir": home / "data",
        "socket": home / "socket",
        "pid-file": home / "pid",
        "port": server.port,
        "bind-address": HOST,
        "innodb-flush-log-at-trx-commit": 0,
        "innodb-flush-method": "nosync",
        "ssl-cert": home / "server.crt",
        "ssl-key": home / "server.key",
        "ssl-ca": home / "server.crt",
        "default-time-zone": "+02:00",
        "skip-name-resolve": 1,
        "init-file": home / "first.sql",
    }
    command = [program, "--no-defaults", *(f"--{name}={value}" for name, value in settings.items()), *options]
    with _running(command, account, home, server.port):
        _until_it_answers(
            [server.client, "--no-defaults", "-h", HOST, "-P", str(server.port), "-u", USER, "-e", "SELECT 1"], server
        )
        yield


def _programs(package: str, *names: str) -> dict[str, str]:
    """Return the paths of programs. Raises NoServerError if some are missing."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = {name: shutil.which(name, path=path) for name in names}
    if missing := [name for name, place in found.items() if place is None]:
        raise NoServerError(f"{', '.join(missing)} not found: install it (apt-get install {package})")
    return {name: str(place) for name, place in found.items()}


@contextmanager
def _home(user: str) -> Iterator[tuple[Path, Mapping[str, object]]]:
    """Return a directory for a server and the user it runs as. Servers refuse to run as root."""
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
    """Return a self-signed certificate for this machine, which is also the clients' CA."""
    certificate, key = home / "server.crt", home / "server.key"
    if shutil.which("openssl") is None:
        raise NoServerError("openssl not found: install it (apt-get install openssl)")
    _run(
        [
            # RSA: MySQL's server brings a library of TLS that takes no other key.
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"),
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
    """Create the database as soon as the server accepts its owner."""
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
