package rmqcompat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Bodies from 1 byte to 4 MiB. Bodies of 4096 bytes and more leave the client compressed, so each size
 * goes out twice: random bytes, which compression cannot shrink, and text, which it can.
 */
final class SizeScenarios {
    private static final int[] SIZES = {
        1, 2, 127, 128, 255, 256, 1023, 4095, 4096, 4097, 32767, 65535, 65536, 65537, 262144, 1048576,
    };
    private static final int LARGEST = 4 * 1024 * 1024;

    private SizeScenarios() {
    }

    static void register(Map<String, Scenario> table) {
        table.put("size_small_to_1m", context -> roundTrip(context, SIZES));
        table.put("size_4m", context -> roundTrip(context, new int[] {LARGEST - 1, LARGEST}));
        table.put("size_mixed_batch", SizeScenarios::batch);
    }

    private static byte[] random(int size) {
        byte[] body = new byte[size];
        new Random(size).nextBytes(body);
        return body;
    }

    private static byte[] compressible(int size) {
        byte[] body = new byte[size];
        for (int i = 0; i < size; i++) {
            body[i] = (byte) ('a' + i % 23);
        }
        return body;
    }

    private static void roundTrip(Context context, int[] sizes) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        List<byte[]> bodies = new ArrayList<>();
        for (int size : sizes) {
            // A compressed random body is a little larger than the body itself, and the broker
            // measures what it gets: at the very limit only an uncompressed one fits.
            context.producer().setCompressMsgBodyOverHowmuch(size == LARGEST ? LARGEST + 1 : 4096);
            byte[] first = random(size - (size == LARGEST - 1 ? 8192 : 0));
            bodies.add(first);
            context.checkSent(context.producer().send(new Message(topic, first), queue, 30000));
            byte[] second = compressible(size);
            bodies.add(second);
            context.producer().setCompressMsgBodyOverHowmuch(4096);
            context.checkSent(context.producer().send(new Message(topic, second), queue, 30000));
        }
        List<MessageExt> found = context.pullAll(topic, bodies.size(), 40);
        Context.equal("count", bodies.size(), found.size());
        for (int i = 0; i < bodies.size(); i++) {
            Context.check(Arrays.equals(bodies.get(i), found.get(i).getBody()),
                "body " + i + " of " + bodies.get(i).length + " bytes");
        }
    }

    private static void batch(Context context) throws Exception {
        String topic = context.topic("t");
        MessageQueue queue = context.createTopic(topic, 1).get(0);
        List<Message> messages = new ArrayList<>();
        List<byte[]> bodies = new ArrayList<>();
        for (int size : new int[] {1, 5000, 17, 100000, 4096, 1, 300000}) {
            byte[] body = random(size);
            bodies.add(body);
            messages.add(new Message(topic, body));
        }
        context.checkSent(context.producer().send(messages, queue));
        List<MessageExt> found = context.pullAll(topic, bodies.size(), 20);
        for (int i = 0; i < bodies.size(); i++) {
            Context.check(Arrays.equals(bodies.get(i), found.get(i).getBody()), "body " + i);
        }
    }
}
