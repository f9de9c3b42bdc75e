"""The JSON of a records field as a schema, for code that refers to its fields by name.

The classes are in kshark.records.batch.
"""

from __future__ import annotations

from typing import Final

from kshark.schema import array, boolean, bytes_, int16, int32, int64, string, struct, uint32

#: Headers are pairs, which have no names; sizes replace bytes where payloads are left out.
RECORD: Final = struct(
    int64("offset"),
    int64("timestamp"),
    bytes_("key", nullable="0+"),
    bytes_("value", nullable="0+"),
    array("headers", struct()),
    struct(string("type"), int16("version"), int32("coordinator_epoch"), name="control"),
    int32("key_size"),
    int32("value_size"),
)
RECORDS: Final = struct(
    int32("size"),
    array(
        "batches",
        struct(
            int64("base_offset"),
            int32("size"),
            int32("partition_leader_epoch"),
            int32("magic"),
            uint32("crc"),
            boolean("crc_ok"),
            string("codec"),
            string("timestamp_type"),
            boolean("transactional"),
            boolean("control"),
            int32("last_offset_delta"),
            int64("base_timestamp"),
            int64("max_timestamp"),
            int64("producer_id"),
            int16("producer_epoch"),
            int32("base_sequence"),
            int32("count"),
            array("records", RECORD),
            boolean("delete_horizon"),
        ),
    ),
    int32("partial_bytes"),
)
