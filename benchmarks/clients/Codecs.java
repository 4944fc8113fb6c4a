import java.util.HashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Writes the same messages into a topic per codec with the official client.
 *
 * <p>Arguments: nameserver, broker, number of messages, then a codec (NONE, ZLIB, LZ4, ZSTD) per topic "codec-CODEC". Says READY,
 * and at the end "DONE messages".
 */
public final class Codecs {
    private static final int IN_FLIGHT = 128;

    public static void main(String[] args) throws Exception {
        System.out.println("READY");
        int messages = Integer.parseInt(args[2]);
        for (int index = 3; index < args.length; index++) {
            write(args[0], args[1], messages, args[index]);
        }
        System.out.println("DONE " + messages);
        Runtime.getRuntime().halt(0);
    }

    private static void write(String namesrv, String broker, int messages, String codec) throws Exception {
        String topic = "codec-" + codec;
        DefaultMQProducer producer = new DefaultMQProducer("bench_clients_writer");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(codec);
        producer.setSendMsgTimeout(30_000);
        producer.setCompressMsgBodyOverHowmuch(codec.equals("NONE") ? 1 << 30 : 1);
        if (!codec.equals("NONE")) {
            producer.setCompressType(CompressionType.valueOf(codec));
        }
        producer.start();
        producer.createTopic("TBW102", topic, 1, new HashMap<>());
        MessageQueue queue = new MessageQueue(topic, broker, 0);
        Semaphore room = new Semaphore(IN_FLIGHT);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (int number = 0; number < messages; number++) {
            // With every byte, NUL too.
            byte[] body = new byte[200 + number % 1000];
            for (int at = 0; at < body.length; at++) {
                body[at] = (byte) (number + at / 4);
            }
            room.acquire();
            producer.send(new Message(topic, "tag", "key-" + number, body), queue, new SendCallback() {
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
    }
}
