"""kill -9 the driver at chosen changes of the store: whatever it was doing, the table is exact."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from crash.harness import ROWS, Trap, rows_of_hudi_rs
from crash.proxy import Proxy
from kills import Killed, record
from running import finish, kill, start_program, wait_while_running

from hudilab_cli.servers.s3 import S3Server

DRIVER = Path(__file__).with_name("driver.py")
PATIENCE = 600  # seconds; a start takes ten on an idle machine


class Point(NamedTuple):
    """The n-th change of a kind since the driver's start; `late`: it is made, and not answered."""

    kind: str
    nth: int = 1
    late: bool = False


# Each driver resumes from what the kill before it left behind. `make test` runs a few
# points, and `make test-deep` the others, because each kill costs a JVM start.
FEW = (
    Point("put commit.requested", late=True),
    Point("put rollback.inflight", late=True),
    Point("put commit completed", late=True),
    Point("copy checkpoint commits"),
)
MORE = (
    Point("put .hoodie_partition_metadata", late=True),  # first: later, no partition is new
    Point("put base file", 2),
    Point("put rollback completed"),
    Point("delete marker"),
    Point("put inflight"),
    Point("put commit completed"),
    Point("put checkpoint commits temporary", late=True),
    Point("copy checkpoint offsets", late=True),
    Point("put inflight", late=True),
    Point("put base file"),
    Point("put base file", 4, late=True),
    Point("delete marker", 2, late=True),
    Point("copy checkpoint commits", late=True),
    Point("copy checkpoint offsets"),
    Point("delete checkpoint offsets temporary"),
)


class Chain:
    """A stream that is killed and resumed, again and again, on one table."""

    def __init__(self, home: Path, server: S3Server, proxy: Proxy) -> None:
        self.home, self.proxy = home, proxy
        self.env = {"HUDILAB_HOME": str(home), "RUNTIME_ENV": "", "IS_LOCAL": ""}
        self.env |= dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")
        self.env |= server.env() | {"AWS_ENDPOINT_URL_S3": proxy.endpoint}

    def start(self) -> subprocess.Popen[str]:
        return start_program(str(DRIVER), env=self.env)

    def kill_at(self, point: Point) -> None:
        trap, driver = Trap(self.proxy, point.kind, point.nth, late=point.late), self.start()
        try:
            wait_while_running(driver, trap.sprung.is_set, PATIENCE, str(point))
        finally:
            kill(driver)
            trap.remove()

    def rows(self) -> int:
        """What the second engine reads, from the server's files."""
        (store,) = (self.home / "services" / "s3" / "data" / "hudilab").glob("w*")
        return rows_of_hudi_rs(store / "lab" / "readings").total()

    def finish(self) -> dict[str, object]:
        return dict(json.loads(finish(self.start(), PATIENCE).splitlines()[-1]))


def survive(chain: Chain, points: tuple[Point, ...]) -> None:
    print("\nrows that a reader sees after each kill")
    seen = 0
    for point in points:
        chain.kill_at(point)
        before, seen = seen, chain.rows()
        print(f"  {seen:5} {point.kind} {point.nth}{', not answered' * point.late}")
        assert seen >= before
        assert seen % ROWS == 0, "a reader sees half a batch"
    result = chain.finish()
    print("  ", result)
    assert result["problems"] == []  # rows lost or twice are among them
    number = len(points)
    record(Killed("driver", "append, COPY_ON_WRITE", "S3", number, number, 0, 0))


@pytest.mark.kills
@pytest.mark.parametrize("points", [FEW, pytest.param(MORE, marks=pytest.mark.deep)])
def test_kills_in_a_row(
    tmp_path: Path, server: S3Server, proxy: Proxy, points: tuple[Point, ...]
) -> None:
    survive(Chain(tmp_path, server, proxy), points)
