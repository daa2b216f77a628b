"""How a lesson ends: headless with everything it started, for a person with the session open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hudilab_lessons import lesson
from hudilab_lessons.lesson import Lab


@pytest.mark.parametrize("person", [False, True])
def test_a_session_stays_for_a_persons_exercises_and_ends_headless(
    person: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[Any] = []
    query = SimpleNamespace(stop=lambda: ended.append("query"))
    streams = SimpleNamespace(active=[query])
    spark: Any = SimpleNamespace(streams=streams, stop=lambda: ended.append("session"))
    settings: Any = SimpleNamespace()

    def stop_broker(given: object) -> int:
        ended.append(given)
        return 12

    monkeypatch.setattr(lesson, "has_person", lambda: person)
    Lab(spark, settings).close(stop_broker)
    printed = capsys.readouterr().out
    if person:
        assert ended == ["query"]
        assert printed.startswith("the session stays open for the exercises; ")
        assert "hudilab services stop NAME" in printed
    else:
        assert ended == ["query", "session", settings]
        assert printed == "broker stopped, process 12\n"
