"""Settings of groups, as DescribeConfigs shows them and administrators change them. Kafka: GroupConfig (KIP-1043,
KIP-932, KIP-1240)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kshark import limits
from kshark.analysis import Moment
from kshark.api_keys import ALTER_CONFIGS, DESCRIBE_CONFIGS
from kshark.groups.listed import GroupSetting, GroupType, SettingSource
from kshark.recent import Recent
from kshark_dissectors.enums import ConfigOperation, ConfigResourceType, ConfigSource

#: Settings of groups for which each broker has one of the same name after this prefix, for groups without their own.
_BROKERS: Final = "group."
_HAVE_DEFAULT: Final = frozenset(
    {
        "share.record.lock.duration.ms",
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        *(
            f"{type}.{name}.ms"
            for type in ("consumer", "share", "streams")
            for name in ("session.timeout", "heartbeat.interval")
        ),
    }
)
#: Most settings that are kept of one group; Kafka 4.4 has fewer than 30.
_MOST: Final = 100


class GroupSettings:
    """The settings of the groups of one cluster; `learn` takes exchanges in the order of the time line.

    A setting whose change may have failed is unknown until an answer shows it again.
    """

    def __init__(self) -> None:
        #: By group and name; None: unknown.
        self._groups: Recent[str, dict[str, GroupSetting | None]] = Recent(dict, "GROUPS")
        #: By address: what a broker's DescribeConfigs shows.
        self._brokers: dict[str, dict[str, GroupSetting | None]] = {}

    def of(self, group_id: str, type: GroupType | None) -> list[GroupSetting]:
        """Return the settings of a group by name: its own, and of those it has not set itself the ones of its type."""
        known = {**dict(self._defaults()), **(self._groups.get(group_id) or {})}
        return [
            setting
            for name, setting in sorted(known.items())
            if setting is not None and (setting.source == "group" or name.startswith(f"{type}."))
        ]

    def learn(self, api_key: int, request: Any, answer: Any, at: Moment, broker: str) -> None:
        """Take an exchange of one of CONFIG_APIS with a broker."""
        if api_key == DESCRIBE_CONFIGS:
            for resource in getattr(answer, "results", None) or ():
                if resource.error_code == 0:
                    self._describe(resource, at, broker)
            return
        if getattr(request, "validate_only", False):
            return
        results = {
            (one.resource_type, one.resource_name): one.error_code for one in getattr(answer, "responses", None) or ()
        }
        for resource in getattr(request, "resources", None) or ():
            error = results.get((resource.resource_type, resource.resource_name))
            if resource.resource_type == ConfigResourceType.GROUP and not error:
                self._alter(resource, at, is_done=error == 0, replaces=api_key == ALTER_CONFIGS)

    def _describe(self, resource: Any, at: Moment, broker: str) -> None:
        if resource.resource_type == ConfigResourceType.GROUP and resource.resource_name:
            settings = self._groups.of(resource.resource_name)
            for config in resource.configs or ():
                source: SettingSource = "group" if _is_own(config) else "default"
                _put(settings, GroupSetting(config.name, config.value, source, at.packet, at.time_ns))
        elif resource.resource_type == ConfigResourceType.BROKER and resource.resource_name:
            self._describe_broker(resource, at, broker)

    def _describe_broker(self, resource: Any, at: Moment, broker: str) -> None:
        if broker not in self._brokers and len(self._brokers) >= limits.BROKERS:
            return
        settings = self._brokers.setdefault(broker, {})
        for config in resource.configs or ():
            name = config.name.removeprefix(_BROKERS)
            if name != config.name and name in _HAVE_DEFAULT:
                _put(settings, GroupSetting(name, config.value, "broker", at.packet, at.time_ns))

    def _alter(self, resource: Any, at: Moment, *, is_done: bool, replaces: bool) -> None:
        settings, configs = self._groups.of(resource.resource_name), resource.configs or ()
        changed = {config.name for config in configs} | ({*settings, *_HAVE_DEFAULT} if replaces else set())
        if not is_done:
            settings.update(dict.fromkeys(sorted(changed)[:_MOST]))
            return
        for name in changed:
            settings.pop(name, None)
        for config in configs:
            if getattr(config, "config_operation", ConfigOperation.SET) == ConfigOperation.SET:
                _put(settings, GroupSetting(config.name, config.value, "group", at.packet, at.time_ns))

    def _defaults(self) -> Iterator[tuple[str, GroupSetting]]:
        """Yield what the brokers have for groups without their own setting, unless two brokers differ."""
        for name in {name for settings in self._brokers.values() for name in settings}:
            shown = [setting for settings in self._brokers.values() if (setting := settings.get(name)) is not None]
            if len({setting.value for setting in shown}) == 1:
                yield name, shown[-1]


def _is_own(config: Any) -> bool:
    """True if the group has this setting itself. Version 0 only says that it is not the default."""
    source = getattr(config, "config_source", None)
    return source == ConfigSource.GROUP_CONFIG if isinstance(source, int) else not getattr(config, "is_default", True)


def _put(settings: dict[str, GroupSetting | None], setting: GroupSetting) -> None:
    """Set a setting; one that has the same value keeps the packet that showed it first."""
    before = settings.get(setting.name)
    if before is not None and (before.value, before.source) == (setting.value, setting.source):
        return
    if before is not None or len(settings) < _MOST:
        settings[setting.name] = setting
