// An edge with as many backends as a test wants, an origin behind it, and what is wrong with some of them.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const SERVERS = 8;

// Every 15th backend has two servers that are down, the one after the tenth none that is up.
const isDown = (backend, server) => (backend === 10 ? true : backend % 15 === 12 && server <= 2);

function configuration({ port, backends, origin, dead }) {
  const lines = [
    "global", "  nbthread 2", "  maxconn 500",
    "defaults", "  mode http", "  timeout connect 5s", "  timeout client 30s", "  timeout server 30s",
    "  default-server inter 1s downinter 60s fall 1 rise 1",
    "frontend stats", `  bind 127.0.0.1:${port}`, "  stats enable", "  stats uri /", "  stats admin if TRUE",
    "frontend web", `  bind 127.0.0.1:${port + 1}`, "  use_backend %[path,field(2,/)] if { path_sub / }", "  default_backend b1",
  ];
  for (let backend = 1; backend <= backends; backend++) {
    lines.push(`backend b${backend}`);
    for (let server = 1; server <= SERVERS; server++) {
      lines.push(`  server s${server} 127.0.0.1:${isDown(backend, server) ? dead : origin}${isDown(backend, server) ? " check" : ""}`);
    }
  }
  return lines.join("\n") + "\n";
}

export class Edge {
  // Listens on `port` (statistics), the next one (traffic) and the one after it (origin); the third is closed.
  static async start(program, port, backends) {
    const edge = new Edge();
    edge.page = `http://127.0.0.1:${port}/`;
    edge.traffic = `http://127.0.0.1:${port + 1}`;
    edge.origin = createServer((request, response) => {
      response.statusCode = request.url.includes("missing") ? 404 : request.url.includes("broken") ? 500 : 200;
      response.end("answer\n");
    });
    await new Promise((resolve) => edge.origin.listen(port + 2, "127.0.0.1", resolve));
    edge.folder = mkdtempSync(join(tmpdir(), "tidegate-page-"));
    const file = join(edge.folder, "haproxy.cfg");
    writeFileSync(file, configuration({ port, backends, origin: port + 2, dead: port + 3 }));
    edge.process = spawn(program, ["edge", "-f", file], { stdio: "ignore" });
    for (let attempt = 0; ; attempt++) {
      const down = await edge.down().catch(() => -1);
      // Until the checks have found what is down.
      if (down === edge.expectedDown(backends)) return edge;
      if (attempt > 300 || edge.process.exitCode !== null) throw new Error(`the edge does not come up (${down} servers down)`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  expectedDown(backends) {
    let down = 0;
    for (let backend = 1; backend <= backends; backend++) for (let server = 1; server <= SERVERS; server++) down += isDown(backend, server);
    return down;
  }

  async down() {
    const { states } = await (await fetch(`${this.page};json;live`)).json();
    return states.reduce((sum, { back }) => sum + (back?.kinds?.down || 0), 0);
  }

  // So many requests, some at a time.
  async send(path, count) {
    for (let done = 0; done < count; done += 10) {
      await Promise.all(Array.from({ length: Math.min(10, count - done) }, () => fetch(`${this.traffic}${path}`).then((answer) => answer.arrayBuffer())));
    }
  }

  async stop() {
    this.process.kill("SIGTERM");
    await new Promise((resolve) => (this.process.exitCode === null ? this.process.once("exit", resolve) : resolve()));
    this.origin.closeAllConnections();
    this.origin.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
