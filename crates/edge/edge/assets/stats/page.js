// The live statistics page: fetches every number and the new points of each curve once a second and shows them.
// Text from the edge only ever becomes text nodes, never markup.
"use strict";

const body = document.body;
const URI = body.dataset.uri;
const OPTIONS = body.dataset.options;
const MAY_ADMIN = body.dataset.admin === "1";
const POLL_MS = 1000;
const TABLE_MS = Math.max(2, Number(body.dataset.refresh) || 5) * 1000;
const SERVERS_SHOWN = 8;
const EVENTS_KEPT = 20;
// Charts that flow; beyond these a curve jumps once a second, which costs less.
const FLOWING_MAX = 40;

const byId = (id) => document.getElementById(id);

function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// ---- how things are said -------------------------------------------------------------------------------------------

function short(value) {
  if (value < 1000) return value < 10 && value % 1 ? value.toFixed(1) : String(Math.round(value));
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= unit) return `${(value / unit).toFixed(value / unit < 100 ? 1 : 0)} ${name}`;
  }
}

function time(microseconds) {
  if (microseconds === undefined || microseconds === null) return "–";
  const ms = microseconds / 1000;
  if (ms < 1) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
}

function span(seconds) {
  const [d, hours, m] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (d) return `${d}d ${hours}h`;
  if (hours) return `${hours}h ${m}m`;
  return m ? `${m}m ${seconds % 60}s` : `${seconds}s`;
}

function percent(part, whole) {
  if (!whole) return "0 %";
  const value = (100 * part) / whole;
  return `${value === 0 || value >= 10 ? Math.round(value) : value.toFixed(value < 1 ? 2 : 1)} %`;
}

// Widths in pixels from which there is room for one more column of cards.
const COLUMN_WIDTH = { backends: 660, frontends: 420 };

const plural = (count, one, many) => `${short(count)} ${count === 1 ? one : many}`;
const sum = (values) => values.reduce((total, value) => total + value, 0);

// A state in one of five kinds, each with a colour and a shape of its own beside its words.
function kindOf(server) {
  switch (server.condition) {
    case "UP":
      return server.status === "UP" || server.throttle ? "good" : server.status === "no check" ? "plain" : "wary";
    case "DOWN":
      return "bad";
    case "MAINT":
      return "idle";
    default:
      return "wary";
  }
}

const mark = (kind) => h("span", { className: `mark ${kind}`, ariaHidden: "true" });

// ---- the pieces of the live view -----------------------------------------------------------------------------------

let flowing = 0;

function chart(label, lines, options = {}) {
  const made = new Chart(label, lines, { ...options, flow: flowing++ < FLOWING_MAX });
  return made;
}

class Tile {
  constructor(title, line, tell, options) {
    this.value = h("b", {}, "–");
    this.note = h("small", {}, "");
    this.chart = chart(title, { [line]: { kind: line === "errors" ? "bars" : "area", tell } }, { height: 36, ...options });
    this.line = line;
    this.element = h("div", { className: `tile ${line}` }, h("h3", {}, title), h("p", {}, this.value, " ", this.note), this.chart.element);
  }

  update(value, note, points) {
    setText(this.value, value);
    setText(this.note, note);
    this.chart.add({ [this.line]: points });
    this.chart.draw();
  }
}

class Figure {
  constructor(label, lines, options) {
    this.caption = h("figcaption");
    this.chart = chart(label, lines, options);
    this.element = h("figure", {}, this.caption, this.chart.element);
  }

  update(caption, points) {
    this.caption.replaceChildren(...caption);
    this.chart.add(points);
    this.chart.draw();
  }
}

const requestsLines = (http) => ({
  requests: { kind: "area", tell: (value) => (http ? plural(value, "request", "requests") : plural(value, "session", "sessions")) },
  errors: { kind: "bars", tell: (value) => (value ? plural(value, "error", "errors") : "") },
});
const latencyLines = {
  slow: { kind: "area", gaps: true, tell: (value) => (value ? `99 of 100 within ${time(value)}` : "nothing was served") },
  median: { kind: "line", gaps: true, tell: (value) => (value ? `half within ${time(value)}` : "") },
};

