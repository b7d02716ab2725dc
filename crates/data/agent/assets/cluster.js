// The cluster's page: asks for everything once a second and shows it.

const POLL_MS = 1000;
const SAID_MS = 15000;
const KEYS = [
  ["/", "Search servers"],
  ["g", "Add a group"],
  ["r", "Rebalance"],
  ["m", "Move slots"],
  ["y", "What agents do by themselves"],
  ["c", "To what waits for you"],
  ["l", "Slots by group or by load"],
  ["t", "Token"],
  ["d", "Dark or light"],
  ["p", "Pause"],
  ["?", "This list"],
  ["Esc", "Close"],
];

// A figure with its course over the last minute.
class Tile {
  constructor(name, title, track, column, options = {}) {
    this.value = h("b", {}, "–");
    this.note = h("small");
    const rows = (of, slot) => [[name, title, (options.say || short)(of.value(column, slot) || 0)]];
    this.chart = new Chart(title, track, { height: 40, axis: false, rows, bars: [column], perSecond: false, ...options });
    this.element = h("div", { className: `tile ${name}-tile` }, h("h3", {}, title), h("p", {}, this.value, " ", this.note), this.chart.element);
  }

  update(value, note, kind = "") {
    setText(this.value, value);
    setText(this.note, note);
    setAttribute(this.element, "data-kind", kind);
    this.chart.draw();
  }
}

class Tiles {
  constructor() {
    this.track = new Track();
    this.commands = new Tile("commands", "Commands", this.track, "commands");
    this.took = new Tile("took", "A command takes", this.track, "took", { say: time, least: 100 });
    this.memory = new Tile("memory", "Memory", this.track, "memory", { say: room, least: 1 << 20 });
    this.keys = new Tile("keys", "Keys", this.track, "keys");
    this.clients = new Tile("clients", "Clients of stores", this.track, "clients");
    const tiles = [this.commands, this.took, this.memory, this.keys, this.clients];
    this.element = h("div", { className: "vitals" }, ...tiles.map(({ element }) => element));
  }

  /** @param {Live} live */
  update(live) {
    // Replicas do the same once more.
    const masters = live.groups.map(({ master }) => live.figures[master]).filter(Boolean);
    const all = Object.values(live.figures).filter(Boolean);
    const add = (list, of) => sum(list.map(of));
    const rate = add(masters, ({ commands }) => commands.at(-1) || 0);
    const took = rate ? add(masters, ({ commands, command_us: each }) => (commands.at(-1) || 0) * (each || 0)) / rate : 0;
    const [memory, keys, clients] = [add(all, (one) => one.memory), add(masters, (one) => one.keys), add(all, (one) => one.clients)];
    const second = Math.floor(live.now / 1000);
    // What was missed while nobody looked is not known.
    if (second - timeline.end > 5) this.track.clear();
    if (second !== timeline.end) {
      for (let missed = Math.min(4, second - timeline.end - 1); this.track.length && missed > 0; missed--) this.track.add({ n: 1, commands: [rate], took: [took], memory: [memory], keys: [keys], clients: [clients] });
      timeline.end = second;
      this.track.add({ n: 1, commands: [rate], took: [took], memory: [memory], keys: [keys], clients: [clients] });
    }
    const slow = Math.max(0, ...all.map((one) => one.round_trip_us));
    this.commands.update(`${short(rate)}/s`, `peak ${short(this.track.peak(["commands"]))}/s`);
    this.took.update(rate ? time(took) : "–", `slowest answer ${time(slow)}`);
    this.memory.update(room(memory), plural(all.length, "store", "stores"));
    this.keys.update(short(keys), "in masters");
    this.clients.update(short(clients), "agents and proxies among them");
  }
}

// Moves, proxies, events.
class Lists {
  constructor() {
    const panel = (name, title, ...tools) => {
      const body = h("ul", { className: "list" });
      const element = h("section", { className: `panel ${name}` }, h("header", {}, h("h2", {}, title), ...tools), body);
      return { element, body };
    };
    this.cancel = h("button", { type: "button", id: "cancel", onclick: () => actions.cancel() }, "Cancel");
    this.moves = panel("moves", "Slots on their way", this.cancel);
    this.proxies = panel("proxies", "Proxies", h("button", { type: "button", id: "add-proxy", onclick: () => actions.addProxy() }, "Add"));
    this.events = panel("events", "Events");
    this.drawn = new Map();
  }

