#!/usr/bin/env python3
"""A disk that takes its time to make writes durable, as disks do that a sync has to reach over a network or on a turning plate.

`bench/store.py --flush-ms` and `--write-ms` keep their data on one: an ext4 file system on a loop device, on a file of a file system
in user space (FUSE, protocol 7.31 of the kernel's include/uapi/linux/fuse.h) whose fsync or whose writes wait. With a flush that
waits it is a disk with a cache of its own, whose writes take no time; with writes that wait one without a cache, where there is
nothing to flush and writes of one moment are under way together, as block storage of clouds is. What else takes time is passing
requests on, some 0.1 ms a sync; contents are in memory. It needs root, /dev/fuse, losetup and mkfs.ext4.

`bench/slow_disk.py FLUSH_MS WRITE_MS SIZE_MB FOLDER` serves one until it is interrupted.
"""

import contextlib
import ctypes
import errno
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 20, 25, 26, 36, 42
ROOT, DISK = 1, 2
IN_HEADER = struct.Struct("<IIQQIIIHH")
WRITE_MAX = 128 * 1024
FOREVER = 1 << 30
# Direct writes of one moment are sent on together (FUSE_ASYNC_DIO).
ASYNC_DIO = 1 << 15


class Disk:
    """The file system, with one file in it."""

    def __init__(self, flush_seconds, write_seconds, size, folder):
        self.flush_seconds = flush_seconds
        self.write_seconds = write_seconds
        self.size = size
        self.contents = os.memfd_create("disk")
        os.ftruncate(self.contents, size)
        self.device = os.open("/dev/fuse", os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self.device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if libc.mount(b"slow", str(folder).encode(), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    def attributes(self, node):
        mode, size = (0o040755, 0) if node == ROOT else (0o100600, self.size)
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, operation, node, body):
        """What a request is answered with; a number is an error."""
        if operation == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, WRITE_MAX, ASYNC_DIO, 64, 48, WRITE_MAX, 1, 0, 0, 0)
        if operation == LOOKUP:
            if body.rstrip(b"\0") != b"disk":
                return errno.ENOENT
            return struct.pack("<QQQQII", DISK, 0, FOREVER, FOREVER, 0, 0) + self.attributes(DISK)
        if operation in (GETATTR, SETATTR):
            return struct.pack("<QII", FOREVER, 0, 0) + self.attributes(node)
        if operation == OPEN:
            return struct.pack("<QII", 0, 0, 0)
        if operation == READ:
            _, offset, length = struct.unpack_from("<QQI", body)
            return os.pread(self.contents, length, offset)
        if operation == WRITE:
            time.sleep(self.write_seconds)
            _, offset, length = struct.unpack_from("<QQI", body)
            return struct.pack("<II", os.pwrite(self.contents, body[40 : 40 + length], offset), 0)
        if operation == FSYNC:
            time.sleep(self.flush_seconds)
            return b""
        if operation in (FLUSH, RELEASE):
            return b""
        if operation == STATFS:
            return struct.pack("<QQQQQIIII24x", self.size // 4096, 0, 0, 1, 0, 4096, 255, 4096, 0)
        return errno.ENOSYS

    def serve(self):
        while True:
            try:
                request = os.read(self.device, WRITE_MAX + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return
            _, operation, unique, node, *_ = IN_HEADER.unpack_from(request)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            answer = self.answer(operation, node, request[IN_HEADER.size :])
            code, body = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self.device, struct.pack("<IiQ", 16 + len(body), code, unique) + body)


@contextlib.contextmanager
def slow_disk(flush_ms, write_ms, size_mb=4096):
    """A folder on such a disk."""
    with tempfile.TemporaryDirectory(prefix="tidegate-disk-") as folder:
        below, files = pathlib.Path(folder) / "below", pathlib.Path(folder) / "files"
        below.mkdir()
        files.mkdir()
        with contextlib.ExitStack() as ends:

            def end_with(*words):
                ends.callback(subprocess.run, words, check=False)

            daemon = subprocess.Popen([sys.executable, __file__, str(flush_ms), str(write_ms), str(size_mb), str(below)])
            ends.callback(daemon.wait)
            ends.callback(daemon.send_signal, signal.SIGTERM)
            while not (below / "disk").exists():
                if daemon.poll() is not None:
                    raise SystemExit("a slow disk needs root and /dev/fuse")
                time.sleep(0.05)
            end_with("umount", str(below))
            # Direct, so that writes are passed on as they come and wait together.
            losetup = ["losetup", "-f", "--show", "--direct-io=on", str(below / "disk")]
            device = subprocess.run(losetup, capture_output=True, text=True, check=True).stdout.strip()
            end_with("losetup", "-d", device)
            # All at once: what the kernel would do later in the background is not to be measured.
            subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device], check=True)
            # What has no cache is not flushed. The device remembers what it was told last.
            cache = pathlib.Path("/sys/block", pathlib.Path(device).name, "queue/write_cache")
            cache.write_text("write back" if flush_ms else "write through")
            subprocess.run(["mount", device, str(files)], check=True)
            end_with("umount", str(files))
            yield str(files)


def main():
    flush_ms, write_ms, size_mb, folder = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    disk = Disk(flush_ms / 1000, write_ms / 1000, size_mb << 20, folder)
    # Who comes back from waiting goes on at once, whatever others do.
    sys.setswitchinterval(1e-5)
    # Several, so that what is written while a flush waits is taken.
    for _ in range(16):
        threading.Thread(target=disk.serve, daemon=True).start()
    signal.sigwait([signal.SIGTERM, signal.SIGINT])


if __name__ == "__main__":
    # For the threads too: else one of them would be ended by the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    main()
