import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.DefaultRecord;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Records into topics of Kafka's, or out of them, by its own client. Its turns: Turns.java.
 *
 * <pre>
 *   java -cp "CLASSES:lib/*" KafkaLoad servers=127.0.0.1:9092 topic=t mode=send connections=64
 * </pre>
 *
 * send: each connection is a producer that keeps window x batch records open; without batches its
 * client puts together what is open, as it does for everyone. With batch=32 each 32 records are one
 * of its batches. ordered=1: by the idempotent producer, which keeps the order of what is open.
 *
 * <p>read: each connection is a consumer of all partitions, from the first of `fill` records on, over
 * and over; once=1: once, those that are there. batch=32: a fetch brings one batch of so many records; 0: what it likes.
 *
 * <p>follow: sends, and one consumer that reads them as they come; latencies are from when a message
 * was due until it is there.
 */
final class KafkaLoad extends Turns {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int FILL_BATCH_BYTES = 64 * 1024;
    private static final int TOPICS_OF_A_REQUEST = 200;

    private final Map<String, String> told;
    private final String mode;
    private final int connections;
    private final int window;
    private final int batch;
    private final int partitions;
    private final byte[] body;
    private final List<String> topics;
    private final List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
    private final List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
    private final AtomicInteger sending = new AtomicInteger();
    private final AtomicInteger stored = new AtomicInteger();
    private final int[] taken;    // by each reader since it began anew; turns go on where others ended

    private KafkaLoad(Map<String, String> told) throws Exception {
        this.told = told;
        mode = told.getOrDefault("mode", "send");
        connections = number("connections", 1);
        window = number("window", 1);
        batch = number("batch", 1);
        partitions = number("partitions", 8);
        body = "x".repeat(number("bytes", 256)).getBytes(StandardCharsets.US_ASCII);
        topics = Stream.iterate(0, i -> i + 1).limit(number("topics", 1))
            .map(i -> i == 0 ? told.get("topic") : told.get("topic") + "-" + i).toList();
        taken = new int[connections];
        createTopics();
        if (number("fill", 0) > 0 && number("once", 0) == 0) {
            fill();
        }
        for (int i = 0; !mode.equals("read") && i < connections; i++) {
            producers.add(producer(batch > 1 ? batchBytes() : 0, batch > 1 ? 5 : 0));
        }
        for (int i = 0; !mode.equals("send") && i < (mode.equals("read") ? connections : 1); i++) {
            consumers.add(consumer());
        }
    }

    public static void main(String[] arguments) throws Exception {
        KafkaLoad load = new KafkaLoad(told(arguments));
        load.serve(load.connections + (load.mode.equals("follow") ? 1 : 0));
    }

    private int number(String name, int usual) {
        return told.containsKey(name) ? Integer.parseInt(told.get(name)) : usual;
    }

    private Properties properties(Object... pairs) {
        Properties made = new Properties();
        made.put("bootstrap.servers", told.get("servers"));
        for (int i = 0; i < pairs.length; i += 2) {
            made.put(pairs[i], pairs[i + 1].toString());
        }
        return made;
    }

    private void createTopics() throws Exception {
        try (Admin admin = Admin.create(properties("default.api.timeout.ms", 600_000))) {
            List<String> missing = new ArrayList<>(topics);
            missing.removeAll(admin.listTopics().names().get());
            for (int first = 0; first < missing.size(); first += TOPICS_OF_A_REQUEST) {
                int end = Math.min(missing.size(), first + TOPICS_OF_A_REQUEST);
                admin.createTopics(missing.subList(first, end).stream()
                    .map(name -> new NewTopic(name, partitions, (short) 1)).toList()).all().get();
            }
        }
    }

    /** Of one replica acks=1 and acks=all say the same; bytes 0: batches of the usual size. */
    private KafkaProducer<byte[], byte[]> producer(int batchBytes, int lingerMs) {
        boolean ordered = number("ordered", 0) != 0;
        Properties made = properties(
            "acks", ordered ? "all" : "1", "enable.idempotence", ordered, "linger.ms", lingerMs);
        if (batchBytes > 0) {
            made.put("batch.size", Integer.toString(batchBytes));
            made.put("max.request.size", Integer.toString(Math.max(1 << 20, 2 * batchBytes)));
        }
        return new KafkaProducer<>(made, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties made = properties("enable.auto.commit", false);
        if (batch > 1 && mode.equals("read")) {
            made.put("fetch.max.bytes", Integer.toString(batchBytes()));
            made.put("max.partition.fetch.bytes", Integer.toString(batchBytes()));
        }
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(made, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : topics) {
            for (int i = 0; i < partitions; i++) {
                all.add(new TopicPartition(topic, i));
            }
        }
        consumer.assign(all);
        if (mode.equals("follow")) {
            consumer.seekToEnd(all);
            all.forEach(consumer::position);
        } else {
            awaitRecords(consumer, all);
            consumer.seekToBeginning(all);
        }
        return consumer;
    }

    /** Its connections are there and its classes loaded when it has the first of them. */
    private static void awaitRecords(
            KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> all) {
        long end = System.nanoTime() + PATIENCE_NS;
        consumer.seekToBeginning(all);
        while (consumer.poll(POLL).isEmpty()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("nothing came");
            }
        }
    }