  // Fills a list where something has changed.
  fill(list, data, items, nothing) {
    const said = JSON.stringify(data);
    if (this.drawn.get(list) === said) return;
    this.drawn.set(list, said);
    const focus = document.activeElement;
    const place = [...list.querySelectorAll("button")].indexOf(focus);
    list.replaceChildren(...(data.length ? data.map(items) : [h("li", { className: "empty" }, nothing)]));
    if (place >= 0) list.querySelectorAll("button")[place]?.focus({ preventScroll: true });
  }

  /** @param {Live} live */
  update(live) {
    setHidden(this.cancel, !live.moves.some(({ phase }) => phase === "planned" || phase === "copying"));
    this.fill(this.moves.body, live.moves, (move) => this.move(move), "No slot is on its way.");
    this.fill(this.proxies.body, live.proxies, (proxy) => this.proxy(proxy), "There is no proxy.");
    this.fill(this.events.body, live.changes, (change) => this.event(change), "Nothing has been changed.");
  }

  /** @param {Move} move */
  move({ first, last, from, to, phase, progress, keys_per_second: speed, attempts, problem }) {
    const words = { planned: "waits", copying: progress?.is_following ? "follows changes" : "copies keys", clearing: "has moved; the rest is cleared", undoing: "stays; the copy is cleared" };
    const parts = [words[phase]];
    if (progress && phase === "copying") parts.push(`${short(progress.keys)} keys, ${room(progress.bytes)}`);
    if (speed) parts.push(`${short(speed)} keys/s`);
    if (progress?.is_following) parts.push(`${room(progress.lag_bytes)} behind`);
    if (attempts > 1) parts.push(`attempt ${attempts}`);
    const kind = problem ? "bad" : phase === "planned" ? "idle" : "wary";
    return h("li", { className: "move" }, mark(kind), h("div", {}, h("b", {}, `${first} to ${last}`), ` group ${from} → group ${to}`, h("small", {}, parts.join(", ")), problem ? h("small", { className: "some" }, problem) : null));
  }

  proxy(proxy) {
    const kind = { online: "good", offline: "idle" }[proxy.state] || "bad";
    const button = h("button", { type: "button", className: "more-button", ariaLabel: `What can be done with proxy ${proxy.address}`, onclick: () => actions.proxy(proxy) }, "⋯");
    return h("li", {}, mark(kind), h("div", {}, h("b", {}, proxy.address), ` ${proxy.state}`), button);
  }

  event({ epoch, at, by, what }) {
    const undo = by === "operator" ? h("button", { type: "button", className: "quiet", ariaLabel: `Undo change ${epoch}`, onclick: () => actions.undo(epoch) }, "Undo") : null;
    const day = new Date(at * 1000).toLocaleDateString([], { month: "short", day: "numeric" });
    return h("li", {}, h("span", { className: `by ${by}` }, by), h("div", {}, what, h("small", {}, `${day} ${clock(at)}, change ${epoch}`)), undo);
  }
}

