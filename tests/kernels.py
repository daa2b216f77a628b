"""What a running Jupyter server says of its kernels."""

from __future__ import annotations

import json
from urllib.error import URLError
from urllib.request import urlopen


def api(address: str, token: str, what: str) -> object:
    try:
        with urlopen(f"{address}/api/{what}?token={token}", timeout=5) as answer:
            return json.load(answer)
    except URLError:
        return None


def kernels_of(address: str, token: str, name: str) -> list[dict[str, object]]:
    """The kernels of a notebook; earlier tests may have left those of others."""
    sessions = api(address, token, "sessions")
    assert isinstance(sessions, list)
    return [session["kernel"] for session in sessions if session["path"] == name]


def connected(address: str, token: str, name: str) -> bool:
    """Whether a page is connected to a notebook's idle kernel; before, what it runs is ignored."""
    kernels = kernels_of(address, token, name)
    return any(kernel["execution_state"] == "idle" and kernel["connections"] for kernel in kernels)
