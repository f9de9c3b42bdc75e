"""Read messages of each (api key, version): with a compiled reader first, with the interpreter if that fails.

The result of the compiled reader counts only if it ends exactly where the frame ends. Otherwise the interpreter reads
the body again, keeps the readable part and names the fault. The interpreter also reads the first small bodies of a
layout, so that no reader is compiled for one or two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kshark import limits
from kshark.api_keys import FETCH, PRODUCE, SHARE_FETCH
from kshark.codec import Reader, compile_reader, interpret, is_compiled
from kshark.codec.masking import Masking, masks_of
from kshark.exchange.owner import Owner, owner_names, owner_reader
from kshark.model import OWNER
from kshark.records import NOTHING_KEPT, Kept, RecordsReader
from kshark.registry import Registry
from kshark.schema import NEVER, Api, Layout, Sasl

_INT16: Final = Struct(">h").unpack_from
#: So many bodies of a layout are interpreted if they are small: compiling its reader takes as long as interpreting ten
#: of them, and half of the layouts in a capture have no more bodies.
INTERPRETED: Final = 2
INTERPRETED_BYTES: Final = 512
#: What rules need of the headers of record batches.
_KEPT_OF_REQUESTS: Final = {PRODUCE: Kept(produced=True)}
_KEPT_OF_ANSWERS: Final = {FETCH: Kept(spans=True, produced=True), SHARE_FETCH: Kept(spans=True)}


class ReadBody(NamedTuple):
    """The readable part of a body, the catalogue codes of its faults (None: no fault), and the details."""

    body: Any
    codes: list[str] | None
    detail: str


class BodyReader(msgspec.Struct, eq=False):
    """Reader of the bodies of one API, version and direction; each lies from `at` to `end`.

    `read` returns the body and the position after it. It is right where that position is `end`; it may raise any error.
    `exactly` is always right.
    """

    read: Reader
    exactly: Callable[[bytes, int, int], ReadBody]


class Decoder(msgspec.Struct, eq=False):
    """Reader of the requests and answers of one (api key, version).

    `weird`: a code that every such message gets. `request_header` is the header's version (KIP-482: 2 has tagged
    fields; 0, without client id, only ControlledShutdown v0). `response_header` is the version of the answer's header
    (1 has tagged fields). `peculiar`: a request needs special treatment. `changes_connection`: an answer changes the
    state of its connection.
    """

    key: int
    version: int
    name: str | UnsetType
    weird: str | None
    request_header: int
    response_header: int
    request: BodyReader
    response: BodyReader
    peculiar: bool = False
    changes_connection: bool = False
    one_way: tuple[str, int] | None = None
    then_raw: bool = False
    software: tuple[str, str] | None = None
    early_access: bool = False
    #: Error code of an answer in another layout: the broker refused the version.
    fell_back: int | None = None
    sasl: Sasl | None = None
    #: Reads the group and the member of a request; its answer belongs to them too.
    owner_of_request: Callable[[Any], Owner] | None = None
    #: An answer may name the group or the member itself.
    names_owner: bool = False
    #: The consumer did not ask for this API's requests: fields that only the stages need are not shown in the message.
    unasked: bool = False


class Decoders(dict[int, Decoder]):
    """Decoders by api key << 16 | version; each is made when its first message arrives.

    `bodies`: the api keys for which bodies are read (None: all); other messages have no `body`. `exact`: only the
    interpreter reads. `masking` collects the bodies that have credentials (None: credentials are not masked).
    """

    def __init__(
        self,
        registry: Registry,
        records: RecordsReader,
        bodies: frozenset[int] | None = None,
        *,
        exact: bool = False,
        masking: Masking | None = None,
    ) -> None:
        self._registry = registry
        self._records = records
        self._bodies = bodies
        self._exact = exact
        self.masking = masking
        self.knows = registry.knows

    def __missing__(self, key_and_version: int) -> Decoder:
        key, version = key_and_version >> 16, (key_and_version & 0xFFFF ^ 0x8000) - 0x8000
        made = self[key_and_version] = self._make(key, version)
        if self._exact:
            made.request, made.response = (
                BodyReader(_misfit, made.request.exactly),
                BodyReader(_misfit, made.response.exactly),
            )
        return made

    def _make(self, key: int, version: int) -> Decoder:
        api = self._registry.api(key)
        if api is None:
            name = self._registry.name(key)
            code = "UNKNOWN_API" if name is None else "NO_DISSECTOR"
            return Decoder(key, version, UNSET if name is None else name, code, 1, 0, _UNREADABLE, _UNREADABLE)
        layout_version = api.versions.nearest(version)
        then_raw, early_access = version in api.then_raw, version in api.early_access
        wanted = (
            self._bodies is None or key in self._bodies or api.sasl is not None
        )  # the stages look into the answer themselves
        owner = owner_names(api.request.root, layout_version) if wanted else ()
        return Decoder(
            key,
            version,
            api.name,
            None if layout_version == version else "VERSION_UNKNOWN",
            api.request_header_version(layout_version),
            api.response_header_version(layout_version),
            _as_far_as_it_fits(
                self._body(api.request, layout_version, _KEPT_OF_REQUESTS.get(api.key, NOTHING_KEPT)),
                version,
                layout_version,
            )
            if wanted
            else _unasked(api, layout_version),
            self._response(api, version, layout_version) if wanted else _UNASKED,
            api.one_way is not None or then_raw or api.software is not None or early_access,
            api.sasl is not None or api.fallback is not None,
            api.one_way,
            then_raw,
            api.software,
            early_access,
            None if api.fallback is None else api.fallback[0],
            api.sasl,
            owner_reader(owner),
            any(field.name in OWNER for field in api.response.root.fields),
            not wanted,
        )

    def read_head(self, decoder: Decoder, head: bytes) -> tuple[str | UnsetType | None, bool | None]:
        """Return the client id of a request of which only the first bytes are here (UNSET: it is cut).

        The second value is True if an answer is due, False if none is, and None if these bytes do not show it.
        """
        client_id, at = read_header(decoder, head, 0, len(head))
        api = self._registry.api(decoder.key)
        if api is None or api.one_way is None:
            return client_id, True
        name, value = api.one_way
        try:
            body, _ = beginning(api, api.versions.nearest(decoder.version), (name,))(head, at, len(head))
        except Exception:  # a cut body may raise any error
            return client_id, None
        return client_id, getattr(body, name, None) != value

    def _response(self, api: Api, version: int, layout_version: int) -> BodyReader:
        usual = _as_far_as_it_fits(
            self._body(api.response, layout_version, _KEPT_OF_ANSWERS.get(api.key, NOTHING_KEPT)),
            version,
            layout_version,
        )
        if api.repeated:
            usual = _remembered(usual)
        if api.fallback is None:
            return usual
        error, other_version = api.fallback
        other = self._body(api.response, other_version)

        def of(buffer: bytes, at: int, end: int) -> BodyReader:
            return other if end - at >= 2 and _INT16(buffer, at)[0] == error else usual

        return BodyReader(
            lambda buffer, at, end: of(buffer, at, end).read(buffer, at, end),
            lambda buffer, at, end: of(buffer, at, end).exactly(buffer, at, end),
        )

    def _body(self, layout: Layout, version: int, kept: Kept = NOTHING_KEPT) -> BodyReader:
        """Return the reader of a layout; `kept`: what records that stay closed get of their headers.

        It is compiled when the layout turns out to be used often.
        """
        records = self._records
        read = records if kept is NOTHING_KEPT else partial(records, kept=kept)

        def exactly(buffer: bytes, at: int, end: int) -> ReadBody:
            records.discard()
            if at > end:
                return ReadBody(None, ["LENGTH_INVALID"], "header")
            reading = interpret(layout, version, buffer, at, end, records=read)
            codes = list(dict.fromkeys(fault.code for fault in reading.faults))
            detail = "; ".join(
                f"{fault.code} at byte {fault.offset}, field {fault.path or '(none)'}" for fault in reading.faults[:3]
            )
            return ReadBody(reading.body, codes or None, detail)

        body = BodyReader(_misfit, exactly)
        left = 0 if is_compiled(layout, version) else INTERPRETED

        def first(buffer: bytes, at: int, end: int) -> tuple[Any, int]:
            nonlocal left
            if left and end - at <= INTERPRETED_BYTES:
                left -= 1
                reading = interpret(layout, version, buffer, at, end, records=read)
                return _misfit(buffer, at, end) if reading.faults else (reading.body, reading.position)
            body.read = compile_reader(layout, version, records=read)
            return body.read(buffer, at, end)

        body.read = first
        return body if self.masking is None else _with_credentials(body, layout, version, self.masking)


def _with_credentials(body: BodyReader, layout: Layout, version: int, masking: Masking) -> BodyReader:
    """Return the body reader itself, or one owner_of_request credentials are masked when its page is complete."""
    masks = masks_of(layout, version)
    if not masks:
        return body

    def read(buffer: bytes, at: int, end: int) -> tuple[Any, int]:
        value, stop = body.read(buffer, at, end)
        masking.add(masks, value)
        return value, stop

    def exactly(buffer: bytes, at: int, end: int) -> ReadBody:
        result = body.exactly(buffer, at, end)
        masking.add(masks, result.body)
        return result

    return BodyReader(read, exactly)


def _as_far_as_it_fits(body: BodyReader, version: int, layout_version: int) -> BodyReader:
    """Return the body reader itself; for an unknown version, the reader of the nearest known version.

    Misfits of the nearest version are mentioned and do not count as faults.
    """
    if version == layout_version:
        return body

    def read_nearest(buffer: bytes, at: int, end: int) -> ReadBody:
        value, _, detail = body.exactly(buffer, at, end)
        return ReadBody(value, None, f"version {version} read as {layout_version}" + (f": {detail}" if detail else ""))

    return BodyReader(_misfit, read_nearest)


def _misfit(buffer: bytes, at: int, end: int) -> tuple[Any, int]:
    """Read nothing, with a position that never fits, so that the interpreter reads instead."""
    return None, -1


#: Bodies that cannot be read, and bodies that were not asked for: the bytes after the header are skipped.
_UNREADABLE: Final = BodyReader(
    lambda buffer, at, end: (None, max(at, end)), lambda buffer, at, end: ReadBody(None, None, "")
)
_UNASKED: Final = BodyReader(
    lambda buffer, at, end: (UNSET, max(at, end)), lambda buffer, at, end: ReadBody(UNSET, None, "")
)


def _remembered(body: BodyReader) -> BodyReader:
    """Return a reader that reads equal bytes once and shares the body.

    Looking 700 bytes up takes 1 us, reading them 20.
    """
    bodies: dict[bytes, Any] = {}

    def read(buffer: bytes, at: int, end: int) -> tuple[Any, int]:
        raw = buffer[at:end]
        value = bodies.get(raw)
        if value is not None:
            return value, end
        value, stop = body.read(buffer, at, end)
        if stop == end and len(raw) <= limits.REPEATED_BYTES:
            if len(bodies) >= limits.REPEATED_ANSWERS:
                bodies.clear()
            bodies[raw] = value
        return value, stop

    return BodyReader(read, body.exactly)


def _unasked(api: Api, version: int) -> BodyReader:
    """Return a reader for bodies that the consumer did not ask for.

    It reads only the field that says if an answer follows (`one_way`), if the API has one.
    """
    return _UNASKED if api.one_way is None else BodyReader(beginning(api, version, api.one_way[:1]), _UNASKED.exactly)


def beginning(api: Api, version: int, names: Sequence[str]) -> Reader:
    """Return a reader of a request's body up to the last of these fields; it skips the rest."""
    fields = api.request.root.fields
    count = max(at for at, field in enumerate(fields, 1) if field.name in names)
    head = replace(api.request, root=replace(api.request.root, fields=fields[:count], flexible=NEVER), older={})
    reader = compile_reader(head, version)

    def read(buffer: bytes, at: int, end: int) -> tuple[Any, int]:
        body, stop = reader(buffer, at, end)
        return body, max(stop, end)

    return read


