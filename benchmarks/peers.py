"""Other people's servers, measured beside ours where this machine has them.

Each is what a careful team would run: no access log, no compression, one process, history kept for
who comes back. `missing` says what to install; the report leaves such a contender out by name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from benchmarks.contender import UPGRADE, Contender, Ground, Paths
from benchmarks.native import HERE, OUT

__all__ = ["CENTRIFUGE", "NCHAN", "NCHAN_WS", "SOCKETIO"]

_NCHAN_MODULE = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
_GOCODE = Path("/usr/share/gocode")
_NODE = OUT / "socketio"

_NCHAN_CONF = """
load_module {module};
daemon off; master_process off; worker_processes 1; worker_rlimit_nofile 40000;
pid {folder}/nginx.pid; error_log {folder}/nginx.log warn;
events {{ worker_connections 20000; use epoll; multi_accept on; }}
http {{
  access_log off; tcp_nodelay on;
  keepalive_timeout 300s; keepalive_requests 1000000000;
  client_max_body_size 16m; client_body_buffer_size 64k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  nchan_max_reserved_memory 1g;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = /livez {{ return 200; }}
    location ~ ^/publish/(.+)$ {{
      nchan_publisher; nchan_channel_id $1;
      nchan_message_buffer_length 20000; nchan_message_timeout 10m;
    }}
    location ~ ^/live/(.+)$ {{
      nchan_subscriber eventsource websocket; nchan_channel_id $1;
      nchan_eventsource_ping_interval 0; nchan_websocket_ping_interval 0;
      nchan_subscriber_first_message newest;
    }}
    location ~ ^/all/(.+)$ {{
      nchan_subscriber eventsource websocket; nchan_channel_id $1;
      nchan_eventsource_ping_interval 0; nchan_websocket_ping_interval 0;
      nchan_subscriber_first_message oldest;
    }}
  }}
}}
"""


def _nchan_missing() -> str:
    here = shutil.which("nginx") and _NCHAN_MODULE.exists()
    return "" if here else "nginx and libnginx-mod-nchan"


def _nchan(ground: Ground) -> list[str]:
    conf = ground.data_dir / "nginx.conf"
    values = {"module": _NCHAN_MODULE, "folder": ground.data_dir, "port": ground.port}
    conf.write_text(_NCHAN_CONF.format_map(values))
    return ["nginx", "-p", str(ground.data_dir), "-c", str(conf)]


_NCHAN_PATHS = Paths(
    publish="POST /publish/{session} HTTP/1.1",
    live="GET /live/{session} HTTP/1.1",
    replay="GET /all/{session} HTTP/1.1",
)

NCHAN = Contender(
    name="nchan",
    title="Nchan, SSE",
    command=_nchan,
    paths=_NCHAN_PATHS,
    batches=False,
    missing=_nchan_missing,
)
NCHAN_WS = Contender(
    name="nchan-ws",
    title="Nchan, WebSocket",
    command=_nchan,
    paths=_NCHAN_PATHS,
    stream_headers=UPGRADE,
    status=101,
    hello="\n",
    batches=False,
    missing=_nchan_missing,
)


@cache
def _centrifuge_program() -> Path:
    """Build it from Debian's sources of Go packages; go itself sees whether anything changed."""
    program = OUT / "centrifuge"
    OUT.mkdir(exist_ok=True)
    environ = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(_GOCODE),
        "GOCACHE": str(OUT / "gocache"),
    }
    folder = HERE / "servers" / "centrifuge"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=folder, env=environ, check=True)
    return program


def _centrifuge_missing() -> str:
    names = ("centrifugal/centrifuge", "FZambia/eagle", "centrifugal/protocol", "mna/redisc")
    sources = [_GOCODE / "src" / "github.com" / name for name in names]
    if shutil.which("go") and all(source.exists() for source in sources):
        return ""
    return (
        "golang-go and golang-github-{centrifugal-centrifuge,centrifugal-protocol,"
        "fzambia-eagle,igm-sockjs-go,mna-redisc}-dev"
    )


def _centrifuge_hello() -> str:
    connect = json.dumps({"id": 1, "method": 0, "params": {}})
    subscribe = json.dumps({"id": 2, "method": 1, "params": {"channel": "{session}"}})
    return f"{connect}\n{subscribe}"


CENTRIFUGE = Contender(
    name="centrifuge",
    title="centrifuge with Redis streams, WebSocket",
    command=lambda ground: [str(_centrifuge_program()), str(ground.port), ground.redis_url],
    environ=lambda _: {"GOMAXPROCS": "1"},
    paths=Paths(
        publish="POST /channels/{session} HTTP/1.1", live="GET /connection/websocket HTTP/1.1"
    ),
    stream_headers=UPGRADE,
    status=101,
    hello=_centrifuge_hello(),
    await_frame=True,
    batches=False,
    missing=_centrifuge_missing,
)


def _socketio_missing() -> str:
    if shutil.which("node") and (_NODE / "node_modules" / "socket.io").exists():
        return ""
    return f"node, and npm install --prefix {_NODE.relative_to(HERE.parent)} (see docs)"


def _socketio_environ(_: Ground) -> Mapping[str, str]:
    return {"NODE_PATH": str(_NODE / "node_modules"), "NODE_ENV": "production"}


def _socketio(ground: Ground) -> list[str]:
    script = HERE / "servers" / "socketio" / "server.js"
    return ["node", str(script), str(ground.port), ground.redis_url.removeprefix("unix://")]


SOCKETIO = Contender(
    name="socketio",
    title="socket.io with Redis streams, WebSocket",
    command=_socketio,
    environ=_socketio_environ,
    paths=Paths(
        publish="POST /sessions/{session} HTTP/1.1",
        live="GET /socket.io/?EIO=4&transport=websocket&session={session} HTTP/1.1",
    ),
    stream_headers=UPGRADE,
    status=101,
    hello="40",
    await_frame=True,
    batches=False,
    missing=_socketio_missing,
)
