import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Clients of one application, each in a thread: "java Application PROPERTIES ROLE:CLIENT_ID:ARGUMENTS...".
 *
 * Roles: producer:ID:TOPIC:RECORDS_PER_SECOND:BYTES:ACKS, share:ID:GROUP:TOPIC, consumer:ID:GROUP:TOPIC (KIP-848), classic:ID:GROUP:TOPIC
 * and admin:ID. Prints "ready ID" after a client's first success. Reads commands from standard input: "pause ID" (the application does
 * not poll or send, while the client's background thread goes on), "resume ID". SIGTERM closes all clients.
 */
public class Application {
    private static final Map<String, Client> clients = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        for (int i = 1; i < arguments.length; i++) {
            Properties properties = new Properties();
            try (var file = new FileReader(arguments[0])) {
                properties.load(file);
            }
            String[] words = arguments[i].split(":");
            properties.put("client.id", words[1]);
            clients.put(words[1], client(words, properties));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(Application::end));
        clients.values().forEach(Thread::start);
        var commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            clients.get(words[1]).paused = words[0].equals("pause");
        }
    }

    private static Client client(String[] words, Properties properties) {
        return switch (words[0]) {
            case "producer" -> new Producer(words, properties);
            case "share" -> new ShareConsumer(words, properties);
            case "consumer", "classic" -> new Consumer(words, properties);
            case "admin" -> new Administrator(words, properties);
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    private static void end() {
        clients.values().forEach(client -> client.ends = true);
        for (Client client : clients.values()) {
            try {
                client.join(5_000);
            } catch (InterruptedException ignored) {
                return;
            }
        }
    }

    private abstract static class Client extends Thread {
        final String[] words;
        volatile boolean paused;
        volatile boolean ends;
        private boolean ready;

        Client(String[] words) {
            this.words = words;
        }

        /** Do a little work; true if it succeeded. */
        abstract boolean work() throws Exception;

        abstract void close();

        @Override
        public void run() {
            while (!ends) {
                try {
                    if (paused) {
                        sleep(20);
                    } else if (work()) {
                        succeeded();
                    }
                } catch (Exception error) {
                    System.out.println("error " + words[1] + " " + error);
                    pause();
                }
            }
            close();
        }

        synchronized void succeeded() {
            if (!ready) {
                ready = true;
                System.out.println("ready " + words[1]);
            }
        }

        private static void pause() {
            try {
                sleep(100);
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static class Producer extends Client {
        private final KafkaProducer<byte[], byte[]> producer;

        Producer(String[] words, Properties properties) {
            super(words);
            properties.put("acks", words[5]);
            properties.put("enable.idempotence", words[5].equals("all"));
            properties.putIfAbsent("max.block.ms", 2000);
            producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        boolean work() throws Exception {
            producer.send(new ProducerRecord<>(words[2], new byte[Integer.parseInt(words[4])]), (metadata, error) -> {
                if (error == null) {
                    succeeded();
                }
            });
            sleep((long) (1000 / Double.parseDouble(words[3])));
            return false;
        }

        @Override
        void close() {
            producer.close(Duration.ofSeconds(3));
        }
    }

    private static class ShareConsumer extends Client {
        private final KafkaShareConsumer<byte[], byte[]> consumer;

        ShareConsumer(String[] words, Properties properties) {
            super(words);
            properties.put("group.id", words[2]);
            consumer = new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(words[3]));
        }

        @Override
        boolean work() {
            return !consumer.poll(Duration.ofMillis(200)).isEmpty();
        }

        @Override
        void close() {
            consumer.close(Duration.ofSeconds(3));
        }
    }

    private static class Consumer extends Client {
        private final KafkaConsumer<byte[], byte[]> consumer;

        Consumer(String[] words, Properties properties) {
            super(words);
            properties.put("group.id", words[2]);
            properties.put("group.protocol", words[0]);
            properties.putIfAbsent("auto.commit.interval.ms", 1000);
            consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(words[3]));
        }

        @Override
        boolean work() {
            return !consumer.poll(Duration.ofMillis(200)).isEmpty();
        }

        @Override
        void close() {
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofSeconds(3)));
        }
    }

    private static class Administrator extends Client {
        private final Admin admin;

        Administrator(String[] words, Properties properties) {
            super(words);
            admin = Admin.create(properties);
        }

        @Override
        boolean work() throws Exception {
            admin.listTopics().names().get();
            sleep(500);
            return true;
        }

        @Override
        void close() {
            admin.close(Duration.ofSeconds(3));
        }
    }
}
