"""Refuse root, and a port or address that can't be used, before minutes of set-up.

The arguments are JupyterLab's, which would refuse root late, open on another port than the one that
was asked for, and end in a traceback at another machine's address. Standard library only, in the
syntax of Python 3.6, because it runs before the set-up.
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
    return unusable(arguments)


def unusable(arguments: "list[str]") -> "tuple[str, str] | None":
    """What is wrong with the port or the address, and the remedy; None if both can be used."""
    options = {}
    for at, argument in enumerate(arguments):
        match = OPTION.fullmatch(argument)
        if match:
            following = arguments[at + 1] if at + 1 < len(arguments) else ""
            options[match.group(1)] = match.group(2) or following
    port, address = options.get("port", ""), options.get("ip", "localhost")
    is_port = port.isdigit() and int(port) < 65536
    taken = hindrance(address, int(port)) if is_port else ""
    if hindrance(address, 0):
        value, other, problem = address, "127.0.0.1", f"{address} is no address of this machine"
    elif port and not is_port:
        value, other, problem = port, free(address, 8888), f"port {port} is not between 0 and 65535"
    elif taken:
        value, other, problem = port, free(address, int(port) + 1), f"port {port} {taken}"
    else:
        return None
    again = [re.sub(rf"(^|=){re.escape(value)}$", rf"\g<1>{other}", text) for text in arguments]
    return problem, f"choose another, such as: {command(again)}"


def free(address: str, first: int) -> str:
    """The first port from `first` on that can be used; 0, which is any, if there is none."""
    return next((str(port) for port in range(first, 65536) if not hindrance(address, port)), "0")


def hindrance(address: str, port: int) -> str:
    """Why a port and an address cannot be used; empty if they can."""
    problem = "is at no address of this machine"
    anywhere = address in ("*", "")
    try:
        found = socket.getaddrinfo(
            None if anywhere else address, port, 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE
        )
    except OSError:
        return problem
    for family, kind, _, _, where in found:
        try:
            with socket.socket(family, kind) as server:
                # As JupyterLab does: a connection that just ended does not count.
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(where)
                problem = ""
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return "is in use by another program"
            if error.errno == errno.EACCES:
                return "is reserved for root"
            # Such as ::1 of localhost on a machine without IPv6.
    return problem


def command(arguments: "list[str]") -> str:
    """The command that was typed, with these arguments; make gives its programs MAKELEVEL."""
    options = " ".join(arguments)
    return f'make lab ARGS="{options}"' if "MAKELEVEL" in os.environ else f"hudilab lab {options}"


if __name__ == "__main__":
    problem = refusal(sys.argv[1:])
    if problem:
        sys.exit("lab: {}; {}".format(*problem))
