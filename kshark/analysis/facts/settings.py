"""Settings of brokers and groups, as the capture shows them: DescribeConfigs, and changes by administrators.

A group's setting replaces the broker's (KIP-932, KIP-1240; Kafka: GroupConfig). An administrator may change a setting
on a connection outside the capture, so a value is a fact only if the broker calls it read-only: then a change needs a
restart (Kafka: ConfigHelper.createBrokerConfigEntry).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kshark import limits
from kshark.analysis.facts.bases import DELIVERY_LIMIT, MOST_DELIVERIES, RECORD_LOCKS, REQUEST_BYTES, Setting
from kshark.api_keys import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from kshark.model import Message
from kshark_dissectors.enums import ConfigOperation, ConfigResourceType

#: APIs that show settings.
CONFIG_APIS: Final = frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS})
#: The settings that rules read, each with the name that groups give it; None: a group has none.
_GROUP_NAMES: Final[dict[str, str | None]] = {
    DELIVERY_LIMIT.name: "share.delivery.count.limit",
    RECORD_LOCKS.name: "share.partition.max.record.locks",
    MOST_DELIVERIES.name: None,
    REQUEST_BYTES.name: None,
}
#: By the type of resource: the broker's name of each setting, by the name in that resource.
_NAMES: Final[dict[int, dict[str, str]]] = {
    ConfigResourceType.BROKER: {name: name for name in _GROUP_NAMES},
    ConfigResourceType.GROUP: {own: name for name, own in _GROUP_NAMES.items() if own is not None},
}


class Value(NamedTuple):
    """The value of a setting, the packet that showed it first, and the address of the broker that sent it.

    `is_read_only`: only a restart of the broker changes it. `is_of_group`: it is the group's own.
    """

    number: int
    packet: int
    broker: str
    is_read_only: bool = False
    is_of_group: bool = False


#: The group, or the address of the broker in "", and the setting's name.
_Key = tuple[str | None, str, str]


class Settings:
    """The settings that the capture shows; `learn` takes exchanges in the order of the time line."""

    def __init__(self) -> None:
        self._values: dict[_Key, Value] = {}

    def of_broker(self, setting: Setting, address: str) -> Value | None:
        return self._values.get((None, address, setting.name))

    def of_group(self, setting: Setting, group_id: str) -> Value | None:
        return self._values.get((group_id, "", setting.name))

    def numbers(self, setting: Setting) -> list[int]:
        """Return its values at all brokers and groups."""
        return [value.number for (*_, name), value in self._values.items() if name == setting.name]

    def learn(self, request: Message, response: Message | None) -> None:
        """Take an exchange of one of CONFIG_APIS. A change that may have failed makes the value unknown."""
        asked: Any = request.body
        answer: Any = None if response is None else response.body
        if request.api_key == DESCRIBE_CONFIGS:
            for result in getattr(answer, "results", None) or ():
                if response is not None and result.error_code == 0:
                    self._describe(result, response)
        elif not getattr(asked, "validate_only", False):
            answered = getattr(answer, "responses", None) or ()
            results = {(result.resource_type, result.resource_name): result.error_code for result in answered}
            for resource in getattr(asked, "resources", None) or ():
                error = results.get((resource.resource_type, resource.resource_name))
                if not error:
                    self._alter(resource, request if error is None else response or request, error == 0)

    def _describe(self, result: Any, response: Message) -> None:
        for key, config in _settings(result, response.broker):
            number, before = _number(config), self._values.get(key)
            is_of_group = key[0] is not None
            is_read_only = bool(config.read_only) and not is_of_group
            value = Value(number or 0, response.packet, response.broker, is_read_only, is_of_group)
            if number is None:
                self._values.pop(key, None)
            elif before is None or before[::2] != value[::2]:
                self._put(key, value)

    def _alter(self, resource: Any, message: Message, is_done: bool) -> None:
        """Take new values of groups. Those of brokers become unknown: several resources set one value."""
        is_group = resource.resource_type == ConfigResourceType.GROUP
        names = {config.name for config in resource.configs or ()}
        replaces_all = message.api_key == ALTER_CONFIGS
        for key in [*self._values]:
            group_id, _, name = key
            if (group_id is not None) is not is_group or (is_group and group_id != resource.resource_name):
                continue
            if replaces_all or (_GROUP_NAMES[name] if is_group else name) in names:
                del self._values[key]
        for key, config in _settings(resource, message.broker) if is_group and is_done else ():
            number = _number(config)
            if number is not None and getattr(config, "config_operation", ConfigOperation.SET) == ConfigOperation.SET:
                self._put(key, Value(number, message.packet, message.broker, is_of_group=True))

    def _put(self, key: _Key, value: Value) -> None:
        if key in self._values or len(self._values) < limits.GROUPS:
            self._values[key] = value


def _settings(resource: Any, address: str) -> Iterator[tuple[_Key, Any]]:
    """Yield the settings of a resource that rules read. A broker without a name stands for the cluster's defaults."""
    names = _NAMES.get(resource.resource_type)
    if not names or not resource.resource_name:
        return
    is_group = resource.resource_type == ConfigResourceType.GROUP
    for config in resource.configs or ():
        if config.name in names:
            key = (resource.resource_name, "") if is_group else (None, address)
            yield (*key, names[config.name]), config


def _number(config: Any) -> int | None:
    return int(config.value) if isinstance(config.value, str) and config.value.isdecimal() else None