class ServerRow {
  constructor(card, server) {
    this.card = card;
    this.id = server.id;
    this.state = h("span", { className: "words" });
    this.since = h("small");
    this.mark = mark("plain");
    this.rate = h("b");
    this.spark = chart(`Requests of ${server.name}`, requestsLines(card.http), { height: 22 });
    this.cells = {};
    const cell = (name, label, ...children) => {
      this.cells[name] = h("td", { className: name, "data-label": label }, ...children);
      return this.cells[name];
    };
    this.check = h("small", { className: "check" });
    this.details = h("small", { className: "details" });
    this.element = h(
      "tr",
      {},
      h("th", { scope: "row" }, h("span", {}, server.name), this.details),
      h("td", { className: "state" }, h("div", {}, this.mark, this.state, " ", this.since), this.check),
      h("td", { className: "traffic" }, h("div", {}, this.spark.element, h("span", {}, this.rate, "/s"))),
      cell("time", "Response"),
      cell("sessions", "Sessions"),
      cell("errors", "Errors"),
    );
    if (MAY_ADMIN) {
      const manage = h("button", { type: "button", className: "manage", onclick: () => openActions(card.name, card.id, server.name) }, "Manage");
      manage.setAttribute("aria-label", `Manage ${card.name}/${server.name}`);
      this.element.append(h("td", { className: "act" }, manage));
    }
  }

  update(server) {
    const kind = kindOf(server);
    const changed = this.kind !== undefined && (this.kind !== kind || this.condition !== server.condition);
    if (changed) {
      note(`${this.card.name}/${server.name}`, server.status, kind);
      this.element.classList.remove("changed");
      void this.element.offsetWidth;
      this.element.classList.add("changed");
    }
    this.kind = kind;
    this.condition = server.condition;
    this.element.dataset.kind = kind;
    this.mark.className = `mark ${kind}`;
    setText(this.state, server.throttle ? `${server.status}, starting ${server.throttle} %` : server.status);
    setText(this.since, span(server.change));
    this.state.parentElement.title = server.status;
    const about = [server.backup ? "backup" : null, server.weight === 1 ? null : `weight ${server.weight}`, server.address].filter(Boolean).join(" · ");
    setText(this.details, about);
    this.details.title = about;
    setText(this.rate, short(server.rate));
    setText(this.cells.time, server.total ? `${short(server.time)} ms` : "–");
    setText(this.cells.sessions, (server.limit ? `${server.sessions} of ${server.limit}` : String(server.sessions)) + (server.queue ? ` + ${server.queue} waiting` : ""));
    setText(this.cells.errors, server.errors ? short(server.errors) : "0");
    this.cells.errors.classList.toggle("some", server.errors > 0);
    setText(this.check, server.check ? server.check.code : "");
    this.check.title = server.check ? server.check.text : "";
    this.spark.add({ requests: server.points.r, errors: server.points.e });
    if (!this.element.hidden) this.spark.draw();
  }
}

class Card {
  constructor(proxy) {
    this.name = proxy.name;
    this.id = proxy.id;
    this.http = proxy.mode === "http";
    this.rows = new Map();
    this.all = false;
    this.mark = mark("plain");
    this.state = h("span", { className: "words" });
    this.about = h("span", { className: "about" });
    this.requests = new Figure(this.http ? `Requests of ${proxy.name}` : `Sessions of ${proxy.name}`, requestsLines(this.http), { height: 64 });
    this.latency = this.http ? new Figure(`Latency of ${proxy.name}`, latencyLines, { height: 64, least: 1000 }) : null;
    this.numbers = h("dl", { className: "numbers" });
    this.values = {};
    this.element = h(
      "article",
      { className: "card", id: `card-${proxy.name}` },
      h("header", {}, h("h3", {}, proxy.name), h("span", { className: "pill" }, this.mark, this.state), this.about),
      proxy.description ? h("p", { className: "description" }, proxy.description) : null,
      h("div", { className: "figures" }, this.requests.element, this.latency && this.latency.element),
      this.numbers,
    );
    if (proxy.servers) this.addServers();
  }

