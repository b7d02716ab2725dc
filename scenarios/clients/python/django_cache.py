"""Django: its cache in a store, with versions, counters and locks by `add`, and sessions in that cache."""

import threading
import time

import django
from django.conf import settings

from where import url

URL = url(1)
settings.configure(
    CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": URL, "KEY_PREFIX": "site"}},
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    SECRET_KEY="for a test",
    USE_TZ=True,
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402

cache.clear()
cache.set("object", {"a": [1, 2, (3, None)]}, timeout=100)
assert cache.get("object") == {"a": [1, 2, (3, None)]}
cache.set_many({f"many:{number}": number for number in range(500)})
assert cache.get_many([f"many:{number}" for number in range(501)]) == {f"many:{number}": number for number in range(500)}
cache.delete_many([f"many:{number}" for number in range(500)])
assert cache.get("many:0") is None

cache.set("counter", 0)
threads = [threading.Thread(target=lambda: [cache.incr("counter") for _ in range(50)]) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert cache.get("counter") == 200
assert [cache.add("lock", 1, timeout=30) for _ in range(3)] == [True, False, False]
cache.set("versioned", "old", version=1)
cache.incr_version("versioned")
assert (cache.get("versioned"), cache.get("versioned", version=2)) == (None, "old")
cache.set("short", 1, timeout=1)
cache.set("kept", 1, timeout=1)
assert cache.touch("kept", 100)
end = time.monotonic() + 10
while "short" in cache:
    assert time.monotonic() < end
    time.sleep(0.05)
assert cache.get("kept") == 1 and cache.get_or_set("made", lambda: 7) == 7

session = SessionStore()
session["user"] = 42
session.save()
session = SessionStore(session.session_key)
assert session["user"] == 42
session.cycle_key()
assert SessionStore(session.session_key)["user"] == 42
session.flush()
print(f"Django {django.get_version()}, cache and sessions: ok")
