"""Publish an agent's answer word by word, and end it with the whole message.

SESSIONWIRE_KEY=letmein python examples/publish.py my-session

Viewers see the deltas at once; only the completed message is kept. Any HTTP client will do. The ids
are our own, so sending a request again after an error is always safe.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from typing import Any

import httpx2

HUB = os.environ.get("SESSIONWIRE_URL", "http://127.0.0.1:8787")
KEY = os.environ["SESSIONWIRE_KEY"]
ANSWER = "The retry test was flaky because two of its timers shared one clock."
PACE_S = float(os.environ.get("PACE_S", "0.1"))


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"id": f"event_{uuid.uuid4().hex}", "type": kind, "context": {}, "data": data}


def main(session_id: str) -> None:
    message_id, turn_id = f"message_{uuid.uuid4().hex}", f"turn_{uuid.uuid4().hex}"
    of_turn = {"turn_id": turn_id, "message_id": message_id}
    with httpx2.Client(base_url=HUB, headers={"Authorization": f"Bearer {KEY}"}) as http:

        def publish(*events: dict[str, Any]) -> None:
            answer = http.post(f"/v1/sessions/{session_id}/events", json=events)
            answer.raise_for_status()

        publish(
            event("turn.started", turn_id=turn_id, input_message_id=f"message_{uuid.uuid4().hex}")
        )
        so_far = ""
        for word in ANSWER.split(" "):
            delta = f" {word}" if so_far else word
            so_far += delta
            publish(event("output.message.delta", **of_turn, delta=delta, accumulated=so_far))
            time.sleep(PACE_S)
        whole = {
            "id": message_id,
            "role": "agent",
            "content": [{"type": "text", "text": so_far}],
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        publish(
            event("output.message.completed", message=whole),
            event("turn.completed", turn_id=turn_id, iterations=1),
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "my-session")
