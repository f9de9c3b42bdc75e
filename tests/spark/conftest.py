"""One small Spark for all its tests; where Java or pyspark is missing they are skipped, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kshark_spark.java import MISSING, find_java
from tests.store import ENVIRONMENT


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two cores: one would hide mistakes of order."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if find_java() is None:
        pytest.skip(MISSING)
    from kshark_spark.session import open_session

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    keys = {f"spark.executorEnv.{name}": value for name, value in ENVIRONMENT.items()}  # of the tests' S3 server
    settings = {
        **keys,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": warehouse,
        "spark.driver.memory": "2g",
        "spark.ui.retainedJobs": "100",  # for their descriptions
    }
    session = open_session("local[2]", settings)
    yield session
    session.stop()
