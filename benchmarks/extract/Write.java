import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Writes one queue with the official client: bodies as its trace dispatcher makes them, or given ones.
 *
 * <p>Arguments: nameserver, topic, broker, number of messages, records of a short body, records of a long body,
 * and n where every nth body is long. Long ones exceed 4 KB, so that the client compresses them (zlib), as it does by
 * default. With a file as an eighth argument its lines are the bodies, and the messages have no keys. Says READY, and at
 * the end "DONE messages bytes", the bytes of the bodies before compression.
 */
public final class Write {
    private static final int IN_FLIGHT = 512;
    private static final char FIELD = 1;
    private static final char RECORD = 2;

    public static void main(String[] args) throws Exception {
        MessageQueue queue = new MessageQueue(args[1], args[2], 0);
        int messages = Integer.parseInt(args[3]);
        int records = Integer.parseInt(args[4]);
        int longRecords = Integer.parseInt(args[5]);
        int longEvery = Integer.parseInt(args[6]);
        BufferedReader given = args.length > 7 ? Files.newBufferedReader(Path.of(args[7])) : null;
        DefaultMQProducer producer = new DefaultMQProducer("bench_extract_writer");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        producer.createTopic("TBW102", args[1], 1, new HashMap<>());

        System.out.println("READY");
        Random random = new Random(11);
        Semaphore room = new Semaphore(IN_FLIGHT);
        AtomicLong bytes = new AtomicLong();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (int number = 0; number < messages && failure.get() == null; number++) {
            StringBuilder keys = new StringBuilder();
            byte[] body = given != null
                    ? given.readLine().getBytes(StandardCharsets.UTF_8)
                    : body(random, number % longEvery == longEvery - 1 ? longRecords : records, keys);
            bytes.addAndGet(body.length);
            room.acquire();
            producer.send(new Message(args[1], "", keys.toString(), body), queue, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    room.release();
                }

                @Override
                public void onException(Throwable error) {
                    failure.set(error);
                    room.release();
                }
            });
        }
        room.acquire(IN_FLIGHT);
        producer.shutdown();
        if (failure.get() != null) {
            failure.get().printStackTrace();
            System.exit(1);
        }
        System.out.println("DONE " + messages + " " + bytes.get());
        Runtime.getRuntime().halt(0);
    }

    /** Records of the three usual kinds: Pub (14 fields), SubBefore (8) and SubAfter (9). */
    private static byte[] body(Random random, int records, StringBuilder keys) {
        StringBuilder text = new StringBuilder();
        for (int index = 0; index < records; index++) {
            long time = 1_795_000_000_000L + random.nextInt(86_400_000);
            String id = hex(random, 32);
            String key = "order-" + random.nextInt(10_000_000);
            keys.append(index == 0 ? "" : " ").append(id).append(' ').append(key);
            switch (index % 3) {
                case 0 -> add(text, "Pub", time, "DefaultRegion", "order-producer", "orders", id, "created", key,
                        "10.1.2." + random.nextInt(250) + ":10911", 200 + random.nextInt(4000), random.nextInt(90), 0,
                        "0A010203" + hex(random, 24), true);
                case 1 -> add(text, "SubBefore", time, "DefaultRegion", "stock-service", hex(random, 32), id, 0, key);
                default -> add(text, "SubAfter", hex(random, 32), id, random.nextInt(900), true, key, 0, time,
                        "stock-service");
            }
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void add(StringBuilder text, Object... fields) {
        for (int index = 0; index < fields.length; index++) {
            text.append(fields[index]).append(index + 1 < fields.length ? FIELD : RECORD);
        }
    }

    private static String hex(Random random, int digits) {
        StringBuilder text = new StringBuilder(digits);
        while (text.length() < digits) {
            text.append("0123456789ABCDEF".charAt(random.nextInt(16)));
        }
        return text.toString();
    }
}
