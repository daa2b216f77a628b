"""Crash states of one micro-batch, in a process of its own: states.py CASE WRITER PLACE WHICH.

Records the batch on S3, resumes from each state (WHICH all, or kinds: from the first of each kind)
at PLACE, disk or s3, and prints one line of JSON with what became of each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash.cases import CASES
from crash.harness import Lab, open_on_s3, try_state
from crash.proxy import running_proxy
from running import running_server

from hudilab.settings import load_settings
from hudilab_cli.servers import s3
from hudilab_cli.servers.process import free_port


def main(name: str, writer: str, where: str, which: str) -> None:
    settings = load_settings()
    case = CASES[name]
    with (
        running_server(s3.SERVICE, settings, port=free_port()) as server,
        running_proxy(server.endpoint) as proxy,
    ):
        server.use()
        os.environ["AWS_ENDPOINT_URL_S3"] = proxy.endpoint
        spark = open_on_s3(settings, case)
        lab = Lab(spark, case, writer, settings.home)
        begun = time.monotonic()
        states, origin = lab.record(proxy)
        if which == "kinds":
            states = list({state.kind: state for state in reversed(states)}.values())[::-1]
        recorded, requests = time.monotonic(), proxy.requests
        at = lab.disk if where == "disk" else lab.s3

        # One after the other: they are one query, which a session does not run twice at a time.
        tried = [try_state(lab, state, origin, *at(n)) for n, state in enumerate(states, start=100)]
        if where == "disk":
            assert proxy.requests == requests, "a resume on the disk has asked S3 for something"
        spark.stop()
    seconds = [round(recorded - begun), round(time.monotonic() - recorded)]
    print(json.dumps({"tried": tried, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
