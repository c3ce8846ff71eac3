"""The part of Airflow's REST API that the checks need."""

from __future__ import annotations

from datetime import datetime

import httpx

from e2e.processes import E2eError

_SERVICES = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_TIMEOUT = 30.0
Json = dict[str, object]


class AirflowApi:
    """A logged-in client of one Airflow."""

    def __init__(self, base_url: str, user: str, password: str) -> None:
        self._client = httpx.Client(base_url=base_url, timeout=_TIMEOUT)
        self._user = user
        self._password = password

    def healthy(self) -> bool:
        """Whether every service is there and well; False also where nobody answers yet."""
        try:
            answer = self._client.get("/api/v2/monitor/health")
        except httpx.TransportError:
            return False
        if answer.status_code != httpx.codes.OK:
            return False
        return all((answer.json().get(name) or {}).get("status") == "healthy" for name in _SERVICES)

    def dags(self) -> set[str]:
        """Ids of the DAGs that the dag-processor has read; raises `E2eError` when it could not read one."""
        if errors := self._items("/importErrors", "import_errors"):
            raise E2eError(f"DAGs do not import: {errors}")
        return {str(dag["dag_id"]) for dag in self._items("/dags", "dags")}

    def trigger(self, dag_id: str, day: datetime) -> str:
        """Let a DAG run for a day; the id of the run."""
        self._call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
        body: Json = {"logical_date": day.isoformat()}
        return str(self._call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """How a run stands: queued, running, success or failed."""
        return str(self._call("GET", _run(dag_id, run_id))["state"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, Json]:
        """The task instances of a run by their ids."""
        found = self._items(_tasks(dag_id, run_id), "task_instances")
        return {str(task["task_id"]): task for task in found}

    def returned(self, dag_id: str, run_id: str, task_id: str) -> object:
        """What a task returned, None where it returned nothing."""
        path = f"{_task(dag_id, run_id, task_id)}/xcomEntries/return_value"
        answer = self._send("GET", path, None)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return self._checked(answer)["value"]

    def linked_page(self, dag_id: str, run_id: str, task_id: str, link: str) -> str:
        """The page behind one of the links beside a task, as a logged-in user gets it; raises `E2eError` without."""
        links = self._call("GET", f"{_task(dag_id, run_id, task_id)}/links")["extra_links"]
        address = links.get(link) if isinstance(links, dict) else None
        if not isinstance(address, str):
            raise E2eError(f"{dag_id}.{task_id}: there is no link {link!r} beside the task, but {links}")
        answer = self._answer("GET", address)
        if answer.status_code != httpx.codes.OK:
            raise E2eError(f"{dag_id}.{task_id}: {address} answers {answer.status_code}: {answer.text[:500]}")
        return answer.text

    def fail_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Mark a running task as failed, which ends it, as the button on the page does."""
        self._call("PATCH", _task(dag_id, run_id, task_id), {"new_state": "failed"})

    def clear_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Have a task of a run run again."""
        body: Json = {"dry_run": False, "only_failed": False, "dag_run_id": run_id, "task_ids": [task_id]}
        self._call("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int) -> str:
        """The log of one try of a task as text."""
        lines = self._items(f"{_task(dag_id, run_id, task_id)}/logs/{attempt}", "content")
        return "\n".join(str(line.get("event", line)) if isinstance(line, dict) else str(line) for line in lines)

    def _items(self, path: str, name: str) -> list[Json]:
        items = self._call("GET", path)[name]
        if not isinstance(items, list):
            raise E2eError(f"{path}: {name} is not a list")
        return items

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        return self._checked(self._send(method, path, body))

    def _send(self, method: str, path: str, body: Json | None) -> httpx.Response:
        if "Authorization" not in self._client.headers:
            answer = self._answer("POST", "/auth/token", {"username": self._user, "password": self._password})
            self._client.headers["Authorization"] = f"Bearer {self._checked(answer)['access_token']}"
        return self._answer(method, f"/api/v2{path}", body, {"Accept": "application/json"})

    def _answer(
        self, method: str, address: str, body: Json | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        try:
            return self._client.request(method, address, json=body, headers=headers)
        except httpx.TransportError as problem:
            raise E2eError(f"{method} {address}: no answer from {self._client.base_url}: {problem!r}") from problem

    def _checked(self, answer: httpx.Response) -> Json:
        if answer.is_error:
            request = answer.request
            raise E2eError(f"{request.method} {request.url}: {answer.status_code} {answer.text[:500]}")
        data: Json = answer.json()
        return data


def _run(dag_id: str, run_id: str) -> str:
    """The path of a run."""
    return f"/dags/{dag_id}/dagRuns/{run_id}"


def _tasks(dag_id: str, run_id: str) -> str:
    """The path of a run's task instances."""
    return f"{_run(dag_id, run_id)}/taskInstances"


def _task(dag_id: str, run_id: str, task_id: str) -> str:
    """The path of a task instance."""
    return f"{_tasks(dag_id, run_id)}/{task_id}"
