"""Stable pseudonyms: the same name of the same kind has the same one, as long as the key is the same."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2s
from ipaddress import IPv4Address, IPv6Address, ip_address
from secrets import token_bytes
from typing import Final, Literal

from msgspec.structs import replace

from kshark.endpoints import host_of
from kshark.model import Finding

Kind = Literal[
    "address",
    "host",
    "client",
    "group",
    "member",
    "instance",
    "topic",
    "id",
    "transaction",
    "principal",
    "rack",
    "cluster",
    "file",
    "text",
]
KINDS: Final[tuple[Kind, ...]] = Kind.__args__  # type: ignore[attr-defined]

#: Topics of Kafka itself: their names say what they hold.
OWN_TOPICS: Final = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
)
#: A uuid as Kafka writes it.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
#: The uuids that Kafka reserves are smaller.
_RESERVED: Final = 101
#: Names in sentences that are found: shorter ones would be found in other words.
_FOUND: Final = re.compile(r".{3,}|.\d|\d.", re.DOTALL)
#: Longer ids of members are refused by brokers.
_LONGEST_MEMBER: Final = 36
#: A word of a sentence that may be a name: it has a digit, or a character that is in no word.
_ODD_WORD: Final = re.compile(r"[\w./:@-]*[\d_@:/][\w./:@-]*|\w+[.-]\w[\w.-]*")
#: A word after one that announces a name.
_ANNOUNCED: Final = re.compile(r"\b((?:client|group|id|member|topic|user)s? )(\w+)", re.IGNORECASE)
_HEX: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Pseudonyms:
    """Returns pseudonyms of names, and remembers which names it was asked for, so that they are found in sentences.

    `key`: a secret, random by default. Who has it can check whether a guessed name is in the copy. An empty name stays
    empty. Loopback addresses, Kafka's own topics and reserved ids stay as they are.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = blake2s(token_bytes(32) if key is None else key).digest()
        self._known: dict[tuple[Kind, str], str] = {}
        self._addresses: dict[str, str] = {}
        self._sentence: re.Pattern[str] | None = None
        self._words: dict[str, str] = {}

    def of(self, kind: Kind, name: str) -> str:
        """Return the pseudonym of a name. A host that is an address becomes an address."""
        if not name or (kind == "topic" and name in OWN_TOPICS):
            return name
        known = self._known.get((kind, name))
        if known is None:
            known = self._known[kind, name] = self._made(kind, name)
            self._words.setdefault(name, known)
            self._sentence = None
        return known

    def end(self, end: str) -> str:
        """Return `address:port` with the pseudonym of the address."""
        host = host_of(end)
        return f"{self.of('address', host)}:{end.rpartition(':')[2]}" if host else end

    def text(self, sentence: str) -> str:
        """Return a sentence with the pseudonyms of the names in it, as far as they are known from `of`."""
        return self._named(self._pattern().sub(lambda found: self._words[found[0]], sentence))

    def sentence(self, sentence: str) -> str:
        """Return a sentence of a message: names that are known become pseudonyms, other words that may be names `x`."""
        parts = re.split(f"({self._pattern().pattern})", sentence)
        return "".join(
            [self._words[part] if at % 2 else self._named(_ODD_WORD.sub("x", part)) for at, part in enumerate(parts)]
        )

    def _named(self, text: str) -> str:
        """Return a text with pseudonyms of known names after words that announce a name, however short these are."""
        return _ANNOUNCED.sub(lambda found: found[1] + self._words.get(found[2], found[2]), text)

    def finding(self, finding: Finding) -> Finding:
        """Return a finding in which every name is a pseudonym, also in its sentences."""
        mapped = replace(
            finding,
            client=self.end(finding.client),
            broker=self.end(finding.broker),
            proxy=finding.proxy and self.end(finding.proxy),
            client_id=finding.client_id and self.of("client", finding.client_id),
            group_id=finding.group_id and self.of("group", finding.group_id),
            member_id=finding.member_id and self.of("member", finding.member_id),
            topic_id=finding.topic_id and self.of("id", finding.topic_id),
            witness=[replace(it, places=None) for it in finding.witness],
        )
        mapped.argument = self.text(finding.argument)
        for witness in mapped.witness:
            witness.event = witness.event and self.text(witness.event)
        return mapped

    def _pattern(self) -> re.Pattern[str]:
        """Return the pattern of the known names as whole words, the longest first."""
        if self._sentence is None:
            words = sorted(filter(_FOUND.fullmatch, self._words), key=len, reverse=True)
            some = "|".join(map(re.escape, words)) or r"(?!)"
            self._sentence = re.compile(rf"(?<![\w-])(?:{some})(?![\w-])")
        return self._sentence

    def _made(self, kind: Kind, name: str) -> str:
        digest = self._digest(kind, name)
        if kind in ("address", "host"):
            return self._address(name) or f"host-{digest.hex()[:8]}"
        if kind == "id" or (kind == "member" and _ID.fullmatch(name)):
            return _uuid(digest, name)
        if kind == "member" and (unique := _HEX.search(name)):  # client id and uuid, as classic members are called
            return f"{self.of('client', name[: unique.start()].rstrip('-'))}-{_dashed(digest)}"
        made = f"{kind}-{digest.hex()[:8]}"
        return made.ljust(len(name), "0") if len(name) > _LONGEST_MEMBER else made

    def _address(self, name: str) -> str | None:
        """Return another address of the same kind, which no other address has; None if it is none."""
        if name.lower() == "localhost":
            return name
        try:
            address = ip_address(name.strip("[]/"))
        except ValueError:
            return None
        if address.is_loopback or address.is_unspecified:
            return name
        text = str(address)
        attempt = 0
        while text not in self._addresses:
            digest = self._digest("address", f"{text}/{attempt}")
            other: IPv4Address | IPv6Address
            if isinstance(address, IPv4Address):
                other = IPv4Address(b"\x0a" + digest[:3])
            else:
                other = IPv6Address(b"\xfd\x00" + digest[:14])
            if str(other) not in self._addresses.values():
                self._addresses[text] = str(other)
            attempt += 1
        return name.replace(name.strip("[]/"), self._addresses[text])

    def _digest(self, kind: Kind, name: str) -> bytes:
        return blake2s(f"{kind}\0{name}".encode(errors="surrogatepass"), key=self._key).digest()


def _uuid(digest: bytes, name: str) -> str:
    """Return a uuid as Kafka writes it; reserved ones stay. None of them begins with a dash."""
    try:
        if int.from_bytes(urlsafe_b64decode(name + "=="), "big") < _RESERVED:
            return name
    except ValueError:
        pass
    return urlsafe_b64encode(bytes([digest[0] & 0x7F | 0x01]) + digest[1:16]).decode().rstrip("=")


def _dashed(digest: bytes) -> str:
    digits = digest.hex()[:32]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
