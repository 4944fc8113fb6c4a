"""A REST catalog: Iceberg's own `CatalogHandlers` over its JDBC catalog, behind Python's HTTP server.

It asks for an OAuth2 bearer token, and issues one to whoever has the credential.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import jpype
import pyspark

from deploy import child_process
from spark_jobs.lake import jars
from tests.cluster.s3 import wait_for_server

CREDENTIAL = "pipeline:rest-secret-4711"
_STATUS = {
    "NoSuchNamespaceException": 404,
    "NoSuchTableException": 404,
    "NoSuchViewException": 404,
    "AlreadyExistsException": 409,
    "CommitFailedException": 409,
    "NamespaceNotEmptyException": 409,
    "ValidationException": 400,
    "IllegalArgumentException": 400,
    "BadRequestException": 400,
}


class Call(NamedTuple):
    """What a route needs of a request."""

    parts: list[str]
    body: bytes


class Handlers:
    """Iceberg's handlers of the requests; all return a Java response or None.

    One request at a time creates namespaces: the JDBC catalog behind it does not do that atomically.
    """

    creating = threading.Lock()

    def __init__(self, properties: dict[str, str]):
        self._catalog = self._class("CatalogUtil").buildIcebergCatalog(
            "rest", jpype.java.util.HashMap(properties), None
        )
        # The mapper with Iceberg's serializers is private to its package.
        mapper = self._class("rest.RESTObjectMapper").class_.getDeclaredMethod("mapper")
        mapper.setAccessible(True)
        self.mapper = mapper.invoke(None)

    @staticmethod
    def _class(name: str) -> Any:
        return jpype.JClass(f"org.apache.iceberg.{name}")

    @cached_property
    def _handlers(self) -> Any:
        return self._class("rest.CatalogHandlers")

    def _request(self, name: str, body: bytes) -> Any:
        return self.mapper.readValue(body.decode(), self._class(f"rest.requests.{name}").class_)

    def _identifier(self, parts: list[str]) -> Any:
        return self._class("catalog.TableIdentifier").of(*parts[1].split("\x1f"), parts[3])

    def _namespace(self, parts: list[str]) -> Any:
        return self._class("catalog.Namespace").of(*parts[1].split("\x1f"))

    def route(self, method: str, parts: list[str]) -> Callable[[Call], Any] | None:
        """The handler of a method and a path below /v1; None if there is none."""
        named = {1: "{namespace}", 3: "{table}" if "tables" in parts[2:3] else "{view}"}
        names = named if parts[0] == "namespaces" else {}
        path = "/".join(names.get(place, part) for place, part in enumerate(parts))
        return self.routes.get(f"{method} {path}")

    @cached_property
    def routes(self) -> dict[str, Callable[[Call], Any]]:
        """The endpoints as the specification of the protocol writes them, without `/v1/{prefix}/`."""
        h, c = self._handlers, self._catalog
        return {
            "GET namespaces": lambda call: h.listNamespaces(c, self._class("catalog.Namespace").empty()),
            "POST namespaces": self._create_namespace,
            "GET namespaces/{namespace}": lambda call: h.loadNamespace(c, self._namespace(call.parts)),
            "HEAD namespaces/{namespace}": lambda call: h.namespaceExists(c, self._namespace(call.parts)),
            "DELETE namespaces/{namespace}": lambda call: h.dropNamespace(c, self._namespace(call.parts)),
            "POST namespaces/{namespace}/properties": lambda call: h.updateNamespaceProperties(
                c, self._namespace(call.parts), self._request("UpdateNamespacePropertiesRequest", call.body)
            ),
            "GET namespaces/{namespace}/tables": lambda call: h.listTables(c, self._namespace(call.parts)),
            "POST namespaces/{namespace}/tables": self._create_table,
            "GET namespaces/{namespace}/tables/{table}": lambda call: h.loadTable(
                c, self._identifier(call.parts), self._class("rest.RESTCatalogProperties$SnapshotMode").ALL
            ),
            "HEAD namespaces/{namespace}/tables/{table}": lambda call: h.tableExists(
                c, self._identifier(call.parts)
            ),
            "POST namespaces/{namespace}/tables/{table}": lambda call: h.updateTable(
                c, self._identifier(call.parts), self._request("UpdateTableRequest", call.body)
            ),
            "DELETE namespaces/{namespace}/tables/{table}": lambda call: h.dropTable(
                c, self._identifier(call.parts)
            ),
            "POST tables/rename": lambda call: h.renameTable(
                c, self._request("RenameTableRequest", call.body)
            ),
            "GET namespaces/{namespace}/views": lambda call: h.listViews(c, self._namespace(call.parts)),
            "POST namespaces/{namespace}/views": lambda call: h.createView(
                c, self._namespace(call.parts), self._request("CreateViewRequest", call.body)
            ),
            "GET namespaces/{namespace}/views/{view}": lambda call: h.loadView(
                c, self._identifier(call.parts)
            ),
            "HEAD namespaces/{namespace}/views/{view}": lambda call: h.viewExists(
                c, self._identifier(call.parts)
            ),
            "POST namespaces/{namespace}/views/{view}": lambda call: h.updateView(
                c, self._identifier(call.parts), self._request("UpdateTableRequest", call.body)
            ),
            "DELETE namespaces/{namespace}/views/{view}": lambda call: h.dropView(
                c, self._identifier(call.parts)
            ),
            "POST views/rename": lambda call: h.renameView(c, self._request("RenameTableRequest", call.body)),
            "POST namespaces/{namespace}/tables/{table}/metrics": lambda call: None,
        }

    def _create_namespace(self, call: Call) -> Any:
        with self.creating:
            request = self._request("CreateNamespaceRequest", call.body)
            return self._handlers.createNamespace(self._catalog, request)

    def _create_table(self, call: Call) -> Any:
        request = self._request("CreateTableRequest", call.body)
        create = self._handlers.stageTableCreate if request.stageCreate() else self._handlers.createTable
        return create(self._catalog, self._namespace(call.parts), request)


def _handler(handlers: Handlers, tokens: set[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            path = urlsplit(self.path).path
            parts = [unquote(part) for part in path.removeprefix("/v1/").split("/")]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if parts == ["oauth", "tokens"]:
                return self._token(parse_qs(body.decode()))
            if (self.headers.get("Authorization") or "").removeprefix("Bearer ") not in tokens:
                return self._fail(401, "NotAuthorizedException", "The token is unknown or has expired")
            if parts == ["config"]:
                endpoints = [route.replace(" ", " /v1/{prefix}/", 1) for route in handlers.routes]
                return self._send(200, {"defaults": {}, "overrides": {}, "endpoints": endpoints})
            route = handlers.route(self.command, parts)
            if route is None:
                return self._fail(404, "NoSuchRouteException", f"no route {self.command} {path}")
            # Iceberg loads classes by name, and a thread of Python has no class loader.
            java = jpype.java.lang
            java.Thread.currentThread().setContextClassLoader(java.ClassLoader.getSystemClassLoader())
            try:
                response = route(Call(parts, body))
            except jpype.JException as error:
                name = str(error.getClass().getSimpleName())
                return self._fail(_STATUS.get(name, 500), name, str(error.getMessage()))
            if response is None:
                return self._send(204, None)
            return self._send(200, json.loads(str(handlers.mapper.writeValueAsString(response))))

        do_GET = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815

        def _token(self, form: dict[str, list[str]]) -> None:
            if f"{form['client_id'][0]}:{form['client_secret'][0]}" != CREDENTIAL:
                return self._fail(401, "NotAuthorizedException", "The client is unknown")
            token = secrets.token_hex(8)
            tokens.add(token)
            return self._send(200, {"access_token": token, "token_type": "bearer", "expires_in": 3600})

        def _fail(self, status: int, kind: str, message: str) -> None:
            self._send(status, {"error": {"message": message, "type": kind, "code": status}})

        def _send(self, status: int, content: Any) -> None:
            payload = b"" if content is None or self.command == "HEAD" else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--properties", required=True, help="of the JDBC catalog, as JSON")
    args = parser.parse_args()
    paths = [str(jar) for each in (jars.SPARK, jars.S3) for jar in jars.jars(each)]
    jpype.startJVM(
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        classpath=[*paths, f"{Path(pyspark.__file__).parent}/jars/*"],
        convertStrings=True,
    )
    ThreadingHTTPServer(
        (args.host, args.port), _handler(Handlers(json.loads(args.properties)), set())
    ).serve_forever()


@contextmanager
def rest_catalog(folder: Path, address: tuple[str, int], properties: dict[str, str]) -> Iterator[str]:
    """Run the server within the block; yields its URI.

    Args:
        folder: gets its log.
        address: host and port to bind.
        properties: of the JDBC catalog behind it.
    """
    host, port = address
    command = [sys.executable, "-m", "tests.cluster.rest_catalog", "--host", host, "--port", str(port)]
    with (folder / "rest.log").open("w") as log:
        process = child_process.spawn(
            [*command, "--properties", json.dumps(properties)],
            env=os.environ,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_server(address, process)
        yield f"http://{host}:{port}"
    finally:
        child_process.end(process, grace_seconds=5)


if __name__ == "__main__":
    main()
