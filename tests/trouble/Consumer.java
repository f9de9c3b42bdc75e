import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A share consumer of Kafka's client as an application that is not always in time: "java Consumer.java PROPERTIES TOPIC...".
 *
 * It does all that the client lets it do: acknowledges in every way, renews, works longer than locks last, subscribes to something else,
 * closes and begins again. What it does is chosen by its client id.
 */
public class Consumer {
    private static final long LONG_MS = 8_000;
    private final Random random;
    private final Properties properties;
    private final List<String> topics;
    private final boolean explicit;
    private final List<AcknowledgeType> types;
    private volatile KafkaShareConsumer<byte[], byte[]> current;
    private volatile boolean ends;

    Consumer(Properties properties, List<String> topics) {
        this.properties = properties;
        this.topics = topics;
        random = new Random(properties.getProperty("client.id").hashCode());
        explicit = "explicit".equals(properties.getProperty("share.acknowledgement.mode"));
        types = Arrays.asList(AcknowledgeType.values());  // RENEW since 4.2
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (var file = new java.io.FileReader(arguments[0])) {
            properties.load(file);
        }
        Consumer consumer = new Consumer(properties, Arrays.asList(arguments).subList(1, arguments.length));
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> consumer.end(main)));
        while (!consumer.ends) {
            consumer.live();
        }
    }

    /** The consumer is closed before the process ends. */
    private void end(Thread main) {
        ends = true;
        var last = current;
        if (last != null) {
            last.wakeup();
        }
        try {
            main.join(LONG_MS);
        } catch (InterruptedException ignored) {
            Thread.currentThread().interrupt();
        }
    }

    /** From the beginning of a consumer to its end. */
    private void live() throws InterruptedException {
        var consumer = new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        current = consumer;
        try {
            subscribe(consumer);
            while (!ends && random.nextInt(300) > 0) {
                work(consumer);
            }
        } catch (KafkaException | IllegalStateException error) {
            System.out.println(error);
        } finally {
            consumer.close(Duration.ofMillis(random.nextInt(3000)));
        }
    }

    private void work(KafkaShareConsumer<byte[], byte[]> consumer) throws InterruptedException {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(random.nextInt(1000)))) {
            Thread.sleep(random.nextInt(400) == 0 ? random.nextInt((int) LONG_MS) : random.nextInt(5));
            if (explicit) {
                consumer.acknowledge(record, random.nextInt(3) > 0 ? AcknowledgeType.ACCEPT : types.get(random.nextInt(types.size())));
            }
        }
        switch (random.nextInt(20)) {
            case 0, 1, 2 -> consumer.commitSync();
            case 3, 4, 5 -> consumer.commitAsync();
            case 6 -> subscribe(consumer);
            case 7 -> {
                consumer.unsubscribe();
                Thread.sleep(random.nextInt(2000));
                subscribe(consumer);
            }
            default -> { }
        }
    }

    /** To one of the topics, or to all of them. */
    private void subscribe(KafkaShareConsumer<byte[], byte[]> consumer) {
        int choice = random.nextInt(topics.size() + 1);
        consumer.subscribe(choice == topics.size() ? topics : List.of(topics.get(choice)));
    }
}