  addServers() {
    const titles = ["Server", "State", this.http ? "Requests" : "Sessions", "Time", "Sessions", "Errors"];
    if (MAY_ADMIN) titles.push("");
    const head = titles.map((title) => h("th", { scope: "col" }, title ? h("span", {}, title) : h("span", { className: "hidden" }, "Manage")));
    this.list = h("tbody");
    this.more = h("button", { type: "button", className: "more", hidden: true, onclick: () => this.toggleAll() });
    const caption = h("caption", { className: "hidden" }, `Servers of ${this.name}`);
    const table = h("table", { className: "servers" }, caption, h("thead", {}, h("tr", {}, ...head)), this.list);
    this.element.append(table, this.more);
  }

  toggleAll() {
    this.all = !this.all;
    this.arrange();
  }

  number(label, value, alarming = false) {
    let dd = this.values[label];
    if (!dd) {
      dd = this.values[label] = h("dd");
      this.numbers.append(h("div", {}, h("dt", {}, label), dd));
    }
    setText(dd, value);
    dd.classList.toggle("some", alarming);
  }

  update(proxy) {
    const side = proxy.back || proxy.front;
    const [r, e] = [side.points.r, side.points.e];
    const unit = this.http ? "requests/s" : "sessions/s";
    this.requests.update([h("b", {}, short(side.rate)), ` ${unit} `, h("small", {}, `at most ${short(side.rateMax)}`)], { requests: r, errors: e });
    if (this.latency) {
      const caption = [h("b", {}, time(side.p50)), " median ", h("b", {}, time(side.p99)), " p99"];
      this.latency.update(caption, { slow: side.points.p99, median: side.points.p50 });
    }
    const recent = (name) => sum(this.requests.chart.points[name].slice(-10));
    const errors = recent("errors");
    this.number("Errors", percent(errors, Math.max(recent("requests"), errors)), errors > 0);
    this.number("Sessions", side.limit ? `${side.sessions} of ${short(side.limit)}` : String(side.sessions), side.limit > 0 && side.sessions >= side.limit);
    if (proxy.back) {
      this.number("Waiting", String(side.queue), side.queue > 0);
      this.number("Retries", short(side.retries + side.redispatches));
    } else {
      this.number("Denied", short(side.denied));
      this.number("Bad requests", short(side.errors));
    }
    this.number("In all", short(side.total));
    this.updateState(proxy);
    if (proxy.servers) this.updateServers(proxy.servers);
  }

  updateState(proxy) {
    const { back, front, servers = [] } = proxy;
    const open = !front || front.state === "OPEN";
    const balances = back && servers.length;
    const up = balances ? back.up : front ? open : back.up;
    const word = !open ? front.state : balances ? (up ? "UP" : "DOWN") : up ? "OPEN" : "DOWN";
    const counts = {};
    for (const server of servers) counts[kindOf(server)] = (counts[kindOf(server)] || 0) + 1;
    const kind = !open ? "idle" : !up ? "bad" : counts.bad || counts.wary ? "wary" : "good";
    if (this.word !== undefined && this.word !== word) note(this.name, word, kind);
    this.word = word;
    this.mark.className = `mark ${kind}`;
    setText(this.state, word);
    this.element.dataset.kind = kind;
    const words = { good: "up", plain: "unchecked", wary: "unsteady", DRAIN: "draining", bad: "down", idle: "in maintenance" };
    const named = {};
    for (const server of servers) {
      const name = words[server.condition] ? server.condition : kindOf(server);
      named[name] = (named[name] || 0) + 1;
    }
    const about = Object.entries(words).filter(([name]) => named[name]).map(([name, text]) => `${named[name]} ${text}`);
    if (back && back.algorithm) about.push(back.algorithm);
    if (!this.http) about.push("tcp");
    if (front && front.listeners.length) about.push(front.listeners.join(", "));
    setText(this.about, about.join(" · "));
  }

  updateServers(servers) {
    const seen = new Set();
    for (const server of servers) {
      seen.add(server.name);
      let row = this.rows.get(server.name);
      if (!row) {
        row = new ServerRow(this, server);
        this.rows.set(server.name, row);
        this.list.append(row.element);
      }
      row.update(server);
    }
    for (const [name, row] of this.rows) {
      if (seen.has(name)) continue;
      row.element.remove();
      this.rows.delete(name);
    }
    this.arrange();
  }

