"""Tables that somebody spoilt: a few hundred in each run, 10,000 in a deep one."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import fastavro
import pytest
from unit.handmade import COMMIT, HandMade, avro
from unit.hudi_inspect.tables import NOW, SAMPLES, A, B
from unit.hudi_inspect.test_samples import FILTER, NAMES

from hudi_inspect import TableSnapshot, inspect
from hudi_inspect.errors import InspectError

SECONDS = 20  # for one table; the machine may be busy
ODD_TEXTS = (
    *json.loads(Path(__file__).with_name("odd_texts.json").read_text("utf-8")),
    *("9" * 5000, "x" * 100_000, "[" * 5000),
)
ODD_VALUES: tuple[Any, ...] = (
    *ODD_TEXTS,
    *(None, True, False, -1, 5, 2**63, -(2**70), 1.5, float("nan"), float("inf")),
    *([], {}, [None], [[]], ["a"], {"a": 1}, {"\ud800": []}, [1, "a", None]),
)
ODD_NAMES = (
    b"\xff\xfe",
    b"a\x1b[31mb",
    b"a\nEVIL",
    "\u202ecba".encode(),
    b"'; echo x; '",
    b"[bold]",
    b"-rf",
    b"20260101000010000.commit",
    b"20260101000099000.deltacommit.inflight",
    b"99999999999999999.commit.requested",
    b"20260101000010000_20260101000011000.savepoint",
)


def hand_made(root: Path, version: int) -> Path:
    """A table with an instant of each kind whose content is read."""
    table = HandMade(root, version=version, table__type="MERGE_ON_READ")
    extra = {"hudilab.query_id": "q", "hudilab.batch_id": "0", "hudilab.source": '{"buckets": 4}'}
    if version > 6:
        record = {"partitionToWriteStats": {}, "operationType": "INSERT"}
        table.archive((1, 2, "commit", record), (3, 4, "clean", None))
    table.commit(10, 12, {A: 5, B: 6}, action="deltacommit", extra=extra)
    sink = {"_hudi_streaming_sink_checkpoint": '{"one": "0"}'}
    table.commit(20, 22, {A: 2}, action="deltacommit", logs=True, extra=sink)
    table.clean(30, 31, "20260101000010000", ("x.parquet",))
    table.compaction(40, A)
    table.commit(50, 52, {B: 6}, action="replacecommit", replaced=(A,))
    table.commit(60, 62, {A: 6}, action="deltacommit")
    return root


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    made = [hand_made(folder / f"v{version}", version) for version in (6, 8, 9)]
    for name in NAMES:
        with tarfile.open(SAMPLES / f"{name}.tar.xz") as kept:
            kept.extractall(folder / name, **FILTER)
        made.append(folder / name)
    return made


class TooSlow(BaseException):
    """No handler catches it."""


@contextmanager
def limited() -> Iterator[None]:
    def stop(*_: object) -> NoReturn:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def shown(snapshot: TableSnapshot) -> list[str]:
    """All that the commands print of a snapshot; JSON and page are parsed."""
    texts = [str(snapshot), snapshot.to_json(), snapshot.to_html()]
    json.loads(texts[1], parse_constant=refuse)
    data = re.search(r'id="data">(.*?)</script>', texts[2], re.DOTALL)
    assert data is not None
    json.loads(data[1], parse_constant=refuse)
    assert texts[2].count("<script") == texts[2].count("</script>") == 2
    texts = [texts[0], texts[1].replace("\n", " "), texts[2], *snapshot.notes]
    texts += [check.line() for check in snapshot.health]
    for instant in snapshot.instants[-3:]:
        try:
            texts.append(json.dumps(snapshot.content(instant.time)))
        except InspectError as error:
            texts.append(str(error))
    return texts


def examine(root: Path, rng: random.Random) -> tuple[str, list[str]]:
    """Inspect a table; return what came of it, and the texts."""
    options: dict[str, Any] = {"archived": True} if rng.random() < 0.3 else {}
    with limited():
        try:
            snapshot = inspect(str(root), now=NOW, **options)
            texts = shown(snapshot)
        except InspectError as error:
            return "refused", [str(error)]
    return ("partly" if snapshot.problems else "whole"), texts


def check_texts(texts: list[str]) -> None:
    for text in texts:
        is_report = "\n" in text and "Health" in text  # else it is a line
        odd = {char for char in text if not char.isprintable()} - ({"\n"} if is_report else set())
        assert not odd, odd


def spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return the data with some bytes changed, lost, repeated or put in."""
    at = rng.randrange(len(data) + 1)
    part = data[at : at + rng.choice((1, 2, 8, 100))]
    kind = rng.randrange(7)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at + len(part) :]
    if kind == 2:
        return data[:at] + part * rng.choice((2, 50)) + data[at + len(part) :]
    if kind == 3:
        return data[:at] + bytes(len(part)) + data[at + len(part) :]
    if kind == 4:
        odd = (b"\xff" * 9 + b"\x01", b"\x80" * 50, b"{", b"\xc0", b"\x1b[31m")
        return data[:at] + rng.choice(odd) + data[at:]
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20)) if data else 0):
        changed[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(changed)


def spoil_json(data: bytes, rng: random.Random) -> bytes:
    """Return a JSON document in which a value, or its name, is another."""
    document = json.loads(data)
    places: list[tuple[Any, Any]] = []
    todo = [document]
    while todo:
        part = todo.pop()
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        places += [(part, key) for key in keys]
        todo += [part[key] for key in keys if isinstance(part[key], dict | list)]
    if not places:
        return b"[]"
    holder, key = rng.choice(places)
    if isinstance(holder, dict) and rng.random() < 0.3:
        holder[rng.choice(ODD_TEXTS)] = holder.pop(key)
    else:
        holder[key] = rng.choice(ODD_VALUES)
    return json.dumps(document).encode()


def is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def spoil_avro(data: bytes, rng: random.Random) -> bytes:
    """Return an Avro file with odd texts, or a schema unlike Hudi's."""
    text = rng.choice([text for text in ODD_TEXTS if "\ud800" not in text])
    if rng.random() < 0.5:
        stat = {
            "fileId": text,
            "path": text,
            **dict.fromkeys(COUNTS, rng.randrange(-(2**62), 2**62)),
        }
        record = {
            "partitionToWriteStats": {text: [stat]},
            "extraMetadata": {text: text, "hudilab.query_id": text, "hudilab.batch_id": text},
            "operationType": text,
            "partitionToReplaceFileIds": {text: [text]},
        }
        return avro(COMMIT, record)
    name = rng.choice(
        ("operationType", "partitionToWriteStats", "operations", "earliestCommitToRetain",
         "partitionMetadata", "extraMetadata", "partitionToReplaceFileIds")
    )  # fmt: skip
    kinds: tuple[tuple[Any, Any], ...] = (
        ("int", 5),
        ("string", text),
        ("bytes", b"\xff"),
        ("double", float("nan")),
        ("boolean", True),
        ({"type": "array", "items": "string"}, [text]),
        ({"type": "array", "items": "null"}, [None] * 9),
        ({"type": "map", "values": "int"}, {text: 1}),
        ({"type": "map", "values": {"type": "map", "values": "string"}}, {text: {text: text}}),
        ({"type": "map", "values": {"type": "array", "items": "int"}}, {text: [1]}),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "A"),
    )
    kind, value = rng.choice(kinds)
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}
    return avro(fastavro.parse_schema(schema), {name: value})


