// The store's page: asks for figures once a second and shows them.

const POLL_MS = 1000;
const WINDOWS = [60, 600, 3600];
const KEYS = [
  ["w", "The last minute, ten minutes, hour"],
  ["d", "Dark or light"],
  ["p", "Pause"],
  ["?", "This list"],
  ["Esc", "Close"],
];

const page = {
  tiles: new Tiles(),
  panels: new Panels(),
  paused: false,
  call: 0,

  async poll() {
    clearTimeout(this.timer);
    const mine = ++this.call;
    const started = performance.now();
    let wait = POLL_MS;
    try {
      const answer = await fetch(`/live.json?window=${timeline.window}`, { cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
      const data = await answer.json();
      if (mine !== this.call) return;
      this.take(data);
    } catch (error) {
      if (mine !== this.call) return;
      this.tell(`No answer from the store (${error.message}). The numbers below are old. Trying again…`, true);
      wait = 2 * POLL_MS;
    }
    if (!this.paused && !document.hidden) this.timer = setTimeout(() => this.poll(), Math.max(100, wait - (performance.now() - started)));
  },

  take(data) {
    const { info } = data;
    Object.assign(timeline, { window: data.window, step: data.step, end: data.end });
    this.tiles.update(data);
    this.panels.update(data);
    setText(byId("fact-uptime"), span(info.uptime_in_seconds));
    setText(byId("fact-keys"), short(sum(data.databases.map(({ keys }) => keys))));
    setText(byId("fact-pid"), String(info.process_id));
    setText(byId("fact-version"), `${info.tidegate_version} (Redis ${info.redis_version})`);
    setText(byId("place"), `port ${info.tcp_port}${data.folder ? `, ${data.folder}` : ""}`);
    this.warn(info);
    this.tell("");
  },

  // What is wrong stands above everything.
  warn(info) {
    const found = [];
    if (info.aof_last_write_status === "err") found.push("The log cannot be written: writes are refused. The store's messages say why.");
    if (info.rdb_last_bgsave_status === "err") found.push("The tables cannot be written: the log grows. The store's messages say why.");
    const said = found.join("\n");
    if (this.warned === said) return;
    this.warned = said;
    byId("trouble").replaceChildren(...found.map((text) => h("p", { className: "notice bad" }, mark("bad"), " ", text)));
    document.title = `${found.length ? "(trouble) " : ""}Tidegate store`;
  },

  tell(text, stale = false) {
    const line = byId("connection");
    setText(line, text);
    setHidden(line, !text);
    byId("live").classList.toggle("stale", stale);
  },

  setWindow(seconds) {
    timeline.window = WINDOWS.includes(seconds) ? seconds : 60;
    for (const button of document.querySelectorAll("#windows button")) setAttribute(button, "aria-pressed", String(Number(button.value) === timeline.window));
    settings.set("window", String(timeline.window));
    this.poll();
  },

  setPaused(on) {
    this.paused = on;
    setAttribute(byId("pause"), "aria-pressed", String(on));
    setText(byId("pause"), on ? "Go on" : "Pause");
    if (on) clearTimeout(this.timer);
    else this.poll();
  },

  help() {
    if (byId("keys")) return byId("keys").close();
    const rows = KEYS.map(([key, text]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)));
    dialog("keys", "Keys", h("dl", {}, ...rows));
  },

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]") && event.key !== "?") return;
    const does = {
      "?": () => page.help(),
      w: () => page.setWindow(WINDOWS[(WINDOWS.indexOf(timeline.window) + 1) % WINDOWS.length]),
      d: theme.toggle,
      p: () => page.setPaused(!page.paused),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  },
};

byId("live").replaceChildren(h("h2", { className: "hidden" }, "The whole store"), page.tiles.element, page.panels.element);
document.body.append(readout.element);
theme.start(byId("theme"));
byId("pause").addEventListener("click", () => page.setPaused(!page.paused));
byId("help").addEventListener("click", () => page.help());
for (const button of document.querySelectorAll("#windows button")) button.addEventListener("click", () => page.setWindow(Number(button.value)));
document.addEventListener("keydown", page.onKey);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(page.timer) : page.paused || page.poll()));
page.setWindow(Number(settings.get("window")) || 60);
