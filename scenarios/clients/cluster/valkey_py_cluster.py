"""valkey-py: its ValkeyCluster, or a plain client behind the proxy, in threads."""

import os
import sys

import valkey
from valkey.cluster import ClusterNode, ValkeyCluster
from valkey.exceptions import ValkeyClusterException

from counting import KEYS, Counting, serve

if sys.argv[1] == "cluster":
    nodes = [ClusterNode(*node.rsplit(":", 1)) for node in os.environ["NODES"].split(",")]
    client = ValkeyCluster(startup_nodes=nodes, decode_responses=True)
    assert len(client.cluster_nodes()) == 6
    try:
        client.execute_command("MGET", "a", "b")
        raise AssertionError("keys of two slots")
    except (valkey.ValkeyError, ValkeyClusterException) as error:
        assert "slot" in str(error), error
else:
    client = valkey.Valkey(port=int(os.environ["PROXY_PORT"]), decode_responses=True)
    with client.pipeline(transaction=True) as pipe:
        pipe.delete("{t}n").incr("{t}n").get("{t}n")
        assert pipe.execute()[1:] == [1, "1"]

with client.pipeline(transaction=False) as pipe:
    for number in range(100):
        pipe.set(f"pipe:{number}", number)
    assert pipe.execute() == [True] * 100
assert client.mset({"{user}1": 1, "{user}2": 2}) and client.mget("{user}1", "{user}2") == ["1", "2"]
assert client.register_script("return redis.call('GET', KEYS[1])")(keys=["{user}1"]) == "1"
assert sorted(client.scan_iter("pipe:*", count=50)) == sorted(f"pipe:{number}" for number in range(100))
pubsub = client.pubsub()
pubsub.subscribe("news")
assert pubsub.get_message(timeout=5)["type"] == "subscribe"
client.publish("news", "hello")
assert pubsub.get_message(timeout=5)["data"] == "hello"
pubsub.close()

serve(
    Counting(),
    lambda counting, key: counting.note(key, client.incr(key)),
    lambda: {key: client.get(key) for key in KEYS},
    f"valkey-py {valkey.__version__}",
)