COUNTS = ("numWrites", "numUpdateWrites", "numDeletes", "numInserts", "totalWriteBytes")


def spoil_file(root: Path, rng: random.Random) -> tuple[str, Callable[[], object]]:
    """Change a file; return the kind of change, and what undoes it."""
    within = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    files = sorted(file for file in within if file.is_file() and not file.is_symlink())
    # Data files are rarely read.
    file = rng.choice([file for file in files if ".hoodie" in file.parts or rng.random() < 0.1])
    data = file.read_bytes()
    kind = rng.choice(("bytes", "bytes", "structure"))
    if kind == "bytes":
        changed = spoil_bytes(data, rng)
    elif is_json(data):
        kind, changed = "JSON", spoil_json(data, rng)
    elif data.startswith(b"Obj"):
        kind, changed = "Avro", spoil_avro(data, rng)
    else:
        kind = "properties"
        key = rng.choice(
            ("table.name", "table.type", "table.version", "table.partition.fields",
             "table.timeline.timezone", "table.metadata.partitions", "table.ordering.fields",
             "timeline.path", "timeline.layout.version", "timeline.history.path",
             "archivelog.folder")
        )  # fmt: skip
        name = f"hoodie.{key}"
        text = rng.choice(ODD_TEXTS).encode("utf-8", "surrogatepass")
        changed = data + name.encode() + b"=" + text.replace(b"\n", b"\\n") + b"\n"
    file.write_bytes(changed)
    os.utime(file, (NOW.timestamp(),) * 2)
    return kind, lambda: file.write_bytes(data)


