"""redis-py's RedisCluster, in threads."""

import os
import sys

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException

from counting import KEYS, Counting, serve

protocol = int(sys.argv[1])
nodes = [ClusterNode(*node.rsplit(":", 1)) for node in os.environ["NODES"].split(",")]
client = RedisCluster(startup_nodes=nodes, protocol=protocol, decode_responses=True, read_from_replicas=False)

# What a cluster client is used for besides single keys.
with client.pipeline() as pipe:
    for number in range(100):
        pipe.set(f"pipe:{number}", number)
    assert pipe.execute() == [True] * 100
assert client.mget_nonatomic([f"pipe:{number}" for number in range(100)]) == [str(number) for number in range(100)]
assert sorted(client.scan_iter("pipe:*", count=50)) == sorted(f"pipe:{number}" for number in range(100))
assert client.keyslot("{user}1") == client.cluster_keyslot("{user}1")
assert client.mset({"{user}1": 1, "{user}2": 2}) and client.mget("{user}1", "{user}2") == ["1", "2"]
assert client.register_script("return redis.call('GET', KEYS[1])")(keys=["{user}1"]) == "1"
for node in client.get_replicas():
    replica = client.get_redis_connection(node)
    assert replica.execute_command("READONLY") in ("OK", True)
try:
    client.execute_command("MGET", "a", "b")
    raise AssertionError("keys of two slots")
except (redis.RedisError, RedisClusterException) as error:
    assert "slot" in str(error), error
assert client.cluster_info(target_nodes=RedisCluster.RANDOM)["cluster_state"] == "ok"
shards = client.cluster_shards(target_nodes=RedisCluster.RANDOM)
assert len(shards) == 3, shards
assert len(client.cluster_nodes()) == 6
pubsub = client.pubsub()
pubsub.subscribe("news")
assert pubsub.get_message(timeout=5)["type"] == "subscribe"
pubsub.close()

serve(
    Counting(),
    lambda counting, key: counting.note(key, client.incr(key)),
    lambda: {key: client.get(key) for key in KEYS},
    f"redis-py {redis.__version__}, RESP{protocol}",
)
