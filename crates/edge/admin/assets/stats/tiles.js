// The edge as a whole, in six tiles: health first.

class Tile {
  constructor(name, title, track, options) {
    this.value = h("b", {}, "–");
    this.note = h("small");
    this.chart = new Chart(title, track, { height: 40, axis: false, rows: tellAll, ...options });
    this.element = h("div", { className: `tile ${name}` }, h("h3", {}, title), h("p", {}, this.value, this.note), this.chart.element);
  }

  update(value, note) {
    setText(this.value, value);
    setText(this.note, note);
    this.chart.draw();
  }
}

// How many servers there are and how they are, as a number and a bar. Pressing it shows only trouble.
class HealthTile {
  constructor(press) {
    this.value = h("b", {}, "–");
    this.note = h("small");
    this.where = h("small", { className: "where" });
    this.kinds = ["down", "unsteady", "drain", "maint", "unchecked", "up"];
    this.parts = Object.fromEntries(this.kinds.map((kind) => [kind, h("i", { className: KIND_MARKS[kind] })]));
    const bar = h("span", { className: "mix", ariaHidden: "true" }, ...Object.values(this.parts));
    const title = h("h3", {}, "Servers");
    this.element = h("button", { type: "button", className: "tile health", onclick: press }, title, h("p", {}, this.value, this.note, this.where), bar);
  }

  update(totals, troubled) {
    const { servers, down } = totals;
    const { unsteady, unchecked } = totals;
    const [state, tone] = down ? [`${down} down`, "bad"] : unsteady ? [`${unsteady} unsteady`, "wary"] : servers > unchecked ? ["All up", "good"] : [servers ? "Not checked" : "None", "plain"];
    setText(this.value, state);
    this.value.className = tone;
    const words = this.kinds.filter((kind) => !["down", "up"].includes(kind) && totals[kind] && (kind !== "unsteady" || down) && (kind !== "unchecked" || unchecked < servers));
    const said = words.map((kind) => `${totals[kind]} ${KIND_WORDS[kind] || "up"}`);
    const names = troubled.slice(0, 3).map(({ name }) => name);
    if (troubled.length > 3) names.push(`${troubled.length - 3} more`);
    const where = names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0];
    setText(this.note, [`${down ? "of " : ""}${servers.toLocaleString("en")} ${servers === 1 ? "server" : "servers"}`, ...said].join(", "));
    setText(this.where, where ? `See ${where}` : "");
    for (const kind of this.kinds) this.parts[kind].style.flexGrow = String(totals[kind] ? Math.max(totals[kind], servers / 60) : 0);
    setAttribute(this.element, "data-kind", down || totals.backends ? "bad" : unsteady || troubled.length ? "wary" : "good");
    setAttribute(this.element, "aria-pressed", String(filter.problems));
    this.element.title = filter.problems ? "Show everything again" : "Show only what has problems";
  }
}

class ErrorTile {
  constructor(track) {
    this.chart = new Chart("Errors", track, { bars: ["c4", "c5"], height: 40, least: 2, axis: false, rows: tellAll });
    this.failing = h("b", { className: "c5" });
    this.missing = h("b", { className: "c4" });
    const line = h("p", {}, this.failing, this.missing, h("small", {}, "5xx"), h("small", {}, "4xx"));
    this.element = h("div", { className: "tile errors" }, h("h3", {}, "Errors, last minute"), line, this.chart.element);
  }

  update(mix = []) {
    const [, , , missing = 0, failing = 0] = mix;
    setText(this.failing, percent(failing, sum(mix)));
    setText(this.missing, percent(missing, sum(mix)));
    this.failing.classList.toggle("none", !failing);
    this.missing.classList.toggle("none", !missing);
    const much = missing > MISSING_MUCH * sum(mix);
    this.missing.classList.toggle("much", much);
    setAttribute(this.element, "data-kind", failing ? "bad" : much ? "wary" : "good");
    this.chart.draw();
  }
}

class Vitals {
  constructor(press) {
    this.track = new Track();
    const tile = (name, title, options) => new Tile(name, title, this.track, options);
    this.health = new HealthTile(press);
    this.requests = tile("requests", "Requests", { bars: ANSWER_COLUMNS });
    this.errors = new ErrorTile(this.track);
    this.times = tile("times", "Response time", { lines: ["p99", "p50"], least: 1000, say: time, perSecond: false });
    this.sessions = tile("sessions", "Connections", { bars: ["s"], perSecond: false });
    this.sent = tile("sent", "Sent", { bars: ["bytes"], least: 10000, say: bytes });
    const tiles = [this.health, this.requests, this.errors, this.times, this.sessions, this.sent];
    this.element = h("div", { className: "vitals" }, ...tiles.map(({ element }) => element));
  }

  update({ process, uptime }, model) {
    this.track.add(process.points);
    this.health.update(model.totals, model.inTrouble);
    this.requests.update(`${short(process.rate || 0)}/s`, `peak ${short(this.track.peak(["r"]) / timeline.step)}/s`);
    this.errors.update(process.mix);
    this.times.update(time(process.p50), process.p99 ? `99 % within ${time(process.p99)}` : "nothing served");
    this.sessions.update(short(process.connections), `of ${short(process.connectionsMax)}`);
    this.sent.update(`${bytes(this.track.rate("bytes", timeline.slots - 1) || 0)}/s`, `${bytes(this.track.sum("bytes"))} in all`);
    setText(byId("fact-uptime"), span(uptime));
    if (process.idle !== null) setText(byId("fact-workers"), `${process.workers}, ${100 - process.idle} % busy`);
    setText(byId("fact-pid"), String(process.pid));
  }
}