const page = {
  tiles: new Tiles(),
  map: new SlotMap(),
  topology: new Topology(),
  lists: new Lists(),
  waiting: new Waiting(),
  paused: false,
  call: 0,
  search: "",

  async poll() {
    clearTimeout(this.timer);
    const mine = ++this.call;
    const started = performance.now();
    let wait = POLL_MS;
    try {
      const live = await client.live();
      if (mine !== this.call) return;
      this.take(live);
    } catch (error) {
      if (mine !== this.call) return;
      if (error.status === 401 && !document.querySelector("dialog[open]")) actions.token(error.message);
      this.tell(`No answer from the agent (${error.message}). What is below is old. Trying again…`, true);
      wait = 2 * POLL_MS;
    }
    if (!this.paused && !document.hidden) this.timer = setTimeout(() => this.poll(), Math.max(100, wait - (performance.now() - started)));
  },

  /** @param {Live} live */
  take(live) {
    this.live = live;
    const rates = new Map(live.groups.map(({ id, master }) => [id, live.figures[master]?.commands.at(-1) || 0]));
    this.tiles.update(live);
    this.map.update(live, rates);
    this.topology.update(live, this.search);
    this.lists.update(live);
    this.waiting.update(live);
    const servers = sum(live.groups.map((group) => group.servers.length));
    setText(byId("fact-state"), live.state === "ok" ? "serves" : "does not serve all");
    setAttribute(byId("fact-state"), "class", live.state === "ok" ? "" : "some");
    setText(byId("fact-groups"), `${live.groups.length}, ${plural(servers, "server", "servers")}`);
    setText(byId("fact-epoch"), String(live.epoch));
    setText(byId("fact-version"), live.version);
    setText(byId("place"), live.agent.dir);
    this.warn(live);
    this.tell("");
  },

  // What is wrong stands above everything.
  /** @param {Live} live */
  warn(live) {
    const found = [];
    if (live.slots.offline) found.push(["bad", `${plural(live.slots.offline, "slot is", "slots are")} served by nobody.`]);
    for (const group of live.groups) {
      if (group.state !== "ok") found.push(["bad", `Group ${group.id} does not serve: its master is ${group.master}.`]);
      for (const server of group.servers) if (server.state === "down") found.push([server.role === "master" ? "bad" : "wary", `${server.address} of group ${group.id} is down${server.problem ? `: ${server.problem}` : ""}.`]);
    }
    for (const proxy of live.proxies) if (proxy.state === "down") found.push(["bad", `Proxy ${proxy.address} is down.`]);
    for (const { first, last, problem } of live.moves) if (problem) found.push(["bad", `Slots ${first} to ${last}: ${problem}. It is tried again.`]);
    const waits = live.pending.filter(({ state }) => state === "waits").length;
    const word = found.some(([kind]) => kind === "bad") ? "(trouble) " : waits ? `(${waits} to confirm) ` : "";
    document.title = `${word}Tidegate cluster`;
    const said = JSON.stringify(found);
    if (this.warned === said) return;
    this.warned = said;
    const most = 6;
    const shown = found.slice(0, most).map(([kind, text]) => h("p", { className: `notice ${kind}` }, mark(kind), " ", text));
    if (found.length > most) shown.push(h("p", { className: "notice bad" }, `and ${found.length - most} more`));
    byId("trouble").replaceChildren(...shown);
  },

  // What came of something that was done here.
  say(text, kind) {
    const close = h("button", { type: "button", className: "quiet", onclick: () => line.remove() }, "Close");
    const line = h("p", { className: `notice ${kind}` }, mark(kind), " ", h("span", {}, text), " ", close);
    byId("said").replaceChildren(line);
    clearTimeout(this.saidTimer);
    if (kind === "good") this.saidTimer = setTimeout(() => line.remove(), SAID_MS);
  },

  tell(text, stale = false) {
    const line = byId("connection");
    setText(line, text);
    setHidden(line, !text);
    byId("live").classList.toggle("stale", stale);
  },

  showToken() {
    setText(byId("token"), client.token ? "Token given" : "Token");
  },

  setPaused(on) {
    this.paused = on;
    setAttribute(byId("pause"), "aria-pressed", String(on));
    setText(byId("pause"), on ? "Go on" : "Pause");
    if (on) clearTimeout(this.timer);
    else this.poll();
  },

  setTheme() {
    theme.toggle();
    if (this.live) this.take(this.live);
  },

  help() {
    if (byId("keys")) return byId("keys").close();
    const rows = KEYS.map(([key, text]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)));
    dialog("keys", "Keys", h("dl", {}, ...rows));
  },

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape" && event.target === byId("search")) byId("search").blur();
      return;
    }
    if (document.querySelector("dialog[open]") && event.key !== "?") return;
    const does = {
      "?": () => page.help(),
      "/": () => byId("search").focus(),
      g: () => actions.addGroup(),
      r: () => actions.rebalance(),
      m: () => page.live && actions.migrate(),
      y: () => actions.policy(),
      c: () => page.waiting.focus(),
      l: () => page.map.colourBy(page.map.by === "group" ? "load" : "group"),
      t: () => actions.token(),
      d: () => page.setTheme(),
      p: () => page.setPaused(!page.paused),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  },
};

client.start();
const side = h("div", { className: "board" }, page.lists.moves.element, page.map.element, page.lists.proxies.element, page.lists.events.element);
byId("live").replaceChildren(h("h2", { className: "hidden" }, "The whole cluster"), page.tiles.element, h("div", { className: "boards" }, page.topology.element, side));
byId("waiting").append(page.waiting.element);
document.body.append(readout.element);
theme.start(byId("theme"));
byId("theme").addEventListener("click", () => page.live && page.take(page.live));
byId("pause").addEventListener("click", () => page.setPaused(!page.paused));
byId("help").addEventListener("click", () => page.help());
byId("token").addEventListener("click", () => actions.token());
byId("add-group").addEventListener("click", () => actions.addGroup());
byId("rebalance").addEventListener("click", () => actions.rebalance());
byId("policy-button").addEventListener("click", () => actions.policy());
byId("move").addEventListener("click", () => page.live && actions.migrate());
byId("search").addEventListener("input", (event) => {
  page.search = event.target.value;
  if (page.live) page.topology.update(page.live, page.search);
});
document.addEventListener("keydown", page.onKey);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(page.timer) : page.paused || page.poll()));
page.showToken();
page.poll();
