"""redis-py with asyncio: many at once, locks, a limit of rates in Lua. (Its cache asks for a server of 7.4 and refuses any 7.0.)"""

import asyncio
import time

import redis
import redis.asyncio

from where import CA, PORT

TLS = {"connection_class": redis.asyncio.SSLConnection, "ssl_ca_certs": CA} if CA else {}

# A window that slides: one sorted set for each client, times as scores.
LIMIT = """
local now = redis.call('TIME')
local us = now[1] * 1000000 + now[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', us - ARGV[1] * 1000)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], us, us .. ':' .. redis.call('INCR', KEYS[1] .. ':n'))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""


async def until(what, is_so):
    end = time.monotonic() + 5
    while not await is_so():
        assert time.monotonic() < end, f"not in 5 s: {what}"
        await asyncio.sleep(0.01)


async def many_at_once(protocol):
    pool = redis.asyncio.BlockingConnectionPool(port=PORT, protocol=protocol, decode_responses=True, max_connections=16, **TLS)
    r = redis.asyncio.Redis(connection_pool=pool)
    await r.flushall()
    await asyncio.gather(*(r.incr("sum") for _ in range(500)))
    assert await r.get("sum") == "500"

    allowed = r.register_script(LIMIT)
    assert sum(await asyncio.gather(*(allowed(keys=["limit"], args=[60_000, 10]) for _ in range(50)))) == 10

    # Add one by reading and writing, under a lock: all count.
    async def add():
        async with r.lock("a-lock", timeout=10, blocking_timeout=30, sleep=0.01):
            await r.set("locked", int(await r.get("locked") or 0) + 1)

    await asyncio.gather(*(add() for _ in range(20)))
    assert await r.get("locked") == "20"

    async def transfer(tx):
        now = int(await tx.get("sum"))
        tx.multi()
        tx.set("sum", now + 1)

    await asyncio.gather(*(r.transaction(transfer, "sum") for _ in range(8)))
    assert await r.get("sum") == "508"

    got = []
    async with r.pubsub() as listener:
        await listener.subscribe("channel")
        await listener.psubscribe("chan*")

        async def listen():
            async for message in listener.listen():
                if message["type"].endswith("message"):
                    got.append(message["data"])
                if len(got) == 200:
                    return

        task = asyncio.create_task(listen())

        async def has_two():
            return await r.publish("other", "") == 0 and await r.pubsub_numpat() == 1

        await until("subscribed", has_two)
        for number in range(100):
            await r.publish("channel", number)
        await asyncio.wait_for(task, 20)
    assert sorted(got) == sorted([str(number) for number in range(100)] * 2)

    # As many wait as there are connections, and one job comes to one of them.
    waiting = [asyncio.create_task(r.blmpop(5, 1, "queue", direction="LEFT")) for _ in range(8)]
    await asyncio.sleep(0.1)
    await r.rpush("queue", *range(8))
    jobs = [found[1][0] for found in await asyncio.gather(*waiting)]
    assert sorted(jobs) == [str(number) for number in range(8)], jobs
    await r.aclose()
    await pool.disconnect()


for version in (2, 3):
    asyncio.run(many_at_once(version))
print(f"redis-py {redis.__version__}, asyncio: ok")
