"""What a serving hub logs and where: stderr, and never a query (tickets stand there)."""

from __future__ import annotations

import logging
import logging.config

__all__ = ["WithoutQuery", "configure_log", "expect_broken_requests"]


class WithoutQuery(logging.Filter):
    """Cuts the query off the paths that uvicorn logs, for requests and WebSockets alike."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_cut(value) for value in record.args)
        return True


def _cut(value: object) -> object:
    is_target = isinstance(value, str) and value.startswith("/") and "?" in value
    return value.partition("?")[0] if is_target and isinstance(value, str) else value


def configure_log(level: str = "INFO") -> None:
    """Send the logs of the hub and of uvicorn to stderr.

    Args:
        level: theirs; uvicorn's access log is INFO. Other libraries are heard from WARNING on.
    """
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"without_query": {"()": WithoutQuery}},
            "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "stream": "ext://sys.stderr",
                    "formatter": "line",
                    "filters": ["without_query"],
                }
            },
            "root": {"level": "WARNING", "handlers": ["stderr"]},
            "loggers": {"sessionwire_server": {"level": level}, "uvicorn": {"level": level}},
        }
    )


def expect_broken_requests() -> None:
    """Say nothing of requests that are cut from now on: the process is told to end at once."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
