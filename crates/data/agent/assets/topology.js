// Groups and their servers, line by line: as good for three as for three hundred.

/** What is with a server, as a mark and a word. @param {Server} server @returns {[string, string]} */
function condition(server) {
  if (server.state === "down") return ["bad", "down"];
  if (server.state === "changing") return ["wary", "changing"];
  if (server.role === "master") return ["good", "serves"];
  return server.in_sync ? ["good", "in sync"] : ["wary", "catching up"];
}

// A line of commands a second.
class Spark {
  constructor() {
    this.path = svg("path", { class: "line" });
    this.element = svg("svg", { class: "spark", viewBox: "0 0 60 16", preserveAspectRatio: "none", "aria-hidden": "true" }, this.path);
    this.element.append(this.path);
  }

  draw(values) {
    const top = Math.max(10, ...values);
    const first = 60 - values.length;
    const y = (value) => digits(15 - (value / top) * 14);
    setAttribute(this.path, "d", values.map((value, index) => `${index ? "L" : "M"}${first + index},${y(value)}`).join(""));
  }
}

// What is counted of a server: the class of the cell, and what its column is called.
const FIGURES = [["lag", "Lag"], ["rate", "Commands"], ["took", "Each took"], ["memory", "Memory"], ["keys", "Keys"], ["clients", "Clients"]];

// The line of a server. Cells are filled anew only where something has changed, so focus and selection stay.
class ServerRow {
  constructor(address) {
    this.address = address;
    this.mark = mark("plain");
    this.word = h("span");
    this.cells = Object.fromEntries(FIGURES.map(([name, label]) => [name, h("td", { className: `number ${name}`, "data-label": label })]));
    this.rate = h("span");
    this.spark = new Spark();
    this.cells.rate.append(this.spark.element, this.rate);
    this.role = h("td", { className: "role" });
    this.problem = h("small", { className: "problem" });
    this.button = h("button", { type: "button", className: "more-button", ariaLabel: `What can be done with ${address}`, onclick: () => actions.server(this.group, this.server) }, "⋯");
    const name = h("th", { scope: "row" }, h("span", { className: "address" }, address), this.problem);
    this.element = h("tr", {}, name, this.role, h("td", { className: "state" }, this.mark, " ", this.word), ...Object.values(this.cells), h("td", { className: "act" }, this.button));
  }

  /** @param {Group} group @param {Server} server @param {Figures | null} figures */
  update(group, server, figures) {
    [this.group, this.server] = [group, server];
    const [kind, word] = condition(server);
    setAttribute(this.mark, "class", `mark ${kind}`);
    setText(this.word, word);
    setText(this.role, server.role);
    setText(this.problem, server.problem || "");
    const master = group.servers.find(({ role }) => role === "master");
    const lag = server.role === "master" || server.offset === null || master?.offset == null ? null : Math.max(0, master.offset - server.offset);
    setText(this.cells.lag, lag === null ? "" : room(lag));
    const rates = figures?.commands || [];
    setText(this.rate, figures ? `${short(rates.at(-1) || 0)}/s` : "–");
    this.spark.draw(rates);
    setText(this.cells.took, figures ? time(figures.command_us) : "–");
    setText(this.cells.memory, figures ? room(figures.memory) : "–");
    setText(this.cells.keys, figures ? short(figures.keys) : "–");
    setText(this.cells.clients, figures ? short(figures.clients) : "–");
    this.said = `${server.address} ${server.role} ${word} group ${group.id}`.toLowerCase();
  }
}

class GroupRows {
  constructor(id) {
    this.id = id;
    this.swatch = h("i", { className: "swatch" });
    this.title = h("b");
    this.about = h("small");
    this.button = h("button", { type: "button", className: "more-button", ariaLabel: `What can be done with group ${id}`, onclick: () => actions.group(this.group) }, "⋯");
    const head = h("tr", { className: "group-head" }, h("th", { colSpan: 9, scope: "rowgroup" }, this.swatch, " ", this.title, " ", this.about), h("td", { className: "act" }, this.button));
    this.head = head;
    this.element = h("tbody", {}, head);
    this.rows = new Map();
  }

  /** @param {Group} group @param {Live} live @param {string} wanted */
  update(group, live, wanted) {
    this.group = group;
    this.swatch.style.background = palette.css(palette.group(group.id));
    setText(this.title, `Group ${group.id}`);
    const parts = [plural(group.slots, "slot", "slots"), group.ack ? `a write waits for ${group.ack} of ${plural(group.servers.length - 1, "replica", "replicas")}` : "no write waits for replicas"];
    if (group.state !== "ok") parts.unshift("does not serve");
    setText(this.about, parts.join(", "));
    setAttribute(this.head, "data-kind", group.state === "ok" ? "good" : "bad");
    const shown = [];
    for (const server of group.servers) {
      const row = this.rows.get(server.address) || new ServerRow(server.address);
      this.rows.set(server.address, row);
      row.update(group, server, live.figures[server.address]);
      if (wanted.every((word) => row.said.includes(word))) shown.push(row.element);
    }
    for (const address of this.rows.keys()) if (!group.servers.some((server) => server.address === address)) this.rows.delete(address);
    order(this.element, [this.head, ...shown]);
    return shown.length;
  }
}

class Topology {
  constructor() {
    this.table = h("table");
    const heads = [["Server", "text"], ["Role", "text"], ["State", "text"], ...FIGURES.map(([, label]) => [label, ""]), ["", ""]];
    this.head = h("thead", {}, h("tr", {}, ...heads.map(([text, className]) => h("th", { scope: "col", className }, text || h("span", { className: "hidden" }, "Actions")))));
    this.nothing = h("p", { className: "empty", hidden: true }, "No server has that in its line.");
    this.element = h("section", { className: "panel topology" }, h("h2", {}, "Groups and servers"), h("div", { className: "wide", tabIndex: 0, role: "region", ariaLabel: "Groups and servers" }, this.table), this.nothing);
    this.groups = new Map();
  }

  /** @param {Live} live @param {string} search */
  update(live, search) {
    const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
    const bodies = [];
    for (const group of live.groups) {
      const rows = this.groups.get(group.id) || new GroupRows(group.id);
      this.groups.set(group.id, rows);
      if (rows.update(group, live, wanted) || !wanted.length) bodies.push(rows.element);
    }
    for (const id of this.groups.keys()) if (!live.groups.some((group) => group.id === id)) this.groups.delete(id);
    order(this.table, [this.head, ...bodies]);
    setHidden(this.nothing, bodies.length > 0);
  }
}
