"""What comparisons share: programs in fresh processes, rounds, figures, tables and a file.

A comparison has figures (key, what it is in the table, digits), a limit of seconds for one program,
and rounds; each round measures every peer, another one first each time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# Key, what it is in the table, digits.
Figures = Mapping[str, tuple[str, int]]
# For each peer, what it printed in each round.
Measured = dict[str, list[dict[str, Any]]]


def run_script(peer: str, command: Sequence[str], limit: float) -> dict[str, Any]:
    """Run a script of this folder with a home of its own, for `limit` seconds at most."""
    script, *arguments = command
    with tempfile.TemporaryDirectory() as home:
        program = str(Path(__file__).resolve().parent / script)
        done = subprocess.run(
            [sys.executable, program, *arguments, "--home", home],
            cwd=home,
            env=os.environ | {"RUNTIME_ENV": "", "IS_LOCAL": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{peer} failed: {done.stderr[-2000:]}; fix it before you measure")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def turns(peers: Sequence[str], number: int) -> Iterator[str]:
    """The peers of a round: another one begins each, so that none always follows the same one."""
    shift = number % len(peers)
    yield from (*peers[shift:], *peers[:shift])


def rounds_of(
    peers: Sequence[str],
    rounds: int,
    measure: Callable[[str], dict[str, Any]],
    figures: Callable[[dict[str, Any]], dict[str, float]],
    label: str = "",
) -> Iterator[tuple[int, Measured]]:
    """Measure the peers; after each round, its number from 1 and all that is measured so far.

    What is written then is kept when a run is cut short.
    """
    measured: Measured = {peer: [] for peer in peers}
    for number in range(rounds):
        for peer in turns(peers, number):
            measured[peer].append(measure(peer))
            shown = {key: round(value, 2) for key, value in figures(measured[peer][-1]).items()}
            print(f"{label}round {number + 1} {peer} {shown}", file=sys.stderr, flush=True)
        yield number + 1, measured


def write(file: Path | None, report: dict[str, Any]) -> None:
    """Write what was found, and the machine's cores, as JSON."""
    if file is not None:
        text = json.dumps({"cores": os.cpu_count(), **report}, indent=1, default=str)
        file.write_text(text + "\n", encoding="utf-8")


def middle_and_spread(rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The median of each figure, and its lowest and highest value."""
    medians: dict[str, Any] = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
    spread = {key: [min(r[key] for r in rounds), max(r[key] for r in rounds)] for key in medians}
    return medians | {"spread": spread}


def ratios(
    rounds: Sequence[dict[str, float]], others: Sequence[dict[str, float]]
) -> dict[str, float]:
    """For each figure that both have, the median of the ratios within a round."""
    pairs = list(zip(rounds, others, strict=True))
    return {
        key: statistics.median(measured[key] / other[key] for measured, other in pairs)
        for key in rounds[0]
        if all(key in other for other in others)
    }


def spread_cell(medians: dict[str, Any], key: str, digits: int) -> str:
    """The median in bold, and the spread."""
    low, high = medians["spread"][key]
    return f"**{medians[key]:,.{digits}f}** ({low:,.{digits}f} - {high:,.{digits}f})"


def table(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first line is its head."""
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rest])


def add_arguments(parser: argparse.ArgumentParser, peers: Collection[str], rounds: int) -> None:
    """Add the arguments that every comparison has; `chosen` checks them."""
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--peers", default=",".join(peers), help="of " + ",".join(peers))
    add_file(parser)


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a file to write; `check_file` checks it."""
    parser.add_argument("--json", type=Path, help="write all figures to this file")


def check_file(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the program if the file's folder is not there."""
    file = arguments.json
    if file is not None and not file.resolve().parent.is_dir():
        parser.error(f"{file.resolve().parent} is not a directory; make it first")


def named(
    parser: argparse.ArgumentParser, what: str, text: str, known: Collection[str]
) -> list[str]:
    """The names in a text with commas, in the order of `known`; ends the program if one isn't."""
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return [name for name in known if name in names]


def chosen(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, peers: Collection[str]
) -> list[str]:
    """The peers asked for, in the order of `peers`; ends the program if an argument is wrong."""
    names = named(parser, "peer", arguments.peers, peers)
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    check_file(parser, arguments)
    return names
