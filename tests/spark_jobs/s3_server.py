"""A real S3 server on a free port of this machine, with buckets and users."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from urllib.request import Request, urlopen

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

from pushdown_spark.runtime.jvm_gateway import has_class
from pushdown_spark.sources.stores.s3_settings import KeyPair, S3Settings
from pushdown_spark.sources.stores.storage import Storage

HOST = "127.0.0.1"
REGION = "eu-central-1"
ROOT = KeyPair("AKIAROOTOFTESTS", "secret+of/the=root", "token+of/the=root")
"""The credentials of clients while the server does not check credentials."""


def require_s3a(spark: SparkSession) -> None:
    """Skip the test if Spark was started without Hadoop's S3A."""
    if not has_class(spark, "org.apache.hadoop.fs.s3a.S3AFileSystem"):
        pytest.skip("Spark was started without hadoop-aws: `make nightly` brings it")


class _Requests(logging.Handler):
    """A log handler that keeps the requests of the server."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(re.sub(r"\x1b\[\d+m", "", record.getMessage()))


@dataclass
class ObjectStore:
    """The running server."""

    host: str
    _requests: _Requests
    _names: Iterator[int] = field(default_factory=lambda: count(1))

    def settings(self, keys: KeyPair | None = ROOT) -> S3Settings:
        return S3Settings(REGION, "http", self.host, virtual=False, keys=keys)

    def storage(self, bucket: str, keys: KeyPair | None = ROOT) -> Storage:
        return Storage({bucket: self.settings(keys)})

    def client(self, service: str = "s3"):  # type: ignore[no-untyped-def]
        return boto3.client(
            service,
            endpoint_url=f"http://{self.host}",
            region_name=REGION,
            aws_access_key_id=ROOT.access_key,
            aws_secret_access_key=ROOT.secret_key,
        )

    def hadoop_keys(self, bucket: str) -> dict[str, str]:
        """Return the settings with which Hadoop's S3A reads and writes a bucket."""
        settings = {
            "access.key": ROOT.access_key,
            "secret.key": ROOT.secret_key,
            "session.token": ROOT.token,
            "endpoint": f"http://{self.host}",
            "endpoint.region": REGION,
            "path.style.access": "true",
        }
        return {f"fs.s3a.bucket.{bucket}.{key}": value for key, value in settings.items()}

    def bucket(self) -> str:
        """Create an empty bucket and return its name."""
        name = f"bucket-{next(self._names)}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def put(self, bucket: str, key: str, content: bytes) -> str:
        """Store an object and return its path."""
        self.client().put_object(Bucket=bucket, Key=key, Body=content)
        return f"s3a://{bucket}/{key}"

    def delete(self, bucket: str, key: str) -> None:
        self.client().delete_object(Bucket=bucket, Key=key)

    def reads(self, bucket: str, key: str) -> int:
        """Return the number of requests that read an object."""
        return sum(f'"GET /{bucket}/{key} ' in line for line in self._requests.lines)

    def user(self, *actions: str) -> KeyPair:
        """Return the credentials of a new user with only these permissions."""
        iam, name = self.client("iam"), f"user-{next(self._names)}"
        iam.create_user(UserName=name)
        if actions:
            statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            iam.put_user_policy(UserName=name, PolicyName="only", PolicyDocument=policy)
        keys = iam.create_access_key(UserName=name)["AccessKey"]
        return KeyPair(keys["AccessKeyId"], keys["SecretAccessKey"])

    @contextmanager
    def asking_who(self) -> Iterator[None]:
        """Let the server check credentials and permissions during the block."""
        self._free_requests("0")
        try:
            yield
        finally:
            self._free_requests("inf")

    def _free_requests(self, number: str) -> None:
        url = f"http://{self.host}/moto-api/reset-auth"
        urlopen(Request(url, data=number.encode(), headers={"Content-Type": "text/plain"}, method="POST")).close()


class SessionProxy(ThreadingHTTPServer):
    """A proxy of an S3 server that answers as Amazon does after the session token of a client has expired."""

    def __init__(self, store_host: str) -> None:
        super().__init__((HOST, 0), _ProxiedRequest)
        self.store_host = store_host
        self.is_expired = False

    @property
    def host(self) -> str:
        """Host and port of the proxy."""
        return f"{HOST}:{self.server_port}"


class _ProxiedRequest(BaseHTTPRequestHandler):
    """A request of a client, which Amazon refuses with a body that HEAD requests do not get."""

    _REFUSAL = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"

    def do_GET(self) -> None:
        assert isinstance(self.server, SessionProxy)
        if self.server.is_expired:
            self._respond(
                400, {"Content-Type": "application/xml", "Content-Length": str(len(self._REFUSAL))}, self._REFUSAL
            )
            return
        connection = HTTPConnection(self.server.store_host)
        connection.request(self.command, self.path, headers=dict(self.headers))
        response = connection.getresponse()
        self._respond(response.status, dict(response.getheaders()), response.read())
        connection.close()

    do_HEAD = do_GET  # noqa: N815 - the name is the server's

    def _respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Log nothing."""


@contextmanager
def session_proxy(store: ObjectStore) -> Iterator[SessionProxy]:
    """Run a proxy of a server during the block."""
    with SessionProxy(store.host) as proxy:
        Thread(target=proxy.serve_forever, daemon=True).start()
        yield proxy
        proxy.shutdown()


@contextmanager
def run_server() -> Iterator[ObjectStore]:
    """Run the server during the block."""
    log, requests = logging.getLogger("werkzeug"), _Requests()
    log.addHandler(requests)
    log.propagate = False
    server = ThreadedMotoServer(ip_address=HOST, port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield ObjectStore(f"{host}:{port}", requests)
    server.stop()
    log.removeHandler(requests)