  // Shows the servers that are searched for, and of many only some: those in trouble first.
  arrange() {
    const inName = matches(this.name);
    const wanted = [...this.rows.entries()].filter(([name, row]) => inName || matches(name) || matches(row.state.textContent)).map(([, row]) => row);
    const troubled = wanted.filter((row) => row.kind === "bad" || row.kind === "wary");
    const few = this.all || wanted.length <= SERVERS_SHOWN + 1;
    const shown = new Set(few ? wanted : [...troubled, ...wanted.filter((row) => !troubled.includes(row))].slice(0, Math.max(SERVERS_SHOWN, Math.min(troubled.length, 2 * SERVERS_SHOWN))));
    for (const row of this.rows.values()) {
      const hide = !shown.has(row);
      if (row.element.hidden && !hide) row.spark.dirty = true;
      if (row.element.hidden !== hide) row.element.hidden = hide;
      if (!hide) row.spark.draw();
    }
    if (!this.more) return;
    const many = wanted.length > SERVERS_SHOWN + 1;
    this.more.hidden = !many;
    this.more.setAttribute("aria-expanded", String(this.all));
    setText(this.more, this.all ? "Show fewer" : `Show all ${wanted.length} servers`);
  }
}

// ---- the live view as a whole --------------------------------------------------------------------------------------

const live = byId("live");
const cards = new Map();
const tiles = {};
const groups = {};
const announcer = h("p", { className: "hidden", role: "status" });
let events;
let second = 0;

function buildLive() {
  const number = (unit) => (value) => `${short(value)} ${unit}`;
  tiles.requests = new Tile("Requests", "requests", number("requests"));
  tiles.errors = new Tile("Errors", "errors", number("errors"), { least: 2 });
  tiles.connections = new Tile("Connections", "sessions", number("sessions"));
  tiles.traffic = new Tile("Sent", "traffic", (value) => `${short(value)}B/s`, { least: 10000 });
  const vitals = h("div", { className: "vitals" }, ...Object.values(tiles).map((tile) => tile.element));
  const group = (name, title) => {
    groups[name] = { heading: h("h2", {}, title), list: h("div", { className: `cards ${name}` }) };
    return [groups[name].heading, groups[name].list];
  };
  events = h("ol");
  const changes = h("aside", { className: "changes", hidden: true }, h("h2", {}, "Changes since you opened this page"), events);
  live.replaceChildren(h("h2", { className: "hidden" }, "The whole edge"), vitals, changes, ...group("backends", "Backends"), ...group("frontends", "Frontends"), announcer);
  body.append(readout);
}

// A change of state, for eyes and for screen readers.
function note(name, status, kind) {
  const at = new Date().toLocaleTimeString([], { hour12: false });
  events.prepend(h("li", {}, h("time", {}, at), mark(kind), h("b", {}, name), ` is ${status}`));
  while (events.children.length > EVENTS_KEPT) events.lastChild.remove();
  events.parentElement.hidden = false;
  announcer.textContent = `${name} is ${status}`;
}

function matches(text) {
  return text.toLowerCase().includes(byId("filter").value.trim().toLowerCase());
}

function applyFilter() {
  let shown = { backends: 0, frontends: 0 };
  for (const card of cards.values()) {
    const hit = matches(card.name) || [...card.rows].some(([name, row]) => matches(name) || matches(row.state.textContent));
    card.element.hidden = !hit;
    if (hit) shown[card.group]++;
    card.arrange();
  }
  for (const [name, { heading, list }] of Object.entries(groups)) heading.hidden = list.hidden = shown[name] === 0;
  for (const section of document.querySelectorAll(".classic")) section.hidden = !matches(section.dataset.proxy);
}

