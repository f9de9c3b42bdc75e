import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.jar.JarFile;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Fills every message class on the class path with seeded random values, in every version, and prints one JSON line for each:
 * its bytes as Kafka writes them, and its value as Kafka's own JSON converter tells it.
 *
 * <p>Two of each: a full one (no nulls, every array one or two elements), and one with nulls, empty arrays and defaults.
 */
public final class Maker {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TAG_NOBODY_KNOWS = 9_999;
    private static final Method RECORDS = recordsOf();

    public static void main(String[] arguments) throws Exception {
        for (Map.Entry<String, Class<?>> entry : messages(Path.of(arguments[0])).entrySet()) {
            Schema[] schemas = (Schema[]) entry.getValue().getField("SCHEMAS").get(null);
            for (int version = 0; version < schemas.length; version++) {
                if (schemas[version] != null) {
                    print(entry.getKey(), entry.getValue(), version, false);
                    print(entry.getKey(), entry.getValue(), version, true);
                }
            }
        }
    }

    /** All classes that have a JSON converter, by the name of their definition. */
    private static Map<String, Class<?>> messages(Path folder) throws Exception {
        Map<String, Class<?>> found = new TreeMap<>();
        List<Path> jars = new ArrayList<>();
        try (var listed = Files.newDirectoryStream(folder, "kafka-*.jar")) {
            listed.forEach(jars::add);
        }
        for (Path path : jars) {
            try (JarFile jar = new JarFile(path.toFile())) {
                for (var entry : (Iterable<java.util.jar.JarEntry>) jar.stream()::iterator) {
                    String name = entry.getName().replace('/', '.');
                    if (name.endsWith("JsonConverter.class") && !name.contains("$")) {
                        Class<?> message = Class.forName(name.replaceAll("JsonConverter.class$", ""));
                        found.put(message.getSimpleName().replaceAll("(Request|Response|Header)Data$", "$1"), message);
                    }
                }
            }
        }
        return found;
    }

    private static void print(String name, Class<?> type, int version, boolean sparse) throws Exception {
        Filler filler = new Filler(new Random(31L * name.hashCode() + 2L * version + (sparse ? 1 : 0)), version, sparse);
        Message message;
        ByteBuffer bytes;
        while (true) {
            message = (Message) filler.struct(type, 0);
            try {
                bytes = written(message, (short) version);
                break;
            } catch (NullPointerException | IllegalArgumentException refused) {
                filler.again(); // what its schema allows and its writer does not
            }
        }
        ObjectNode line = new ObjectNode(JsonNodeFactory.instance);
        line.put("message", name).put("version", version).put("hex", hex(bytes));
        line.set("json", converted(message, type, (short) version));
        for (RawTaggedField tag : message.unknownTaggedFields()) {
            line.putObject("tags").put(Integer.toString(tag.tag()), hex(ByteBuffer.wrap(tag.data())));
        }
        System.out.println(JSON.writer().with(JsonGenerator.Feature.ESCAPE_NON_ASCII).writeValueAsString(line));
    }

    /** The class moved in 4.4. */
    private static Method recordsOf() {
        for (String place : List.of("record", "record.internal")) {
            try {
                return Class.forName("org.apache.kafka.common." + place + ".MemoryRecords").getMethod("readableRecords", ByteBuffer.class);
            } catch (ReflectiveOperationException elsewhere) {
                continue;
            }
        }
        throw new IllegalStateException("no MemoryRecords on the class path");
    }

