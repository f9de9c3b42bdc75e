"""A Lua dissector for Wireshark and tshark: the field tables of the registry, and one interpreter for all of them."""

from kshark.wireshark.script import lua_script

__all__ = ["lua_script"]
