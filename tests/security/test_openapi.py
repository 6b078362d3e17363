"""`/openapi.json`, and what schemathesis finds with it at a process that serves."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.core.result import Ok
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import Hub
from tests.support.raw import ask
from tests.support.routes import table

from rota.access.scopes import Scope
from rota.web.openapi import described, plain

EXAMPLES = {"administrator": 8, "nobody": 1}  # requests of each operation
CHECKS = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        "ROTA_SERVER_DATA": str(tmp_path_factory.mktemp("hub") / "data"),
        "ROTA_SERVER_METRICS_TOKEN": "m",
        "ROTA_LIMITS_SIGN_IN": "0",
    }


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Iterator[Hub]:
    process = Hub.start(tmp_path_factory.mktemp("log") / "log", environ, port=free_port()).wait()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def document(hub: Hub) -> dict[str, Any]:
    """Give the document that the process serves."""
    answer = ask(hub.port or 0, "GET", "/openapi.json")
    assert answer.status == 200
    return dict(json.loads(answer.body))


def test_it_names_every_route_and_what_each_needs(document: dict[str, Any], tmp_path: Path) -> None:
    routes = [row for row in table(tmp_path) if row[1] != "HEAD"]
    named = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert named == {(plain(path), method) for path, method, _ in routes}
    assert document == json.loads(json.dumps(described(routes)))
    assert document["paths"]["/api/queue/retry"]["post"]["security"] == [
        {"token": ["queue:write"]},
        {"session": ["queue:write"]},
    ]
    assert document["paths"]["/api/tokens/{token}"]["delete"]["parameters"][0]["schema"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 2**53 - 1,
    }
    assert set(document["paths"]["/api/login"]["post"]["responses"]) == {
        "201",
        "400",
        "403",
        "409",
        "413",
        "415",
        "429",
        "503",
    }


def test_schemathesis_finds_nothing(hub: Hub, environ: dict[str, str], document: dict[str, Any]) -> None:
    """Valid and invalid requests of each operation, by an administrator and by nobody."""
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=f"http://127.0.0.1:{hub.port}")
    authorised = {"Authorization": access.bearer(environ, Scope.ADMIN).partition(": ")[2]}
    tried = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if any(
            "text/event-stream" in answer.get("content", {})
            for answer in operation.definition.raw["responses"].values()
        ):
            continue

        tried += try_out(operation, authorised, EXAMPLES["administrator"])
        tried += try_out(operation, {}, EXAMPLES["nobody"])
    assert tried > 3 * len(document["paths"])
    assert hub.process.poll() is None
    assert "Traceback" not in hub.output()


def try_out(operation: Any, headers: dict[str, str], examples: int) -> int:
    """Send requests made for an operation; return how many. Raises what schemathesis finds."""
    sent = 0

    @given(
        case=operation.as_strategy()
        | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
    )
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case: Any) -> None:
        nonlocal sent
        sent += 1
        case.call_and_validate(headers=headers, checks=CHECKS, timeout=10)

    send()
    return sent
