"""Refuse root and a port that cannot be used, before minutes of set-up: may_open.py ARGUMENTS.

The arguments are JupyterLab's, which would refuse root late, and otherwise open on another port
than the one that was asked for. Standard library only, in the syntax of Python 3.6, because it runs
before the set-up.
"""

import errno
import os
import re
import socket
import sys

OPTION = re.compile(r"--(?:ServerApp\.|LabApp\.)?(port|ip)(?:=(.*))?")


def refusal(arguments: "list[str]") -> "tuple[str, str] | None":
    """Why JupyterLab would not open as asked for, and the remedy; None if it would."""
    allowed = any("allow-root" in text.replace("_", "-") for text in arguments)
    if os.geteuid() == 0 and not allowed:
        again = command(["--allow-root", *arguments])
        return "JupyterLab does not run as root", f"use another account, or allow it with: {again}"
    return unusable_port(arguments)


def unusable_port(arguments: "list[str]") -> "tuple[str, str] | None":
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
    problem = hindrance(address, int(port))
    if not problem:
        return None
    other = next((n for n in range(int(port) + 1, 65536) if not hindrance(address, n)), 0)
    again = [re.sub(rf"\b{port}$", str(other), text) for text in arguments]
    return f"port {port} {problem}", f"choose another, such as: {command(again)}"


def hindrance(address: str, port: int) -> str:
    """Why a port of this machine cannot be used; empty if it can."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        # As JupyterLab does: a connection that just ended does not count.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("" if address in ("*", "") else address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return "is in use by another program"
            if error.errno == errno.EACCES:
                return "is reserved for root"
            # Another port would not help: JupyterLab reports an address that is not this machine's.
    return ""


def command(arguments: "list[str]") -> str:
    """The command that was typed, with these arguments; make gives its programs MAKELEVEL."""
    options = " ".join(arguments)
    return f'make lab ARGS="{options}"' if "MAKELEVEL" in os.environ else f"hudilab lab {options}"


if __name__ == "__main__":
    problem = refusal(sys.argv[1:])
    if problem:
        sys.exit("lab: {}; {}".format(*problem))
