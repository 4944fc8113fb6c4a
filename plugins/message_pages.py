"""Pages that find a message and show its life, read from the serving file.

They show keys of users, so they need the permission to see the runs of the DAG that builds the marts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from plugins.page_layout import POLICY, policy, render
from plugins.strips import drawing, lane_name
from spark_jobs.lookup import address, records, wording
from spark_jobs.lookup.find import Found, find_id, find_key
from spark_jobs.lookup.life import as_json
from spark_jobs.lookup.message import life
from spark_jobs.lookup.reader import Reader
from spark_jobs.lookup.search import Conditions, SearchError, search
from spark_jobs.lookup.unknown import explain_unknown
from spark_jobs.serving.contents import ServingFileError
from spark_jobs.settings import Settings

log = logging.getLogger(__name__)

# Proxies refuse addresses of more than about 8,000 characters, and a character may need nine of them.
LONGEST = 800
SIBLINGS = 100
Format = Literal["html", "json"]
# The fields of the two forms, as they are named in an address; a search may have a key too.
_FIND = ("id", "key")
_SEARCH = ("topic", "group", "state", "from", "to", "min_ms")


@dataclass(frozen=True)
class Unknown:
    """The JSON of a message that no record names."""

    cluster: str
    msg_id: str
    error: str
    explained: tuple[str, ...]


router = APIRouter(dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN, "trace_marts"))])


def unavailable(request: Request, error: Exception) -> Response:
    """Say why nothing can be shown: there is no serving file, or it or a file of its tables cannot be read."""
    why = str(error).partition("\n")[0]
    if not isinstance(error, ServingFileError):
        log.error("%s could not be shown", request.url.path, exc_info=error)
        why += ". Reload the page: a publication or an erasure may just have replaced the file"
    return _html("unavailable.html", 503, pages=_pages(request), why=why)


@router.get("/messages")
def messages_page(request: Request) -> Response:
    """The forms that find a message by its id or key, or search messages; and what they found."""
    given = {name: request.query_params.get(name, "").strip() for name in ("cluster", *_FIND, *_SEARCH)}
    with Reader.open(Settings()) as reader:
        if not any(name in request.query_params for name in _SEARCH):
            if any(name in request.query_params for name in _FIND):
                return _find(request, reader, given)
            return _forms(request, reader, given)
        try:
            if given["id"]:
                raise SearchError("find an id without other conditions")
            _check_lengths(given)
            conditions = Conditions.parse(
                given["cluster"],
                given["topic"],
                given["group"],
                given["state"],
                given["from"],
                given["to"],
                given["min_ms"],
                given["key"],
            )
            return _forms(request, reader, given, hits=search(reader, conditions))
        except SearchError as error:
            return _forms(request, reader, given, 400, search_error=str(error))


@router.get("/messages/{cluster}/{msg_id:path}/records")
@router.get("/message/records")
def records_page(request: Request, cluster: str, msg_id: str) -> Response:
    """The raw records of a message."""
    with Reader.open(Settings()) as reader:
        if len(msg_id) > LONGEST:
            return _unknown(request, reader, cluster, msg_id, "html")
        found = records.records(reader, cluster, msg_id)
        if not found and life(reader, cluster, msg_id) is None:
            return _unknown(request, reader, cluster, msg_id, "html")
        return _html(
            "records.html",
            pages=_pages(request),
            link=_pages(request) + address.of_message(cluster, msg_id),
            cluster=cluster,
            msg_id=msg_id,
            records=found,
            limit=records.LIMIT,
            publication_id=reader.publication_id,
        )


@router.get("/messages/{cluster}/{msg_id:path}")
@router.get("/message")
def message_page(request: Request, cluster: str, msg_id: str, format: Format = "html") -> Response:
    """The life of a message."""
    with Reader.open(Settings()) as reader:
        found = life(reader, cluster, msg_id) if len(msg_id) <= LONGEST else None
        if found is None:
            return _unknown(request, reader, cluster, msg_id, format)
    if format == "json":
        return Response(as_json(found), media_type="application/json")
    pages = _pages(request)
    link = pages + address.of_message(cluster, msg_id)
    return _html(
        "message.html",
        script=True,
        pages=pages,
        life=found,
        drawing=drawing(found),
        lane_name=lane_name,
        wording=wording,
        records=pages + address.of_message(cluster, msg_id, "records"),
        json_link=f"{link}{'&' if '?' in link else '?'}format=json",
        json=as_json(found),
        siblings=[(each, pages + address.of_message(cluster, each)) for each in found.siblings[:SIBLINGS]],
    )


def _find(request: Request, reader: Reader, given: dict[str, str]) -> Response:
    """Look up an id or a key: go to the message, list several, or say what is known of an unknown one."""
    try:
        _check_lengths(given)
        if bool(given["id"]) == bool(given["key"]):
            raise SearchError("write either an id or a key")
    except SearchError as error:
        return _forms(request, reader, given, 400, find_error=str(error))
    find: Callable[[Reader, str, str | None], Found] = find_id if given["id"] else find_key
    text = given["id"] or given["key"]
    found = find(reader, text, given["cluster"] or None)
    if found.total == 1:
        (match,) = found.matches
        return RedirectResponse(
            _pages(request) + address.of_message(match.cluster, match.msg_id), status_code=303
        )
    if found.matches:
        return _forms(request, reader, given, found=found)
    what = f"{'id' if given['id'] else 'key'} is unknown"
    explained = explain_unknown(reader, text, given["cluster"] or None)
    return _forms(request, reader, given, 404, unknown=what, explained=explained)


def _unknown(request: Request, reader: Reader, cluster: str, msg_id: str, format: Format) -> Response:
    if len(msg_id) > LONGEST:
        what = f"id is too long: this page looks up ids of at most {LONGEST} characters, `make message` any"
        explained = []
    else:
        what, explained = "id is unknown", explain_unknown(reader, msg_id, cluster)
    if format == "json":
        return Response(
            as_json(Unknown(cluster, msg_id, what, tuple(explained))),
            status_code=404,
            media_type="application/json",
        )
    given = dict.fromkeys((*_FIND, *_SEARCH), "") | {"cluster": cluster, "id": msg_id}
    return _forms(request, reader, given, 404, unknown=what, explained=explained)


def _check_lengths(given: dict[str, str]) -> None:
    for name, value in given.items():
        if len(value) > LONGEST:
            raise SearchError(
                f"{name} has {len(value):,} characters: this page takes at most {LONGEST}, `make message` any"
            )


def _forms(
    request: Request, reader: Reader, given: dict[str, str], status: int = 200, **results: Any
) -> Response:
    pages = _pages(request)
    context: dict[str, Any] = (
        dict.fromkeys(("find_error", "search_error", "unknown", "explained", "found", "hits")) | results
    )
    return _html(
        "messages.html",
        status,
        form=True,
        pages=pages,
        given={name: value[:LONGEST] for name, value in given.items()},
        clusters=list(dict.fromkeys([*reader.watermarks, *([given["cluster"]] if given["cluster"] else [])])),
        states=wording.STATES,
        link=lambda cluster, msg_id: pages + address.of_message(cluster, msg_id),
        **context,
    )


def _html(
    template: str, status: int = 200, form: bool = False, script: bool = False, **context: Any
) -> HTMLResponse:
    return HTMLResponse(
        render(template, **context), status_code=status, headers={POLICY: policy(form, script)}
    )


def _pages(request: Request) -> str:
    """The address of the plugin's pages on this server."""
    return request.scope.get("root_path", "")
