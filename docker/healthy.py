"""healthy.py PORT: exit code 0 when a web server answers there, whatever it answers."""

from __future__ import annotations

import sys
from http.client import HTTPConnection, HTTPException


def healthy(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody speaks HTTP there."""
    connection = HTTPConnection(host, port, timeout=3)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if healthy(int(sys.argv[1])) else 1)