    /** What a batch of so many records takes: with this limit it is full with the last of them. */
    private int batchBytes() {
        int bytes = DefaultRecordBatch.RECORD_BATCH_OVERHEAD;
        for (int i = 0; i < batch; i++) {
            bytes += DefaultRecord.sizeInBytes(i, 0, null, ByteBuffer.wrap(body), new Header[0]);
        }
        return bytes;
    }

    /** In batches of the shape, or large ones; all of a batch go to one partition. */
    private void fill() throws Exception {
        int size = batch > 1 ? batch : Math.max(1, FILL_BATCH_BYTES / (body.length + 16));
        long now = System.currentTimeMillis();
        Count count = new Count();
        try (KafkaProducer<byte[], byte[]> filler =
                 producer(batch > 1 ? batchBytes() : FILL_BATCH_BYTES, 5)) {
            for (int i = 0; i < number("fill", 0); i++) {
                filler.send(record(i / size, body, now), (told, error) -> {
                    if (error != null) {
                        count.fail(error.toString());
                    }
                });
            }
        }
        if (!count.failures().isEmpty()) {
            throw new IllegalStateException("not all records were stored: " + count.failures());
        }
    }

    private ProducerRecord<byte[], byte[]> record(long batchNumber, byte[] value, Long stamp) {
        int topic = (int) (batchNumber % topics.size());
        int partition = (int) (batchNumber / topics.size() % partitions);
        return new ProducerRecord<>(topics.get(topic), partition, stamp, null, value);
    }

    @Override
    void work(int thread, Schedule schedule, Count count) throws Exception {
        if (mode.equals("read")) {
            read(thread, schedule, count);
        } else if (thread == connections) {
            follow(consumers.get(0), schedule, count);
        } else {
            sending.incrementAndGet();
            try {
                send(thread, schedule, count);
            } finally {
                sending.decrementAndGet();
            }
        }
    }

    private void send(int thread, Schedule schedule, Count count) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producers.get(thread);
        Semaphore free = new Semaphore(window);
        boolean followed = mode.equals("follow");
        for (long number = thread; ; number += connections) {
            long due = schedule.due(number * batch);
            if (!schedule.has(due)) {
                break;
            }
            if (!schedule.await(due) || !schedule.acquire(free, 1)) {
                count.fail("not sent in time");
                continue;
            }
            long from = schedule.paced() ? due : System.nanoTime();
            byte[] value = followed ? stamped(from) : body;
            AtomicInteger open = new AtomicInteger(batch);
            for (int i = 0; i < batch; i++) {
                producer.send(record(number, value, null), (told, error) -> {
                    if (error != null) {
                        count.fail(error.getClass().getSimpleName());
                    } else if (followed) {
                        stored.incrementAndGet();
                    } else {
                        count.add(System.nanoTime() - from);
                    }
                    if (open.decrementAndGet() == 0) {
                        free.release();
                    }
                });
            }
        }
        if (!schedule.acquire(free, window)) {
            count.fail("no answer");
        }
    }

    private byte[] stamped(long due) {
        byte[] value = body.clone();
        ByteBuffer.wrap(value).putLong(0, due);
        return value;
    }

    private void read(int thread, Schedule schedule, Count count) {
        KafkaConsumer<byte[], byte[]> consumer = consumers.get(thread);
        while (schedule.has(System.nanoTime())) {
            int some = consumer.poll(POLL).count();
            count.addMany(some);
            taken[thread] += some;
            if (taken[thread] < number("fill", 0)) {
                continue;
            }
            if (number("once", 0) != 0) {
                return;
            }
            consumer.seekToBeginning(consumer.assignment());
            taken[thread] = 0;
        }
    }

    /** Until all that was stored is there. */
    private void follow(KafkaConsumer<byte[], byte[]> consumer, Schedule schedule, Count count) {
        int missing;
        do {
            ConsumerRecords<byte[], byte[]> found = consumer.poll(POLL);
            long now = System.nanoTime();
            for (ConsumerRecord<byte[], byte[]> each : found) {
                count.add(now - ByteBuffer.wrap(each.value()).getLong(0));
            }
            stored.addAndGet(-found.count());
            missing = stored.get();
            if (now > schedule.end() + PATIENCE_NS) {
                count.fail("not all came");
                return;
            }
        } while (System.nanoTime() < schedule.end() || sending.get() > 0 || missing > 0);
    }
}
