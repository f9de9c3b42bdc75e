"""`kshark wireshark`: a Lua dissector for Wireshark and tshark."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Final

from kshark.cli.apis import add_dissectors, registry
from kshark.cli.parser import Parser
from kshark.errors import UsageError
from kshark.wireshark import lua_script

EXAMPLES: Final = (
    "kshark wireshark > kafka_share.lua",
    "kshark wireshark -o ~/.local/lib/wireshark/plugins/kafka_share.lua",
    "tshark -X lua_script:kafka_share.lua -r trace.pcap -Y 'kshark.error_code == INVALID_SHARE_SESSION_EPOCH'",
)
_INSTALL: Final = """\
install: put the file into Wireshark's folder of personal Lua plugins (Help > About Wireshark > Folders, or tshark -G
folders) and restart Wireshark. It takes TCP port 9092 from Wireshark's own Kafka dissector (preference kshark.ports)
and recognises Kafka on other ports by its content; filter names begin with kshark. The file's first lines say more."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "-o", dest="file", metavar="FILE", help="the file to write, or - for standard output; default: standard output"
    )
    add_dissectors(parser)
    parser.epilog = f"{parser.epilog}\n{_INSTALL}"


def run(args: Namespace) -> int:
    text = "".join(f"{line}\n" for line in lua_script(registry(args)))
    if args.file in (None, "-"):
        sys.stdout.write(text)
        sys.stdout.flush()
        return 0
    try:
        Path(args.file).write_text(text, "utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{args.file}: {error.strerror}; name a file in a folder that exists and is yours") from None
    print(
        f"kshark: {args.file} is written; restart Wireshark, or try tshark -X lua_script:{args.file}", file=sys.stderr
    )
    return 0
