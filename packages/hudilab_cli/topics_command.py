"""Show a broker's topics and the offsets of the lab's streams; see `hudilab topics --help`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_inspect.errors import InspectError
from hudi_inspect.units import plain
from hudilab.errors import KafkaError

if TYPE_CHECKING:
    import pandas as pd
    from confluent_kafka import Message

    from hudi_inspect.store import Store
    from hudilab.settings import Settings
    from hudilab_jobs.kafka.connection import Access

Offsets = Mapping[str, Mapping[str, int]]  # topic: partition: next offset to read
SHOWN = 500  # characters of a key or value, unless the output is JSON


def command(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Show only these topics.")
    ] = None,
    tail: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show the last N messages of one topic.")
    ] = 0,
    servers: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Kafka servers; overrides bootstrap.servers.")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="Include Kafka's own topics.")] = False,
    run_id: Annotated[
        str, typer.Option(help="Show the lag of the streams in run-RUN_ID of the warehouse.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show topics, partitions, offsets, the lag of the lab's streams, and the last messages."""
    # Imported here, because it loads slowly and the help doesn't need it.
    from hudilab_jobs.kafka.topics import check_topics, last_messages, topic_rows
    from hudilab_jobs.settings import load_settings

    names = topics or []
    if tail and len(names) != 1:
        raise KafkaError(
            f"--tail shows the messages of one topic, but {len(names)} are given",
            f"choose one: hudilab topics --tail {tail} TOPIC",
        )
    settings = load_settings()
    client = client_of(settings, servers)
    client.client_options()  # raises for IAM, which the Python client cannot use
    if tail:
        messages = [_as_dict(message) for message in last_messages(client, names[0], tail)]
        if as_json:
            print(json.dumps({"servers": client.servers, "topic": names[0], "messages": messages}))
        else:
            print("\n".join(map(line_of, messages)) or f"topic {names[0]} has no messages")
        return
    available = check_topics(client, names, internal=every or bool(names))
    rows = topic_rows(client, names or sorted(available))
    rows["messages"] = rows["end"] - rows["first"] if len(rows) else []
    if (data := _own_data(settings, client)) is not None:
        pairs = zip(rows["topic"], rows["partition"], strict=True)
        rows["bytes"] = [_size(data / f"{topic}-{number}") for topic, number in pairs]
    try:
        streams = lags(rows, dict(_read(settings, run_id)))
    except InspectError as error:
        streams = []
        print(f"hudilab: the lag of the streams is not shown: {error.problem}", file=sys.stderr)
    if as_json:
        report = {"servers": client.servers, "topics": rows.to_dict("records"), "streams": streams}
        print(json.dumps(report))
        return
    hidden = "" if every or names else "; --all includes Kafka's own"
    print(rows.to_string(index=False) if len(rows) else f"no topics at {client.servers}{hidden}")
    if streams:
        print(f"\n{_table(streams)}")


def client_of(settings: Settings, named: str = "") -> Access:
    """Return the access to the settings' servers, or to `named` servers, with a job's login.

    The login is that of the group with these servers, else of the first group.

    Raises:
        KafkaError: The servers are not host:port, or the login is missing or wrong.
    """
    from pydantic_core import PydanticCustomError

    from hudilab_jobs.groups import Client
    from hudilab_jobs.kafka.connection import access
    from hudilab_spark.hive_group import servers

    clients = [group for group in settings.groups.values() if isinstance(group, Client)]
    if not named:
        return access(clients[0] if clients else None, settings.home)
    try:
        servers(named)
    except PydanticCustomError as error:
        raise KafkaError(
            f"--servers {named!r} {error.message()}",
            "write it as: hudilab topics --servers localhost:9092",
        ) from None
    same = [client for client in clients if client.bootstrap_servers == named]
    plain = Client.model_validate({"topic.name": "any", "bootstrap.servers": named})
    client = [*same, *clients, plain][0].model_copy(update={"bootstrap_servers": named})
    return access(client, settings.home)


def _read(settings: Settings, run_id: str) -> Iterator[tuple[str, Offsets]]:
    """Yield each stream of the warehouse, or of a run, with its committed offsets."""
    from hudi_inspect.store import S3Access, open_store
    from hudilab.paths import local_path
    from hudilab_spark.s3 import endpoint

    folder = settings.locate(run_id=run_id).checkpoint.rsplit("/", 2)[0]
    local = local_path(folder)
    if local is None:
        yield from read_offsets(open_store(folder, S3Access(endpoint(), settings.aws_region)))
    elif local.is_dir():
        yield from read_offsets(open_store(str(local)))


