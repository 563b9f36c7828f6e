"""The paths that an everruns server has and a hub serves as well (protocol.md §4.8)."""

from __future__ import annotations

from starlette.routing import BaseRoute

from sessionwire_server.resource import resource
from sessionwire_server.routes import everruns_answers as answers
from sessionwire_server.routes import everruns_budgets as budgets
from sessionwire_server.routes import everruns_channels as channels
from sessionwire_server.routes import everruns_sessions as sessions

__all__ = ["everruns_routes"]


def everruns_routes() -> list[BaseRoute]:
    """Build them."""
    session = "/v1/sessions/{sid}"
    budget = "/v1/budgets/{budget_id}"
    channel = "/v1/channels/{channel}"
    ours = channel + session.removeprefix("/v1")
    return [
        resource(f"{session}/messages", get=sessions.list_messages, post=sessions.send),
        resource(f"{session}/cancel", post=sessions.cancel),
        resource(f"{session}/tool-results", post=answers.answer_tools),
        resource(f"{session}/question-answers", post=answers.answer_questions),
        resource(f"{session}/tool-approvals", post=answers.approve_tools),
        resource(f"{session}/pin", put=budgets.pin, delete=budgets.unpin),
        resource(f"{session}/resume", post=budgets.resume),
        resource(f"{session}/budgets", get=budgets.list_of_session),
        resource(f"{session}/budget-check", get=budgets.check_session),
        resource("/v1/budgets", get=budgets.list_all, post=budgets.create),
        resource(budget, get=budgets.show, patch=budgets.update, delete=budgets.delete),
        resource(f"{budget}/top-up", post=budgets.top_up),
        resource(f"{budget}/ledger", get=budgets.ledger),
        resource(f"{budget}/check", get=budgets.check),
        resource(channel, get=channels.show_card),
        resource(f"{channel}/sessions", get=channels.list_sessions, post=channels.create_session),
        resource(f"{channel}/runtime-auth", post=channels.authenticate),
        resource(ours, get=channels.show_session),
        resource(f"{ours}/messages", post=sessions.send),
        resource(f"{ours}/cancel", post=sessions.cancel),
        resource(f"{ours}/question-answers", post=answers.answer_questions),
        resource(f"{ours}/tool-approvals", post=answers.approve_tools),
        resource(f"{ours}/events", get=channels.list_events),
        resource(f"{ours}/sse", get=channels.stream),
    ]
