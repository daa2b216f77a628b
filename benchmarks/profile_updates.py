"""Where the seconds of an upsert and of a read go: samples of the JVM's stacks, as a picture.

Usage: python benchmarks/profile_updates.py [--peer NAME] [--loads a,b] [--set KEY=VALUE]...
    [--json FILE] [--picture FILE]
For each load (see updates.py) the peer streams its batches and reads its table once, in a fresh
process. A sample is a running thread at one moment; it counts for the innermost frame that one of
the rules knows. Waiting and garbage collection are in no sample.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from comparison import add_files, check_files, run_script, table
from peers import fetch_jars
from updates import LIMIT, chosen_loads
from updates_peer import TYPES

from hudilab_spark.java import find_java

# A compaction or a clean reads and writes like a batch: its tasks are told by these frames alone.
SERVICE = re.compile(r"Compact|\.clean\.|Cluster(ing)?(Execution|Commit)")
# What a frame tells, tried from the innermost frame outwards.
RULES = {
    "shuffles, serialised by Kryo": r"esotericsoftware|spark\.(shuffle|serializer)|"
    r"util\.collection|jpountz|SerializationFormat|KryoRegistr|objenesis",
    "base files (Parquet)": r"apache\.parquet|datasources\.parquet|xerial\.snappy|codehale",
    "logs": r"table\.log\.|HoodieAppendHandle|LogFile|ExternalSpillableMap|BitCask",
    "merging rows": r"table\.read\.|Merger|MergeHandle|MergeHelper|OrderingValues",
    "looking up keys": r"hudi\.index\.|TagLocation|keygen",
    "rows to Java objects and Avro": r"apache\.avro|avro|HoodieRecord|HoodieSparkRecord|"
    r"HoodieCreateRecordUtils|HoodieInternalRow|io\.storage",
    "metadata, timeline, commit": r"hudi\.(metadata|client|common|table|hadoop|util|storage)|"
    r"hadoop\.fs|hudi\.Hoodie",
    "Catalyst and its generated code": r"sql\.(catalyst|execution)|codegen|GeneratedClass|janino",
    "Spark's tasks and scheduling": r"apache\.spark|scala\.",
}
KNOWN = {name: re.compile(rule) for name, rule in RULES.items()}
SERVICES, ELSE = "compacting and cleaning", "all else"
# The recorder keeps 64 frames by default, and Spark's stacks are deeper. It starts with the JVM: a
# later start throws compiled code away, for seconds. With the archive of classes the JVM crashes;
# open_session adds none if the options name one.
RECORDER = (
    "-XX:FlightRecorderOptions=stackdepth=256 -XX:StartFlightRecording=settings=default "
    "-Xshare:off -XX:SharedArchiveFile=none"
)
THREADS = re.compile(r"Executor task launch worker|stream execution thread|Thread-\d|main|dag-")


def stacks(file: Path) -> Iterable[list[str]]:
    """The frames of each sample of a recording, the innermost first."""
    java = str(find_java().home / "bin" / "java")
    command = [java, "-Xmx4g", "-m", "jdk.jfr/jdk.jfr.internal.tool.Main", "print"]
    command += ["--json", "--stack-depth", "256", "--events", "jdk.ExecutionSample", str(file)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    for event in json.loads(done.stdout)["recording"]["events"]:
        values = event["values"]
        name = (values.get("sampledThread") or {}).get("javaName") or ""
        if values.get("stackTrace") and THREADS.match(name):
            methods = (frame["method"] for frame in values["stackTrace"]["frames"])
            yield [
                f"{method['type']['name'].replace('/', '.')}.{method['name']}" for method in methods
            ]


def kind(stack: list[str]) -> str:
    """What a thread with this stack is doing."""
    if any(SERVICE.search(frame) for frame in stack):
        return SERVICES
    names = (name for frame in stack for name, rule in KNOWN.items() if rule.search(frame))
    return next(names, ELSE)


def shares(file: Path) -> dict[str, Any]:
    """Percent of the samples for each kind, and their number."""
    counted = Counter(kind(stack) for stack in stacks(file))
    whole = counted.total() or 1
    names = [*RULES, SERVICES, ELSE]
    return {"samples": counted.total()} | {n: 100 * counted[n] / whole for n in names}


def picture(profiles: dict[str, dict[str, Any]], file: Path) -> None:
    """A bar for each profile, from the most to the least."""
    figure, axes = plt.subplots(figsize=(11, 0.7 * len(profiles) + 1.6))
    names = [*RULES, SERVICES, ELSE]
    for number, name in enumerate(names):
        left = [sum(profile[before] for before in names[:number]) for profile in profiles.values()]
        widths = [profile[name] for profile in profiles.values()]
        color = plt.get_cmap("tab10" if name != ELSE else "Greys")(number if name != ELSE else 0.3)
        axes.barh(list(profiles), widths, left=left, label=name, color=color)
        for row, (start, width) in enumerate(zip(left, widths, strict=True)):
            if width >= 4:
                axes.text(start + width / 2, row, f"{width:.0f}", ha="center", va="center")
    axes.invert_yaxis()
    axes.set_xlabel("percent of the samples")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=3, fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.45, 1))
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=TYPES, default="hudi_upsert_mor")
    parser.add_argument("--loads", default="1m_100k_80,1m_10_100", help="see updates.py")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    add_files(parser)
    arguments = parser.parse_args()
    loads = chosen_loads(parser, arguments)
    check_files(parser, arguments)
    fetch_jars([])
    os.environ["HUDILAB_JAVA_OPTIONS"] = RECORDER
    options = [word for change in arguments.set for word in ("--set", change)]
    profiles: dict[str, dict[str, Any]] = {}
    for load in loads:
        with tempfile.TemporaryDirectory() as folder:
            command = ["updates_peer.py", arguments.peer, load, "--profile", folder, *options]
            run_script(arguments.peer, command, LIMIT)
            for name in ("batches", "reads"):
                profiles[f"{load}: {name}"] = shares(Path(folder, f"{name}.jfr"))
    if arguments.json:
        arguments.json.write_text(json.dumps(profiles, indent=1) + "\n", encoding="utf-8")
    if arguments.picture:
        picture(profiles, arguments.picture)
    lines = [["percent of the samples", *profiles]]
    for name in [*RULES, SERVICES, ELSE, "samples"]:
        lines.append([name, *(f"{profile[name]:,.0f}" for profile in profiles.values())])
    print(table(lines))


if __name__ == "__main__":
    main()