def spoil_tree(root: Path, rng: random.Random) -> tuple[str, Callable[[], object]]:
    """Put a thing into the table that is no regular file, or has an odd name."""
    folders = sorted(folder for folder, _, _ in os.walk(root))  # which enters no link
    name = os.fsdecode(rng.choice(ODD_NAMES))
    if rng.random() < 0.3:  # the name of a data file
        name = name.replace("_", "") + "_0-1-1_20260101000010000.parquet"
    thing = Path(rng.choice(folders)) / name
    if os.path.lexists(thing):
        return "nothing", lambda: None
    kind = rng.choice(("file", "folder", "pipe", "socket", "link", "deep"))
    if kind == "file":
        thing.write_bytes(rng.choice((b"", b"x", b"{}", b"Obj\x01", bytes(99))))
        return kind, thing.unlink
    if kind in ("folder", "deep"):
        thing.joinpath(*["deep"] * (100 if kind == "deep" else 1)).mkdir(parents=True)
        return kind, lambda: shutil.rmtree(thing)
    if kind == "pipe":
        os.mkfifo(thing)
    elif kind == "link":
        thing.symlink_to(rng.choice(("/dev/zero", "/", "..", name, "/proc/self/fd", "../..")))
    else:
        with socket.socket(socket.AF_UNIX) as made:  # its path may have 107 bytes
            folder = os.open(thing.parent, os.O_RDONLY)
            made.bind(os.fsencode(f"/proc/self/fd/{folder}/{name}"))
            os.close(folder)
    return kind, thing.unlink


def spoil(root: Path, rng: random.Random) -> tuple[str, Callable[[], object]]:
    return (spoil_file if rng.random() < 0.75 else spoil_tree)(root, rng)


def fuzz(tables: list[Path], seeds: range) -> Counter[str]:
    """Spoil a table for each seed, and inspect it; return how often each thing came of it."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        root = rng.choice(tables)
        undo: list[Callable[[], object]] = []
        kinds = []
        try:
            for _ in range(rng.choice((1, 1, 1, 2))):
                kind, back = spoil(root, rng)
                kinds.append(kind)
                undo.append(back)
            outcome, texts = examine(root, rng)
            check_texts(texts)
        except BaseException as error:
            error.add_note(f"seed {seed}: {root.name}, {kinds}")
            raise
        finally:
            for back in reversed(undo):
                back()
        counts[outcome] += 1
        counts.update(kinds)
    return counts


def test_no_table_breaks_the_report(tables: list[Path], capfd: pytest.CaptureFixture[str]) -> None:
    counts = fuzz(tables, range(300))
    assert min(counts[outcome] for outcome in ("whole", "partly", "refused")) > 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.deep
@pytest.mark.parametrize("first", range(1000, 6_000, 2500))
def test_none_of_five_thousand_tables_breaks_the_report(
    tables: list[Path], capfd: pytest.CaptureFixture[str], first: int
) -> None:
    counts = fuzz(tables, range(first, first + 2500))
    assert capfd.readouterr() == ("", "")
    print(dict(counts))
