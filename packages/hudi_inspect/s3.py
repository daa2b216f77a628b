"""Read a table's files on S3 with botocore, the client of boto3; never write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hudi_inspect.errors import InspectError
from hudi_inspect.names import Entry
from hudi_inspect.store import PROPERTIES, SEARCH_LEVELS, SKIPPED, S3Access, Vanished, check_size

A = TypeVar("A")
T = TypeVar("T")
THREADS = 16
CHAIN = "AWS_PROFILE and AWS_SHARED_CREDENTIALS_FILE, or AWS_ACCESS_KEY_ID and its secret"
_REJECTED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId")


class S3Store:
    """A table in a bucket."""

    def __init__(self, uri: str, access: S3Access) -> None:
        self.uri, self._root = uri.rstrip("/"), uri.partition("://")[2].strip("/")
        self.skipped: list[str] = []  # an object is always a file
        if not self._root:
            raise InspectError(f"{uri} has no bucket name", "write it as s3://BUCKET/PATH/TO/TABLE")
        self._bucket, _, path = self._root.partition("/")
        self._prefix = f"{path}/" if path else ""
        self._connect(access)

    def _connect(self, access: S3Access) -> None:
        try:
            # boto3 loads more slowly.
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError, ClientError
            from botocore.session import Session
        except ImportError:
            raise InspectError(
                f"cannot read {self.uri}: Python's client for S3 is missing",
                "install it: pip install boto3",
            ) from None
        self._errors: tuple[type[Exception], ...] = (BotoCoreError, ClientError)
        self._refused = ClientError
        config = Config(
            connect_timeout=5,
            read_timeout=20,
            retries={"total_max_attempts": 2, "mode": "standard"},
            max_pool_connections=THREADS,
            response_checksum_validation="when_required",  # other S3 servers lack newer checksums
        )
        try:
            self._session = Session()
            region = access.region or os.environ.get("AWS_REGION")
            region = region or self._session.get_config_variable("region")
            self._client: Any = self._session.create_client(
                "s3",
                region_name=region or "us-east-1",
                endpoint_url=access.endpoint or None,
                config=config,
            )
            self._region = str(self._client.meta.region_name)
        except ValueError:
            raise InspectError(
                "AWS_ENDPOINT_URL_S3 is not http(s)://host[:port]",
                "fix it, or unset it to use Amazon S3",
            ) from None
        except self._errors as error:
            raise self._failed(error) from None

    def files(self) -> list[Entry]:
        """Return all files of the table; the timeline is listed before the data."""
        cut = len(self._prefix)
        entries = []
        for page in self._pages(Prefix=self._prefix):
            for item in page.get("Contents", ()):
                path = item["Key"][cut:]
                # A key with a trailing slash marks a folder.
                if not path.endswith("/") and not path.startswith(SKIPPED):
                    entries.append(Entry(path, item["Size"], item["LastModified"].timestamp()))
        return entries

    def _pages(self, **options: Any) -> list[dict[str, Any]]:
        """Return the pages of a listing, 1,000 keys each."""
        try:
            paginator = self._client.get_paginator("list_objects_v2")
            pages = list(paginator.paginate(Bucket=self._bucket, **options))
        except self._errors as error:
            raise self._failed(error) from None
        headers = pages[-1]["ResponseMetadata"]["HTTPHeaders"]
        self._region = headers.get("x-amz-bucket-region", self._region)
        return pages

    def read(self, path: str, last: int | None = None, most: int | None = None) -> bytes:
        """Return a file's content; with `last`, at most that many bytes from its end."""
        part = {} if last is None else {"Range": f"bytes=-{last}"}
        try:
            key = f"{self._prefix}{path}"
            answer = self._client.get_object(Bucket=self._bucket, Key=key, **part)
            check_size(answer.get("ContentLength", 0), most)
            return bytes(answer["Body"].read(most))
        except self._errors as error:
            code = self._code(error)
            if code in ("NoSuchKey", "404"):
                raise Vanished(path) from None
            if code == "InvalidRange":  # an empty file has no last bytes
                return b""
            raise self._failed(error) from None

    def each(self, read: Callable[[A], T], items: Iterable[A]) -> list[T]:
        """Call `read` for each item, in parallel; return the results in the same order."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(read, items))

    def has(self, folder: str) -> bool:
        """Return whether a folder exists."""
        return self._is_there(f"{self._prefix}{folder}/")

    def _is_there(self, prefix: str) -> bool:
        try:
            listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=1)
        except self._errors as error:
            raise self._failed(error) from None
        return bool(listed.get("Contents"))

    def tables_below(self, depth: int = SEARCH_LEVELS) -> list[str]:
        """Return the tables in subfolders."""
        tables, level = [], [self._prefix]
        for _ in range(depth):
            pages = self.each(lambda path: self._pages(Prefix=path, Delimiter="/"), level)
            folders = [
                str(item["Prefix"])
                for listed in pages
                for page in listed
                for item in page.get("CommonPrefixes", ())
            ]
            level = [path for path in folders if not path.endswith(".hoodie/")]
            marks = self.each(lambda path: self._is_there(f"{path}{PROPERTIES}"), level)
            tables += [path for path, mark in zip(level, marks, strict=True) if mark]
        start = f"{self.uri.partition('://')[0]}://{self._bucket}/"
        return sorted(start + path.rstrip("/") for path in tables)

    def storage_options(self) -> dict[str, str]:
        """Return the options of hudi-rs for the table, which include the secret key."""
        keys = self._session.get_credentials()
        endpoint = str(self._client.meta.endpoint_url)
        options = {
            "aws_region": self._region,
            "aws_endpoint_url": "" if endpoint.endswith(".amazonaws.com") else endpoint,
            "aws_allow_http": "true" if endpoint.startswith("http://") else "",
        }
        if keys is not None:
            frozen = keys.get_frozen_credentials()
            options |= {
                "aws_access_key_id": frozen.access_key,
                "aws_secret_access_key": frozen.secret_key,
                "aws_session_token": frozen.token or "",
            }
        return {name: value for name, value in options.items() if value}

    def _code(self, error: Exception) -> str:
        """Return S3's code of an error; empty without an answer."""
        if not isinstance(error, self._refused):
            return ""
        answer: Any = error.response
        return str(answer.get("Error", {}).get("Code") or "")

    def _failed(self, error: Exception) -> InspectError:
        """Return an error without the client's message, which may contain keys."""
        code, kind = self._code(error), type(error).__name__
        if code in ("NoSuchBucket", "404"):
            cause, remedy = "it does not exist", "fix the URI"
        elif code in ("AccessDenied", "403") or "Credential" in kind or kind == "ProfileNotFound":
            cause, remedy = "access denied", f"grant s3:ListBucket and s3:GetObject, or fix {CHAIN}"
        elif code in _REJECTED:
            cause = f"the server rejected the access key or its secret ({code})"
            remedy = f"fix {CHAIN}"
        elif "Connect" in kind or "Timeout" in kind:
            cause = "the server does not answer"
            remedy = (
                "start it (on this machine: hudilab services start s3), or fix AWS_ENDPOINT_URL_S3"
            )
        else:
            cause = f"the request failed ({code or 'no error code'})"
            remedy = f"check AWS_ENDPOINT_URL_S3 and {CHAIN}"
        return InspectError(
            f"cannot read bucket {self._bucket!r}: {cause}",
            f"{remedy}, then try again: hudi-inspect TABLE",
        )
