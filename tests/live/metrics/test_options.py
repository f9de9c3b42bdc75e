"""The options of `kshark live --prometheus`."""

from __future__ import annotations

import pytest

from kshark.cli import main


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--prometheus", "kafka:9464"), "is no IP address"),
        (("--prometheus", "many"), "ends with no port"),
        (("--prometheus", "0", "--prometheus-labels", "topic"), "there are client, member"),
        (("--prometheus-labels", "client"), "needs --prometheus"),
    ],
)
def test_wrong_options_of_metrics_say_what_is_right(
    options: tuple[str, ...], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["live", "-i", "lo", *options])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert reason in capfd.readouterr().err
