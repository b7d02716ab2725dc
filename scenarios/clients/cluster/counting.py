"""What a client of the cluster does here: it counts in many keys, remembers what was acknowledged, and reports."""

import json
import sys
import threading

KEYS = [f"count:{number}" for number in range(200)]


class Counting:
    def __init__(self):
        self.acknowledged = {}
        self.done = 0
        self.errors = []
        self.lock = threading.Lock()
        self.is_over = False

    def note(self, key, value):
        with self.lock:
            # A count never goes back: what was acknowledged is there.
            if value <= self.acknowledged.get(key, 0):
                self.errors.append(f"LOST {key}: {value} after {self.acknowledged[key]}")
            self.acknowledged[key] = value
            self.done += 1

    def fail(self, error):
        with self.lock:
            self.errors.append(f"{type(error).__name__}: {error}"[:300])

    def report(self, what=""):
        with self.lock:
            print(json.dumps({"done": self.done, "errors": self.errors, "what": what}), flush=True)
            self.done, self.errors = 0, []

    def lost(self, found):
        """Keys that do not have what was acknowledged."""
        return [key for key, value in self.acknowledged.items() if int(found.get(key) or 0) < value]


def serve(counting, work, look, what):
    """Works in threads, each with its own keys, until told to stop; `look` gives all values."""
    def loop(keys):
        while not counting.is_over:
            for key in keys:
                try:
                    work(counting, key)
                except Exception as error:
                    counting.fail(error)

    threads = [threading.Thread(target=loop, args=(KEYS[place::4],), daemon=True) for place in range(4)]
    [thread.start() for thread in threads]
    for line in sys.stdin:
        if line.strip() == "stop":
            break
        counting.report()
    counting.is_over = True
    [thread.join(30) for thread in threads]
    lost = counting.lost(look())
    if lost:
        print(f"lost: {lost}", file=sys.stderr)
    counting.report(what)
    sys.exit(bool(lost))
