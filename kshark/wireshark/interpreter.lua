-- The interpreter of the tables above. It works in two steps, because Wireshark dissects packets again, in any order:
-- the first time it cuts a connection into messages and joins answers with requests, in the order of the capture, and
-- keeps a row for each message; every time it shows the messages of such rows.
--
-- Lua 5.2 to 5.4: no bit operators, no integer division, no string.unpack.

local LONGEST_ANSWER, LONGEST_REQUEST = 2147483643, 104857600 -- by the length field; socket.request.max.bytes
local LONGEST_UNCERTAIN = 1048576 -- a length without other evidence is believed up to here
local MOST_ITEMS = 500000         -- of one message; Wireshark ends a packet's dissection after 1,000,000
local MOST_HEAD = 32777           -- of a request: up to the end of the longest client id
local MOST_UUIDS = 10000          -- texts of uuids that are kept
local MOST_NOTES = 20             -- faults and errors of one message that get an expert info
local LONGEST_SCAN = 65536        -- bytes of a segment that are searched for the next message
local LEAST_ANSWER = 8            -- bytes from which an answer is recognised without a known boundary
local LEAST_PRODUCE = 80          -- bytes of zeros easily look like a shorter Produce request of version 0
local PRODUCE = 0
local BATCH_BYTES, MAGIC_AT = 61, 16
local CODECS = {[0] = "none", "gzip", "snappy", "lz4", "zstd"}

local byte, char, find, format, sub = string.byte, string.char, string.find, string.format, string.sub
local floor, concat = math.floor, table.concat

if set_plugin_info then
  set_plugin_info({version = VERSION, author = "kshark", description = "Apache Kafka, with share groups (KIP-932)"})
end

local kafka = Proto("kshark", "Apache Kafka (kshark)")

-- == Versions

local RANGES = {}

--- Return the lowest and the highest version of a range: "0-3", "2+", "4", "none".
local function range_of(text)
  local range = RANGES[text]
  if not range then
    local low, high = text:match("^(%d+)%-(%d+)$")
    if not low then
      low = text:match("^(%d+)%+?$")
      high = text:match("%+$") and 32767 or low
    end
    range = {tonumber(low or 0), tonumber(high or -1)}
    RANGES[text] = range
  end
  return range[1], range[2]
end

local function within(version, text)
  if not text then return true end
  local low, high = range_of(text)
  return version >= low and version <= high
end

-- == Fields

local OWN = {
  len = ProtoField.int32("kshark.len", "length", base.DEC, nil, nil, "bytes of the message after this field"),
  api = ProtoField.string("kshark.api", "api"),
  api_key = ProtoField.int16("kshark.api_key", "api_key", base.DEC, ENUMS.ApiKey),
  api_version = ProtoField.int16("kshark.api_version", "api_version", base.DEC),
  correlation_id = ProtoField.int32("kshark.correlation_id", "correlation_id", base.DEC),
  client_id = ProtoField.string("kshark.client_id", "client_id"),
  request = ProtoField.bool("kshark.request", "request"),
  response = ProtoField.bool("kshark.response", "response"),
  request_in = ProtoField.framenum("kshark.request_in", "request in", base.NONE, frametype.REQUEST),
  response_in = ProtoField.framenum("kshark.response_in", "response in", base.NONE, frametype.RESPONSE),
  latency = ProtoField.relative_time("kshark.latency", "latency",
    "from the request's last packet to the response's first"),
  null = ProtoField.string("kshark.null", "null", nil, "name of a field whose value is null"),
  masked = ProtoField.string("kshark.masked", "masked", nil, "name of a field that holds a credential"),
  tag = ProtoField.bytes("kshark.tag", "tag", base.NONE, "a tagged field that is not in the tables"),
  token = ProtoField.bytes("kshark.token", "SASL token", base.NONE, "a token without header (SaslHandshake v0)"),
  batch = ProtoField.none("kshark.batch", "batch", "a record batch"),
  skipped = ProtoField.bytes("kshark.skipped", "skipped", base.NONE, "bytes in which no message begins"),
}
local NOTES = {
  error = ProtoExpert.new("kshark.error", "error code", expert.group.RESPONSE_CODE, expert.severity.NOTE),
  fault = ProtoExpert.new("kshark.fault", "the body does not fit its layout", expert.group.MALFORMED,
    expert.severity.WARN),
  unknown_version = ProtoExpert.new("kshark.unknown_version", "unknown API or version", expert.group.UNDECODED,
    expert.severity.NOTE),
  unmatched = ProtoExpert.new("kshark.unmatched", "the capture has no request for it", expert.group.SEQUENCE,
    expert.severity.NOTE),
  cut = ProtoExpert.new("kshark.cut", "the capture does not hold all bytes", expert.group.UNDECODED,
    expert.severity.NOTE),
  resync = ProtoExpert.new("kshark.resync", "bytes in which no message begins", expert.group.SEQUENCE,
    expert.severity.NOTE),
}

local ALL_FIELDS = {} -- ProtoFields in order
local BY_KEY = {}     -- the same by filter name, type and enum

local SIZES = {bool = 1, int8 = 1, int16 = 2, uint16 = 2, int32 = 4, uint32 = 4, int64 = 8, float64 = 8, uuid = 16}
local UNSIGNED = {uint16 = true, uint32 = true}

local function new_field(name, label, type, enum, about)
  local abbreviation = "kshark." .. name
  if type == "none" then return ProtoField.none(abbreviation, label, about) end
  if type == "bool" then return ProtoField.bool(abbreviation, label, base.NONE, nil, 0, about) end
  if type == "float64" then return ProtoField.double(abbreviation, label, about) end
  if type == "string" or type == "uuid" then return ProtoField.string(abbreviation, label, nil, about) end
  if type == "bytes" or type == "records" then return ProtoField.bytes(abbreviation, label, base.NONE, about) end
  return ProtoField[type](abbreviation, label, base.DEC, enum, nil, about)
end