// Puts each card into the column that is shortest so far, by a guess that does not change while the numbers do, so that
// cards stay where they are.
function arrange(name) {
  const { list } = groups[name];
  const mine = [...cards.values()].filter((card) => card.group === name);
  const count = Math.max(1, Math.min(mine.length, Math.floor(list.clientWidth / COLUMN_WIDTH[name]) || 1));
  const columns = Array.from({ length: count }, () => ({ element: h("div", { className: "column" }), height: 0 }));
  for (const card of mine) {
    const shortest = columns.reduce((best, column) => (column.height < best.height ? column : best));
    shortest.element.append(card.element);
    shortest.height += 8 + Math.min(card.rows.size, SERVERS_SHOWN + 1) * 1.2;
  }
  list.replaceChildren(...columns.map((column) => column.element));
}

function update(data) {
  const restarted = data.now < second;
  if (restarted) {
    for (const card of cards.values()) card.element.remove();
    cards.clear();
    Object.values(tiles).forEach((tile) => tile.chart.clear());
  }
  second = data.now;
  const seen = new Set();
  let rearrange = restarted;
  for (const proxy of data.proxies) {
    seen.add(proxy.name);
    let card = cards.get(proxy.name);
    if (!card) {
      card = new Card(proxy);
      card.group = proxy.servers || !proxy.front ? "backends" : "frontends";
      cards.set(proxy.name, card);
      rearrange = true;
    }
    card.update(proxy);
  }
  for (const [name, card] of cards) {
    if (seen.has(name)) continue;
    card.element.remove();
    cards.delete(name);
    rearrange = true;
  }
  updateVitals(data);
  if (rearrange) Object.keys(groups).forEach(arrange);
  if (rearrange || byId("filter").value) applyFilter();
}

function updateVitals(data) {
  const fronts = data.proxies.filter((proxy) => proxy.front).map((proxy) => proxy.front);
  // The sum of all frontends' points second by second; each ends with the second that is now.
  const total = (name) => {
    const all = fronts.map((front) => front.points[name] || []);
    const length = Math.max(0, ...all.map((points) => points.length));
    return Array.from({ length }, (_, index) => sum(all.map((points) => points[points.length - length + index] || 0)));
  };
  const process = data.process;
  const requests = total("r");
  tiles.requests.update(short(process.requestRate), "/s", requests);
  const errors = total("e");
  tiles.errors.chart.add({ errors });
  const recent = (tile, name) => sum(tile.chart.points[name].slice(-10));
  tiles.errors.update(percent(recent(tiles.errors, "errors"), recent(tiles.requests, "requests")), "of requests", []);
  tiles.connections.update(short(process.connections), `of ${short(process.connectionsMax)}`, total("s"));
  tiles.traffic.update(`${short(process.bytesOutRate)}B`, "/s", process.bytesOut);
  setText(byId("fact-uptime"), span(data.uptime));
  setText(byId("fact-connections"), `${process.connections} of ${process.connectionsMax}`);
  if (process.idle !== null) setText(byId("fact-workers"), `${process.workers}, ${100 - process.idle} % busy`);
  const down = data.proxies.flatMap((proxy) => proxy.servers || []).filter((server) => server.condition === "DOWN").length;
  document.title = (down ? `(${down} down) ` : "") + title;
}

const title = document.title;

// ---- fetching ------------------------------------------------------------------------------------------------------

let paused = false;
let timer;

function view() {
  return document.documentElement.dataset.view;
}

// Fetches once. Only the answer of the latest call counts and plans the next one.
let call = 0;
async function poll() {
  clearTimeout(timer);
  const mine = ++call;
  const started = performance.now();
  const showing = view();
  let wait = showing === "live" ? POLL_MS : TABLE_MS;
  let data;
  try {
    const answer = await get(showing === "live" ? `${URI};json;live;since=${second}${OPTIONS}` : `${URI};rows${OPTIONS}`);
    data = await (showing === "live" ? answer.json() : answer.text());
  } catch (error) {
    if (mine !== call) return;
    connection(`No answer from the edge (${error.message}). The numbers below are old. Trying again…`);
    wait = 2 * POLL_MS;
  }
  if (mine !== call) return;
  if (data !== undefined && showing === "live") {
    update(data);
    connection(data.stopping ? "This process is on its way out: it only finishes what it has begun." : "");
  } else if (data !== undefined) {
    replaceTable(data);
    connection("");
  }
  if (!paused && !document.hidden) timer = setTimeout(poll, Math.max(100, wait - (performance.now() - started)));
}

