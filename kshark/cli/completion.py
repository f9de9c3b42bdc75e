"""`kshark completion`: a script that completes commands, options and their values in bash or zsh; `kshark-spark
completion` uses it, too.

The script holds all words, so that the Tab key starts no Python.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from shlex import quote
from typing import TYPE_CHECKING, Final

from kshark.cli.parser import Parser
from kshark.errors import UsageError
from kshark.output.sink import Sink
from kshark.units import safe

if TYPE_CHECKING:
    from kshark.cli.described import Command, Option

EXAMPLES = (
    'eval "$(kshark completion bash)"',
    "kshark completion bash > ~/.local/share/bash-completion/completions/kshark",
    'kshark completion zsh > "${fpath[1]}/_kshark"',
)


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "shell",
        nargs="?",
        choices=tuple(_SCRIPTS),
        metavar="bash|zsh",
        help="the shell that reads the script; default: yours, from $SHELL",
    )


def run(args: Namespace) -> int:
    from kshark.cli.described import commands

    write("kshark", [*commands()], shell_of(args), default="check")
    return 0


def shell_of(args: Namespace) -> str:
    """Return the shell that reads the script. Raises UsageError if none is named and $SHELL is another one."""
    own = PurePath(os.environ.get("SHELL", "")).name
    shell: str = args.shell or own
    if shell not in _SCRIPTS:
        why = f"$SHELL is {safe(own)}" if own else "$SHELL is not set"
        raise UsageError(f"{why}; name the shell that reads the script: {' or '.join(_SCRIPTS)}")
    return shell


def write(program: str, commands: list[Command], shell: str, *, default: str | None) -> None:
    """Write the script for a program to stdout. `default` is the command of `PROGRAM FILE`, None without one."""
    from kshark.cli.described import VALUES

    used = {option.kind for command in commands for option in (*command.options, *command.arguments)}
    kinds = {kind: [*values()] for kind, values in VALUES.items() if kind in used}
    Sink(sys.stdout).text(_SCRIPTS[shell](program, commands, kinds, default))


Kinds = dict[str, list[str]]


def _function(program: str) -> str:
    """Return the name of the function that completes a program."""
    return f"_{program.replace('-', '_')}"


# -- bash

_BASH_SHELL: Final = {
    "files": "_kshark_files",
    "folders": "_kshark_folders",
    "interfaces": '_kshark_words "$(command ls /sys/class/net 2>/dev/null) any"',
}
_BASH: Final = r"""# bash completion for {program}: eval "$({program} completion bash)"
{kinds}
_kshark_words() {{ COMPREPLY=($(compgen -W "$1" -- "$cur")); }}
_kshark_files() {{ local IFS=$'\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); }}
_kshark_folders() {{ local IFS=$'\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")); }}
_kshark_list() {{
    local before=""
    [[ $cur == *,* ]] && before=${{cur%,*}},
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -P "$before" -W "$1" -- "${{cur##*,}}"))
}}

{function}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} option=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
    COMPREPLY=()
    if [[ $cur == = ]]; then
        cur=""
    elif [[ $option == = ]]; then
        option=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    if ((COMP_CWORD == 1)); then
        {first}
        COMPREPLY+=($(compgen -W "{commands} --help --version" -- "$cur"))
        return
    fi
    case $command:$option in
{values}
    esac
    case $command:$cur in
{options}
{arguments}
    *) _kshark_files ;;
    esac
}}
complete -F {function} {program}
"""


def _bash(program: str, commands: list[Command], kinds: Kinds, default: str | None) -> str:
    """Return the script for bash."""
    return _BASH.format(
        program=program,
        function=_function(program),
        first=":" if default is None else "_kshark_files",
        kinds="\n".join(f"_kshark_{kind}={quote(' '.join(words))}" for kind, words in kinds.items()),
        commands=" ".join(command.name for command in commands),
        values="\n".join(_bash_values(commands)),
        options="\n".join(
            f"    {command.name}:-*) _kshark_words {quote(' '.join(_names(command)))} ;;" for command in commands
        ),
        arguments="\n".join(
            f"    {command.name}:*) {_bash_arguments(command)} ;;"
            for command in commands
            if command.arguments and command.arguments[0].kind != "files"
        ),
    )


def _names(command: Command) -> Iterator[str]:
    for option in command.options:
        yield from option.names


def _bash_values(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the case of each option with a value; commands in which it takes the same share one."""
    cases: dict[str, list[str]] = {}
    for command in commands:
        for option in command.options:
            if option.metavar:
                cases.setdefault(_bash_value(option), []).extend(f"{command.name}:{name}" for name in option.names)
    for action, patterns in cases.items():
        yield f"    {'|'.join(patterns)}) {action}; return ;;"


