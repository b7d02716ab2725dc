"""What a play is made with: servers, clients, and the record of all that they and the program say."""

import gzip
import re
import socket
import threading
import time
import zlib

from . import http, normal, servers
from .program import PATIENCE, Failed

SECTIONS = ("responses", "received", "log", "statistics", "tables")


class Site:
    """One run of one configuration with one program."""

    def __init__(self, place):
        self.place = place
        self.servers, self.masks = [], []
        self.record = {section: [] for section in SECTIONS}
        self.running = None
        self.log_lines, self.log_wanted = [], True
        self.log_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = place.folder / "log"
        path.unlink(missing_ok=True)
        self.log_socket.bind(str(path))
        # So that no burst of lines is too much.
        self.log_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        threading.Thread(target=self._take_logs, daemon=True).start()

    def _take_logs(self):
        while True:
            try:
                line = self.log_socket.recv(65536)
            except OSError:
                return
            if not line:
                return
            if self.log_wanted:
                self.log_lines.append(line.decode(errors="replace"))

    # Servers, before the program starts.

    def http(self, address, name, pages=None, **options):
        return self._server(servers.HttpServer(self.place.address(address), name, pages, **options))

    def tcp(self, address, name, talk):
        return self._server(servers.Server(self.place.address(address), name, talk))

    def dns(self, address, records):
        """A name server; addresses in `records` stand for this place's."""
        own = {key: [self.place.real(v) if isinstance(v, str) else v for v in values] for key, values in records.items()}
        return self._server(servers.Dns(self.place.address(address), own))

    def redis(self, address, *words):
        words = [self.place.real(word) for word in words]
        return self._server(servers.redis(self.place.address(address), self.place.folder, *words))

    def nginx(self, address, config):
        return self._server(servers.nginx(self.place.address(address), self.place.folder, config))

    def postgres(self, address):
        return self._server(servers.postgres(self.place.address(address), self.place.folder))

    def _server(self, server):
        self.servers.append(server)
        return server

    # Clients.

    def mask(self, pattern, replacement):
        """Something that differs from run to run, in all that is recorded."""
        self.masks.append((re.compile(pattern), replacement))

    def connect(self, to="127.0.0.1:8080", source=None):
        source = self.place.real(f"127.0.0.{source}") if source else None
        return http.connect(self.place.address(to), source)

    def get(self, path, to="127.0.0.1:8080", source=None, recorded=True, **options):
        """One request on a connection of its own."""
        wire = self.connect(to, source)
        answer = self.ask(wire, path, recorded=recorded, **options)
        wire.close()
        # The program hears of the end before the next connection.
        time.sleep(0.004)
        return answer

    def ask(self, wire, path, recorded=True, **options):
        """One request on a connection that stays."""
        method = options.get("method", "GET")
        wire.send(http.request(path, **options))
        answer = wire.message(to_method=method)
        if recorded:
            self.note(f"{method} {path} {options.get('host', '')}".rstrip())
            self.note_answer(answer, wire)
        return answer

    def exchange(self, data, to="127.0.0.1:8080", source=None, wait=PATIENCE):
        """Sends bytes, then reads to the end (or as long as something comes within `wait`)."""
        wire = self.connect(to, source)
        wire.send(data)
        text = wire.rest(wait)
        self.note(repr(data))
        for part in text.decode("latin-1").split("\r\n\r\n"):
            for line in normal.head_lines(part) if part.startswith("HTTP/") else [repr(part)]:
                self.note("  " + line)
        # Whether a close comes as a reset depends on what was still on the way.
        self.note("  silence" if wire.ended == "silence" else "  closed")
        wire.close()
        time.sleep(0.004)
        return text

    def note(self, text):
        """Something that must come out equal."""
        self.record["responses"] += self.masked(self.place.named(text)).split("\n")

    def note_answer(self, answer, wire):
        if answer is None:
            self.note(f"  no answer, {wire.ended}")
            return
        for line in normal.head_lines(answer.head):
            self.note(f"  {line}")
        body = answer.body
        coding = answer.field("content-encoding")
        if coding == "gzip":
            body = gzip.decompress(body)
        elif coding == "deflate":
            body = zlib.decompress(body)
        self.note(f"  body {body.decode('latin-1')!r}{'' if answer.whole else ' (cut off)'}")

    def masked(self, text):
        for pattern, replacement in self.masks:
            text = pattern.sub(replacement, text)
        return text

    # The program.

    def command(self, text, recorded=True):
        answer = self.running.command(self.place.real(text))
        if recorded:
            self.note(f"> {text}\n{answer.rstrip()}")
        return answer

    def status(self, proxy, server):
        """Such as `UP`; `INI` before the first check has ended."""
        for line in self.running.command("show stat").split("\n"):
            fields = line.split(",")
            if fields[:2] == [proxy, server]:
                return "INI" if "INI" in fields[36] and "via" not in fields[17] else fields[17]
        raise Failed(f"no {proxy}/{server}")

    def wait_status(self, wanted, *pairs):
        """Waits until servers (`proxy/server`) have a status such as UP or DOWN, found by a check."""
        for pair in pairs:
            proxy, server = pair.split("/")
            self.running.wait(f"{pair} is {wanted}", lambda: re.match(wanted, self.status(proxy, server)))

    def until(self, what, condition):
        self.running.wait(what, condition)

    def expect(self, found, wanted, what=""):
        if found != wanted:
            raise Failed(f"{what or 'expected'} {wanted!r}, found {found!r}")

    def expect_in(self, found, wanted):
        if found not in wanted:
            raise Failed(f"expected one of {wanted!r}, found {found!r}")

    def pause(self, seconds):
        time.sleep(seconds)

    # The end.

    def collect(self):
        """Reads out what the program counted, logged and sent to servers."""
        before = -1
        while before != len(self.log_lines):
            before = len(self.log_lines)
            time.sleep(0.06)
        self.log_wanted = False
        # What ends at the same time is logged in any order.
        self.record["log"] = sorted(self.masked(normal.log_line(self.place.named(line))) for line in self.log_lines)
        if (self.place.folder / "run/admin.sock").exists():
            statistics = self.place.named(self.running.command("show stat"))
            self.record["statistics"] = [self.masked(row) for row in normal.stat_rows(statistics)]
            for line in self.running.command("show table").split("\n"):
                if line.startswith("# table: "):
                    name = line.split(",")[0].removeprefix("# table: ")
                    rows = normal.table_rows(self.place.named(self.running.command(f"show table {name}")))
                    self.record["tables"] += [self.masked(row) for row in rows]
        for server in self.servers:
            if isinstance(server, servers.HttpServer):
                self._collect_received(server)
        return self.record

    def _collect_received(self, server):
        into = self.record["received"]
        for text in sorted(server.checked):
            into.append(f"{server.name} was checked by {self.masked(self.place.named(text))!r}")
        for message in server.received:
            into.append(f"{server.name} received")
            into += [f"  {self.masked(self.place.named(line))}" for line in normal.head_lines(message.head)]
            if message.body:
                into.append(f"  body {self.masked(self.place.named(message.body.decode('latin-1')))!r}")

    def close(self):
        if self.running:
            self.running.stop()
        for server in self.servers:
            server.stop()
        # Wakes the thread that waits for lines.
        try:
            self.log_socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.log_socket.close()
