"""`kshark decode`: one message's bytes to JSON."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from typing import Any

from msgspec import UNSET

from kshark.anomaly import CATALOGUE
from kshark.cli.apis import add_dissectors, registry
from kshark.cli.parser import Parser, add_secrets, close_to
from kshark.codec import Reading, interpret
from kshark.codec.masking import mask, masks_of
from kshark.embedded.companions import Companion, companions
from kshark.errors import UnreadableInput, UsageError
from kshark.names import TopicNames
from kshark.output.jsonlines import json_lines, pretty
from kshark.records import make_reader
from kshark.registry import Registry
from kshark.schema import Api
from kshark.units import safe

EXAMPLES = (
    "echo '0267 026d 00000005 01 00' | kshark decode ShareAcknowledge 1 request",
    "kshark decode 78 1 response body.bin",
    "kshark decode ShareFetch 1 request --header frame.hex",
)


def arguments(parser: Parser) -> None:
    parser.add_argument("api", metavar="API", help="name or key of the API")
    parser.add_argument("version", metavar="VERSION", type=int, help="its version")
    parser.add_argument("kind", metavar="request|response", choices=("request", "response"), help="kind of the message")
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="the bytes, raw or as hex digits; default: standard input",
    )
    parser.add_argument(
        "--header", action="store_true", help="the input starts with the header (without the length prefix)"
    )
    add_secrets(parser)
    add_dissectors(parser)


def run(args: Namespace) -> int:
    apis = registry(args)
    api = _api(args.api, apis)
    if args.version not in api.versions:
        raise UsageError(
            f"{api.name} has versions {api.versions}, not {args.version} (kshark explain {api.name} shows them)"
        )
    data = _bytes(args.file)
    header, start = _header(api, apis, args, data) if args.header else (None, 0)
    body = _body(api, args, data, start)
    misfits = _open(api, apis, args, body.body)
    value = body.body if header is None else {"header": header.body, "body": body.body}
    sys.stdout.buffer.write(pretty(value) if sys.stdout.isatty() else json_lines([value]))
    sys.stdout.flush()
    faults = [fault for reading in (header, body) if reading is not None for fault in reading.faults]
    for fault in faults:
        where = f", field {fault.path}" if fault.path else ""
        print(safe(f"kshark: {fault.code} at byte {fault.offset}{where}: {fault.detail}"), file=sys.stderr)
    for companion in misfits:
        print(safe(f"kshark: {companion.code}, field {companion.name}: {companion.detail}"), file=sys.stderr)
    return 2 if any(CATALOGUE[fault.code].severity != "note" for fault in faults) else 0


def _body(api: Api, args: Namespace, data: bytes, start: int) -> Reading:
    """Read the body from `start`. A response that begins with the error code of the fallback has another version's
    layout.
    """
    layout, version = api.layout(args.kind, args.version, data[start : start + 2])
    records = make_reader(True, True)
    reading = interpret(layout, version, data, start, len(data), records=records)
    records.fill()
    return reading


def _open(api: Api, apis: Registry, args: Namespace, body: Any) -> list[Companion]:
    """Attach decoded values to fields that hold encoded bytes, and mask credentials.

    Return the companions that could not be read to their end.
    """
    places, names = apis.places(api.key, args.kind), TopicNames(apis).by_id
    decoded = list(companions(places, body, names=names, registry=apis, secrets=args.secrets))
    for companion in decoded:
        companion.attach()
    if not args.secrets:
        mask(masks_of(*api.layout(args.kind, args.version)), body)
    return [companion for companion in decoded if companion.code is not None]


def _header(api: Api, apis: Registry, args: Namespace, data: bytes) -> tuple[Reading, int]:
    if args.kind == "request":
        layout, version = apis.request_header, api.request_header_version(args.version)
    else:
        layout, version = apis.response_header, api.response_header_version(args.version)
    reading = interpret(layout, version, data, 0, len(data))
    kept = tuple(fault for fault in reading.faults if fault.code != "TRAILING_BYTES")  # the body
    _same(api, args, reading.body)
    return Reading(reading.body, reading.position, kept), reading.position


def _same(api: Api, args: Namespace, header: Any) -> None:
    """Raise UsageError for a request header that names another API or version."""
    key, version = getattr(header, "request_api_key", UNSET), getattr(header, "request_api_version", UNSET)
    if UNSET not in (key, version) and (key, version) != (api.key, args.version):
        named = f"API {key} version {version}"
        raise UsageError(
            f"the header names {named}, not {api.name} version {args.version}; "
            "does the input start with the length prefix?"
        )


def _api(name: str, apis: Registry) -> Api:
    key = int(name) if name.isdigit() else apis.find(name)
    api = None if key is None else apis.api(key)
    if api is None:
        unread = apis.name(key) if key is not None else None
        if unread is not None:
            raise UsageError(f"kshark does not decode bodies of {unread}")
        raise UsageError(f'no API "{name}"{close_to(name, apis.names().values())} (names and keys are Kafka\'s)')
    return api


def _bytes(file: str) -> bytes:
    """Return the bytes of a file: raw, or hex digits separated by any spaces, colons or commas."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(file, "rb") as stream:
                data = stream.read()
    except OSError as error:
        raise UnreadableInput(f"{file}: {error.strerror}") from None
    digits = re.sub(rb"[\s:,]|\b0[xX]", b"", data)
    if digits and re.fullmatch(rb"[0-9a-fA-F]*", digits):
        if len(digits) % 2:
            raise UnreadableInput(f"{len(digits)} hex digits: half of a byte is missing")
        return bytes.fromhex(digits.decode())
    return data
