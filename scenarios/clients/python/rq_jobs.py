"""RQ: a thousand jobs, worked on in this process and by one worker with processes of its own."""

from redis import Redis
from rq import Queue, SimpleWorker, Worker
from rq.version import VERSION

from where import PORT, TLS

connection = Redis(port=PORT, **TLS)


def run(worker_class, count):
    connection.flushall()
    queue = Queue(connection=connection)
    jobs = [queue.enqueue(divmod, number, 7) for number in range(count)]
    failing = queue.enqueue(divmod, 1, 0)
    worker_class([queue], connection=connection).work(burst=True, logging_level="CRITICAL")
    for number, job in enumerate(jobs):
        assert job.return_value() == divmod(number, 7), f"job {number}: {job.get_status()}"
    assert failing.get_status() == "failed"
    assert len(queue) == 0 and queue.finished_job_registry.count == count
    print(f"RQ {VERSION}, {worker_class.__name__}: {count} jobs ok")


run(SimpleWorker, 1000)
run(Worker, 20)
