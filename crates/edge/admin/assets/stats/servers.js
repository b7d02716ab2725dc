// The table of a backend's servers: all of them where it is unfolded, otherwise those that are not well.

class ServerRow {
  constructor(card, shape) {
    this.card = card;
    this.shape = shape;
    this.track = new Track();
    this.mark = mark("plain");
    this.state = h("span", { className: "words" });
    this.since = h("small");
    this.check = h("small", { className: "check" });
    this.details = h("small", { className: "details" });
    this.rate = h("b");
    this.chart = new Chart(`Requests of ${shape.name}`, this.track, {
      bars: ["ok", "e"], height: 22, axis: false,
      rows: (track, slot) => [["ok", "served", short(track.rate("ok", slot))], ["e", "failed", short(track.rate("e", slot))]],
    });
    const cell = (name, label) => (this[name] = h("td", { className: name, "data-label": label }));
    this.element = h(
      "tr", {},
      h("th", { scope: "row" }, h("span", { title: shape.name }, shape.name), this.details),
      h("td", { className: "state" }, h("div", {}, this.mark, this.state, " ", this.since), this.check),
      h("td", { className: "traffic" }, h("div", {}, this.chart.element, h("span", {}, this.rate, "/s"))),
      cell("time", "Response"),
      cell("sessions", "Sessions"),
      cell("errors", "Failed"),
    );
    if (MAY_ADMIN) {
      const manage = h("button", { type: "button", className: "manage", onclick: () => openActions(card.proxy, shape.id) }, "Manage");
      manage.setAttribute("aria-label", `Manage ${card.proxy.name}/${shape.name}`);
      this.element.append(h("td", { className: "act" }, manage));
    }
  }

  update(server, shape) {
    const { kind } = server;
    if (this.kind !== undefined && this.kind !== kind) {
      this.element.classList.remove("changed");
      void this.element.offsetWidth;
      this.element.classList.add("changed");
    }
    this.kind = kind;
    setAttribute(this.element, "data-kind", KIND_MARKS[kind]);
    this.mark.className = `mark ${KIND_MARKS[kind]}`;
    setText(this.state, server.throttle ? `${server.status}, starting ${server.throttle} %` : server.status);
    setText(this.since, `for ${span(server.change)}`);
    const about = [shape.address, shape.backup ? "backup" : null, server.weight === 1 ? null : `weight ${server.weight}`].filter(Boolean).join(" · ");
    setText(this.details, about);
    if (this.details.title !== about) this.details.title = about;
    setText(this.check, server.check ? server.check.code : "");
    if (server.check && this.check.title !== server.check.text) this.check.title = server.check.text;
    setText(this.time, server.total ? `${short(server.time || 0)} ms` : "–");
    const sessions = server.sessions || 0;
    setText(this.sessions, (server.limit ? `${sessions} of ${server.limit}` : String(sessions)) + (server.queue ? ` + ${server.queue} waiting` : ""));
    setText(this.errors, short(server.errors || 0));
    this.errors.classList.toggle("some", Boolean(server.errors));
    // Requests and failures stand on each other.
    const { points } = server;
    if (points.n) {
      const { r = new Array(points.n).fill(0), e = new Array(points.n).fill(0) } = points;
      this.track.add({ n: points.n, ok: r.map((value, index) => Math.max(0, value - e[index])), e });
    }
    setText(this.rate, short(server.rate || 0));
    this.chart.draw();
  }
}

class ServerTable {
  constructor(card) {
    this.card = card;
    this.rows = new Map();
    const titles = ["Server", "State", card.proxy.mode === "http" ? "Requests" : "Sessions", "Time", "Sessions", "Failed"];
    if (MAY_ADMIN) titles.push("");
    const head = titles.map((title) => h("th", { scope: "col" }, title ? h("span", {}, title) : h("span", { className: "hidden" }, "Manage")));
    this.list = h("tbody");
    this.rest = h("p", { className: "rest" });
    const caption = h("caption", { className: "hidden" }, `Servers of ${card.proxy.name}`);
    this.element = h("table", { className: "servers" }, caption, h("thead", {}, h("tr", {}, ...head)), this.list);
  }

  // Those that are sent, as far as they are searched for.
  update(proxy, shows) {
    let servers = (shows && proxy.state.servers) || [];
    if (filter.text && !filter.names(proxy)) {
      const found = new Set(filter.servers(proxy).map((server) => server.id));
      if (found.size) servers = servers.filter((server) => found.has(server.id));
    }
    const shown = [];
    for (const server of servers) {
      const shape = proxy.byId.get(server.id);
      if (!shape) continue;
      let row = this.rows.get(server.id);
      if (!row || row.shape.name !== shape.name) {
        this.rows.set(server.id, (row = new ServerRow(this.card, shape)));
        page.lacksPast = true;
      }
      row.update(server, shape);
      shown.push(row.element);
    }
    if (shown.length !== this.list.children.length || shown.some((element, index) => this.list.children[index] !== element)) order(this.list, shown);
    setHidden(this.element, shown.length === 0);
    const unwell = ["down", "unsteady", "drain", "maint"].reduce((total, kind) => total + (proxy.count[kind] || 0), 0);
    const more = this.card.open || !shown.length ? 0 : unwell - (proxy.state.servers || []).length;
    setText(this.rest, more > 0 ? `and ${more} more that ${more === 1 ? "is" : "are"} not up` : "");
    setHidden(this.rest, more <= 0);
  }

  clear() {
    for (const row of this.rows.values()) row.track.clear();
  }
}
