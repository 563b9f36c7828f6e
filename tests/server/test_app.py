"""What holds for every route: problem bodies, methods, paths, CORS, health (protocol.md §4)."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import anyio
import httpx2
import jsonschema_rs
import pytest

from sessionwire_server import answers, log_scan
from sessionwire_server.app import create_app
from sessionwire_server.openapi import document
from sessionwire_server.redis_link import StoreUnavailable
from sessionwire_server.routes import route_table
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.conftest import KEY, OpenHub, check_problem

pytestmark = pytest.mark.anyio

ORIGIN = "https://app.example.test"
EVENT = {"type": "session.info", "data": {"infoType": "note", "message": "x"}}


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v1/nothing", "/v1/sessions/", "/v1//sessions"]
)
async def test_an_unknown_path_is_a_problem(client: httpx2.AsyncClient, path: str) -> None:
    check_problem(await client.get(path), 404, "not_found")


async def test_a_wrong_method_is_a_problem_that_names_the_right_ones(
    client: httpx2.AsyncClient, sid: str
) -> None:
    answer = await client.put(f"/v1/sessions/{sid}/events", json={})
    check_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"


async def test_head_of_a_stream_opens_none(client: httpx2.AsyncClient, sid: str) -> None:
    path = f"/v1/sessions/{sid}/sse"
    assert (await client.head(path)).status_code == 404
    await client.post(f"/v1/sessions/{sid}/events", json=EVENT)
    for each in (path, "/v1/sessions/sse"):
        answer = await client.head(each)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert (await client.head(each, headers={"Authorization": "x"})).status_code == 401


async def test_options_names_the_methods_without_a_key(open_hub: OpenHub, sid: str) -> None:
    async with open_hub() as client:
        client.headers.pop("authorization")
        answer = await client.options(f"/v1/sessions/{sid}")
    assert (answer.status_code, answer.headers["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS")


async def test_both_prefixes_are_the_same(client: httpx2.AsyncClient, sid: str) -> None:
    assert (await client.post(f"/api/v1/sessions/{sid}/events", json=EVENT)).status_code == 200
    for prefix in ("/v1", "/api/v1"):
        answer = await client.get(f"{prefix}/sessions/{sid}/events")
        assert len(answer.json()["data"]) == 1
    check_problem(await client.get("/api/livez"), 404, "not_found")


@pytest.mark.parametrize("bad", ["a.b", "a%20b", "%2F", "a%2Fb", "%C3%A9", "%FF", "a" * 129, "sse"])
async def test_a_malformed_session_id_is_a_400_on_every_route(
    client: httpx2.AsyncClient, bad: str
) -> None:
    for path in ("", "/events", "/events/summary", "/export", "/sse"):
        if (bad, path) == ("sse", ""):
            continue  # that is the list as a stream
        answer = await client.get(f"/v1/sessions/{bad}{path}")
        code = "invalid_parameter" if bad == "%FF" else "invalid_session_id"
        check_problem(answer, 400, code)
    answer = await client.post(f"/v1/sessions/{bad}/events", json=EVENT)
    assert answer.status_code == 400


async def test_letters_may_be_percent_encoded(client: httpx2.AsyncClient, sid: str) -> None:
    await client.post(f"/v1/sessions/{sid}/events", json=EVENT)
    encoded = f"%{ord(sid[0]):02x}{sid[1:]}"
    answer = await client.get(f"/v1/%73essions/{encoded}")
    assert answer.json()["id"] == sid


async def test_a_fault_of_the_hub_says_nothing_of_the_inside(
    open_hub: OpenHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("inner secret")

    async with open_hub(allow_origins=(ORIGIN,)) as client:
        monkeypatch.setattr("sessionwire_server.routes.sessions.session_members", fail)
        await client.post("/v1/sessions/broken/events", json=EVENT)
        with caplog.at_level(logging.ERROR):
            answer = await client.get("/v1/sessions/broken", headers={"Origin": ORIGIN})
        monkeypatch.undo()
        check_problem(answer, 500, "internal_error")
        assert "inner secret" not in answer.text
        assert "inner secret" in caplog.text
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert (await client.delete("/v1/sessions/broken")).status_code == 204


async def test_listed_origins_may_read_answers_and_errors(open_hub: OpenHub, sid: str) -> None:
    async with open_hub(allow_origins=(ORIGIN,)) as client:
        for path, status in (("/livez", 200), (f"/v1/sessions/{sid}", 404), ("/x", 404)):
            answer = await client.get(path, headers={"Origin": ORIGIN})
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert answer.headers["access-control-allow-credentials"] == "true"
            exposed = answer.headers["access-control-expose-headers"]
            assert exposed == "X-Total-Count, Retry-After, Location"
            for origin in ({"Origin": "https://other.test"}, {}):
                answer = await client.get(path, headers=origin)
                assert "access-control-allow-origin" not in answer.headers
                assert "Origin" in answer.headers["vary"]


async def test_any_origin_may_read_but_never_with_a_cookie(open_hub: OpenHub) -> None:
    async with open_hub(allow_origins=("*",)) as client:
        answer = await client.get("/livez", headers={"Origin": "https://any.test"})
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


async def test_a_preflight_needs_no_key(open_hub: OpenHub, sid: str) -> None:
    asked = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": (
            "authorization,content-type,last-event-id,cache-control,idempotency-key,x-org-id,"
            "end-user,everruns-change-reason,traceparent"
        ),
    }
    async with open_hub(allow_origins=(ORIGIN,)) as client:
        client.headers.pop("authorization")
        answer = await client.options(f"/v1/sessions/{sid}", headers=asked)
        assert answer.status_code == 200
        assert "DELETE" in answer.headers["access-control-allow-methods"]
        asked["Origin"] = "https://other.test"
        answer = await client.options(f"/v1/sessions/{sid}", headers=asked)
        check_problem(answer, 400, "cors_refused")
        assert "access-control-allow-origin" not in answer.headers
        assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("listed", ["app.example.test", "https://x.test/path", "null"])
def test_an_origin_that_is_none_is_refused_at_once(listed: str) -> None:
    with pytest.raises(ValueError, match="is no origin"):
        create_app(Settings(redis_url="redis://127.0.0.1:1", allow_origins=(listed,)))


async def test_health_is_open_and_ready_means_proven(open_hub: OpenHub) -> None:
    async with open_hub(probe_s=0.05) as client:
        client.headers.pop("authorization")
        assert (await client.get("/livez")).json() == {"status": "ok"}
        answer = await client.get("/readyz")
        while answer.status_code != 200:
            check_problem(answer, 503, "not_ready")
            assert answer.headers["retry-after"]
            answer = await client.get("/readyz")


async def test_without_redis_the_process_lives_and_is_not_ready(
    open_hub: OpenHub, sid: str
) -> None:
    async with open_hub(redis_url="redis://127.0.0.1:1") as client:
        assert (await client.get("/livez")).status_code == 200
        check_problem(await client.get("/readyz"), 503, "not_ready")
        for path in ("", "/events", "/events?since_id=x", "/events/summary", "/export"):
            answer = await client.get(f"/v1/sessions/{sid}{path}")
            check_problem(answer, 503, "redis_unavailable")
            assert answer.headers["retry-after"] == "1"
        answer = await client.post(f"/v1/sessions/{sid}/events", json=EVENT)
        check_problem(answer, 503, "redis_unavailable")
        lines = {"Content-Type": "application/x-ndjson"}
        answer = await client.post(
            f"/v1/sessions/{sid}/events", content=json.dumps(EVENT), headers=lines
        )
        body = check_problem(answer, 503, "redis_unavailable")
        assert (body["line"], body["stored"]) == (1, 0)


async def test_metrics_count_requests_by_route_and_need_admin(open_hub: OpenHub, sid: str) -> None:
    async with open_hub() as client:
        await client.post(f"/v1/sessions/{sid}/events", json=[EVENT, EVENT])
        await client.get("/v1/sessions/sse/events")
        text = (await client.get("/metrics")).text
        route = 'route="/v1/sessions/{sid}/events"'
        assert f'sessionwire_http_requests_total{{method="POST",{route},status="200"}} 1.0' in text
        assert f'sessionwire_http_requests_total{{method="GET",{route},status="400"}} 1.0' in text
        assert 'sessionwire_published_events_total{catalog="copilot"} 2.0' in text
        assert 'sessionwire_refused_total{code="invalid_session_id"} 1.0' in text
        assert sid not in text
        client.headers.pop("authorization")
        check_problem(await client.get("/metrics"), 401, "unauthorized")
    async with open_hub(metrics_open=True) as client:
        client.headers.pop("authorization")
        assert (await client.get("/metrics")).status_code == 200


async def test_the_console_may_run_nothing_but_its_own_files(client: httpx2.AsyncClient) -> None:
    client.headers.pop("authorization")
    page = await client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    for file in ("/console.js", "/console.css", "/console/console.js"):
        answer = await client.get(file)
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == policy
    check_problem(await client.get("/console/..%2fapp.py"), 404, "not_found")
    check_problem(await client.get("/app.py"), 404, "not_found")
    check_problem(await client.post("/"), 405, "method_not_allowed")


DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def test_the_openapi_document_describes_every_route_and_no_other() -> None:
    paths: dict[str, Any] = document()["paths"]
    described = {
        (path, method) for path, item in paths.items() for method in item if method != "parameters"
    }
    served: set[tuple[str, str]] = set()
    for route in route_table():
        methods = getattr(getattr(route, "app", None), "methods", ())
        served |= {(getattr(route, "path", ""), method) for method in methods}
    assert described == served
    assert len({item["operationId"] for _, item in _operations(paths)}) == len(described)


def _operations(paths: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (path, operation)
        for path, item in paths.items()
        for method, operation in item.items()
        if method != "parameters"
    ]


def test_every_schema_and_reference_of_the_document_is_good() -> None:
    whole = document()
    for schema in whole["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": DRAFT_2020, **schema})
    references = re.findall(r'"\$ref": "([^"]+)"', json.dumps(whole))
    assert references
    for reference in references:
        found: Any = whole
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    for path, operation in _operations(whole["paths"]):
        names = [(p["in"], p["name"]) for p in operation.get("parameters", ())]
        assert len(names) == len(set(names)), path
        shared = whole["paths"][path].get("parameters", ())
        of_path = {p["name"] for p in shared if p["in"] == "path"}
        assert of_path == set(re.findall(r"\{(\w+)\}", path)), path


async def test_answers_are_what_the_document_says(client: httpx2.AsyncClient, sid: str) -> None:
    schemas = (await client.get("/openapi.json")).json()["components"]

    def check(name: str, content: Any) -> None:
        reference = f"#/components/schemas/{name}"
        schema = {"$schema": DRAFT_2020, "$ref": reference, "components": schemas}
        jsonschema_rs.validator_for(schema).validate(content)

    path = f"/v1/sessions/{sid}"
    check("Verdicts", (await client.post(f"{path}/events", json=EVENT)).json())
    lines = {"Content-Type": "application/x-ndjson"}
    check("Tally", (await client.post(f"{path}/events", content=b"", headers=lines)).json())
    check("EventPage", (await client.get(f"{path}/events?since_id=unknown")).json())
    check("Summary", (await client.get(f"{path}/events/summary")).json())
    check("Session", (await client.get(path)).json())
    check("SessionPage", (await client.get(f"/v1/sessions?q={sid}")).json())
    check("Ticket", (await client.post("/v1/tickets")).json())
    check("Ok", (await client.get("/livez")).json())
    check("Problem", (await client.get("/v1/sessions/unknown")).json())
    check("Problem", (await client.post(f"{path}/events", content=b"[{},")).json())


async def test_an_answer_that_fails_in_the_middle_is_not_finished(
    client: httpx2.AsyncClient, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list cut short must not look like a whole one: the server ends the connection."""
    monkeypatch.setattr(answers, "CHUNK_BYTES", 500)
    monkeypatch.setattr(log_scan, "PAGE_EVENTS", 5)
    await client.post(f"/v1/sessions/{sid}/events", json=[EVENT] * 20)
    read, reads = EventStore.log_page, 0

    async def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads == 3:
            raise StoreUnavailable("gone")
        return await read(*args, **kwargs)

    monkeypatch.setattr(EventStore, "log_page", failing)
    sent: list[Any] = []

    async def receive() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    transport = client._transport  # pyright: ignore[reportPrivateUsage] # the app behind it
    assert isinstance(transport, httpx2.ASGITransport)
    path = f"/v1/sessions/{sid}/export"
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {KEY}".encode())],
    }
    await transport.app(scope, receive, send)
    assert sent[0]["status"] == 200
    assert len(sent) > 2
    assert all(message["more_body"] for message in sent[1:])
