"""healthy.py [PORT]: exit code 0 when a web server answers there, whatever it answers.

Without a port, the one that the entry point has noted for the container's role; a role without a
web server is healthy as long as it runs.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException
from pathlib import Path

# entrypoint.sh writes it.
NOTED = Path(os.environ.get("HUDILAB_HOME", "/home/hudilab/lab"), "port")


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


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    port = arguments[0] if arguments else NOTED.read_text().strip() if NOTED.exists() else ""
    return 0 if not port or healthy(int(port)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
