"""The plugin's pages on the api-server, protected by Airflow's permissions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse

from airflow_pushdown.plugin.data import Place, task_run
from airflow_pushdown.plugin.page import CONTENT_SECURITY_POLICY, render_refusal, render_report

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def application() -> FastAPI:
    """Return the application that Airflow mounts. It only has reports, without API documentation."""
    app = FastAPI(title="airflow_pushdown", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(HTTPException, _refuse)
    app.get(
        "/report/{dag_id}/{task_id}",
        response_class=HTMLResponse,
        # A report shows the state of a task instance and its XCom value.
        dependencies=[
            Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE)),
            Depends(requires_access_dag("GET", DagAccessEntity.XCOM)),
        ],
    )(report)
    return app


def report(
    dag_id: str,
    task_id: str,
    session: SessionDep,
    run_id: Annotated[str, Query()],
    map_index: Annotated[int, Query(ge=-1)] = -1,
) -> HTMLResponse:
    """Return the report of a task instance as a page."""
    run = task_run(session, Place(dag_id, task_id, run_id, map_index))
    if run is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no task instance {task_id} of {dag_id} in {run_id}")
    return HTMLResponse(render_report(run), headers=_HEADERS)


def _refuse(request: Request, error: Exception) -> HTMLResponse:
    """Return an error as a page. Users who are not logged in get a link to log in and return."""
    if not isinstance(error, HTTPException):
        raise error
    login = None
    if error.status_code == HTTPStatus.UNAUTHORIZED:
        login = get_auth_manager().get_url_login(next_url=str(request.url))
    page = render_refusal(HTTPStatus(error.status_code).phrase, str(error.detail), login)
    return HTMLResponse(page, error.status_code, headers={**_HEADERS, **(error.headers or {})})
