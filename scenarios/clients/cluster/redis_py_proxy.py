"""redis-py's plain client, behind the proxy."""

import os
import sys

import redis

from counting import KEYS, Counting, serve

protocol = int(sys.argv[1])
client = redis.Redis(port=int(os.environ["PROXY_PORT"]), protocol=protocol, decode_responses=True)

assert client.mset({f"all:{number}": number for number in range(100)})
assert client.mget([f"all:{number}" for number in range(100)]) == [str(number) for number in range(100)]
assert len(set(client.scan_iter("all:*", count=50))) == 100
with client.pipeline() as pipe:
    pipe.watch("{t}a")
    pipe.multi()
    pipe.incr("{t}a")
    pipe.get("{t}a")
    done = pipe.execute()
    assert str(done[0]) == done[1], done
assert client.eval("return redis.call('GET', KEYS[1])", 1, "all:7") == "7"

serve(
    Counting(),
    lambda counting, key: counting.note(key, client.incr(key)),
    lambda: dict(zip(KEYS, client.mget(KEYS))),
    f"redis-py {redis.__version__}, RESP{protocol}",
)