    private static ByteBuffer written(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("size and bytes of " + message + " disagree");
        }
        return buffer.flip();
    }

    private static JsonNode converted(Message message, Class<?> type, short version) throws Exception {
        Method write = Class.forName(type.getName() + "JsonConverter").getMethod("write", type, short.class, boolean.class);
        return (JsonNode) write.invoke(null, message, version, false);
    }

    private static String hex(ByteBuffer bytes) {
        StringBuilder out = new StringBuilder();
        for (byte each : bytes.array()) {
            out.append(String.format("%02x", each));
        }
        return out.toString();
    }

    /** Random values for one message in one version. */
    private static final class Filler {
        private static final String[] TEXTS = {"orders", "billing-3", "x", "ä€😀", "k".repeat(126), "k".repeat(127), "k".repeat(128)};
        private static final int[] LENGTHS = {1, 5, 16, 126, 127, 128, 300};

        private final Random dice;
        private final int version;
        private final boolean sparse;
        private boolean nulls;

        Filler(Random dice, int version, boolean sparse) {
            this.dice = dice;
            this.version = version;
            this.sparse = sparse;
            this.nulls = sparse;
        }

        void again() {
            nulls = false;
        }

        Object struct(Class<?> type, int depth) throws Exception {
            Schema schema = ((Schema[]) type.getField("SCHEMAS").get(null))[version];
            Map<String, Type> plain = new HashMap<>();
            Map<String, Type> tagged = new HashMap<>();
            boolean flexible = false;
            for (BoundField bound : schema.fields()) {
                if (bound.def.type instanceof TaggedFields tags) {
                    flexible = true;
                    fieldsOf(tags).forEach(each -> tagged.put(folded(each.name), each.type));
                } else {
                    plain.put(folded(bound.def.name), bound.def.type);
                }
            }
            Object made = type.getDeclaredConstructor().newInstance();
            for (Field field : type.getDeclaredFields()) {
                String name = folded(field.getName());
                if (Modifier.isStatic(field.getModifiers()) || field.getName().startsWith("_")) {
                    continue;
                }
                field.setAccessible(true);
                if (plain.containsKey(name)) {
                    field.set(made, value(field, plain.get(name), depth));
                } else if (tagged.containsKey(name) && !(sparse && dice.nextBoolean())) {
                    field.set(made, value(field, tagged.get(name), depth));
                }
            }
            if (flexible && sparse && depth == 0 && dice.nextInt(3) == 0) {
                ((Message) made).unknownTaggedFields().add(new RawTaggedField(TAG_NOBODY_KNOWS, bytes(5)));
            }
            return made;
        }

        /** Told by a method in 4.x alone. */
        @SuppressWarnings("unchecked")
        private static Collection<org.apache.kafka.common.protocol.types.Field> fieldsOf(TaggedFields tags) throws Exception {
            Field fields = TaggedFields.class.getDeclaredField("fields");
            fields.setAccessible(true);
            return ((Map<Integer, org.apache.kafka.common.protocol.types.Field>) fields.get(tags)).values();
        }

        private Object value(Field field, Type wire, int depth) throws Exception {
            Class<?> type = field.getType();
            if (nulls && wire.isNullable() && dice.nextInt(3) == 0) {
                return null;
            }
            if (Collection.class.isAssignableFrom(type)) {
                return elements(field, wire, depth);
            }
            return Message.class.isAssignableFrom(type) ? struct(type, depth + 1) : single(type, wire);
        }

        @SuppressWarnings("unchecked")
        private Object elements(Field field, Type wire, int depth) throws Exception {
            Class<?> type = field.getType();
            Collection<Object> made = type == List.class ? new ArrayList<>() : (Collection<Object>) type.getDeclaredConstructor().newInstance();
            ParameterizedType generic =
                (ParameterizedType) (type == List.class ? field.getGenericType() : type.getGenericSuperclass());
            Class<?> element = (Class<?>) generic.getActualTypeArguments()[0];
            int count = sparse ? dice.nextInt(3) : depth < 2 ? 1 + dice.nextInt(2) : 1;
            for (int i = 0; i < count; i++) {
                Type inner = wire.arrayElementType().orElseThrow();
                made.add(Message.class.isAssignableFrom(element) ? struct(element, depth + 1) : single(element, inner));
            }
            return made;
        }

        private Object single(Class<?> type, Type wire) throws Exception {
            if (type == boolean.class) {
                return dice.nextBoolean();
            } else if (type == byte.class || type == Byte.class) {
                return (byte) number(Byte.MIN_VALUE, Byte.MAX_VALUE);
            } else if (type == short.class || type == Short.class) {
                return (short) number(Short.MIN_VALUE, Short.MAX_VALUE);
            } else if (type == int.class && wire == Type.UINT16) {
                return (int) number(0, 0xFFFF);
            } else if (type == int.class || type == Integer.class) {
                return (int) number(Integer.MIN_VALUE, Integer.MAX_VALUE);
            } else if (type == long.class && wire == Type.UNSIGNED_INT32) {
                return number(0, 0xFFFFFFFFL);
            } else if (type == long.class || type == Long.class) {
                return number(Long.MIN_VALUE, Long.MAX_VALUE);
            } else if (type == double.class) {
                return dice.nextInt(4) == 0 ? -0.5 : dice.nextGaussian() * 1e9;
            } else if (type == String.class) {
                return sparse && dice.nextInt(4) == 0 ? "" : TEXTS[dice.nextInt(TEXTS.length)];
            } else if (type == Uuid.class) {
                return sparse && dice.nextInt(4) == 0 ? Uuid.ZERO_UUID : new Uuid(dice.nextLong(), dice.nextLong());
            } else if (type == byte[].class) {
                return bytes(length());
            } else if (type == ByteBuffer.class) {
                return ByteBuffer.wrap(bytes(length()));
            }
            return RECORDS.invoke(null, ByteBuffer.wrap(counting(length()))); // the converter tells the size alone
        }

        /** An end of the range, something small, or anything; never 35, which makes an ApiVersions answer another one. */
        private long number(long low, long high) {
            long found = switch (dice.nextInt(6)) {
                case 0 -> low;
                case 1 -> high;
                case 2, 3 -> dice.nextInt(100);
                default -> low + (long) (dice.nextDouble() * ((double) high - (double) low));
            };
            return found == 35 ? 36 : found;
        }

        private int length() {
            return sparse && dice.nextInt(4) == 0 ? 0 : LENGTHS[dice.nextInt(LENGTHS.length)];
        }

        private byte[] bytes(int size) {
            byte[] made = new byte[size];
            dice.nextBytes(made);
            return made;
        }

        private static byte[] counting(int size) {
            byte[] made = new byte[size];
            for (int i = 0; i < size; i++) {
                made[i] = (byte) i;
            }
            return made;
        }

        private static String folded(String name) {
            return name.replace("_", "").toLowerCase();
        }
    }
}