--- Return the ProtoField of a row, the same for rows with equal filter name, type and enum.
local function field_of(name, label, type, enum, about)
  local key = name .. "/" .. type .. "/" .. (enum or "")
  if not BY_KEY[key] then
    BY_KEY[key] = new_field(name, label, type, enum and ENUMS[enum], about)
    ALL_FIELDS[#ALL_FIELDS + 1] = BY_KEY[key]
  end
  return BY_KEY[key]
end

--- Register the fields of a struct's rows.
local function register(rows)
  for _, row in ipairs(rows) do
    local name, type, enum = row.id or row[1], row[2], row.enum
    if row.bits then enum = nil end
    if type == "array" then
      row.count = field_of(row[1] .. ".count", row[1], "int32", nil, "number of elements")
      if _G.type(row.of) == "table" then
        row.field = field_of(row[1] .. ".entry", row[1], "none", nil, row.about)
      else
        row.field = field_of(name, row[1], row.of, enum, row.about)
      end
    elseif type == "struct" then
      row.field = field_of(row[1] .. ".struct", row[1], "none", nil, row.about)
    else
      row.field = field_of(name, row[1], type, enum, row.about)
    end
  end
end

for _, field in pairs({"len", "api", "api_key", "api_version", "correlation_id", "client_id", "request", "response",
  "request_in", "response_in", "latency", "null", "masked", "tag", "token", "batch", "skipped"}) do
  ALL_FIELDS[#ALL_FIELDS + 1] = OWN[field]
end
for _, row in ipairs(BATCH) do row.id = "batch." .. row[1] end
for _, rows in ipairs(STRUCTS) do register(rows) end
for _, header in pairs(HEADERS) do
  for _, row in ipairs(header[1]) do
    row.field = OWN[row[1]:gsub("^request_", "")]
  end
end
kafka.fields = ALL_FIELDS
kafka.experts = {NOTES.error, NOTES.fault, NOTES.unknown_version, NOTES.unmatched, NOTES.cut, NOTES.resync}
kafka.prefs.ports = Pref.range("TCP ports", "9092", "Ports of brokers; Kafka on other ports is recognised by content",
  65535)
kafka.prefs.credentials = Pref.bool("Show credentials", false,
  "SASL tokens, SCRAM hashes, delegation HMACs, values of sensitive configurations")

-- == Layouts of one version

local SHAPES = {}

--- Return the fields of a struct in one version: slots in wire order, tagged fields by tag.
local function shape_of(rows, version, flexible)
  local shapes = SHAPES[rows]
  if not shapes then
    shapes = {}
    SHAPES[rows] = shapes
  end
  local key = version * 2 + (flexible and 1 or 0)
  if shapes[key] then return shapes[key] end
  local shape = {flexible = flexible, tags = {}, flags = {}}
  shapes[key] = shape
  for _, row in ipairs(rows) do
    if within(version, row.v) then
      local slot = {row = row, name = row[1], type = row[2], field = row.field}
      slot.compact = flexible and within(version, row.flex)
      slot.nullable = row.null ~= nil and within(version, row.null)
      slot.tagged = row.tag ~= nil and within(version, row.tagged)
      slot.secret = row.secret and SECRETS[row.secret]
      local inner = row.fields or (type(row.of) == "table" and row.of)
      if inner then
        slot.shape = shape_of(inner, version, slot.compact)
      elseif row.of then
        slot.element = {row = row, name = row[1], type = row.of, field = row.field, compact = slot.compact}
      end
      if not slot.tagged then
        shape[#shape + 1] = slot
      elseif flexible then
        shape.tags[row.tag] = slot
      end
      if slot.secret and slot.secret.flag then shape.flag = slot.secret.flag end
      if row.name_in then shape.id, shape.id_name = row[1], row.name_in end
    end
  end
  return shape
end

-- == Reader

-- A reader `r` has the bytes of one message in `s`, at position `p` (from 0) up to `limit`. `stopped`: the bytes do not
-- fit, reading has ended. Functions return the value, or nil. `tree` nil: read, but show nothing.

local topic_names -- by topic id, as messages before showed them

local function note(r, item, kind, text)
  r.notes = r.notes + 1
  if item and r.notes <= MOST_NOTES then item:add_proto_expert_info(NOTES[kind], text) end
end

local function fault(r, code, text)
  r.faults[#r.faults + 1] = code
  note(r, r.item, "fault", code .. ": " .. text)
end

--- End reading: the bytes up to `needed` are not here. That is no fault if the message has them, and the capture not.
local function stop(r, code, text, needed)
  r.stopped = true
  if r.cut and (needed or r.limit) <= r.total then
    r.faults[#r.faults + 1] = "BODY_CUT"
  else
    local where = concat(r.path, ".")
    fault(r, code, (where ~= "" and where .. ": " or "") .. text)
  end
end

--- Return the range of the message's bytes from `from` to `to`, for the tree.
local function span(r, from, to)
  return r.tvb:range(r.base + from, to - from)
end

local function may_add(r, tree)
  if not tree then return false end
  r.items = r.items + 1
  return r.items <= MOST_ITEMS
end

local function fixed(r, size)
  local at = r.p
  if r.limit - at < size then
    stop(r, "BODY_TOO_SHORT", size .. " bytes expected, " .. r.limit - at .. " are left", at + size)
    return nil
  end
  r.p = at + size
  return at
end

local HALF = {[1] = 128, [2] = 32768, [4] = 2147483648}

local function unsigned_at(s, at, size)
  if size == 1 then return byte(s, at + 1) end
  local a, b, c, d = byte(s, at + 1, at + size)
  if size == 2 then return a * 256 + b end
  return ((a * 256 + b) * 256 + c) * 256 + d
end

local function int_at(s, at, size)
  local value = unsigned_at(s, at, size)
  if value >= HALF[size] then value = value - 2 * HALF[size] end
  return value
end

local function uvarint(r)
  local value, factor = 0, 1
  for _ = 1, 5 do
    if r.p >= r.limit then
      stop(r, "BODY_TOO_SHORT", "the message ends inside a varint")
      return nil
    end
    local b = byte(r.s, r.p + 1)
    r.p = r.p + 1
    value = value + b % 128 * factor
    if b < 128 and value < 4294967296 then return value end
    factor = factor * 128
  end
  stop(r, "VARINT_TOO_LONG", "a varint of more than 32 bits", r.total + 1)
  return nil
end

--- Read a length or count; negative for null.
local function length_of(r, compact, size)
  if compact then
    local value = uvarint(r)
    return value and value - 1
  end
  local at = fixed(r, size)
  return at and int_at(r.s, at, size)
end

local NO_ID = ("A"):rep(22)
local BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

local uuids, uuid_count = {}, 0 -- texts by bytes: few, and repeated in every message

--- Return Kafka's text of a uuid: 22 characters of URL-safe base64.
local function uuid_text(raw)
  if uuids[raw] then return uuids[raw] end
  local text, held, bits = {}, 0, 0
  for index = 1, 16 do
    held, bits = held * 256 + byte(raw, index), bits + 8
    while bits >= 6 do
      bits = bits - 6
      local digit = floor(held / 2 ^ bits)
      held = held - digit * 2 ^ bits
      text[#text + 1] = sub(BASE64, digit + 1, digit + 1)
    end
  end
  local last = held * 16
  text[#text + 1] = sub(BASE64, last + 1, last + 1)
  if uuid_count >= MOST_UUIDS then uuids, uuid_count = {}, 0 end
  uuids[raw], uuid_count = concat(text), uuid_count + 1
  return uuids[raw]
end

local function is_utf8(s)
  local at, size = 1, #s
  while true do
    at = find(s, "[\128-\255]", at)
    if not at then return true end
    local lead = byte(s, at)
    local more = lead >= 194 and (lead < 224 and 1 or lead < 240 and 2 or lead < 245 and 3)
    if not more or at + more > size then return false end
    local second = byte(s, at + 1)
    local low = lead == 224 and 160 or lead == 240 and 144 or 128
    local high = lead == 237 and 159 or lead == 244 and 143 or 191
    if second < low or second > high then return false end
    for index = at + 2, at + more do
      local b = byte(s, index)
      if b < 128 or b > 191 then return false end
    end
    at = at + more + 1
  end
end

local function escaped(c)
  return format("\\x%02x", byte(c))
end

--- Return text that is safe in a column: control characters, and bytes that are not UTF-8, are escaped.
local function safe(text)
  text = tostring(text):gsub("[%c\127]", escaped)
  if not is_utf8(text) then text = text:gsub("[\128-\255]", escaped) end
  return text
end

--- True if a name ends in one of the words, in upper or lower case; a dot stands for `.`, `-`, `_` or nothing.
local function ends_in(name, words)
  local plain = name:lower():gsub("[._-]", "")
  for _, word in ipairs(words) do
    local tail = word:gsub("%.", "")
    if sub(plain, -#tail) == tail then return true end
  end
  return false
end

--- True if the value of a slot is a credential; `values` are those of the fields next to it.
local function is_masked(slot, values)
  local secret = slot.secret
  if not secret or kafka.prefs.credentials then return false end
  if not secret.flag and not secret.name then return true end
  return secret.flag and values[secret.flag] == true
    or secret.name and type(values[secret.name]) == "string" and ends_in(values[secret.name], secret.ends)
end

local function show_null(r, tree, name, from)
  if may_add(r, tree) then tree:add(OWN.null, span(r, from, r.p), name):set_text(name .. ": null") end
end

local function show_masked(r, tree, name, from, size)
  if may_add(r, tree) then
    tree:add(OWN.masked, span(r, from, r.p), name):set_text(format("%s: <%d bytes, masked>", name, size))
  end
end

local function bits_text(value, enum)
  local names, numbers = {}, {}
  for number in pairs(enum) do numbers[#numbers + 1] = number end
  table.sort(numbers)
  for _, number in ipairs(numbers) do
    if number >= 0 and number < 31 and floor(value / 2 ^ number) % 2 == 1 then names[#names + 1] = enum[number] end
  end
  return concat(names, ", ")
end

local function show_fixed(r, tree, slot, at, value)
  if not may_add(r, tree) then return end
  local range = span(r, at, r.p)
  if slot.type == "uuid" then
    local item = tree:add(slot.field, range, value)
    if topic_names[value] then item:append_text(" (" .. topic_names[value] .. ")") end
    return
  end
  local item = tree:add(slot.field, range)
  if slot.row.enum == "ErrorCode" and value ~= 0 then
    note(r, item, "error", slot.name .. ": " .. (ENUMS.ErrorCode[value] or tostring(value)))
  elseif slot.row.bits and value > 0 then
    item:append_text(" (" .. bits_text(value, ENUMS[slot.row.enum]) .. ")")
  end
end

local function read_fixed(r, tree, slot)
  local kind = slot.type
  local at = fixed(r, SIZES[kind])
  if not at then return nil end
  local value
  if kind == "uuid" then
    value = uuid_text(sub(r.s, at + 1, at + 16))
  elseif kind == "bool" then
    value = byte(r.s, at + 1) ~= 0
  elseif UNSIGNED[kind] then
    value = unsigned_at(r.s, at, SIZES[kind])
  elseif HALF[SIZES[kind]] then
    value = int_at(r.s, at, SIZES[kind])
  end
  if slot.row.enum == "ErrorCode" and value ~= 0 then r.errors[#r.errors + 1] = value end
  show_fixed(r, tree, slot, at, value)
  return value
end

local shape_of_batch = shape_of(BATCH, 0, false)
local read_struct

--- Show the header of the record batch at `at`, whose records end at `ends`; `part`: the batch is longer.
local function show_batch(r, tree, at, ends, part)
  if not may_add(r, tree) then return end
  local item = tree:add(OWN.batch, span(r, at, ends))
  local first = span(r, at, at + 8):int64()
  local position, limit = r.p, r.limit
  r.p, r.limit = at, at + BATCH_BYTES
  local values = read_struct(r, item, shape_of_batch)
  r.p, r.limit = position, limit
  local last = first + Int64.new(math.max(0, values.last_offset_delta))
  local bits = values.attributes % 64
  local offsets = "offset " .. tostring(first)
  if last ~= first then offsets = format("offsets %s to %s", tostring(first), tostring(last)) end
  local words = {format("batch: %s, %d record%s", offsets, values.count, values.count == 1 and "" or "s")}
  if bits % 8 > 0 then words[#words + 1] = CODECS[bits % 8] or "codec " .. bits % 8 end
  if floor(bits / 16) % 2 == 1 then words[#words + 1] = "transactional" end
  if floor(bits / 32) % 2 == 1 then words[#words + 1] = "control" end
  if part then words[#words + 1] = "not whole" end
  item:set_text(concat(words, ", "))
end

--- Show the headers of record batches with magic 2, up to the first bytes that are none.
local function show_batches(r, tree, at, ends)
  while ends - at >= BATCH_BYTES and byte(r.s, at + MAGIC_AT + 1) == 2 do
    local next_at = at + 12 + int_at(r.s, at + 8, 4)
    if next_at < at + BATCH_BYTES then return end
    show_batch(r, tree, at, math.min(next_at, ends), next_at > ends)
    at = next_at
  end
end

local function show_sized(r, tree, slot, start, size)
  if not may_add(r, tree) then return end
  local range = span(r, start, start + size)
  if slot.type == "string" then
    tree:add_packet_field(slot.field, range, ENC_UTF_8)
  elseif slot.type == "records" then
    local item = tree:add(slot.field, range)
    item:set_text(format("%s: %d bytes", slot.name, size))
    if not slot.row.unaligned then show_batches(r, item, start, start + size) end
  else
    tree:add(slot.field, range)
  end
end

local function read_sized(r, tree, slot, values)
  local from = r.p
  local size = length_of(r, slot.compact, slot.type == "string" and 2 or 4)
  if not size then return nil end
  if size < 0 then
    if not slot.nullable then fault(r, "NULL_NOT_ALLOWED", slot.name .. " is null") end
    show_null(r, tree, slot.name, from)
    return nil
  end
  local start = r.p
  if size > r.limit - start then
    stop(r, "LENGTH_INVALID", format("%s of %d bytes, %d are left", slot.type, size, r.limit - start), start + size)
    return nil
  end
  r.p = start + size
  local text = slot.type == "string" and sub(r.s, start + 1, r.p) or nil
  if text and not is_utf8(text) then fault(r, "NOT_UTF8", slot.name .. " is not UTF-8") end
  if size > 0 and is_masked(slot, values) then
    show_masked(r, tree, slot.name, from, size)
    return nil
  end
  show_sized(r, tree, slot, start, size)
  return text
end

local TOPIC_FIELDS = {topic = true, topic_id = true, topic_name = true}
local TOPIC_ARRAYS = {topic_data = true, responses = true}

--- Keep the first text of an element of an outermost array, for the Info column; `field` is that of the text.
local function remember_first(r, slot, field, value)
  if r.depth == 1 and not slot.tagged and type(value) == "string" then
    local label = (TOPIC_FIELDS[field] or TOPIC_ARRAYS[slot.name]) and "topics" or slot.name
    r.firsts[#r.firsts + 1] = {label, topic_names[value] or value}
  end
end

local function read_array(r, tree, slot)
  local from = r.p
  local count = length_of(r, slot.compact, 4)
  if not count then return end
  if count < 0 then
    if not slot.nullable then fault(r, "NULL_NOT_ALLOWED", slot.name .. " is null") end
    show_null(r, tree, slot.name, from)
    return
  end
  local left = r.limit - r.p
  local item = may_add(r, tree) and tree:add(slot.row.count, span(r, from, r.p), count) or nil
  local element = slot.element
  r.depth = r.depth + 1
  for index = 0, count - 1 do
    r.path[#r.path + 1] = slot.name .. "[" .. index .. "]"
    if element then
      local value
      if SIZES[element.type] then
        value = read_fixed(r, item, element)
      else
        value = read_sized(r, item, element, {})
      end
      remember_first(r, slot, "", value)
    else
      local begin = r.p
      local inner = may_add(r, item) and item:add(slot.field, span(r, begin, r.limit)) or nil
      local values = read_struct(r, inner, slot.shape)
      local field = slot.shape[1] and slot.shape[1].name
      local first = values[field or ""]
      remember_first(r, slot, field, first)
      if inner then
        inner:set_len(r.p - begin)
        local label = format("%s[%d]", slot.name, index)
        if first ~= nil then label = label .. ": " .. field .. " " .. safe(topic_names[first] or first) end
        inner:set_text(label)
      end
    end
    r.path[#r.path] = nil
    if r.stopped then break end
  end
  r.depth = r.depth - 1
  if item then item:set_len(r.p - from) end
  if r.stopped and count > left + r.total - r.limit then
    fault(r, "TOO_MANY_ELEMENTS", format("%s: %d elements in %d bytes", slot.name, count, left))
  end
end

local function read_nested(r, tree, slot)
  local from = r.p
  if slot.nullable then
    local marker
    if slot.tagged then
      marker = uvarint(r)
      marker = marker and marker - 1
    else
      local at = fixed(r, 1)
      marker = at and int_at(r.s, at, 1)
    end
    if not marker then return end
    if marker < 0 then
      show_null(r, tree, slot.name, from)
      return
    end
  end
  local inner = may_add(r, tree) and tree:add(slot.field, span(r, from, r.limit)) or nil
  r.depth = r.depth + 1
  read_struct(r, inner, slot.shape)
  r.depth = r.depth - 1
  if inner then inner:set_len(r.p - from) end
end

--- Read one field; return its value if it is a text, a bool or a number of up to 32 bits.
local function read_value(r, tree, slot, values)
  if SIZES[slot.type] then return read_fixed(r, tree, slot) end
  r.path[#r.path + 1] = slot.name
  local value
  if slot.type == "array" then
    r.path[#r.path] = nil
    read_array(r, tree, slot)
    return nil
  elseif slot.type == "struct" then
    read_nested(r, tree, slot)
  else
    value = read_sized(r, tree, slot, values)
  end
  r.path[#r.path] = nil
  return value
end

local function read_tag(r, tree, slot, values, size)
  local start, limit = r.p, r.limit
  r.limit = start + size
  values[slot.name] = read_value(r, tree, slot, values)
  local stopped, ended = r.stopped, r.p
  r.limit = limit
  if not stopped and ended ~= start + size then
    stop(r, "TAG_LENGTH_MISMATCH", format("%s takes %d of %d bytes", slot.name, ended - start, size))
  end
end

local function read_tags(r, tree, shape, values)
  local count = uvarint(r)
  local last = -1
  for _ = 1, count or 0 do
    local from = r.p
    local tag = uvarint(r)
    local size = tag and uvarint(r)
    if not size then return end
    if size > r.limit - r.p then
      stop(r, "LENGTH_INVALID", format("tag %d of %d bytes, %d are left", tag, size, r.limit - r.p), r.p + size)
      return
    end
    if tag <= last then fault(r, "TAGS_UNSORTED", format("tag %d after tag %d", tag, last)) end
    last = tag
    local stop_at = r.p + size
    if shape.tags[tag] then
      read_tag(r, tree, shape.tags[tag], values, size)
      if r.stopped then return end
    elseif may_add(r, tree) then
      tree:add(OWN.tag, span(r, r.p, stop_at)):prepend_text("[" .. tag .. "] ")
    end
    r.p = stop_at
    if r.p < from then return end
  end
end

local function read_slots(r, tree, shape, values)
  for _, slot in ipairs(shape) do
    local value = read_value(r, tree, slot, values)
    if value ~= nil then values[slot.name] = value end
    if r.stopped then return end
  end
  if shape.flexible then read_tags(r, tree, shape, values) end
end

--- Return the value of the flag that says if a field before it is a credential.
local function look_ahead(r, shape)
  local saved = {p = r.p, notes = r.notes, faults = r.faults, errors = r.errors, stopped = r.stopped, item = r.item}
  local values = {}
  r.faults, r.errors, r.item = {}, {}, nil
  local flag = shape.flag
  shape.flag = nil
  read_slots(r, nil, shape, values)
  shape.flag = flag
  for name in pairs({p = 1, notes = 1, faults = 1, errors = 1, stopped = 1}) do r[name] = saved[name] end
  r.item = saved.item
  return values[flag]
end

--- Read a struct; return the values of its fields by name, as far as read_value returns them.
function read_struct(r, tree, shape)
  local values = {}
  if shape.flag and not r.stopped then values[shape.flag] = look_ahead(r, shape) end
  read_slots(r, tree, shape, values)
  local id, name = shape.id and values[shape.id], shape.id and values[shape.id_name]
  if id and name and name ~= "" and not topic_names[id] and id ~= NO_ID then topic_names[id] = safe(name) end
  return values
end

--- Return a reader of a message of `total` bytes, of which `size` are in `tvb` from `offset` on.
local function new_reader(tvb, offset, size, total)
  return {
    tvb = tvb, base = offset, s = size > 0 and tvb:raw(offset, size) or "", p = 0, limit = size, total = total,
    cut = size < total, faults = {}, errors = {}, firsts = {}, path = {}, notes = 0, items = 0, depth = 0,
  }
end

-- == Bodies

--- Return the API's table and, if the tables have that version, true.
local function api_of(key, version)
  local api = APIS[key]
  return api, api ~= nil and within(version, api[2])
end

local function request_header_of(api, version)
  local fixed_version = api.request_header and api.request_header[version]
  return fixed_version or (within(version, api[3]) and 2 or 1)
end

local function response_header_of(api, version)
  return api.response_header or (within(version, api[3]) and 1 or 0)
end

--- Read a body to the end; return the values of its outermost fields.
local function read_layout(r, tree, rows, version, flexible)
  local values = read_struct(r, tree, shape_of(rows, version, flexible))
  if not r.stopped and r.p < r.limit then fault(r, "TRAILING_BYTES", r.limit - r.p .. " bytes after the body") end
  if not r.stopped and r.cut then r.faults[#r.faults + 1] = "BODY_CUT" end
  return values
end

--- True if the rest of the message fits these rows without a fault.
local function fits(r, rows, version, flexible)
  local trial = {tvb = r.tvb, base = r.base, s = r.s, p = r.p, limit = r.limit, total = r.total, cut = r.cut,
    faults = {}, errors = {}, firsts = {}, path = {}, notes = 0, items = 0, depth = 0}
  read_layout(trial, nil, rows, version, flexible)
  return #trial.faults == 0
end

--- Return the version of a body's layout: of an answer that begins with the error code of the fallback, another one.
local function layout_version(r, api, kind, version)
  local fallback = api.fallback
  if kind == "response" and fallback and r.limit - r.p >= 2 and int_at(r.s, r.p, 2) == fallback[1] then
    return fallback[2]
  end
  return version
end

local function read_body(r, tree, api, kind, version)
  local layout = kind == "request" and api.request or api.response
  version = layout_version(r, api, kind, version)
  local flexible = within(version, api[3])
  local rows = layout[1]
  local older = layout.older and layout.older[version]
  if older and not r.cut and not fits(r, rows, version, flexible) and fits(r, older, version, flexible) then
    r.faults[#r.faults + 1] = "LAYOUT_DRIFT"
    note(r, r.item, "fault", "LAYOUT_DRIFT: an older layout of this version ends where the message does")
    rows = older
  end
  return read_layout(r, tree, rows, version, flexible)
end

local function skip_tags(r, tree)
  read_tags(r, tree, {tags = {}}, {})
end

-- == What begins here

local function is_name(text)
  return #text > 0 and not find(text, "[%c\127]") and is_utf8(text)
end

--- True if a request begins at `offset`: an API and version that exist, a client id that ends inside the message.
local function begins_request(tvb, offset, named)
  local left = tvb:captured_len() - offset
  if left < 12 then return false end
  local head = tvb:raw(offset, math.min(left, 14))
  local length = int_at(head, 0, 4)
  local version = int_at(head, 6, 2)
  local api, known = api_of(int_at(head, 4, 2), version)
  if not api or version < 0 or length < 8 or length > LONGEST_REQUEST then return false end
  if not known then
    if length > left - 4 then return false end
    named = named or true
  end
  if request_header_of(api, version) == 0 then return not named end
  if #head < 14 then return length >= 10 and not named end
  local size = int_at(head, 12, 2)
  if size < -1 or size > length - 10 then return false end
  local here = math.max(0, math.min(size, left - 14))
  local name = here > 0 and tvb:raw(offset + 14, here) or ""
  if not named then return true end
  return named == true and is_name(name) or named == name
end

--- True if the whole request at `offset` is here, and its body fits to the last byte.
local function is_request(tvb, offset)
  if not begins_request(tvb, offset, false) then return false end
  local length = tvb:range(offset, 4):int()
  if length > tvb:captured_len() - offset - 4 then return false end
  local r = new_reader(tvb, offset + 4, length, length)
  local key, version = int_at(r.s, 0, 2), int_at(r.s, 2, 2)
  local api, known = api_of(key, version)
  if not known or key == PRODUCE and length < LEAST_PRODUCE then return false end
  local header = HEADERS.request
  local header_version = request_header_of(api, version)
  read_struct(r, nil, shape_of(header[1], header_version, header_version >= 2))
  if r.stopped then return false end
  read_body(r, nil, api, "request", version)
  return #r.faults == 0
end

-- == Connections

local connections -- by number of the TCP connection
local plans       -- what the first pass found in a piece of a connection, by packet and piece

local function forget_all()
  connections, plans, topic_names = {}, {}, {}
end

kafka.init = forget_all
forget_all()

local function extractor(name)
  local ok, field = pcall(Field.new, name)
  return ok and field or function() return nil end
end

local tcp_stream, tcp_seq, tcp_len = extractor("tcp.stream"), extractor("tcp.seq"), extractor("tcp.len")
local lost_segment = extractor("tcp.analysis.lost_segment")
local retransmissions = {extractor("tcp.analysis.retransmission"), extractor("tcp.analysis.fast_retransmission"),
  extractor("tcp.analysis.spurious_retransmission")}

-- Fields have values only where Wireshark builds a tree, which the first pass does for the sake of a filtered tap. The
-- first pass of `tshark -2` never does: then addresses and ports stand for the connection.
pcall(Listener.new, "tcp", "tcp.stream")

--- Return the last value of a field in this packet: with tunnels, that of the innermost layer.
local function value_of(field)
  local values = {field()}
  return values[#values] and values[#values].value
end

local function is_retransmitted()
  for _, field in ipairs(retransmissions) do
    if field() then return true end
  end
  return false
end

local ports = {}

local function set_ports(text)
  ports = {}
  for part in tostring(text):gmatch("[^,%s]+") do
    local low, high = part:match("^(%d+)%-(%d+)$")
    low, high = tonumber(low or part), tonumber(high or part)
    if low and high then ports[#ports + 1] = {low, math.min(high, 65535)} end
  end
end

local function is_broker_port(port)
  for _, range in ipairs(ports) do
    if port >= range[1] and port <= range[2] then return true end
  end
  return false
end

local function source_of(pinfo)
  return tostring(pinfo.src) .. "|" .. tostring(pinfo.src_port)
end

local function destination_of(pinfo)
  return tostring(pinfo.dst) .. "|" .. tostring(pinfo.dst_port)
end

local function connection_of(pinfo)
  local key = value_of(tcp_stream)
  local shows_gaps = key ~= nil
  if not key then
    local from, to = source_of(pinfo), destination_of(pinfo)
    key = from < to and from .. " " .. to or to .. " " .. from
  end
  if not connections[key] then
    connections[key] = {open = {}, sides = {request = {}, response = {}}, recent = {}, tokens = 0,
      shows_gaps = shows_gaps}
  end
  return connections[key]
end

--- Return "request" or "response": who sends, by what earlier packets showed, by port, or by content.
local function kind_of(connection, pinfo, tvb, offset)
  if not connection.client then
    local from, to = is_broker_port(pinfo.src_port), is_broker_port(pinfo.dst_port)
    if from == to then
      from, to = pinfo.match_uint == pinfo.src_port, pinfo.match_uint == pinfo.dst_port
    end
    if from == to then to = begins_request(tvb, offset, false) end
    connection.client = to and source_of(pinfo) or destination_of(pinfo)
  end
  return connection.client == source_of(pinfo) and "request" or "response"
end

--- Return the oldest open request with that correlation id.
local function open_request(connection, correlation_id)
  local waiting = connection.open[correlation_id]
  return waiting and waiting[1]
end

--- True if lengths lead from `offset` to the exact end of the piece.
local function chain_ends(tvb, offset)
  local size = tvb:reported_len()
  while offset < size do
    if tvb:captured_len() - offset < 8 then return false end
    local length = tvb:range(offset, 4):int()
    if length < 4 or length > size - offset - 4 then return false end
    offset = offset + 4 + length
  end
  return offset == size
end

--- True if an answer to an open request is at `offset`, and its body fits as far as it is here.
local function is_answer(connection, tvb, offset)
  local left = tvb:captured_len() - offset - 4
  if left < LEAST_ANSWER then return false end
  local length = tvb:range(offset, 4):int()
  if length < 4 or length > LONGEST_UNCERTAIN then return false end
  local request = open_request(connection, tvb:range(offset + 4, 4):int())
  if not request then return false end
  local api, known = api_of(request.key, request.version)
  if not known then return false end
  local r = new_reader(tvb, offset + 4, math.min(length, left), length)
  r.p = 4
  if response_header_of(api, request.version) == 1 then skip_tags(r, nil) end
  if r.stopped then return false end
  read_body(r, nil, api, "response", request.version)
  return #r.faults == 0 or #r.faults == 1 and r.faults[1] == "BODY_CUT"
end

--- True if a message begins at `offset`. On a side whose boundaries are known, a length that fits is enough.
local function begins_message(connection, side, kind, tvb, offset, raw)
  local left = tvb:reported_len() - offset
  local length = tvb:range(offset, 4):int()
  local is_here = length >= 0 and length <= left - 4
  if raw and length >= 0 and length <= LONGEST_UNCERTAIN then return true end
  if kind == "request" then
    if begins_request(tvb, offset, not side.synced and connection.client_id or false) then return true end
    if side.synced then return is_here or connection.shows_gaps and length >= 8 and length <= LONGEST_UNCERTAIN end
    return side.synced == nil and is_here and length >= 8 and chain_ends(tvb, offset)
  end
  if length < 4 then return false end
  if tvb:captured_len() - offset < 8 then return side.synced and is_here end
  if length > LONGEST_ANSWER then return false end
  if open_request(connection, tvb:range(offset + 4, 4):int()) then return true end
  if is_here then return side.synced or chain_ends(tvb, offset) end
  return side.synced and length <= LONGEST_UNCERTAIN and (connection.shows_gaps or next(connection.recent) == nil)
end

--- Return the next offset from which the bytes surely are a message, or the end of the piece.
local function next_message(connection, kind, tvb, offset)
  local last = math.min(tvb:captured_len(), offset + LONGEST_SCAN)
  for at = offset + 1, last - 12 do
    if kind == "request" then
      if begins_request(tvb, at, connection.client_id or true) then return at end
    elseif is_answer(connection, tvb, at) then
      return at
    end
  end
  return tvb:reported_len()
end

-- == First pass: cut a piece into messages

--- Keep a request until its response comes. A retransmitted one is the one that was seen before.
local function remember_request(connection, row, header)
  local request = {frame = row.frame, time = row.time, key = header.key, version = header.version, id = header.id}
  if row.copy then
    local recent = connection.recent[header.id]
    if recent and recent.key == header.key and recent.version == header.version then
      row.request = recent
      return
    end
    row.copy = false
  end
  row.request = request
  connection.recent[header.id] = request
  if header.client_id then connection.client_id = header.client_id end
  local waiting = connection.open[header.id]
  if waiting then
    waiting[#waiting + 1] = request
  else
    connection.open[header.id] = {request}
  end
end

--- Take a one-way request out of the open ones.
local function forget_request(connection, request)
  local waiting = connection.open[request.id]
  for index, other in ipairs(waiting or {}) do
    if other == request then table.remove(waiting, index) end
  end
  if waiting and #waiting == 0 then connection.open[request.id] = nil end
end

--- Give a response its request, the oldest open one with its correlation id; nil if there is none.
local function match_response(connection, row, id)
  local request = open_request(connection, id)
  if not request and row.copy then
    request = connection.recent[id]
    if request and not request.response_frame then request = nil end
  else
    row.copy = false
  end
  row.request = request
  if not request or row.copy then return end
  request.response_frame = row.frame
  forget_request(connection, request)
end

--- Return API key, version, correlation id and client id from the first bytes of a request; nil if it is too short.
local function request_head(s)
  if #s < 8 then return nil end
  local head = {key = int_at(s, 0, 2), version = int_at(s, 2, 2), id = int_at(s, 4, 4)}
  if #s >= 10 then
    local length = int_at(s, 8, 2)
    if length >= 0 and length <= #s - 10 then head.client_id = sub(s, 11, 10 + length) end
  end
  return head
end

--- Make the row of the message at `offset`, and change the state of the connection.
local function take_message(connection, kind, tvb, offset, length, frame, began, now, copy)
  local here = math.max(0, math.min(length, tvb:captured_len() - offset - 4))
  local row = {offset = offset, length = length, here = here, kind = kind, frame = frame, time = now, began = began,
    copy = copy}
  local s = here > 0 and tvb:raw(offset + 4, math.min(here, MOST_HEAD)) or ""
  if kind == "request" then
    if connection.raw and not is_request(tvb, offset) then
      row.token = true
      connection.tokens = connection.tokens + 1
      return row
    end
    connection.raw, connection.tokens = nil, 0
    local head = request_head(s)
    if head then remember_request(connection, row, head) end
  elseif connection.tokens > 0 then
    row.token = true
    connection.tokens = connection.tokens - 1
  elseif here >= 4 then
    row.id = int_at(s, 0, 4)
    match_response(connection, row, row.id)
  end
  return row
end

-- == Every pass: show a message

local INFO = {
  group_id = "group", member_id = "member", share_session_epoch = "epoch", session_epoch = "epoch",
  member_epoch = "epoch", generation_id = "generation", generation_id_or_member_epoch = "epoch",
  transactional_id = "transaction", acks = "acks", client_software_name = "software", mechanism = "mechanism",
  key = "key", broker_id = "broker",
}
local INFO_ORDER = {"transactional_id", "group_id", "member_id", "share_session_epoch", "session_epoch", "member_epoch",
  "generation_id", "generation_id_or_member_epoch", "acks", "key", "client_software_name", "mechanism", "broker_id"}

--- Return what the Info column says of a body, beside API, version and correlation id.
local function info_of(r, values)
  local parts = {}
  for _, name in ipairs(INFO_ORDER) do
    local value = values[name]
    if value ~= nil and value ~= "" then parts[#parts + 1] = INFO[name] .. "=" .. safe(value) end
  end
  if r.firsts[1] then
    local more = 0
    for _, first in ipairs(r.firsts) do
      if first[1] == r.firsts[1][1] then more = more + 1 end
    end
    parts[#parts + 1] = r.firsts[1][1] .. "=" .. safe(r.firsts[1][2]) .. (more > 1 and " +" .. more - 1 or "")
  end
  local counts, order = {}, {}
  for _, code in ipairs(r.errors) do
    if not counts[code] then order[#order + 1] = code end
    counts[code] = (counts[code] or 0) + 1
  end
  for _, code in ipairs(order) do
    parts[#parts + 1] = (ENUMS.ErrorCode[code] or "error " .. code) .. (counts[code] > 1 and " x" .. counts[code] or "")
  end
  return concat(parts, " ")
end

local function name_of(key)
  return API_NAMES[key] or "API " .. key
end

local function generated(tree, field, range, value)
  local item = tree:add(field, range, value)
  item:set_generated()
  return item
end

local function show_rest(r, tree, text)
  if r.p < r.limit then tree:add(span(r, r.p, r.limit), text .. ": " .. r.limit - r.p .. " bytes") end
end

--- Show the header of a request, and its links. Return false if it is cut.
local function show_request_header(r, tree, row, version)
  local api = row.request and APIS[row.request.key]
  local header_version = api and request_header_of(api, version) or 1
  read_struct(r, tree, shape_of(HEADERS.request[1], header_version, header_version >= 2))
  local request = row.request
  if request then
    generated(tree, OWN.api, span(r, 0, 2), name_of(request.key))
    if request.response_frame then generated(tree, OWN.response_in, span(r, 0, 0), request.response_frame) end
  end
  return not r.stopped
end

local function show_response_header(r, tree, row)
  local request = row.request
  local api = request and APIS[request.key]
  local version = api and response_header_of(api, request.version) or 0
  read_struct(r, tree, shape_of(HEADERS.response[1], version, version >= 1))
  if not request then return not r.stopped end
  generated(tree, OWN.api, span(r, 0, 0), name_of(request.key))
  generated(tree, OWN.api_key, span(r, 0, 0), request.key)
  generated(tree, OWN.api_version, span(r, 0, 0), request.version)
  generated(tree, OWN.request_in, span(r, 0, 0), request.frame)
  if row.began and request.time then
    local nanoseconds = floor((row.began - request.time) * 1e9 + 0.5)
    local seconds = floor(nanoseconds / 1e9)
    generated(tree, OWN.latency, span(r, 0, 0), NSTime.new(seconds, nanoseconds - seconds * 1000000000))
  end
  return not r.stopped
end

--- Show a body; return what the Info column says of it.
local function show_body(connection, r, tree, row, first_pass)
  local request, kind = row.request, row.kind
  local api = APIS[request.key]
  if not (api and within(layout_version(r, api, kind, request.version), api[2])) then
    local what = api and format("version %d of %s", request.version, api[1]) or name_of(request.key)
    note(r, r.item, "unknown_version", format("%s is unknown to kshark %s: only the header is decoded", what, VERSION))
    show_rest(r, tree, "body, not decoded")
    return "[unknown version]"
  end
  local values = read_body(r, tree, api, kind, request.version)
  if r.items > MOST_ITEMS then
    note(r, r.item, "cut", "the tree ends after " .. MOST_ITEMS .. " items; the message has more")
  end
  if r.stopped then show_rest(r, tree, r.cut and "cut" or "not decoded") end
  if first_pass and kind == "request" and api.one_way and values[api.one_way[1]] == api.one_way[2] then
    request.one_way = true
    forget_request(connection, request)
  end
  if first_pass and kind == "response" and api.then_raw and within(request.version, api.then_raw) then
    connection.raw = values.error_code == 0 or nil
  end
  if r.cut then note(r, r.item, "cut", format("the capture holds %d of %d bytes", row.here, row.length)) end
  return info_of(r, values)
end

local function show_token(r, tree, row)
  row.label = row.kind == "request" and "SASL token" or "SASL token response"
  if r.limit == 0 then return end
  if kafka.prefs.credentials then
    tree:add(OWN.token, span(r, 0, r.limit))
  else
    r.p = r.limit
    show_masked(r, tree, "token", 0, r.limit)
  end
end

local function show_content(connection, r, tree, row, first_pass)
  if row.token then return show_token(r, tree, row) end
  local request, kind = row.request, row.kind
  local text
  if kind == "request" and request then
    row.label = format("%s v%d request #%d", name_of(request.key), request.version, request.id)
    if show_request_header(r, tree, row, request.version) then
      text = show_body(connection, r, tree, row, first_pass)
    end
    if request.one_way then text = (text or "") .. " [no response]" end
  elseif kind == "response" and row.id then
    row.label = request and format("%s v%d response #%d", name_of(request.key), request.version, row.id)
      or format("response #%d", row.id)
    local whole = show_response_header(r, tree, row)
    if request and whole then
      text = show_body(connection, r, tree, row, first_pass)
    elseif not request then
      note(r, r.item, "unmatched", "the capture has no request for this response: only its header is decoded")
      show_rest(r, tree, "body, not decoded")
      text = "[request not captured]"
    end
  else
    row.label = kind
    note(r, r.item, r.cut and "cut" or "fault", "BODY_TOO_SHORT: " .. r.limit .. " bytes are no header")
  end
  if text and text ~= "" then row.label = row.label .. " " .. text end
  if row.copy then row.label = row.label .. " [retransmission]" end
end

local function show_message(connection, tvb, row, tree, first_pass)
  local item = tree:add(kafka, tvb:range(row.offset, 4 + row.here))
  local r = new_reader(tvb, row.offset + 4, row.here, row.length)
  r.item = item
  item:add(OWN.len, tvb:range(row.offset, 4))
  generated(item, row.kind == "request" and OWN.request or OWN.response, tvb:range(row.offset, 0), true)
  show_content(connection, r, item, row, first_pass)
  item:set_text("Kafka " .. row.label)
  return row.label
end

local function show_skipped(tvb, row, tree)
  local from = math.min(row.offset, tvb:captured_len()) -- Wireshark's exceptions must not pass through Lua: no range
  local here = math.min(row.size, tvb:captured_len() - from) -- ever goes beyond the bytes of the packet
  local item = tree:add(kafka, tvb:range(from, here))
  item:set_text(format("Kafka, %d bytes %s", row.size, row.reason))
  item:add(OWN.skipped, tvb:range(from, here))
  item:add_proto_expert_info(NOTES.resync, format("%d bytes %s", row.size, row.reason))
  return format("[%d bytes %s]", row.size, row.reason)
end

-- == Pieces of a connection

--- True if a message at `offset` would have a length in range, and be longer than the `left` bytes.
local function is_longer(tvb, offset, left)
  local length = tvb:range(offset, 4):int()
  return length > left - 4 and length <= LONGEST_REQUEST
end

--- Return the first offset of a piece at which a message may begin: after the rest of one that TCP could not put
--- together. `position` gives the place of an offset in the connection.
local function skip_rest(side, position, reported, add)
  if not position(0) then
    side.ends = nil
    return 0
  end
  if not side.ends or position(0) <= side.begins then return 0 end
  local rest = side.ends - position(0)
  if rest <= reported then side.ends = nil end
  if rest <= 0 then return 0 end
  local size = math.min(rest, reported)
  add({skip = true, offset = 0, size = size, reason = "of a message that the capture does not hold whole"})
  return size
end

--- Cut a piece of which nothing is known yet into rows, add them to its plan, and call `show` with each.
local function cut(connection, tvb, pinfo, plan, show)
  local captured, reported = tvb:captured_len(), tvb:reported_len()
  local now, frame = pinfo.rel_ts, pinfo.number
  local copy = is_retransmitted()
  local function add(row)
    plan[#plan + 1] = row
    show(row)
  end
  local kind = kind_of(connection, pinfo, tvb, 0)
  local side = connection.sides[kind]
  local sequence, size = value_of(tcp_seq), value_of(tcp_len)
  local function position(at) -- of a byte in the connection; nil where the piece was put together from several packets
    return sequence and size and tvb:offset() > 0 and sequence + size - reported + at or nil
  end
  local offset = skip_rest(side, position, reported, add)
  if lost_segment() then side.synced = false end
  if tvb:offset() > 0 then side.began = nil end -- not put together: no message begins before
  while offset < reported do
    local left = reported - offset
    local more = pinfo.can_desegment > 0 and captured == reported
    local raw = kind == "request" and connection.raw or kind == "response" and connection.tokens > 0
    if left < 4 or left < 12 and more and side.synced ~= false and is_longer(tvb, offset, left) then
      if more and side.synced ~= false then
        plan.desegment_offset, plan.desegment_len = offset, DESEGMENT_ONE_MORE_SEGMENT
        side.began = side.began or now
      else
        add({skip = true, offset = offset, size = left, reason = "in which no message begins"})
      end
      return
    end
    if captured - offset < 4 then
      add({skip = true, offset = offset, size = left, reason = "that the capture does not hold"})
      side.synced = false
      return
    end
    if not begins_message(connection, side, kind, tvb, offset, raw) then
      local at = next_message(connection, kind, tvb, offset)
      add({skip = true, offset = offset, size = at - offset, reason = "in which no message begins"})
      side.synced, side.began = at < reported, nil
      offset = at
    else
      local length = tvb:range(offset, 4):int()
      if length > left - 4 and more then
        plan.desegment_offset, plan.desegment_len = offset, length + 4 - left
        side.began = side.began or now
        side.begins, side.ends = position(offset), position(offset + 4 + length)
        return
      end
      side.synced = true
      add(take_message(connection, kind, tvb, offset, length, frame, side.began or now, now, copy))
      side.began = nil
      side.begins = position(offset)
      offset = offset + 4 + length
      if offset > reported then side.ends = position(offset) end
    end
  end
end

--- Return the key of this piece among all pieces of all packets: the same each time the packet is dissected.
local function piece_of(tvb, pinfo)
  local key = format("%d:%d:%d", pinfo.number, tvb:offset(), tvb:reported_len())
  local name = "kshark " .. key
  local count = tonumber(pinfo.private[name] or "0") + 1
  pinfo.private[name] = tostring(count)
  return count == 1 and key or key .. ":" .. count
end

--- Show a piece of a connection: from its plan, or, the first time, while making it.
local function dissect(tvb, pinfo, tree)
  local piece = piece_of(tvb, pinfo)
  local plan = plans[piece]
  local connection = connection_of(pinfo)
  local labels = {}
  local function show(row, first_pass)
    if row.skip then
      labels[#labels + 1] = show_skipped(tvb, row, tree)
    else
      labels[#labels + 1] = show_message(connection, tvb, row, tree, first_pass)
    end
  end
  if plan then
    for _, row in ipairs(plan) do show(row, false) end
  else
    plan = {}
    plans[piece] = plan
    cut(connection, tvb, pinfo, plan, function(row) show(row, true) end)
  end
  if #labels > 0 then
    pinfo.cols.protocol = "Kafka"
    if not pinfo.private.kshark_info then pinfo.cols.info = "" end
    pinfo.cols.info:append((pinfo.private.kshark_info and " | " or "") .. concat(labels, " | "))
    pinfo.private.kshark_info = "1"
  end
  if plan.desegment_offset then
    pinfo.desegment_offset, pinfo.desegment_len = plan.desegment_offset, plan.desegment_len
  end
end

local found_tls, tls = pcall(Dissector.get, "tls")
local decrypted = false -- TLS calls this dissector again, with decrypted bytes

--- True if the connection began with a TLS record (RFC 8446, section 5.1).
local function is_tls(tvb, pinfo)
  local connection = connection_of(pinfo)
  if connection.tls == nil and tvb:captured_len() >= 3 then
    local head = tvb:raw(0, 3)
    connection.tls = byte(head, 1) >= 20 and byte(head, 1) <= 23 and byte(head, 2) == 3 and byte(head, 3) <= 4
  end
  return connection.tls
end

function kafka.dissector(tvb, pinfo, tree)
  if decrypted or not found_tls or not is_tls(tvb, pinfo) then
    dissect(tvb, pinfo, tree)
    return
  end
  decrypted = true
  pinfo.can_desegment = pinfo.can_desegment + 1 -- each dissector on the way takes one off
  local is_read, problem = pcall(tls.call, tls, tvb, pinfo, tree)
  decrypted = false
  if not is_read then tree:add(kafka, tvb:range()):set_text("Kafka over TLS, not read: " .. safe(problem)) end
end

--- Take a connection if this piece begins with a request that fits to the last byte, or that is longer than the piece
--- and names its client.
local function heuristic(tvb, pinfo, tree)
  if tvb:captured_len() < 12 then return false end
  local longer = tvb:range(0, 4):int() > tvb:reported_len() - 4
  if not (longer and begins_request(tvb, 0, true) or is_request(tvb, 0)) then return false end
  connection_of(pinfo).client = source_of(pinfo)
  pinfo.conversation = kafka
  dissect(tvb, pinfo, tree)
  return true
end

-- == Registration

local registered = ""

local function register_ports()
  local wanted = tostring(kafka.prefs.ports)
  if wanted == registered then return end
  for _, name in ipairs({"tcp.port", "tls.port"}) do
    local ok, port_table = pcall(DissectorTable.get, name)
    if ok and port_table then
      if registered ~= "" then port_table:remove(registered, kafka) end
      if wanted ~= "" then port_table:add(wanted, kafka) end
    end
  end
  registered = wanted
  set_ports(wanted)
end

kafka.prefs_changed = register_ports
register_ports()
for _, name in ipairs({"tcp", "tls"}) do
  pcall(kafka.register_heuristic, kafka, name, heuristic)
end
