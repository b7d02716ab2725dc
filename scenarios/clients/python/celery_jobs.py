"""Celery: a thousand tasks, with the store as broker and as backend of results; groups, chords, retries."""

import os
import subprocess
import sys
import tempfile

import celery

from where import url

URL = url(0)
app = celery.Celery("celery_jobs", broker=URL, backend=URL)
app.conf.update(broker_connection_retry_on_startup=True, result_expires=500, task_acks_late=True)


@app.task(name="add")
def add(one, other):
    return one + other


@app.task(name="total")
def total(numbers):
    return sum(numbers)


@app.task(name="second_time", bind=True, max_retries=3)
def second_time(self):
    if self.request.retries == 0:
        raise self.retry(countdown=0.1)
    return self.request.retries


if __name__ == "__main__":
    command = [sys.executable, "-m", "celery", "-A", "celery_jobs", "worker", "-c", "2", "-l", "ERROR", "--without-mingle"]
    folder = os.path.dirname(os.path.abspath(__file__))
    log = tempfile.TemporaryFile("w+")
    worker = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        results = [add.delay(number, 1) for number in range(1000)]
        for number, result in enumerate(results):
            assert result.get(timeout=120) == number + 1
        chord = celery.chord(add.s(number, number) for number in range(50))(total.s())
        assert chord.get(timeout=60) == sum(2 * number for number in range(50))
        assert celery.chain(add.s(1, 2), add.s(4)).delay().get(timeout=60) == 7
        assert second_time.delay().get(timeout=60) == 1
        inspected = app.control.inspect(timeout=2).ping()
        assert inspected and all(answer == {"ok": "pong"} for answer in inspected.values()), inspected
        # For later; of chords one after another; results go by themselves.
        assert add.apply_async((1, 2), countdown=0.5).get(timeout=60) == 3
        chords = celery.chain(celery.chord((add.s(1, 1), add.s(2, 2)), total.s()), add.s(1))
        assert celery.group(chords for _ in range(10))().get(timeout=60) == [7] * 10
        left = app.backend.client.ttl(app.backend.get_key_for_task(results[0].id))
        assert 0 < left <= 500, left
        print(f"Celery {celery.__version__}: 1000 tasks, chords, chains, retries and results that expire ok")
    except BaseException:
        log.seek(0)
        print(log.read())
        raise
    finally:
        worker.terminate()
        worker.wait(30)
