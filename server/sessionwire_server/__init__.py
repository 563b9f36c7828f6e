"""The sessionwire hub: a Starlette application over Redis.

Never imports `sessionwire` (the client); it shares only `sessionwire_schemas` with it.
"""

from __future__ import annotations
