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
from pwd import getpwnam

from certificates import create_authority, create_client_certificate

from e2e.ports import HOST, free_port

DATABASE = "shop"
USER = "reader"
CERTIFIED = "certified"
"""A user that gets in with a client's certificate alone."""
SERVERS = Path(__file__).resolve().parents[1] / ".cache" / "servers"
"""The pinned servers that `make` unpacks, each in a directory with the name of the product."""
PATIENCE_SECONDS = 90
"""A server takes a moment to see that a client has gone, PostgreSQL up to 2 s; a loaded machine may take its time."""
_START_SECONDS = 60
_STOP_SECONDS = 30
_ACCOUNT = "nobody"
"""Every Linux system has this user. Tests that run as root start servers as this user, because servers refuse root."""
_INSTALLED_PROGRAMS = {"postgresql": "usr/lib/postgresql/*/bin", "mariadb": "usr/sbin"}
"""Where Debian has servers that are not in PATH. Its `mysqld` is MariaDB's server, so MySQL is missing here."""
_LOADER_ERROR = 127


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
        return create_client_certificate(directory, self.ca_file, CERTIFIED, curve=curve)

    def execute(self, *statements: str, database: str = DATABASE) -> str:
        """Run statements as the owner of the database. Return their output, with tabs between columns."""
        rows = _run_on_postgresql if self.kind == "postgresql" else _run_on_mysql
        return "".join("\t".join(map(_text, row)) + "\n" for row in rows(self, database, statements))


def _run_on_postgresql(server: Server, database: str, statements: Sequence[str]) -> Iterator[Sequence[object]]:
    """Run statements, each in its own transaction. Yield the rows of their results."""
    import psycopg

    login = {"host": HOST, "port": server.port, "user": USER, "password": server.password}
    with psycopg.connect(**login, dbname=database, autocommit=True) as connection:
        for statement in statements:
            result = connection.execute(statement).pgresult
            for row in range(result.ntuples):
                yield [result.get_value(row, column) for column in range(result.nfields)]


def _run_on_mysql(server: Server, database: str, statements: Sequence[str]) -> Iterator[Sequence[object]]:
    """Run statements, each in its own transaction. Yield the rows of their results."""
    import pymysql

    login = {"host": HOST, "port": server.port, "user": USER, "password": server.password}
    # Without converters, values are returned as the server writes them.
    connection = pymysql.connect(**login, database=database, charset="utf8mb4", autocommit=True, conv={})
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            yield from cursor.fetchall()


def _text(value: object) -> str:
    """Return a value of a result as text, and NULL as an empty string."""
    if isinstance(value, bytes):
        return value.decode()
    return "" if value is None else str(value)