async function get(uri) {
  const answer = await fetch(uri, { cache: "no-store", credentials: "same-origin" });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer;
}

function connection(text) {
  const line = byId("connection");
  setText(line, text);
  line.hidden = !text;
  live.classList.toggle("stale", text.startsWith("No answer"));
}

// Brings the table up to date and keeps what is chosen in it, where it is scrolled to and what has the focus.
function replaceTable(html) {
  const table = byId("table");
  const chosen = [...table.querySelectorAll("section")].map((section) => ({
    name: section.dataset.proxy,
    left: section.querySelector(".scroll")?.scrollLeft || 0,
    servers: [...section.querySelectorAll("input:checked")].map((input) => input.value),
    action: section.querySelector("select")?.value || "",
  }));
  const focus = document.activeElement;
  if (table.contains(focus) && focus.tagName === "SELECT") return;
  const where = table.contains(focus) && focus.closest("section") ? { proxy: focus.closest("section").dataset.proxy, value: focus.value } : null;
  table.replaceChildren(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  for (const { name, left, servers, action } of chosen) {
    const section = [...table.querySelectorAll("section")].find((other) => other.dataset.proxy === name);
    if (!section) continue;
    section.querySelector(".scroll").scrollLeft = left;
    for (const input of section.querySelectorAll("input[name=s]")) {
      input.checked = servers.includes(input.value);
      if (where && where.proxy === name && where.value === input.value) input.focus();
    }
    if (action) section.querySelector("select").value = action;
  }
  applyFilter();
}

// ---- actions -------------------------------------------------------------------------------------------------------

const ACTIONS = [
  ["ready", "Ready", "Takes part again."],
  ["drain", "Drain", "Keeps the visitors it has and gets no new ones."],
  ["maint", "Maintenance", "Serves nothing and is not checked."],
  ["hrunn", "Health up", "Taken for up until a check says otherwise."],
  ["hnolb", "Health up, no new visitors", "As if its check had asked for it."],
  ["hdown", "Health down", "Taken for down until checks say otherwise."],
  ["ehlth", "Start checks", "Checks run again."],
  ["dhlth", "Stop checks", "Stays in the state it is in."],
  ["shutdown", "End all sessions", "Cuts every connection that it serves now."],
];

let actions;
let closing;

function openActions(backend, id, server) {
  clearTimeout(closing);
  if (!actions) {
    actions = h("dialog", { id: "actions", className: "dialog" });
    actions.addEventListener("click", (event) => event.target === actions && actions.close());
    body.append(actions);
  }
  const said = h("p", { className: "said", role: "status" });
  const act = async (name, label) => {
    said.textContent = `${label}…`;
    const form = new URLSearchParams({ s: server, action: name, b: `#${id}` });
    try {
      const answer = await fetch(`${URI}${OPTIONS}`, { method: "POST", body: form, credentials: "same-origin" });
      const outcome = /;st=([A-Z]{4})/.exec(answer.url)?.[1] || "UNKN";
      said.textContent = outcome === "DONE" ? `${label}: done.` : outcome === "DENY" ? "You are not allowed to change anything here." : "That cannot be done with this server.";
      if (outcome === "DONE") closing = setTimeout(() => actions.close(), 700);
      poll();
    } catch (error) {
      said.textContent = `That did not work: ${error.message}`;
    }
  };
  const buttons = ACTIONS.map(([name, label, text]) => {
    const button = h("button", { type: "button", value: name, onclick: () => act(name, label) }, h("b", {}, label), h("small", {}, text));
    if (["maint", "hdown", "shutdown"].includes(name)) button.className = "grave";
    return h("li", {}, button);
  });
  actions.replaceChildren(
    h("header", {}, h("h2", {}, `${backend} / ${server}`), h("button", { type: "button", className: "close", onclick: () => actions.close() }, "Close")),
    h("ul", {}, ...buttons),
    said,
  );
  actions.showModal();
}

// ---- keys, theme, view ---------------------------------------------------------------------------------------------

const KEYS = [
  ["t", "Live view or table"],
  ["/", "Filter by name or state"],
  ["d", "Dark or light"],
  ["p", "Pause"],
  ["j k", "Next or previous backend or frontend"],
  ["?", "This list"],
  ["Esc", "Close, or clear the filter"],
];

let help;

function openHelp() {
  if (!help) {
    const rows = KEYS.map(([key, text]) => h("div", {}, h("dt", {}, ...key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, text)));
    help = h("dialog", { id: "keys", className: "dialog" });
    help.append(h("header", {}, h("h2", {}, "Keys"), h("button", { type: "button", className: "close", onclick: () => help.close() }, "Close")), h("dl", {}, ...rows));
    help.addEventListener("click", (event) => event.target === help && help.close());
    body.append(help);
  }
  if (help.open) help.close();
  else help.showModal();
}

const store = {
  get: (key) => {
    try {
      return localStorage.getItem(`statistics-${key}`);
    } catch {
      return null;
    }
  },
  set: (key, value) => {
    try {
      if (value === null) localStorage.removeItem(`statistics-${key}`);
      else localStorage.setItem(`statistics-${key}`, value);
    } catch {
      // A browser that keeps nothing still shows everything.
    }
  },
};

function setView(name) {
  document.documentElement.dataset.view = name;
  byId("view-live").setAttribute("aria-pressed", String(name === "live"));
  byId("view-table").setAttribute("aria-pressed", String(name === "table"));
  store.set("view", name);
  poll();
}

const systemDark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  return document.documentElement.dataset.theme || (systemDark.matches ? "dark" : "light");
}

