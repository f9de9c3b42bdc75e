"""Files of object stores (S3, Google's, Azure's) and of HDFS, by pyarrow.fs.

A path is `scheme://bucket/key`; settings of the store may follow, as in a URI:
`?endpoint_override=http://host:9000&region=x`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import RawIOBase
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import pyarrow as pa
from pyarrow import fs

from kshark.capture.paths import parted
from kshark.errors import Error, UnreadableInput, Unwritable, Vanished

#: A store answers slowly and then delivers fast: each read in sequence gets twice as many bytes, from the first to the
#: second number.
AHEAD: Final = (1 << 16, 4 << 20)

#: Settings of S3 that a path may have.
_S3: Final = ("endpoint_override", "region", "scheme", "anonymous")
#: How long to wait for a store that does not answer: for S3 seconds for a connection and attempts, for Google seconds
#: in all.
_CONNECT_S: Final = 3
_ATTEMPTS: Final = 3
_GOOGLE_S: Final = 10

#: Texts in a store's message, and their meaning; the messages are long and often about our libraries.
_MEANINGS: Final = (
    ("NO_SUCH_BUCKET", "there is no such bucket"),
    (
        "ACCESS_DENIED",
        "the store does not allow it; are the credentials for this bucket set (AWS_ACCESS_KEY_ID, AWS_PROFILE)?",
    ),
    ("INVALID_ACCESS_KEY_ID", "the store does not know these credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE)"),
    ("SIGNATURE_DOES_NOT_MATCH", "the store does not accept these credentials (AWS_SECRET_ACCESS_KEY)"),
    ("NETWORK_CONNECTION", "the store does not answer; is its address right (AWS_ENDPOINT_URL, region)?"),
    (
        "Could not create a OAuth2 access token",
        "Google gives no credentials; set GOOGLE_APPLICATION_CREDENTIALS, or write gs://anonymous@BUCKET",
    ),
    ("CURL error", "the store does not answer; is its address right?"),
    (
        "AuthenticationException",
        "Azure gives no credentials; set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
    ),
    ("libjvm", "HDFS needs Java and Hadoop's libhdfs here; set JAVA_HOME, HADOOP_HOME and CLASSPATH"),
    ("libhdfs", "HDFS needs Java and Hadoop's libhdfs here; set JAVA_HOME, HADOOP_HOME and CLASSPATH"),
)


class _Location(NamedTuple):
    """A file or folder: its store, its path there, and the parts of its name before and after paths of the store."""

    store: fs.FileSystem
    path: str
    root: str
    before: str
    after: str

    def name_of(self, path: str) -> str:
        """Return the name of another file of the store."""
        return f"{self.before}/{path.removeprefix(self.root).lstrip('/')}{self.after}"


class RemoteFile(RawIOBase):
    """A file of a store, read ahead in blocks."""

    def __init__(self, name: str, file: pa.NativeFile) -> None:
        self._name, self._file = name, file
        self._block, self._begin, self._at = b"", 0, 0
        self._ahead = AHEAD[0]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size()}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer unless the file ends."""
        wanted = memoryview(buffer).cast("B")
        skipped = self._at - self._begin
        if not 0 <= skipped <= len(self._block) - len(wanted):
            self._load(len(wanted))
            skipped = 0
        piece = self._block[skipped : skipped + len(wanted)]
        wanted[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _load(self, size: int) -> None:
        """Load a block that begins at the position and has at least `size` bytes, unless the file ends."""
        skipped = self._at - self._begin
        kept = self._block[skipped:] if 0 <= skipped <= len(self._block) else b""
        at = self._at + len(kept)
        size_to_read = max(0, min(max(size - len(kept), self._ahead), self._file.size() - at))
        try:
            with plain_errors(self._name):
                data = self._file.read_at(size_to_read, at) if size_to_read else b""
        except UnreadableInput as error:
            raise OSError(None, str(error).removeprefix(f"{self._name}: ")) from None
        self._block, self._begin = kept + data, self._at
        self._ahead = min(2 * self._ahead, AHEAD[1])


def open_file(name: str) -> RemoteFile:
    """Open a file of a store. Raises UnreadableInput, as all functions here do."""
    with plain_errors(name):
        place = _place(name)
        try:
            return RemoteFile(name, place.store.open_input_file(place.path))
        except FileNotFoundError:
            raise _absent(name, place) from None


def size_of(name: str) -> int:
    with plain_errors(name):
        place = _place(name)
        info = place.store.get_file_info(place.path)
        if info.type != fs.FileType.File:
            raise _absent(name, place)
        return int(info.size)


def is_folder(name: str) -> bool:
    with plain_errors(name):
        place = _place(name)
        return bool(place.store.get_file_info(place.path).type == fs.FileType.Directory)


def below(name: str) -> list[str]:
    """Return all files in a folder and its subfolders, in order of name; none if it does not exist."""
    with plain_errors(name):
        place = _place(name)
        infos = place.store.get_file_info(fs.FileSelector(place.path, allow_not_found=True, recursive=True))
        paths = sorted(PurePosixPath(info.path) for info in infos if info.type == fs.FileType.File)
        return [place.name_of(str(path)) for path in paths]


def open_columns(name: str) -> pa.NativeFile:
    """Open a file of which Arrow reads parts, such as a table's columns."""
    with plain_errors(name):
        place = _place(name)
        return place.store.open_input_file(place.path)


def read(name: str) -> bytes | None:
    """Return a small file; None if there is none."""
    with plain_errors(name):
        place = _place(name)
        try:
            with place.store.open_input_stream(place.path, compression=None) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None


def create(name: str) -> pa.NativeFile:
    """Open a new file for writing: it exists as a whole once it is closed. Raises Unwritable, as all that follow do."""
    with plain_errors(name, Unwritable):
        place = _place(name)
        if place.store.type_name == "hdfs":
            place.store.create_dir(place.path.rpartition("/")[0], recursive=True)
        return place.store.open_output_stream(place.path, compression=None)


def write(name: str, data: bytes) -> None:
    """Replace a small file."""
    with plain_errors(name, Unwritable), create(name) as stream:
        stream.write(data)


def remove(name: str) -> None:
    """Remove a file, if it exists."""
    with plain_errors(name, Unwritable), suppress(FileNotFoundError):
        place = _place(name)
        place.store.delete_file(place.path)


def _absent(name: str, place: _Location) -> Vanished:
    there = place.store.get_file_info(place.root or "/").type != fs.FileType.NotFound
    return Vanished(f"{name}: {'no such file' if there else 'there is no such bucket'}")


def _place(name: str) -> _Location:
    path, settings = parted(name)
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    store, root = _store(scheme, bucket, settings, os.getpid())
    return _Location(
        store, f"{root}/{key}".rstrip("/"), root, f"{scheme}://{bucket}", f"?{settings}" if settings else ""
    )


@lru_cache(maxsize=8)
def _store(scheme: str, bucket: str, settings: str, process: int) -> tuple[fs.FileSystem, str]:
    """Return the store of a bucket, and the bucket's path there; cached for each `process`, since a fork would share
    connections.
    """
    if scheme in ("s3", "s3a"):
        return _s3(bucket, dict(parse_qsl(settings))), bucket
    if scheme == "gs" and "retry_limit_seconds" not in settings:
        settings = "&".join(filter(None, (settings, f"retry_limit_seconds={_GOOGLE_S}")))
    store, root = fs.FileSystem.from_uri(f"{scheme}://{bucket}/?{settings}")
    return store, root.rstrip("/")


def _s3(bucket: str, settings: dict[str, str]) -> fs.FileSystem:
    """Return S3's file system. Only its constructor takes timeouts, and it does not resolve the bucket's region or
    AWS_ENDPOINT_URL.
    """
    unknown = [setting for setting in settings if setting not in _S3]
    if unknown:
        raise OSError(f"no setting {unknown[0]} of S3; there are {', '.join(_S3)}")
    environment = os.environ.get
    endpoint = (
        settings.get("endpoint_override") or environment("AWS_ENDPOINT_URL_S3") or environment("AWS_ENDPOINT_URL")
    )
    region = settings.get("region") or environment("AWS_REGION") or environment("AWS_DEFAULT_REGION")
    return fs.S3FileSystem(
        region=region or ("us-east-1" if endpoint else fs.resolve_s3_region(bucket)),
        scheme=settings.get("scheme", "https"),
        endpoint_override=endpoint,
        anonymous=settings.get("anonymous") == "true",
        connect_timeout=_CONNECT_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )


@contextmanager
def plain_errors(name: str, kind: type[Error] = UnreadableInput) -> Iterator[None]:
    """Turn pyarrow's errors into one sentence."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        text = str(error)
        meaning = next((meaning for mark, meaning in _MEANINGS if mark in text), text.strip().split("\n", 1)[0][:200])
        raise kind(f"{name}: {meaning}") from None
