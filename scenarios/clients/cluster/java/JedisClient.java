import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.util.JedisClusterCRC16;

/** Jedis: its client of clusters, or a plain one behind the proxy. */
public final class JedisClient {
    public static void main(String[] arguments) throws Exception {
        boolean isCluster = arguments[0].equals("cluster");
        Set<HostAndPort> nodes = new HashSet<>();
        for (String node : System.getenv("NODES").split(",")) nodes.add(HostAndPort.from(node));
        UnifiedJedis client = isCluster ? RedisClusterClient.create(nodes) : RedisClient.create("127.0.0.1", Integer.parseInt(System.getenv("PROXY_PORT")));

        try (AbstractPipeline pipeline = client.pipelined()) {
            Response<String> last = null;
            for (int number = 0; number < 100; number++) last = pipeline.set("pipe:" + number, "" + number);
            pipeline.sync();
            Counting.check(last.get().equals("OK"), "pipeline");
        }
        Counting.check(client.get("pipe:7").equals("7"), "pipe:7");
        client.mset("{p}1", "1", "{p}2", "2");
        Counting.check(client.mget("{p}1", "{p}2").equals(List.of("1", "2")), "mget");
        client.del("{p}n");
        // A transaction in a cluster is of one node's connection.
        try (AbstractTransaction transaction = isCluster ? new Transaction(((RedisClusterClient) client).getConnectionFromSlot(JedisClusterCRC16.getSlot("{p}n")), true, true) : client.multi()) {
            Response<Long> count = transaction.incr("{p}n");
            transaction.get("{p}n");
            Counting.check(transaction.exec().size() == 2 && count.get() == 1, "transaction");
        }
        Counting.check(client.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", List.of("{p}n"), List.of("5")).equals(6L), "script");
        client.hset("{p}h", "field", "value");
        Counting.check(client.hgetAll("{p}h").get("field").equals("value"), "hash");
        if (isCluster) {
            Counting.check(((RedisClusterClient) client).getClusterNodes().size() == 6, "nodes");
            try {
                client.mget("a", "b");
                throw new AssertionError("keys of two slots");
            } catch (RuntimeException error) {
                Counting.check(error.getMessage().contains("slot"), error.toString());
            }
        }
        heard(client);
        Counting.serve("Jedis " + version(), client::incr, client::get);
    }

    private static void heard(UnifiedJedis client) throws Exception {
        CountDownLatch subscribed = new CountDownLatch(1), heard = new CountDownLatch(1);
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                subscribed.countDown();
            }

            @Override
            public void onMessage(String channel, String message) {
                if (message.equals("hello")) heard.countDown();
            }
        };
        Thread thread = new Thread(() -> client.subscribe(listener, "news"));
        thread.setDaemon(true);
        thread.start();
        Counting.check(subscribed.await(10, TimeUnit.SECONDS), "subscribed");
        client.publish("news", "hello");
        Counting.check(heard.await(10, TimeUnit.SECONDS), "a message");
        listener.unsubscribe();
    }

    private static String version() {
        return System.getProperty("jedis.version", "");
    }
}
