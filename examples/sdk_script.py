"""Use the SDK from a script without an event loop.

SESSIONWIRE_KEY=letmein python examples/sdk_script.py my-session

It is the same client behind blocking calls; what may block for long takes `timeout_s`.
"""

from __future__ import annotations

import os
import sys

from sessionwire import sync

HUB = os.environ.get("SESSIONWIRE_URL", "http://127.0.0.1:8787")


def main(session_id: str) -> None:
    with (
        sync.Client(HUB, os.environ["SESSIONWIRE_KEY"]) as client,
        client.session(session_id, catalog="copilot") as session,
    ):
        with session.publisher() as publisher:
            for number in range(3):
                publisher.send({"type": "user.message", "data": {"content": f"line {number}"}})
        for event in session.follow(from_="-3"):
            print(event.data.content, flush=True)
            if event.data.content == "line 2":
                break
        receipt = session.send("Are you there?", expires_in_s=3600)
        print(receipt.status, flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "my-session")