def without_body(decoder: Decoder) -> Decoder:
    """Return a decoder for answers whose bodies are not here: it reads nothing of them."""
    return replace(decoder, response=_UNREADABLE, changes_connection=False)


# -- headers


class _ClientIds(dict[bytes, str]):
    """Client ids by their bytes: few, and repeated in every request."""

    def __missing__(self, raw: bytes) -> str:
        if len(self) >= limits.CLIENT_IDS:
            self.clear()
        text = self[raw] = raw.decode("utf-8", "backslashreplace")
        return text


CLIENT_IDS: Final = _ClientIds()


def read_request(decoder: Decoder, buffer: bytes, start: int, end: int) -> tuple[str | UnsetType | None, ReadBody]:
    """Return client id and body of the request that fills `start` to `end`, read by the interpreter."""
    client_id, at = read_header(decoder, buffer, start, end)
    if at > end:
        return client_id, ReadBody(None, ["BODY_TOO_SHORT"], "header")
    return client_id, decoder.request.exactly(buffer, at, end)


def read_header(decoder: Decoder, buffer: bytes, start: int, end: int) -> tuple[str | UnsetType | None, int]:
    """Return the client id of a request, and the position of its body: beyond `end` if the header is cut.

    Headers: KIP-482.
    """
    at = start + 8
    client_id: str | UnsetType | None = UNSET
    try:
        if decoder.request_header:
            length = _INT16(buffer, at)[0] if at + 2 <= end else 0  # the bytes of another frame come after this one
            at += 2
            if length > end - at:
                return client_id, end + 1
            client_id = None if length < 0 else CLIENT_IDS[buffer[at : at + length]]
            at += max(length, 0)
            if decoder.request_header == 2:
                at = skip_tags(buffer, at, end)
    except (IndexError, StructError):
        at = end + 1
    return client_id, at


def read_response(decoder: Decoder, buffer: bytes, start: int, end: int) -> ReadBody:
    """Return the body of the response that fills `start` to `end`, read by the interpreter."""
    at = start + 4
    if decoder.response_header:
        at = skip_tags(buffer, at, end)
    return decoder.response.exactly(buffer, at, end)


def skip_tags(buffer: bytes, at: int, end: int) -> int:
    """Return the position after the tagged-field section that begins at `at` (KIP-482).

    It is beyond `end` if the section does not fit.
    """
    count, at = _uvarint(buffer, at, end)
    for _ in range(count):
        if at >= end:
            return end + 1
        _, at = _uvarint(buffer, at, end)
        size, at = _uvarint(buffer, at, end)
        at += size
    return at


def _uvarint(buffer: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned varint of at most five bytes, and the position after it.

    The position is beyond `end` if the varint does not fit.
    """
    value = shift = 0
    while at < end and shift <= 28:
        byte = buffer[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return 0, end + 1
