"""redis-py's plain client with asyncio, behind the proxy."""

import asyncio
import os
import sys

import redis.asyncio

from counting import KEYS, Counting
from counting_asyncio import serve


async def main():
    async with redis.asyncio.Redis(port=int(os.environ["PROXY_PORT"]), decode_responses=True) as client:
        async def work(counting, key):
            counting.note(key, await client.incr(key))

        async def look():
            return dict(zip(KEYS, await client.mget(KEYS)))

        return await serve(Counting(), work, look, f"redis-py {redis.__version__}, asyncio")


sys.exit(asyncio.run(main()))
