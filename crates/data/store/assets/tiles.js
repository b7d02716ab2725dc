// The store at a glance: what it does, what it takes, how it answers.

class Tile {
  constructor(name, title, track, options) {
    this.value = h("b", {}, "–");
    this.note = h("small");
    this.chart = new Chart(title, track, { height: 40, axis: false, rows: tellAll, ...options });
    this.meter = options.meter ? h("span", { className: "meter", ariaHidden: "true" }, h("i")) : null;
    this.element = h("div", { className: `tile ${name}-tile` }, h("h3", {}, title), h("p", {}, this.value, " ", this.note), this.chart.element);
    if (this.meter) this.chart.element.before(this.meter);
  }

  update(value, note, share) {
    setText(this.value, value);
    setText(this.note, note);
    if (this.meter) {
      setHidden(this.meter, share === undefined);
      this.meter.firstChild.style.width = `${Math.min(100, 100 * (share || 0))}%`;
      setAttribute(this.meter, "data-kind", share > 1 ? "bad" : share > 0.95 ? "wary" : "good");
    }
    this.chart.draw();
  }
}

// What the readout says of a slot.
function tellAll(track, slot) {
  const rate = (name) => track.rate(name, slot) || 0;
  const rows = [
    ["commands", "Commands", `${short(rate("commands"))}/s`],
    ["hits", "Keys found", `${short(rate("hits"))}/s`],
    ["misses", "Not there", `${short(rate("misses"))}/s`],
    ["loads", "Read from the disk", `${short(rate("loads"))}/s`],
    ["input", "From clients", `${bytes(rate("input"))}/s`],
    ["output", "To clients", `${bytes(rate("output"))}/s`],
    ["log", "Log", `${bytes(rate("log"))}/s`],
    ["memory", "Memory", room(track.value("memory", slot) || 0)],
    ["clients", "Clients", short(track.value("clients", slot) || 0)],
  ];
  for (const [name, words] of [["errors", "Errors"], ["expired", "Expired"], ["evicted", "Made way"]]) {
    if (rate(name)) rows.push([name, words, `${short(rate(name))}/s`]);
  }
  return rows;
}

class Tiles {
  constructor() {
    this.track = new Track();
    const tile = (name, title, options) => new Tile(name, title, this.track, options);
    this.commands = tile("commands", "Commands", { bars: ["commands"] });
    this.memory = tile("memory", "Memory", { bars: ["memory"], perSecond: false, least: 1 << 20, say: room, meter: true });
    this.found = tile("found", "Answered from memory", { bars: ["hits", "misses", "loads"] });
    this.clients = tile("clients", "Clients", { bars: ["clients"], perSecond: false });
    this.traffic = tile("traffic", "To and from clients", { bars: ["input", "output"], least: 10000, say: bytes });
    this.log = tile("log", "Log", { bars: ["log"], least: 10000, say: bytes });
    const tiles = [this.commands, this.memory, this.found, this.clients, this.traffic, this.log];
    this.element = h("div", { className: "vitals" }, ...tiles.map(({ element }) => element));
  }

  update({ info, points }) {
    this.track.clear();
    this.track.add(points);
    const last = (name) => this.track.rate(name, timeline.slots - 1) || 0;
    const total = (name) => this.track.sum(name);
    const failed = total("errors");
    this.commands.update(`${short(info.instantaneous_ops_per_sec || 0)}/s`, failed ? `${short(failed)} errors` : `peak ${short(this.track.peak(["commands"]) / timeline.step)}/s`);
    const bound = info.maxmemory;
    this.memory.update(room(info.used_memory || 0), bound ? `of ${room(bound)}` : "no bound", bound ? info.used_memory / bound : undefined);
    // What came from the disk was asked for, too; some of it came before anybody asked.
    const asked = total("hits") + total("misses");
    const loads = Math.min(total("loads"), asked);
    this.found.update(asked ? percent(asked - loads, asked) : "–", asked ? `${short(total("misses"))} not there` : "nothing asked");
    this.clients.update(short(info.connected_clients || 0), info.blocked_clients ? `${info.blocked_clients} wait` : `of ${short(info.maxclients)}`);
    this.traffic.update(`${bytes(last("output"))}/s`, `in ${bytes(last("input"))}/s`);
    this.log.update(`${bytes(last("log"))}/s`, `${bytes(total("log"))} in all`);
  }
}
