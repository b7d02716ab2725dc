"""redis-py's RedisCluster with asyncio."""

import asyncio
import os
import sys

import redis
from redis.asyncio.cluster import ClusterNode, RedisCluster

from counting import KEYS, Counting
from counting_asyncio import serve


async def main():
    nodes = [ClusterNode(*node.rsplit(":", 1)) for node in os.environ["NODES"].split(",")]
    async with RedisCluster(startup_nodes=nodes, decode_responses=True) as client:
        async def work(counting, key):
            counting.note(key, await client.incr(key))

        async def look():
            return {key: await client.get(key) for key in KEYS}

        return await serve(Counting(), work, look, f"redis-py {redis.__version__}, asyncio")


sys.exit(asyncio.run(main()))
