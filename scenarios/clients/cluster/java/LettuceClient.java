import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.lettuce.core.cluster.api.sync.RedisClusterCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Lettuce: its client of clusters, with the refreshing of the topology that its manual recommends, or a plain one behind the proxy. */
public final class LettuceClient {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("cluster")) inCluster();
        else behindProxy();
    }

    private static void inCluster() throws Exception {
        List<RedisURI> nodes = new ArrayList<>();
        for (String node : System.getenv("NODES").split(",")) nodes.add(RedisURI.create("redis://" + node));
        RedisClusterClient client = RedisClusterClient.create(nodes);
        ClusterTopologyRefreshOptions refreshing = ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers().enablePeriodicRefresh(Duration.ofSeconds(1)).build();
        client.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(refreshing).build());
        StatefulRedisClusterConnection<String, String> connection = client.connect();
        connection.setTimeout(PATIENCE);
        Counting.check(connection.getPartitions().size() == 6, "nodes");
        // Keys of several slots are split by the client.
        connection.sync().mset(Map.of("a", "1", "b", "2", "c", "3"));
        Counting.check(connection.sync().mget("a", "b", "c").stream().map(KeyValue::getValue).toList().equals(List.of("1", "2", "3")), "mget of several slots");
        works(connection.sync(), connection.async());
        StatefulRedisClusterConnection<String, String> reader = client.connect();
        reader.setReadFrom(ReadFrom.REPLICA);
        for (int turn = 0; turn < 100 && !"1".equals(reader.sync().get("{p}1")); turn++) Thread.sleep(20);
        Counting.check("1".equals(reader.sync().get("{p}1")), "a replica's value");
        reader.close();
        // A transaction is of one node's connection.
        int slot = io.lettuce.core.cluster.SlotHash.getSlot("{p}n");
        transaction(connection.getConnection(connection.getPartitions().getPartitionBySlot(slot).getNodeId()).sync());
        heard(client.connectPubSub(), true, connection.sync()::spublish);
        Counting.serve("Lettuce " + version(), connection.sync()::incr, connection.sync()::get);
    }

    private static void behindProxy() throws Exception {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + System.getenv("PROXY_PORT"));
        client.setOptions(ClientOptions.create());
        StatefulRedisConnection<String, String> connection = client.connect();
        connection.setTimeout(PATIENCE);
        works(connection.sync(), connection.async());
        transaction(connection.sync());
        heard(client.connectPubSub(), false, connection.sync()::publish);
        Counting.serve("Lettuce " + version(), connection.sync()::incr, connection.sync()::get);
    }

    private static void works(RedisClusterCommands<String, String> sync, RedisClusterAsyncCommands<String, String> async) {
        List<RedisFuture<String>> answers = new ArrayList<>();
        for (int number = 0; number < 100; number++) answers.add(async.set("pipe:" + number, "" + number));
        Counting.check(LettuceFutures.awaitAll(PATIENCE, answers.toArray(new RedisFuture[0])), "pipeline");
        Counting.check(sync.get("pipe:7").equals("7"), "pipe:7");
        sync.mset(Map.of("{p}1", "1", "{p}2", "2"));
        sync.del("{p}n");
        Long count = sync.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", ScriptOutputType.INTEGER, new String[] {"{p}n"}, "5");
        Counting.check(count == 5, "script");
        sync.hset("{p}h", "field", "value");
        Counting.check(sync.hgetall("{p}h").get("field").equals("value"), "hash");
    }

    private static void transaction(RedisCommands<String, String> sync) {
        sync.watch("{p}n");
        sync.multi();
        sync.incr("{p}n");
        sync.get("{p}n");
        TransactionResult result = sync.exec();
        Counting.check(!result.wasDiscarded() && result.get(0).equals(6L) && result.get(1).equals("6"), "transaction: " + result);
    }

    interface Publish {
        Long to(String channel, String message);
    }

    private static void heard(StatefulRedisPubSubConnection<String, String> listener, boolean isSharded, Publish publish) throws Exception {
        CountDownLatch heard = new CountDownLatch(1);
        listener.addListener(new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String message) {
                if (message.equals("hello")) heard.countDown();
            }

            @Override
            public void smessage(String channel, String message) {
                message(channel, message);
            }
        });
        if (isSharded) listener.sync().ssubscribe("news");
        else listener.sync().subscribe("news");
        publish.to("news", "hello");
        Counting.check(heard.await(10, TimeUnit.SECONDS), "a message");
        listener.close();
    }

    private static String version() {
        return System.getProperty("lettuce.version", "");
    }
}
