"""The part of Airflow's REST API that the checks need."""

from __future__ import annotations

import time
from datetime import datetime

import httpx

from e2e.processes import E2eError

_SERVICES = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_TIMEOUT = 30.0
_PAUSES = (0.0, 1.0, 3.0, 9.0)
"""Seconds before each try of a request. The scheduler may lock Airflow's SQLite database, and then nothing changes."""
Json = dict[str, object]


class AirflowApi:
    """A logged-in client of one Airflow."""

    def __init__(self, base_url: str, user: str, password: str) -> None:
        self._client = httpx.Client(base_url=base_url, timeout=_TIMEOUT)
        self._user = user
        self._password = password

    def is_healthy(self) -> bool:
        """Return whether all services are healthy. False if the API does not respond yet."""
        try:
            response = self._client.get("/api/v2/monitor/health")
        except httpx.TransportError:
            return False
        if response.status_code != httpx.codes.OK:
            return False
        return all((response.json().get(name) or {}).get("status") == "healthy" for name in _SERVICES)

    def dags(self) -> set[str]:
        """Return the ids of the DAGs that the dag-processor has read. Raises `E2eError` for import errors."""
        if errors := self._items("/importErrors", "import_errors"):
            raise E2eError(f"DAGs do not import: {errors}")
        return {str(dag["dag_id"]) for dag in self._items("/dags", "dags")}

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler start the runs of a DAG."""
        self._call("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, day: datetime) -> str:
        """Start a DAG for a day and return the id of the run."""
        self.unpause(dag_id)
        body: Json = {"logical_date": day.isoformat()}
        return str(self._call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def runs(self, dag_id: str) -> dict[str, str]:
        """Return the states of the runs of a DAG by the id of the run."""
        return {str(run["dag_run_id"]): str(run["state"]) for run in self._items(f"/dags/{dag_id}/dagRuns", "dag_runs")}

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run: queued, running, success or failed."""
        return str(self._call("GET", _run_path(dag_id, run_id))["state"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, Json]:
        """Return the task instances of a run by task id."""
        instances = self._items(_tasks_path(dag_id, run_id), "task_instances")
        return {str(task["task_id"]): task for task in instances}

    def return_value(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> object:
        """Return the value that a task returned, or None if it returned nothing."""
        path = f"{_task_path(dag_id, run_id, task_id)}/xcomEntries/return_value?map_index={map_index}"
        response = self._send("GET", path, None)
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        return _checked_json(response)["value"]

    def linked_page(self, dag_id: str, run_id: str, task_id: str, link: str) -> str:
        """Return the page that a task's link opens. Raises `E2eError` if the task has no such link."""
        links = self._call("GET", f"{_task_path(dag_id, run_id, task_id)}/links")["extra_links"]
        address = links.get(link) if isinstance(links, dict) else None
        if not isinstance(address, str):
            raise E2eError(f"{dag_id}.{task_id}: the task has no link {link!r}, only {links}")
        response = self._request("GET", address)
        if response.status_code != httpx.codes.OK:
            raise E2eError(f"{dag_id}.{task_id}: {address} returned {response.status_code}: {response.text[:500]}")
        return response.text

    def fail_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Mark a running task as failed, like the button in the UI. Airflow then ends the task."""
        self._call("PATCH", _task_path(dag_id, run_id, task_id), {"new_state": "failed"})

    def clear_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task of a run, so that Airflow runs it again."""
        body: Json = {"dry_run": False, "only_failed": False, "dag_run_id": run_id, "task_ids": [task_id]}
        self._call("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int) -> str:
        """Return the log of one try of a task, with the exceptions of its errors."""
        lines = self._items(f"{_task_path(dag_id, run_id, task_id)}/logs/{attempt}", "content")
        return "\n".join(_text_of(line) for line in lines)

    def _items(self, path: str, name: str) -> list[Json]:
        items = self._call("GET", path)[name]
        if not isinstance(items, list):
            raise E2eError(f"{path}: {name} is not a list")
        return items

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        return _checked_json(self._send(method, path, body))

    def _send(self, method: str, path: str, body: Json | None) -> httpx.Response:
        if "Authorization" not in self._client.headers:
            response = self._request("POST", "/auth/token", {"username": self._user, "password": self._password})
            self._client.headers["Authorization"] = f"Bearer {_checked_json(response)['access_token']}"
        for seconds in _PAUSES:
            time.sleep(seconds)
            response = self._request(method, f"/api/v2{path}", body, {"Accept": "application/json"})
            if response.status_code != httpx.codes.INTERNAL_SERVER_ERROR or "Database error" not in response.text:
                break
        return response

    def _request(
        self, method: str, address: str, body: Json | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        try:
            return self._client.request(method, address, json=body, headers=headers)
        except httpx.TransportError as error:
            raise E2eError(f"{method} {address}: no response from {self._client.base_url}: {error!r}") from error


def _checked_json(response: httpx.Response) -> Json:
    """Return the body. Raises `E2eError` for an error status."""
    if response.is_error:
        request = response.request
        raise E2eError(f"{request.method} {request.url}: {response.status_code} {response.text[:500]}")
    data: Json = response.json()
    return data


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{run_id}"


def _tasks_path(dag_id: str, run_id: str) -> str:
    return f"{_run_path(dag_id, run_id)}/taskInstances"


def _task_path(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_tasks_path(dag_id, run_id)}/{task_id}"


def _text_of(line: object) -> str:
    """Return a line of a log: its event, and the exceptions that Airflow stores with it."""
    if not isinstance(line, dict):
        return str(line)
    exceptions = [f"{error['exc_type']}: {error['exc_value']}" for error in line.get("error_detail") or ()]
    return "\n".join((str(line.get("event", line)), *exceptions))
