"""The address of the daemon, and the settings of a channel to it."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass

from berm._status import ArgumentError

# Reconnect within a second when the daemon is back, and detect a dead peer on an idle connection.
CHANNEL_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.enable_retries", 0),  # the client retries itself, because it knows which calls may be repeated
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.primary_user_agent", "berm-python"),
]


@dataclass(frozen=True)
class Target:
    """A daemon's address in gRPC syntax, and the token for it."""

    name: str
    token: str | None = None

    @property
    def metadata(self) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {self.token}")] if self.token else []


def target_of(socket: str | os.PathLike[str] | None, address: str | None, token: str | None) -> Target:
    """Returns the given address, else that of BERM_SOCKET or BERM_ADDRESS, else bermd's default socket."""
    if address is None and socket is None:
        address = os.environ.get("BERM_ADDRESS") or None
    if address is None:
        return Target(f"unix:{os.path.abspath(socket or os.environ.get('BERM_SOCKET') or default_socket())}")
    if ":" not in address:
        raise ArgumentError("address", "HOST:PORT", address)
    file = os.environ.get("BERM_TOKEN_FILE")
    if token is None and file:
        token = pathlib.Path(file).read_text().strip()
    return Target(address, token)


def default_socket() -> str:
    """Finds the socket like bermd: in the system's directory for root, in the user's directory for others."""
    if os.geteuid() == 0:
        return "/run/berm/bermd.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return f"{runtime}/berm/bermd.sock"
    return os.path.expanduser("~/.local/state/berm/bermd.sock")
