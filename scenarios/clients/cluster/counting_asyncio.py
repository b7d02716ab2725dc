"""The same with asyncio."""

import asyncio
import sys

from counting import KEYS


async def serve(counting, work, look, what):
    async def loop(keys):
        while not counting.is_over:
            for key in keys:
                try:
                    await work(counting, key)
                except Exception as error:
                    counting.fail(error)
                    await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(loop(KEYS[place::4])) for place in range(4)]
    while (await asyncio.to_thread(sys.stdin.readline)).strip() not in ("stop", ""):
        counting.report()
    counting.is_over = True
    await asyncio.wait(tasks, timeout=30)
    lost = counting.lost(await look())
    if lost:
        print(f"lost: {lost}", file=sys.stderr)
    counting.report(what)
    return bool(lost)
