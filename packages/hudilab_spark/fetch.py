"""Fetch missing or altered jars, and verify their sha256 before they get into `jars/`."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import pooch
from requests import HTTPError, RequestException
from tqdm import tqdm

from hudilab.errors import JarError
from hudilab_spark.jars import Jar, problem, verify, wanted
from hudilab_spark.java import spark_home

_URL = "HUDILAB_JARS_URL"
_SECONDS = (15, 60)  # timeouts of the connection and of a read
_RETRIES = 2  # after 1 and 2 s
# This class has the default repository of Spark's own resolver, Ivy.
_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_CENTRAL = re.compile(rb"https://[\w./-]+/maven2/")


def fetch(
    jars_dir: Path, groups: Sequence[str], *, say: Callable[[str], object] = print
) -> list[Path]:
    """Fetch missing or altered jars into `jars/<group>/`; open no connection if all are intact.

    Raises:
        JarError: a jar cannot be fetched, or has another sha256 than in the lock.
    """
    all_jars = wanted(jars_dir, groups)
    for group in dict.fromkeys(jar.group for jar in all_jars):
        jars = [jar for jar in all_jars if jar.group == group and problem(jars_dir, jar)]
        if jars:
            _fetch_group(jars_dir / group, jars, repository(), say)
    return verify(jars_dir, groups)


def repository() -> str:
    """Return the base URL of a Maven repository: HUDILAB_JARS_URL, else Spark's own default.

    Raises:
        JarError: HUDILAB_JARS_URL is not such a URL, or pyspark is not installed.
    """
    url = os.environ.get(_URL, "").strip()
    if not url:
        with ZipFile(next(spark_home().glob("jars/ivy-*.jar"))) as ivy:
            url = _CENTRAL.findall(ivy.read(_RESOLVER))[0].decode()
    elif not re.fullmatch(r"(https?://[^\s/?#]+|file:///)[^\s?#]*", url):
        raise JarError(
            f"{_URL}={url!r} is not the base URL of a Maven repository",
            "set it to http(s)://HOST/PATH or file:///PATH, or unset it",
        )
    return url.rstrip("/")


def _fetch_group(folder: Path, jars: list[Jar], base: str, say: Callable[[str], object]) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(8) as threads:  # the first failure cancels the waiting downloads
        paths = list(threads.map(lambda jar: _fetch_jar(folder, jar, base), jars))
    sizes = [path.stat().st_size / 1e6 for path in paths]
    for path, size in zip(paths, sizes, strict=True):
        say(f"{folder.name}: {path.name}, {size:.1f} MB")
    seconds = time.monotonic() - started
    say(f"{folder.name}: {len(jars)} fetched and verified, {sum(sizes):.1f} MB in {seconds:.1f} s")


def _fetch_jar(folder: Path, jar: Jar, base: str) -> Path:
    organisation, name, version, *_ = jar.coordinate.split(":")
    url = "/".join((base, organisation.replace(".", "/"), name, version, jar.file))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pooch.get_logger().setLevel("ERROR")  # it would report every download
        registry, urls = {jar.file: f"sha256:{jar.sha256}"}, {jar.file: url}
        store = pooch.create(folder, base, registry=registry, urls=urls, retry_if_failed=_RETRIES)
        return Path(store.fetch(jar.file, downloader=_download))
    except ValueError as error:
        got = re.search(r"but got (\w+)", str(error))
        if got is None:
            raise
        raise JarError(
            f"rejected {jar.coordinate} of group {jar.group}: sha256 is {got[1]}, jars.lock "
            f"expects {jar.sha256}",
            "the server sent a different file: check the mirror or the proxy",
        ) from error
    except (LookupError, RequestException) as error:
        host = urlsplit(base).hostname or base  # without the user and password of a mirror
        raise JarError(
            f"cannot fetch {jar.coordinate} of group {jar.group} from {host}: {_cause(error)}",
            f"check network, proxy and {_URL}, or copy {jar.file} into {folder} by hand, then run: "
            f"hudilab jars {jar.group}",
        ) from error
    except OSError as error:
        inner = error.__cause__ if isinstance(error.__cause__, OSError) else error
        raise JarError(
            f"cannot fetch group {jar.group}: {inner.strerror} ({inner.filename})",
            "check that path and its permissions",
        ) from error


def _download(url: str, output: str, store: pooch.Pooch) -> None:
    """Download to pooch's temporary file, which becomes the jar after a check of its hash."""
    Path(output).chmod(0o644)  # not private, because Spark's workers may run as another user
    if url.startswith("file:"):
        source = Path(unquote(urlsplit(url).path))
        if not source.is_file():
            raise LookupError("not in the repository")
        shutil.copyfile(source, output)
        return
    trusted = os.environ.get("REQUESTS_CA_BUNDLE") or ssl.get_default_verify_paths().cafile or True
    name = url.rpartition("/")[2]
    # pooch sets the total, but fails if the bar has none at first.
    with tqdm(desc=name, total=1, unit="B", unit_scale=True, leave=False, disable=None) as bar:
        get = pooch.HTTPDownloader(bar, chunk_size=2**18, timeout=_SECONDS, verify=trusted)
        try:
            get(url, output, store)
        except HTTPError as error:
            if error.response.status_code in (404, 410):  # no reason to try again
                raise LookupError("not in the repository") from error
            raise


def _cause(error: BaseException) -> str:
    """Return the innermost cause, which the outer errors repeat."""
    if isinstance(error, HTTPError):
        return f"HTTP {error.response.status_code} {error.response.reason}"
    if isinstance(error, LookupError):
        return str(error)
    while inner := error.__cause__ or error.__context__:
        error = inner
    return " ".join(str(getattr(error, "strerror", None) or error).split())