@contextmanager
def postgresql() -> Iterator[Server]:
    """Run a PostgreSQL server. Raises NoServerError if its programs are missing."""
    with _home("postgresql") as (home, account):
        initdb, program = _programs("postgresql", home, account, "initdb", "postgres")
        password, port = secrets.token_urlsafe(18), free_port()
        ca_file = _certificate(home)
        (home / "password").write_text(password)
        _hand_over(home, account)
        data = home / "data"
        _run(
            [
                *(initdb, "-D", str(data), "-U", USER, "--pwfile", str(home / "password"), "-N"),
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
        command = [program, "-D", str(data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with _running(command, account, home, port):
            server = Server("postgresql", "postgresql", port, password, ca_file)
            _execute_when_ready(server, f"CREATE DATABASE {DATABASE}", "postgres")
            server.execute(f"CREATE ROLE {CERTIFIED} LOGIN")
            yield server


@contextmanager
def mariadb() -> Iterator[Server]:
    """Run a MariaDB server. Raises NoServerError if its programs are missing."""
    with _home("mariadb") as (home, account):
        program, install = _programs("mariadb", home, account, "mariadbd", "mariadb-install-db")
        base = Path(install).parents[1]
        server = _mysql_server("mariadb", home)
        _hand_over(home, account)
        _run(
            [
                *(install, "--no-defaults", f"--basedir={base}", f"--datadir={home / 'data'}", "--skip-test-db"),
                *("--auth-root-authentication-method=normal", "--innodb-flush-method=nosync"),
            ],
            account,
        )
        with _mysql_running(server, program, home, account, f"--basedir={base}", "--debug-no-sync"):
            yield server


@contextmanager
def mysql() -> Iterator[Server]:
    """Run a MySQL server. Raises NoServerError if its programs are missing."""
    with _home("mysql") as (home, account):
        (program,) = _programs("mysql", home, account, "mysqld")
        server = _mysql_server("mysql", home)
        _hand_over(home, account)
        _run([program, "--no-defaults", f"--datadir={home / 'data'}", "--initialize-insecure"], account)
        with _mysql_running(server, program, home, account, "--mysqlx=0", "--secure-file-priv="):
            yield server


def _mysql_server(product: str, home: Path) -> Server:
    """Return a server to be started in a directory, its certificate, and its first statements."""
    password = secrets.token_urlsafe(18)
    (home / "first.sql").write_text(
        f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4;\n"
        f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{password}';\n"
        f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        f"CREATE USER IF NOT EXISTS '{CERTIFIED}'@'%' IDENTIFIED BY '{password}' REQUIRE X509;\n"
        f"GRANT ALL ON *.* TO '{CERTIFIED}'@'%';\n"
    )
    return Server(product, "mysql", free_port(), password, _certificate(home))


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
        _execute_when_ready(server, "DO 0", DATABASE)
        yield


def _programs(product: str, home: Path, account: Mapping[str, object], *names: str) -> list[str]:
    """Return the paths of a server's programs: of the pinned server, or of an installed one where there is none.

    Raises NoServerError if a program is missing or cannot start.
    """
    pinned = SERVERS / product
    if account and pinned.is_dir():
        # The server's account may not be able to read the checkout.
        pinned = shutil.copytree(pinned, home / "program", symlinks=True)
    places = [str(pinned / "bin"), str(pinned / "scripts")]
    if product in _INSTALLED_PROGRAMS:
        places += [os.environ.get("PATH", ""), *map(str, Path("/").glob(_INSTALLED_PROGRAMS[product]))]
    paths_by_name = {name: shutil.which(name, path=os.pathsep.join(places)) for name in names}
    if missing := [name for name, program in paths_by_name.items() if program is None]:
        raise NoServerError(f"{', '.join(missing)} not found: run `make .cache/servers/.unpacked`")
    programs = [str(program) for program in paths_by_name.values()]
    process = subprocess.run([programs[0], "--version"], capture_output=True, text=True, check=False)
    if process.returncode == _LOADER_ERROR:
        raise NoServerError(f"{programs[0]} does not start; install the library: {process.stderr.strip()}")
    return programs


@contextmanager
def _home(product: str) -> Iterator[tuple[Path, Mapping[str, object]]]:
    """Return a directory for a server, and the account that it runs as if the tests run as root."""
    home = Path(tempfile.mkdtemp(prefix=f"airflow-pushdown-{product}-"))
    account: dict[str, object] = {}
    if os.getuid() == 0:
        account = {"user": _ACCOUNT, "group": getpwnam(_ACCOUNT).pw_gid, "extra_groups": []}
    try:
        yield home, account
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _hand_over(home: Path, account: Mapping[str, object]) -> None:
    """Give the directory and its files to the account of the server. Its programs stay as they are."""
    files = [place for place in home.iterdir() if place.is_file()]
    if account:
        for place in (home, *files):
            shutil.chown(place, account["user"], account["group"])
    for place in files:
        place.chmod(0o600)
    (home / "server.crt").chmod(0o644)
    home.chmod(0o755)


def _certificate(home: Path) -> Path:
    """Return the certificate of a server in its directory, which also signs the clients' certificates."""
    certificate = home / "server.crt"
    create_authority(certificate, HOST)
    return certificate


def _run(command: Sequence[str], account: Mapping[str, object]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **account)  # type: ignore[call-overload]
    if run.returncode:
        raise ServerError(f"{command[0]} failed: {run.stderr or run.stdout}")


@dataclass
class _Program:
    """The program of a server, which can start again with the same data."""

    command: Sequence[str]
    account: Mapping[str, object]
    log: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program, and wait until it listens. Raises ServerError if it ends."""
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output, cwd="/", **self.account)  # type: ignore[call-overload]
        deadline = time.monotonic() + _START_SECONDS
        while not _listening(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"{self.command[0]} did not start: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the program if it runs."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_RUNNING: dict[int, _Program] = {}
"""The programs of running servers by port."""


@contextmanager
def _running(command: Sequence[str], account: Mapping[str, object], home: Path, port: int) -> Iterator[None]:
    program = _RUNNING[port] = _Program(command, account, home / "log", port)
    try:
        program.start()
        yield
    finally:
        program.stop()
        del _RUNNING[port]


def crash(server: Server) -> None:
    """Kill a server of this process, and start it again with its data."""
    program = _RUNNING[server.port]
    assert program.process is not None
    program.process.kill()
    program.process.wait()
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            program.start()
            break
        except ServerError:
            # The processes of PostgreSQL's sessions may take a moment to end.
            if time.monotonic() > deadline:
                raise
    _execute_when_ready(server, "SELECT 1", DATABASE)


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _execute_when_ready(server: Server, statement: str, database: str) -> None:
    """Run a statement as soon as the server accepts its owner. A server listens before its start-up has ended."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            server.execute(statement, database=database)
            return
        except Exception as problem:  # each driver has its own
            if time.monotonic() > deadline:
                raise ServerError(f"{server.product} does not accept its owner: {problem}") from problem
        time.sleep(0.1)