def _bash_arguments(command: Command) -> str:
    """Return the action for words that are no options, by their position."""
    if command.arguments[0].is_repeated:
        return _bash_value(command.arguments[0])
    cases = [f"{place}) {_bash_value(argument)} ;;" for place, argument in enumerate(command.arguments, 2)]
    return f"case $COMP_CWORD in {' '.join(cases)} esac"


def _bash_value(option: Option) -> str:
    if option.values is not None:
        return f"_kshark_words {quote(' '.join(option.values))}"
    if option.kind in _BASH_SHELL:
        return _BASH_SHELL[option.kind]
    if option.kind:
        return f'_kshark_{"list" if option.is_list else "words"} "$_kshark_{option.kind}"'
    return ":"


# -- zsh

_ZSH_SHELL: Final = {"files": "_files", "folders": "_files -/", "interfaces": "_net_interfaces"}
_ZSH: Final = r"""#compdef {program}
# zsh completion for {program}: {program} completion zsh > "${{fpath[1]}}/{function}"
{kinds}
{functions}

{function}() {{
    local context state state_descr line
    typeset -A opt_args
    _arguments -C '(- *)'{{-h,--help}}'[the commands]' '(- *)'{{-V,--version}}'[the version]' \
        '1: :->command' '*:: :->words'
    case $state in
    command)
        local -a commands=(
{commands}
        )
        _describe -t commands 'command' commands
        {first}
        ;;
    words)
        case $line[1] in
        {names}) {function}_of_$line[1] ;;
        *) {other} ;;
        esac
        ;;
    esac
}}

if [[ $funcstack[1] == {function} ]]; then
    {function} "$@"
else
    compdef {function} {program}
fi
"""


def _zsh(program: str, commands: list[Command], kinds: Kinds, default: str | None) -> str:
    """Return the script for zsh."""
    function = _function(program)
    return _ZSH.format(
        program=program,
        function=function,
        first=":" if default is None else "_files",
        other=":" if default is None else f"{function}_of_{default}",
        kinds="\n".join(
            f'_kshark_{kind}() {{ local -a words=({" ".join(map(quote, words))}); compadd "$@" -a words }}'
            for kind, words in kinds.items()
        ),
        functions="\n".join(_zsh_function(function, command) for command in commands),
        commands="\n".join(
            f"            {quote(f'{command.name}:{_zsh_text(command.about)}')}" for command in commands
        ),
        names="|".join(command.name for command in commands),
    )


def _zsh_function(function: str, command: Command) -> str:
    specs = [*(spec for option in command.options for spec in _zsh_option(option)), *_zsh_arguments(command)]
    lines = " \\\n".join(f"        {spec}" for spec in specs)
    return f"{function}_of_{command.name}() {{\n    _arguments -s -S \\\n{lines}\n}}"


def _zsh_option(option: Option) -> Iterator[str]:
    value = f":{_zsh_text(option.metavar)}:{_zsh_value(option)}" if option.metavar else ""
    optional = ":" if option.is_optional and value else ""
    for name in option.names:
        joined = "" if not value else "=" if name.startswith("--") else "+"
        yield quote(f"*{name}{joined}[{_zsh_text(option.about)}]{optional}{value}")


def _zsh_arguments(command: Command) -> Iterator[str]:
    for argument in command.arguments:
        place = "*" if argument.is_repeated else ""
        yield quote(f"{place}:{_zsh_text(argument.metavar)}:{_zsh_value(argument)}")


def _zsh_value(option: Option) -> str:
    if option.values is not None:
        return f"({' '.join(option.values)})"
    if option.kind in _ZSH_SHELL:
        return _ZSH_SHELL[option.kind]
    if option.kind:
        return f"_sequence _kshark_{option.kind}" if option.is_list else f"_kshark_{option.kind}"
    return " "


def _zsh_text(text: str) -> str:
    """Escape the characters that end a part of a specification."""
    return "".join("\\" + letter if letter in "[]:\\" else letter for letter in text)


_SCRIPTS: Final[dict[str, Callable[[str, list[Command], Kinds, str | None], str]]] = {"bash": _bash, "zsh": _zsh}
