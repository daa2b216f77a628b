"""Send seeded stock prices to a Kafka topic: `python -m hudilab_jobs.stock_producer --help`.

The environment's BOOTSTRAP_SERVERS and TOPIC_NAME override the settings file; its MAX_RUN limits
the rounds.
"""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer
from tqdm import tqdm

from hudilab.errors import ConfigError
from hudilab_jobs import short_errors
from hudilab_jobs.generated_prices import TICKERS, price_messages
from hudilab_jobs.kafka.connection import access
from hudilab_jobs.kafka.sender import Sender
from hudilab_jobs.kafka.topics import check_topics
from hudilab_jobs.settings import load_settings, topics
from hudilab_spark.signals import stop_on_signal


@short_errors()
def command(
    seed: Annotated[int, typer.Option(help="The same seed sends the same prices.")] = 42,
    wait_seconds: Annotated[float, typer.Option(help="Seconds between rounds.")] = 5.0,
) -> None:
    """Send rounds of one price for each of 17 tickers: MAX_RUN rounds, or until Ctrl-C."""
    settings, rounds = load_settings(), _rounds()
    consumer = topics(settings)[0]
    client = access(consumer, settings.home)
    topic = os.environ.get("TOPIC_NAME", "").strip() or consumer.topic_name
    check_topics(client, [topic])
    number = 0
    with (
        stop_on_signal() as signals,
        Sender(client, topic) as sender,
        tqdm(total=rounds, unit="round", desc=topic) as bar,
    ):
        while not signals and (rounds is None or number < rounds):
            first = number * len(TICKERS)
            for message in price_messages(first + len(TICKERS), seed=seed, first=first):
                sender.send(message)
            number += 1
            bar.update()
            ends = time.monotonic() + wait_seconds
            while not signals and number != rounds and time.monotonic() < ends:
                time.sleep(min(0.1, wait_seconds))
    sent = sender.sent
    print(
        f"hudilab: rounds={number} sent={sent.given} acknowledged={sent.acknowledged} topic={topic}"
    )


def _rounds() -> int | None:
    """Return MAX_RUN, or None for an endless run."""
    word = os.environ.get("MAX_RUN", "").strip()
    if word and not (word.lstrip("-").isdecimal() and int(word) >= -1 and int(word) != 0):
        raise ConfigError(
            f"MAX_RUN={word!r} is not a number of rounds",
            "set it to 1 or more, or to -1 to run until Ctrl-C",
        )
    return int(word) if word and int(word) > 0 else None


if __name__ == "__main__":
    typer.run(command)