function showTheme(own) {
  if (own) document.documentElement.dataset.theme = own;
  else delete document.documentElement.dataset.theme;
  setText(byId("theme"), theme() === "dark" ? "Light" : "Dark");
}

// Whoever chooses what the system says anyway follows the system from then on.
function toggleTheme() {
  const wanted = theme() === "dark" ? "light" : "dark";
  const own = wanted === (systemDark.matches ? "dark" : "light") ? null : wanted;
  store.set("theme", own);
  showTheme(own);
}

function setPaused(on) {
  paused = on;
  byId("pause").setAttribute("aria-pressed", String(on));
  setText(byId("pause"), on ? "Go on" : "Pause");
  if (on) clearTimeout(timer);
  else poll();
}

function step(by) {
  const all = [...document.querySelectorAll(view() === "live" ? ".card" : ".classic")].filter((element) => !element.hidden);
  if (!all.length) return;
  const at = all.indexOf(document.activeElement.closest?.(".card, .classic"));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  next.tabIndex = -1;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const filter = byId("filter");
  const writing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "Escape" && event.target === filter) {
    filter.value = "";
    applyFilter();
    filter.blur();
    return;
  }
  if (writing || (document.querySelector("dialog[open]") && event.key !== "?")) return;
  const does = {
    "?": openHelp,
    "/": () => filter.focus(),
    t: () => setView(view() === "live" ? "table" : "live"),
    d: toggleTheme,
    p: () => setPaused(!paused),
    j: () => step(1),
    k: () => step(-1),
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}

function start() {
  buildLive();
  showTheme(store.get("theme"));
  byId("view-live").addEventListener("click", () => setView("live"));
  byId("view-table").addEventListener("click", () => setView("table"));
  byId("pause").addEventListener("click", () => setPaused(!paused));
  byId("theme").addEventListener("click", toggleTheme);
  byId("help").addEventListener("click", openHelp);
  byId("filter").addEventListener("input", applyFilter);
  document.querySelector(".search").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", onKey);
  new ResizeObserver(() => {
    const widths = Object.values(groups).map(({ list }) => list.clientWidth).join();
    if (widths !== start.widths) Object.keys(groups).forEach(arrange);
    start.widths = widths;
  }).observe(live);
  systemDark.addEventListener("change", () => showTheme(store.get("theme")));
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : paused || poll()));
  // A link to a proxy (`#name`) is one to its table.
  setView(location.hash || store.get("view") === "table" ? "table" : "live");
}

start();
