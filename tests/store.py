"""An S3 server on this machine, and a bucket in it that holds captures; whoever lacks moto sees its tests skipped, with
the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: Who writes.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class Bucket:
    """A bucket. `settings` stand behind a path, so that no environment is needed."""

    def __init__(self, endpoint: str) -> None:
        from pyarrow import fs

        self.endpoint = endpoint
        self.settings = f"?endpoint_override={endpoint}&anonymous=true"
        keys = {
            "access_key": "id",
            "secret_key": "secret",
        }  # moto takes what comes unsigned for data, with the marks of its transport
        self.store: Any = fs.S3FileSystem(
            **keys, region="us-east-1", endpoint_override=endpoint, allow_bucket_creation=True
        )
        self.store.create_dir("bucket")

    def put(self, key: str, data: bytes) -> str:
        """The path of a new file."""
        with self.store.open_output_stream(f"bucket/{key}", compression=None) as stream:
            stream.write(data)
        return self.path(key)

    def put_file(self, file: Path, folder: str = "captures") -> str:
        return self.put(f"{folder}/{file.name}", file.read_bytes())

    def path(self, key: str) -> str:
        return f"s3://bucket/{key}{self.settings}"

    def signed(self, key: str) -> str:
        """The path for files that are written, with the keys of ENVIRONMENT."""
        return f"s3://bucket/{key}?endpoint_override={self.endpoint}"

    def held(self, folder: str) -> set[str]:
        """The files in a folder."""
        from pyarrow import fs

        infos = self.store.get_file_info(fs.FileSelector(f"bucket/{folder}", allow_not_found=True, recursive=True))
        return {info.path.removeprefix(f"bucket/{folder}/") for info in infos if info.type == fs.FileType.File}


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("flask_cors", reason="moto's S3 server is not installed (kshark[dev])")
    server = pytest.importorskip("moto.server", reason="moto's S3 server is not installed (kshark[dev])")
    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield Bucket(f"http://{host}:{port}")
    running.stop()
