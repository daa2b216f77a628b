"""Read Avro schemas from a schema registry by the ids in messages."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from hudilab.errors import KafkaError

LOGIN = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"  # the name in Confluent's own tools
TIMEOUT = 10.0  # seconds
UNKNOWN = 40403  # the registry's code for an unknown id


def read_schema(url: str, number: int, env: Mapping[str, str] | None = None) -> str | None:
    """Return the Avro schema with this id, as JSON; None if the registry has no such id.

    The login is `user:password` in the environment.

    Raises:
        KafkaError: the registry does not answer or refuses the login, or the schema is not Avro or
            refers to others; the message contains no password.
    """
    place = f"{url.rstrip('/')}/schemas/ids/{number}"
    request = Request(place, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
    if login := (os.environ if env is None else env).get(LOGIN):
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    try:
        with urlopen(request, timeout=TIMEOUT) as response:
            answer = json.loads(response.read())
        schema = str(answer["schema"])
    except HTTPError as error:
        if error.code == 404 and _code(error) == UNKNOWN:
            return None
        raise _failure(place, f"{error.code} {error.reason}") from None
    except URLError as error:
        raise _failure(place, str(error.reason)) from None
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        raise _failure(place, f"no answer of a schema registry: {error}") from None
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO" or answer.get("references"):
        what = f"of type {kind}" if kind != "AVRO" else "one that refers to other schemas"
        raise KafkaError(
            f"the schema of {place} is {what}, which the lab cannot read",
            "write the topic with a single Avro schema that contains all its types",
        )
    return schema


def _code(error: HTTPError) -> Any:
    try:
        return json.loads(error.read()).get("error_code")
    except (ValueError, AttributeError):
        return None


def _failure(place: str, why: str) -> KafkaError:
    return KafkaError(
        f"cannot read {place} ({why})",
        f"check schema.registry.url, and the login user:password in {LOGIN}, then start again",
    )
