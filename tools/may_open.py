"""Refuse a port that another program has, before minutes of set-up: may_open.py ARGUMENTS.

The arguments are JupyterLab's, which would otherwise open on another port than the one that was
asked for. Standard library only, in the syntax of Python 3.6, because it runs before the set-up.
"""

import re
import socket
import sys

OPTION = re.compile(r"--(?:ServerApp\.|LabApp\.)?(port|ip)(?:=(.*))?")


def taken_port(arguments: "list[str]") -> "tuple[str, str] | None":
    """What is wrong with the port, and the remedy; None if it is free, or if none is given."""
    options = {}
    for at, argument in enumerate(arguments):
        match = OPTION.fullmatch(argument)
        if match:
            following = arguments[at + 1] if at + 1 < len(arguments) else ""
            options[match.group(1)] = match.group(2) or following
    port, address = options.get("port", ""), options.get("ip", "localhost")
    if not port.isdigit() or not 0 < int(port) < 65536:
        return None  # 0 is any free port, and JupyterLab refuses the others
    if is_free(address, int(port)):
        return None
    other = next((n for n in range(int(port) + 1, 65536) if is_free(address, n)), 0)
    options_text = " ".join(re.sub(rf"\b{port}$", str(other), text) for text in arguments)
    return (
        f"port {port} is in use by another program",
        f'choose another, such as: make lab ARGS="{options_text}"',
    )


def is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        # As JupyterLab does: a connection that just ended does not count.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("" if address in ("*", "") else address, port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    problem = taken_port(sys.argv[1:])
    if problem:
        sys.exit("lab: {}; {}".format(*problem))
