"""The generator of prices: pure, with unique keys, and exact in JSON."""

from __future__ import annotations

import json
from decimal import Decimal

import pandas as pd

from hudilab import generate
from hudilab_jobs.generated_prices import TICKERS, price_messages, stock_prices


def test_a_price_depends_on_seed_and_number_only() -> None:
    whole = stock_prices(1000, seed=42)
    part = stock_prices(1000, seed=42, first=900)
    pd.testing.assert_frame_equal(whole[900:].reset_index(drop=True), part)
    assert not whole["cents"].equals(stock_prices(1000, seed=43)["cents"])


def test_the_first_prices_of_seed_42_stay_what_they_are() -> None:
    values = [(message.value or b"").decode() for message in price_messages(3, seed=42)]
    assert values == PINNED


def test_as_many_tickers_as_a_notebook_may_ask_for() -> None:
    assert len(TICKERS) == generate.TICKERS


def test_each_ticker_has_one_price_a_second_of_its_own() -> None:
    frame = stock_prices(17 * 600, seed=1)
    assert set(frame["ticker"]) == set(TICKERS)
    assert not frame.duplicated(["ticker", "event_time"]).any()
    seconds = frame["event_time"].dt.floor("s").groupby(frame["ticker"]).nunique()
    assert set(seconds) == {600}
    assert frame["cents"].between(3_000, 60_000).all()


def test_fewer_tickers() -> None:
    assert set(stock_prices(100, seed=1, tickers=3)["ticker"]) == {"AAPL", "ACN", "ADBE"}


def test_a_message_says_the_price_to_the_cent() -> None:
    frame = stock_prices(2000, seed=7)
    for row, message in zip(frame.itertuples(), price_messages(2000, seed=7), strict=True):
        assert message.key is not None
        assert message.value is not None
        value = json.loads(message.value, parse_float=Decimal, parse_int=Decimal)
        assert json.loads(message.key) == {"ticker": value["ticker"]}
        assert int(value["price"] * 100) == row.cents
        assert pd.Timestamp(value["event_time"]) == row.event_time


PINNED = [
    '{"event_time":"2026-01-01T00:00:00.819","ticker":"AAPL","price":59.14}',
    '{"event_time":"2026-01-01T00:00:00.368","ticker":"ACN","price":176.21}',
    '{"event_time":"2026-01-01T00:00:00.460","ticker":"ADBE","price":147.57}',
]
