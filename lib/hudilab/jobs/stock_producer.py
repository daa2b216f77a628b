"""Send seeded stock prices to a Kafka topic: `python -m hudilab.jobs.stock_producer --help`.

The environment's BOOTSTRAP_SERVERS and TOPIC_NAME override the settings file; its MAX_RUN limits
the rounds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from tqdm import tqdm

from hudilab.errors import ConfigError
from hudilab.jobs import one_line
from hudilab.lessons.prices import TICKERS, messages
from hudilab.runtime.kafka import Sender, Sent, access, check_topics, present
from hudilab.runtime.settings import load_settings
from hudilab.runtime.streams import stop_on_signal

__all__ = ["run"]


def _rounds(env: Mapping[str, str]) -> int | None:
    word = env.get("MAX_RUN", "").strip()
    if word and not (word.lstrip("-").isdecimal() and int(word) >= -1 and int(word) != 0):
        raise ConfigError(
            f"MAX_RUN={word!r} is not a number of rounds; set it to 1 or more, or to -1 to run "
            "until Ctrl-C"
        )
    return int(word) if word and int(word) > 0 else None


def run(
    *,
    seed: int,
    wait_seconds: float,
    env: Mapping[str, str],
    say: Callable[[str], object] = print,
) -> Sent:
    """Send rounds of one price per ticker until MAX_RUN or Ctrl-C, then report acknowledgements."""
    settings, rounds = load_settings(env=env), _rounds(env)
    consumer = present(settings.consumer)
    client = access(consumer, env)
    topic = env.get("TOPIC_NAME", "").strip() or consumer.topic_name
    check_topics(client, [topic])
    number = 0
    with (
        stop_on_signal() as stop,
        Sender(client, topic) as sender,
        tqdm(total=rounds, unit="round", desc=topic) as bar,
    ):
        while not stop and (rounds is None or number < rounds):
            first = number * len(TICKERS)
            for message in messages(first + len(TICKERS), seed=seed, first=first):
                sender.send(message)
            number += 1
            bar.update()
            ends = time.monotonic() + wait_seconds
            while not stop and number != rounds and time.monotonic() < ends:
                time.sleep(min(0.1, wait_seconds))
    sent = sender.sent
    say(
        f"hudilab: rounds={number} sent={sent.given} acknowledged={sent.acknowledged} topic={topic}"
    )
    return sent


def command(
    seed: Annotated[int, typer.Option(help="The same seed sends the same prices.")] = 42,
    wait_seconds: Annotated[float, typer.Option(help="Seconds between rounds.")] = 5.0,
) -> None:
    """Send rounds of one price for each of 17 tickers: MAX_RUN rounds, or until Ctrl-C."""
    with one_line():
        run(seed=seed, wait_seconds=wait_seconds, env=os.environ)


if __name__ == "__main__":
    typer.run(command)