def read_offsets(store: Store) -> Iterator[tuple[str, Offsets]]:
    """Yield `database/checkpoint` of each stream that reads topics, with its committed offsets.

    For a stream without a committed batch, the offsets of its planned topics are empty.
    """
    numbers: dict[str, dict[str, set[int]]] = {}
    for entry in store.files():
        stream, _, rest = entry.path.rpartition("/")
        stream, _, kind = stream.rpartition("/")
        if stream.count("/") == 1 and kind in ("commits", "offsets") and rest.isdecimal():
            numbers.setdefault(stream, {}).setdefault(kind, set()).add(int(rest))
    for stream, batches in sorted(numbers.items()):
        planned = batches.get("offsets", set())
        done = planned & batches.get("commits", set())
        if not planned:
            continue
        text = store.read(f"{stream}/offsets/{max(done or planned)}").decode("utf-8", "replace")
        offsets = _topics_in(text)
        if offsets:
            yield stream, offsets if done else {topic: {} for topic in offsets}


def _topics_in(text: str) -> dict[str, Mapping[str, int]]:
    """Return the topics' offsets in a file of Spark's offset log, which has a line per source."""
    offsets: dict[str, Mapping[str, int]] = {}
    for line in text.splitlines()[2:]:
        try:
            source = json.loads(line)
        except ValueError:
            continue
        if isinstance(source, dict):
            offsets |= {topic: parts for topic, parts in source.items() if isinstance(parts, dict)}
    return offsets


def lags(rows: pd.DataFrame, streams: Mapping[str, Offsets]) -> list[dict[str, Any]]:
    """Return a row for each partition that a stream reads: stream, topic, partition, read, lag.

    The lag is None if the stream's offset is past the topic's end, so it read another topic with
    this name.
    """
    lags = []
    for stream, topics in streams.items():
        for row in rows.to_dict("records"):
            if (parts := topics.get(row["topic"])) is None:
                continue
            read = parts.get(str(row["partition"]), row["first"])
            lag = row["end"] - read
            where = {"topic": row["topic"], "partition": row["partition"]}
            lags.append({"stream": stream, **where, "read": read, "lag": lag if lag >= 0 else None})
    return lags


def _table(streams: Sequence[Mapping[str, Any]]) -> str:
    import pandas as pd

    table = pd.DataFrame(streams)
    # pandas would convert integers with a gap to floats.
    table["lag"] = ["another topic" if row["lag"] is None else row["lag"] for row in streams]
    return table.to_string(index=False)


def _own_data(settings: Settings, client: Access) -> Path | None:
    """Return the folder with the topics, if the servers are this home's own broker."""
    from hudilab_cli.servers.kafka import find_broker

    broker = find_broker(settings)
    if broker is None or broker.address != client.servers.replace("localhost:", "127.0.0.1:"):
        return None
    return broker.folder / "data"


def _size(partition: Path) -> int:
    """Return the bytes of a partition's messages without the indexes, as Kafka counts them."""
    size = 0
    for file in partition.glob("*.log"):
        with suppress(FileNotFoundError):  # Kafka has just deleted it
            size += file.stat().st_size
    return size


def _as_dict(message: Message) -> dict[str, Any]:
    """Return a message with text or None as key and value; bytes outside UTF-8 are escaped."""
    _, milliseconds = message.timestamp()
    time = datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds >= 0 else None
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": time and time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "key": _text(message.key()),
        "value": _text(message.value()),
        "headers": [[name, _text(value)] for name, value in message.headers() or ()],
    }


def _text(data: bytes | str | None) -> str | None:
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data


def line_of(message: Mapping[str, Any]) -> str:
    """Return a message as a printable line: position, time, key, value and headers."""
    words = [
        f"{message['partition']}:{message['offset']}",
        message["timestamp"] or "no time",
        escaped(message["key"]),
        escaped(message["value"]),
        *(f"{escaped(name)}={escaped(value)}" for name, value in message["headers"]),
    ]
    return "  ".join(words)


def escaped(text: str | None) -> str:
    """Return a text or null on one line, without control characters; truncate a long text."""
    if text is None:
        return "null"
    shown = plain(text[:SHOWN])
    return shown if len(text) <= SHOWN else f"{shown}... ({len(text):,} characters)"
