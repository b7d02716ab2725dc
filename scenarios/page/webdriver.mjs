// A small WebDriver client: enough of https://www.w3.org/TR/webdriver2/ to drive headless Chromium without any package.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ELEMENT = "element-6066-11e4-a52e-4f735466cecf";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export class Browser {
  // Starts chromedriver and a browser with an empty profile. `dark`: what the system would prefer.
  static async start({ width = 1400, height = 1000, dark = false, script = true } = {}) {
    const browser = new Browser();
    const port = await freePort();
    browser.base = `http://127.0.0.1:${port}`;
    browser.driver = spawn(process.env.CHROMEDRIVER || "chromedriver", [`--port=${port}`], { stdio: "ignore" });
    browser.profile = await mkdtemp(join(tmpdir(), "tidegate-page-"));
    const args = [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", `--user-data-dir=${browser.profile}`, `--window-size=${width},${height}`,
    ];
    if (dark) args.push("--force-dark-mode", "--blink-settings=preferredColorScheme=0");
    const prefs = script ? {} : { "profile.managed_default_content_settings.javascript": 2 };
    const options = { binary: process.env.CHROMIUM || "/usr/bin/chromium", args, prefs };
    const capabilities = { browserName: "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": { browser: "ALL" } };
    for (let attempt = 0; ; attempt++) {
      try {
        if ((await browser.call("GET", "/status")).ready) break;
      } catch (error) {
        if (attempt > 200) throw new Error(`chromedriver does not answer: ${error.message}`);
      }
      await pause(50);
    }
    try {
      const { sessionId } = await browser.call("POST", "/session", { capabilities: { alwaysMatch: capabilities } });
      browser.session = `/session/${sessionId}`;
    } catch (error) {
      await browser.close();
      throw error;
    }
    return browser;
  }

  async call(method, path, body) {
    const answer = await fetch(this.base + path, {
      method,
      headers: { "content-type": "application/json" },
      body: method === "POST" ? JSON.stringify(body ?? {}) : undefined,
    });
    const { value } = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${value.error}: ${value.message}`);
    return value;
  }

  on(method, path, body) {
    return this.call(method, this.session + path, body);
  }

  open(url) {
    return this.on("POST", "/url", { url });
  }

  run(script, ...args) {
    return this.on("POST", "/execute/sync", { script, args });
  }

  // Chromium's own protocol, for what WebDriver does not have.
  devtools(cmd, params = {}) {
    return this.on("POST", "/goog/cdp/execute", { cmd, params });
  }

  async press(keys) {
    const actions = [...keys].flatMap((value) => [{ type: "keyDown", value }, { type: "keyUp", value }]);
    await this.on("POST", "/actions", { actions: [{ type: "key", id: "keys", actions }] });
  }

  async click(selector) {
    const found = await this.on("POST", "/element", { using: "css selector", value: selector });
    await this.on("POST", `/element/${found[ELEMENT]}/click`, {});
  }

  // Waits until a script returns something true, and returns it.
  async until(what, script, ...args) {
    const end = Date.now() + 15_000;
    for (;;) {
      const value = await this.run(script, ...args);
      if (value) return value;
      if (Date.now() > end) throw new Error(`never came true: ${what}`);
      await pause(100);
    }
  }

  // Waits until the browser has gone to an address that ends so; needs no scripts.
  async untilAt(ending) {
    const end = Date.now() + 15_000;
    for (;;) {
      const address = await this.on("GET", "/url");
      if (address.endsWith(ending)) return;
      if (Date.now() > end) throw new Error(`still at ${address}, not at ${ending}`);
      await pause(100);
    }
  }

  // Lines that the page or the browser wrote to the console since the last call.
  console() {
    return this.on("POST", "/se/log", { type: "browser" });
  }

  async screenshot() {
    return Buffer.from(await this.on("GET", "/screenshot"), "base64");
  }

  async close() {
    if (this.session) await this.on("DELETE", "").catch(() => {});
    this.driver.kill();
    await new Promise((resolve) => (this.driver.exitCode === null ? this.driver.once("exit", resolve) : resolve()));
    await rm(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
