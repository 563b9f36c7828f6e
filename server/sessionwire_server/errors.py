"""Errors that the hub answers with: one class, one body, stable codes (protocol.md §12).

A `HubError` raised anywhere below a route becomes its `application/problem+json` answer, with both
vocabularies in one body: RFC 9457 members and `error: {code, message}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

__all__ = ["HubError"]


class HubError(Exception):
    """A request that ends with an error the client can act on.

    Attributes:
        status: HTTP status, 400 to 599.
        code: stable word from the list in `docs/protocol.md`; clients may branch on it.
        detail: a sentence for people; may change.
        extra: further members of the problem body (`index`, `line`, `pointer`, `offset` …).
        headers: further response headers (`Retry-After` …).
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.extra = extra
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Build the problem body."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "error": {"code": self.code, "message": self.detail},
            **self.extra,
        }

    def __repr__(self) -> str:
        return f"HubError({self.status}, {self.code!r}, {self.detail!r})"
