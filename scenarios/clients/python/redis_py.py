"""redis-py, in both protocols: what an application does with it."""

import threading
import time

import redis

from where import PORT, TLS


def check(what, found, expected):
    assert found == expected, f"{what}: {found!r} instead of {expected!r}"


def values(r):
    check("set", r.set("k", "v", ex=100, get=True), None)
    check("get", r.get("k"), "v")
    assert 0 < r.ttl("k") <= 100
    check("incr", [r.incr("n"), r.incrbyfloat("f", 0.1), r.incrby("n", 41)], [1, 0.1, 42])
    check("mset", r.mset({"a": 1, "b": 2}), True)
    check("mget", r.mget("a", "b", "c"), ["1", "2", None])
    check("bits", [r.setbit("bits", 7, 1), r.bitcount("bits"), r.bitpos("bits", 1)], [0, 1, 7])
    check("hset", r.hset("h", mapping={"x": 1, "y": 2}), 2)
    check("hgetall", r.hgetall("h"), {"x": "1", "y": "2"})
    check("lists", [r.rpush("l", 1, 2, 3), r.lpop("l", 2), r.lrange("l", 0, -1)], [3, ["1", "2"], ["3"]])
    check("sets", [r.sadd("s", 1, 2, 3), r.sismember("s", 2), r.smembers("s")], [3, True, {"1", "2", "3"}])
    check("zadd", r.zadd("z", {"one": 1, "two": 2, "three": 3}), 3)
    check("zrange", [tuple(pair) for pair in r.zrange("z", 0, 1, withscores=True)], [("one", 1.0), ("two", 2.0)])
    check("zrangebyscore", r.zrange("z", "(1", "+inf", byscore=True), ["two", "three"])
    check("geo", r.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")), 2)
    check("geodist", round(r.geodist("g", "Palermo", "Catania", "km")), 166)
    check("pfadd", [r.pfadd("p", *range(100)), abs(r.pfcount("p") - 100) < 3], [1, True])
    for number in range(1000):
        r.set(f"scan:{number}", number)
    check("scan_iter", len(set(r.scan_iter("scan:*", count=50))), 1000)
    dump = r.execute_command("DUMP", "z", NEVER_DECODE=True)
    assert r.restore("z2", 0, dump)
    check("restored", r.zcard("z2"), 3)


def transactions(r):
    r.set("balance", 10)
    with r.pipeline() as pipe:
        pipe.watch("balance")
        pipe.multi()
        pipe.decrby("balance", 3)
        pipe.get("balance")
        check("exec", pipe.execute(), [7, "7"])
        pipe.watch("balance")
        r.set("balance", 100)
        pipe.multi()
        pipe.get("balance")
        try:
            pipe.execute()
            raise AssertionError("a watched key changed, and the transaction ran")
        except redis.WatchError:
            pass
    with r.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"pipe:{number}", number)
        check("pipeline", pipe.execute(), [True] * 1000)
    with r.lock("a-lock", timeout=5):
        assert r.exists("a-lock")
    assert not r.exists("a-lock")


def scripts(r):
    script = r.register_script("return {KEYS[1], ARGV[1], redis.call('INCRBY', KEYS[1], ARGV[1])}")
    check("script", script(keys=["counter"], args=[5]), ["counter", "5", 5])
    try:
        r.eval("return redis.error_reply('MY error')", 0)
        raise AssertionError("no error")
    except redis.ResponseError as error:
        check("error", str(error), "MY error")


def streams(r):
    for number in range(10):
        r.xadd("stream", {"n": number}, maxlen=8, approximate=False)
    check("xlen", r.xlen("stream"), 8)
    r.xgroup_create("stream", "group", id="0")
    reply = r.xreadgroup("group", "me", {"stream": ">"}, count=3)
    entries = reply["stream"][0] if isinstance(reply, dict) else reply[0][1]
    check("read", [fields["n"] for _, fields in entries], ["2", "3", "4"])
    check("xack", r.xack("stream", "group", *[entry for entry, _ in entries]), 3)
    check("pending", r.xpending("stream", "group")["pending"], 0)


def publish_and_subscribe(r):
    listener = r.pubsub()
    listener.subscribe("channel")
    listener.psubscribe("chan*")
    got = []
    end = time.monotonic() + 10
    sent = False
    while time.monotonic() < end and len(got) < 4:
        message = listener.get_message(timeout=1)
        if message:
            got.append((message["type"], message["data"]))
        if len(got) == 2 and not sent:
            check("receivers", r.publish("channel", "hello"), 2)
            sent = True
    check("messages", got, [("subscribe", 1), ("psubscribe", 2), ("message", "hello"), ("pmessage", "hello")])
    listener.close()


def waiting(r, connect):
    thread = threading.Thread(target=lambda: (time.sleep(0.2), connect().rpush("queue", "job")))
    thread.start()
    check("blpop", tuple(r.blpop("queue", timeout=5)), ("queue", "job"))
    thread.join()
    check("timeout", r.blpop("queue", timeout=0.1), None)


for protocol in (2, 3):

    def connect(protocol=protocol):
        return redis.Redis(port=PORT, protocol=protocol, decode_responses=True, **TLS)

    client = connect()
    client.flushall()
    values(client)
    transactions(client)
    scripts(client)
    streams(client)
    publish_and_subscribe(client)
    waiting(client, connect)
    assert client.info()["redis_version"].startswith("7.")
    check("client_info", client.client_info()["db"], 0)
    print(f"redis-py {redis.__version__}, RESP{protocol}: ok")
