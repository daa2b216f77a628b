"""Seeded stock prices as rows and messages, each a pure function of seed and number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hudilab.generate import START_MS

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

PRICE_STEP_MS = 1000
TICKERS = (
    *("AAPL", "ACN", "ADBE", "AMD", "AVGO", "CRM", "CSCO", "IBM", "INTC"),
    *("MA", "MSFT", "NVDA", "ORCL", "PYPL", "QCOM", "TXN", "V"),
)


class Message(NamedTuple):
    """A Kafka message: JSON as bytes; key or value may be missing."""

    key: bytes | None
    value: bytes | None


def stock_prices(
    last: int, *, seed: int, first: int = 0, tickers: int = len(TICKERS)
) -> pd.DataFrame:
    """Return prices number `first` to `last` - 1.

    A round has one price per ticker and takes one second of event time. Each ticker's price is at a
    different millisecond.

    Returns:
        Columns: event_time (UTC, ms), ticker, cents.
    """
    import numpy as np  # here, because jobs are deployed without numpy and pandas
    import pandas as pd

    number = np.arange(first, last, dtype=np.int64)
    ticker, turn = number % tickers, number // tickers
    level = 5_000 + _draw(seed, ticker, 1, 45_000)
    # A triangle wave: up for some minutes and down again, within a tenth of the level.
    period = 600 + _draw(seed, ticker, 2, 600)
    phase = (turn + _draw(seed, ticker, 3, 1200)) % period
    swing = np.abs(2 * phase - period) * 2 - period  # -period..period
    cents = level + level * swing // (10 * period) + _draw(seed, number, 4, 201) - 100
    moment = START_MS + turn * PRICE_STEP_MS + _draw(seed, number, 5, PRICE_STEP_MS)
    names = np.array(TICKERS)[ticker]
    return pd.DataFrame(
        {"event_time": pd.to_datetime(moment, unit="ms"), "ticker": names, "cents": cents}
    )


def price_messages(
    last: int, *, seed: int, first: int = 0, tickers: int = len(TICKERS)
) -> Iterator[Message]:
    """Yield the same prices as messages: key `{"ticker":...}`, value event_time, ticker, price."""
    import numpy as np

    frame = stock_prices(last, seed=seed, first=first, tickers=tickers)
    times = np.datetime_as_string(frame["event_time"].to_numpy(), unit="ms")
    cents = frame["cents"].tolist()
    for time, ticker, price in zip(times, frame["ticker"].tolist(), cents, strict=True):
        amount = f"{price // 100}.{price % 100:02d}"
        value = f'{{"event_time":"{time}","ticker":"{ticker}","price":{amount}}}'
        yield Message(f'{{"ticker":"{ticker}"}}'.encode(), value.encode())


def _draw(seed: int, number: np.ndarray, salt: int, size: int) -> np.ndarray:
    """Return numbers 0..size-1, independent for each salt (splitmix64; 64-bit arithmetic wraps)."""
    import numpy as np

    with np.errstate(over="ignore"):
        step = np.uint64(0x9E3779B97F4A7C15)
        mixed = number.astype(np.uint64) * step + np.uint64(seed % 2**64)
        for salted in (np.uint64(salt), np.uint64(0)):
            mixed = (mixed + salted) * step
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(size)).astype(np.int64)
