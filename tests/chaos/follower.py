"""A viewer cheap enough for thousands: it reads numbers from the stream's bytes and no JSON.

The events it reads are those of `numbered`, whose first member is the number their publisher gave
them: that of the durable event, or of the durable event before a passing one. The hub's sequence
must say the same, so a hole, a repetition, a step back and a wrong body all show.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass

from tests.contract.events import Place, place_of
from tests.contract.wire import BodyDecoder, Connection, Server, head_of, read_head

__all__ = ["Follower", "numbered"]

EVENT = re.compile(rb"id: ([a-z2-7]{8})\.(\d+)\.(\d+)\.[a-z2-7]{5}\ndata: \{\"n\":(\d+),")
FOREIGN = re.compile(rb"event: (disconnecting|gap|reset)\n")


def numbered(n: int, *, passing: bool = False) -> bytes:
    """One copilot event whose first member is `n`."""
    kind = "assistant.message_delta" if passing else "session.info"
    data = '{"messageId":"m","deltaContent":"x"}' if passing else '{"infoType":"t","message":"x"}'
    flag = '"ephemeral":true,' if passing else ""
    return (
        f'{{"n":{n},"id":"{secrets.token_hex(8)}","timestamp":"2026-08-21T09:31:03.123Z",'
        f'"parentId":null,{flag}"type":"{kind}","data":{data}}}'
    ).encode()


@dataclass
class Follower:
    """One stream of one session from `cursor` on."""

    server: Server
    session: str
    cursor: str
    events: int = 0

    async def run(self, until: int, *, rude: bool = False) -> Place:
        """Read until the durable event `until` is there; the place reached.

        Args:
            until: sequence of the last event wanted.
            rude: leave with RST.
        """
        place = place_of(self.cursor)
        path = f"/v1/sessions/{self.session}/sse?since_id={self.cursor}"
        async with Connection(self.server) as connection, asyncio.timeout(60):
            head = head_of(self.server, "GET", path, {"Accept": "text/event-stream"})
            reader = await connection.send(head)
            status, headers = await read_head(reader)
            assert status == 200, status
            decoder = BodyDecoder(headers)
            buffer = b""
            while place.sequence < until:
                data = await reader.read(65_536)
                assert data, f"{self.session} ended at {place}, before {until}"
                buffer += decoder.feed(data)
                whole = buffer.rfind(b"\n\n") + 2
                if whole > 1:
                    place = self._take(place, buffer[:whole])
                    buffer = buffer[whole:]
            if rude:
                connection.reset()
        return place

    def _take(self, place: Place, blocks: bytes) -> Place:
        odd = FOREIGN.search(blocks)
        assert odd is None, blocks[odd.start() :][:300] if odd else b""
        assert blocks.count(b'"gap":null') == blocks.count(b"event: connected\n"), blocks[:500]
        epoch, sequence, offset = place.epoch.encode(), place.sequence, place.offset
        found = 0
        for match in EVENT.finditer(blocks):
            here, step, number = int(match[2]), int(match[3]), int(match[4])
            assert match[1] == epoch, f"another epoch {match[1]!r} in {place}"
            assert step > offset, f"offset {step} after {offset}: a repetition"
            assert here - sequence in (0, 1), f"sequence {here} after {sequence}: a hole"
            assert number == here, f"event {number} under sequence {here}"
            sequence, offset = here, step
            found += 1
        assert found == blocks.count(b'\ndata: {"n":'), blocks[:1000]
        self.events += found
        return place._replace(sequence=sequence, offset=offset)
