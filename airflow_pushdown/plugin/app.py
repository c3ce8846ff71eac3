"""The plugin's pages on the api-server, protected by Airflow's permissions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice
from math import ceil
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse

from airflow_pushdown.plugin.dag_data import dag_reports, dags_with_reports
from airflow_pushdown.plugin.links import NOT_MAPPED
from airflow_pushdown.plugin.page import (
    CONTENT_SECURITY_POLICY,
    render_overview,
    render_refusal,
    render_report,
    render_runs,
)
from airflow_pushdown.plugin.task_data import TaskKey, task_run

DAGS_OF_A_PAGE = 20
"""The number of DAGs that a page of the list of DAGs shows."""

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}

_PageNumber = Annotated[int, Query(ge=1)]

# A report shows the state of a task instance and its XCom value.
_ENTITIES = (DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM)


def application() -> FastAPI:
    """Return the application that Airflow mounts. It only has reports, without API documentation."""
    app = FastAPI(title="airflow_pushdown", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(HTTPException, _refuse)
    permissions = [Depends(requires_access_dag("GET", entity)) for entity in _ENTITIES]
    pages: dict[str, Callable[..., HTMLResponse]] = {
        "/report/{dag_id}/{task_id}": report,
        "/runs/{dag_id}": runs,
        "/tab/report/{dag_id}/{run_id}/{task_id}/{map_index}": report_tab,
        "/tab/runs/{dag_id}": runs,
    }
    for path, page in pages.items():
        app.get(path, response_class=HTMLResponse, dependencies=permissions)(page)
    # These pages ask for the permissions of each DAG.
    for path in ("/overview", "/tab/overview"):
        app.get(path, response_class=HTMLResponse)(overview)
    return app


def report(
    dag_id: str,
    task_id: str,
    session: SessionDep,
    run_id: Annotated[str, Query()],
    map_index: Annotated[int, Query(ge=-1)] = -1,
) -> HTMLResponse:
    """Return the report of a task instance as a page."""
    return _report(session, TaskKey(dag_id, task_id, run_id, map_index), in_airflow=False)


def report_tab(dag_id: str, run_id: str, task_id: str, map_index: str, session: SessionDep) -> HTMLResponse:
    """Return the same report for a tab in Airflow's UI."""
    if map_index != NOT_MAPPED and not map_index.removeprefix("-").isdecimal():
        raise HTTPException(HTTPStatus.NOT_FOUND, f"{map_index} is not a map index")
    number = -1 if map_index == NOT_MAPPED else int(map_index)
    return _report(session, TaskKey(dag_id, task_id, run_id, number), in_airflow=True)


def runs(dag_id: str, session: SessionDep, request: Request) -> HTMLResponse:
    """Return the list of a DAG's runs with reports, as a page or for a tab in Airflow's UI."""
    reports = dag_reports(session, dag_id, datetime.now(UTC))
    return HTMLResponse(render_runs(reports, in_airflow=_is_tab(request)), headers=_HEADERS)


def overview(user: GetUserDep, session: SessionDep, request: Request, page: _PageNumber = 1) -> HTMLResponse:
    """Return a page of the list of the DAGs with reports that the user may see, also for Airflow's UI."""
    now = datetime.now(UTC)
    # Auth managers may ask another server for each DAG, so none is asked for the DAGs after the page and the next one.
    readable = (dag_id for dag_id in dags_with_reports(session, now) if may_see(user, dag_id, session))
    visible = list(islice(readable, page * DAGS_OF_A_PAGE + 1))
    number = min(page, ceil(len(visible) / DAGS_OF_A_PAGE) or 1)
    end = number * DAGS_OF_A_PAGE
    dags = [dag_reports(session, dag_id, now) for dag_id in visible[end - DAGS_OF_A_PAGE : end]]
    dags_with_runs = [dag for dag in dags if dag.runs]
    text = render_overview(dags_with_runs, number, has_next=len(visible) > end, in_airflow=_is_tab(request))
    return HTMLResponse(text, headers=_HEADERS)


def _is_tab(request: Request) -> bool:
    """Return whether a request is for a tab of Airflow's UI."""
    return str(request.scope["route"].path).startswith("/tab/")


def may_see(user: GetUserDep, dag_id: str, session: SessionDep) -> bool:
    """Return whether a user has the permissions for the reports of a DAG."""
    # `requires_access_dag` of Airflow 3.1.0 only accepts the DAG of the request's path.
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id, session=session))
    requests: list[IsAuthorizedDagRequest] = [
        {"method": "GET", "access_entity": entity, "details": details} for entity in _ENTITIES
    ]
    return get_auth_manager().batch_is_authorized_dag(requests, user=user)


def _report(session: SessionDep, key: TaskKey, *, in_airflow: bool) -> HTMLResponse:
    run = task_run(session, key)
    if run is None:
        raise HTTPException(
            HTTPStatus.NOT_FOUND, f"there is no task instance {key.task_id} of {key.dag_id} in {key.run_id}"
        )
    return HTMLResponse(render_report(run, in_airflow=in_airflow), headers=_HEADERS)


def _refuse(request: Request, error: Exception) -> HTMLResponse:
    """Return an error as a page. Users who are not logged in get a link to log in and return."""
    if not isinstance(error, HTTPException):
        raise error
    login = None
    if error.status_code == HTTPStatus.UNAUTHORIZED:
        login = get_auth_manager().get_url_login(next_url=str(request.url))
    page = render_refusal(HTTPStatus(error.status_code).phrase, str(error.detail), login)
    return HTMLResponse(page, error.status_code, headers={**_HEADERS, **(error.headers or {})})
