"""`python -m tests.trouble --release 4.3.1 --seed 7 --seconds 150 -o DIR`: captures, and every violation that kshark
finds in them.

Exit code 1 where a Java client is said to have broken a rule that it keeps; what brokers do wrong, and librdkafka, they
really may, and is only listed."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import kshark
from kshark.model import Finding
from kshark_spark.java import find_java
from tests.broker.releases import RELEASES
from tests.broker.server import NoBroker
from tests.trouble.administrators import TASKS, WITH_SECURITY, Administrators
from tests.trouble.clients import TOPICS, Clients
from tests.trouble.cluster import Cluster, cluster
from tests.trouble.troubles import OF_THE_NETWORK, TROUBLES, Trouble

#: Between one trouble and the next; and for the last answers when all is over.
PAUSE_SECONDS: Final = (2, 7)
LAST_SECONDS: Final = 4
#: Clients that are brokers themselves.
BROKERS: Final = ("Persister-client-", "AddPartitionsManager", "NodeToController", "broker-")
JAVA: Final = "apache-kafka-java"
#: What Java clients do wrong here, and why.
KNOWN: Final = {
    "PHANTOM_SESSION_PARTITION": "KAFKA-20736",
    "GROUP_TYPE_CONFLICT": "consumers are told a share group's id",
    "REOPEN_HOT_LOOP": "a broker that has no room for a session is asked at once again, for no records (4.2 to 4.4)",
}


async def go_through(
    there: Cluster, clients: Clients, folder: Path, random: Random, seconds: float, *, network_only: bool
) -> Counter[str]:
    """Troubles one after the other for so long; how often each came."""
    came = Counter[str]()
    loop = asyncio.get_running_loop()
    if there.relay is not None:
        loop.add_reader(there.relay.device, there.relay.carry_pending)
    for way in there.ways:
        await way.start()
    trouble, administrators = (
        Trouble(there, clients, random),
        Administrators(clients, len(there.brokers), folder, random),
    )
    tasks = TASKS | (WITH_SECURITY if there.security.knows_clients else {})
    happenings = {partial(what, trouble): weight for what, weight in TROUBLES.items()}
    if network_only:
        happenings = {what: weight for what, weight in happenings.items() if what.func.__name__ in OF_THE_NETWORK}
    else:
        happenings |= {partial(what, administrators): weight for what, weight in tasks.items()}
    for topic in TOPICS:
        await administrators.make_topic(topic)
    await administrators.keep_dead_letters()
    await asyncio.to_thread(clients.start)
    until = loop.time() + seconds
    while loop.time() < until:
        await asyncio.sleep(random.uniform(*PAUSE_SECONDS))
        (happens,) = random.choices([*happenings], [*happenings.values()])
        came[happens.func.__name__] += 1
        await happens()
        clients.fill()
    clients.end()
    await asyncio.sleep(LAST_SECONDS)
    clients.kill()
    for way in there.ways:
        await way.stop()
    return came


def is_of_a_client(finding: Finding) -> bool:
    """Whether a client is said to have broken a rule, which is no broker."""
    return finding.blame == "client" and not (finding.client_id or "").startswith(BROKERS)


def report(capture: Path) -> int:
    """Says what was found in a capture; how often a Java client is accused of what it is not known for."""
    found = [finding for finding in kshark.check(capture) if finding.verdict == "violation"]
    codes = Counter(f"{finding.code} by {finding.blame}" for finding in found)
    print(
        f"{capture.name}: {', '.join(f'{count} {code}' for code, count in sorted(codes.items())) or 'no violations'}",
        flush=True,
    )
    accused = [finding for finding in found if is_of_a_client(finding)]
    first = {(finding.client_id, finding.code): finding for finding in reversed(accused)}
    times = Counter((finding.client_id, finding.code) for finding in accused)
    for sort, finding in sorted(first.items(), key=lambda one: one[1].packet):
        where = f"packet {finding.packet}, {finding.client_id} ({finding.software})"
        print(f"  {where}: {times[sort]} {finding.code}: {finding.argument}", flush=True)
    return sum((finding.software or JAVA).startswith(JAVA) and finding.code not in KNOWN for finding in accused)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trouble", description="Real Java clients in trouble.")
    parser.add_argument(
        "--release", choices=RELEASES, default=[*RELEASES][-1], help="the brokers' and clients' release (the newest)"
    )
    parser.add_argument("--seed", type=int, default=1, help="what happens is chosen by it (1)")
    parser.add_argument("--seconds", type=float, default=150, help="for how long (150)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("out/trouble"), help="the folder for captures and logs"
    )
    parser.add_argument(
        "--tunnel", action="store_true", help="lose, delay and reorder single packets (a TUN device) instead of bytes"
    )
    parser.add_argument(
        "--network-only", action="store_true", help="only the network fails; processes and administrators do not"
    )
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # processes are stopped on the way out
    modes = ("-tunnel" if given.tunnel else "") + ("-network" if given.network_only else "")
    folder = (given.output / f"{given.release}-{given.seed}{modes}").absolute()
    shutil.rmtree(folder, ignore_errors=True)  # brokers do not start with the data of an earlier run
    release, random = RELEASES[given.release], Random(given.seed)
    java = find_java()
    try:
        with cluster(release, folder, random, by_packet=given.tunnel) as there:
            assert java is not None, "brokers need it, too"
            of_clients = random.choice((release, *RELEASES.values()))
            clients = Clients(java.home / "bin/java", of_clients, there.bootstrap, there.security, folder, random)
            try:
                came = asyncio.run(
                    go_through(there, clients, folder, random, given.seconds, network_only=given.network_only)
                )
            finally:
                clients.kill()
    except NoBroker as error:
        print(error, file=sys.stderr)
        return 2
    sasl = " with SASL and ACLs" if there.security.knows_clients else ""
    happened = ", ".join(f"{name} {count}" for name, count in came.most_common())
    print(
        f"Kafka {release.version}{sasl}, clients of {clients.release.version}, seed {given.seed}: {happened}",
        flush=True,
    )
    return int(sum(map(report, there.captures)) > 0)


if __name__ == "__main__":
    sys.exit(main())
