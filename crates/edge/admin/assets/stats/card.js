// A backend or frontend: one line, and behind it its charts and servers.

class Figure {
  constructor(track, label, options) {
    this.caption = h("figcaption");
    this.chart = new Chart(label, track, { height: 80, rows: tellAll, ...options });
    this.element = h("figure", {}, this.caption, this.chart.element);
  }

  update(...caption) {
    const said = caption.map((part) => part.textContent ?? part).join("");
    if (said !== this.said) this.caption.replaceChildren(...caption);
    this.said = said;
    this.chart.draw();
  }
}

class Card {
  constructor(proxy, board) {
    this.proxy = proxy;
    this.board = board;
    this.group = isBackend(proxy) ? "backends" : "frontends";
    this.track = new Track();
    const cell = (name, label) => (this[name] = h("span", { className: name, "data-label": label }));
    this.mark = mark("plain");
    this.mix = new Mix();
    this.fold = h("button", { type: "button", className: "fold", ariaExpanded: "false", onclick: () => board.toggle(this) }, this.mark, h("span", {}, proxy.name));
    this.line = h(
      "div", { className: "line" },
      h("h3", {}, this.fold),
      cell("about", ""), cell("rate", ""), h("span", { className: "answers" }, this.mix.element),
      cell("missing", "4xx"), cell("failing", "5xx"), cell("times", "Time"), cell("sessions", "Sessions"),
    );
    this.trouble = h("p", { className: "trouble", hidden: true });
    this.element = h("li", { className: "card" }, this.line, this.trouble);
  }

  get open() {
    return this.board.isOpen(this);
  }

  // `tells`: whether it shows servers that are not well although it is folded.
  update(proxy, tells) {
    this.proxy = proxy;
    const { state, troubles } = proxy;
    const side = state.back || state.front;
    const http = proxy.mode === "http";
    setAttribute(this.element, "data-tone", proxy.tone);
    setAttribute(this.element, "data-open", String(this.open));
    this.mark.className = `mark ${markOf(proxy)}`;
    const listens = (proxy.front?.listeners || []).join(", ");
    setText(this.about, isBackend(proxy) ? healthWords(proxy) : [state.front?.state?.toLowerCase(), listens].filter(Boolean).join(" · "));
    setAttribute(this.about, "data-kind", state.back?.down || proxy.count.down ? "bad" : proxy.count.unsteady || state.front?.state ? "wary" : "good");
    if (this.about.title !== listens) this.about.title = listens;
    setText(this.rate, `${short(side.rate || 0)}/s`);
    this.rate.classList.toggle("none", !side.rate);
    this.mix.update(side.mix);
    const total = sum(side.mix || []);
    const [, , , missing = 0, failing = 0] = side.mix || [];
    const [sessions, failed] = side.minute || [0, 0];
    this.share(this.missing, missing, total, http, MISSING_MUCH);
    if (http) this.share(this.failing, failing, total, http);
    else this.share(this.failing, failed, sessions, true);
    setText(this.times, time(side.p50));
    this.times.classList.toggle("none", !side.p50);
    this.times.title = side.p99 ? `99 % within ${time(side.p99)}` : "";
    const limit = proxy.front?.limit;
    setText(this.sessions, limit && !isBackend(proxy) ? `${short(side.sessions || 0)} of ${short(limit)}` : short(side.sessions || 0));
    this.sessions.classList.toggle("none", !side.sessions);
    this.tellTrouble(proxy, troubles);
    this.fold.ariaExpanded = String(this.open);
    this.updateServers(proxy, tells || this.open);
    if (this.open) this.updateDetails(proxy, side);
    else if (this.details) setHidden(this.details, true);
  }

  share(cell, part, whole, is, least = 0) {
    setText(cell, is && whole ? percent(part, whole) : "–");
    cell.classList.toggle("none", !part);
    cell.classList.toggle("much", part > least * whole);
  }

  // What is wrong and no cell of the line says; and what was searched for.
  tellTrouble(proxy, troubles) {
    const said = troubles.filter(([, , shown]) => !shown).map(([, text]) => text);
    if (filter.text && !filter.names(proxy) && !this.open) {
      const found = filter.servers(proxy).filter(({ id }) => !(proxy.state.servers || []).some((server) => server.id === id));
      if (found.length) said.push(`found: ${found.slice(0, 6).map(({ name, address }) => (address ? `${name} (${address})` : name)).join(", ")}${found.length > 6 ? ` and ${found.length - 6} more` : ""}`);
    }
    const text = said.join(" · ");
    setText(this.trouble, text && text[0].toUpperCase() + text.slice(1));
    setHidden(this.trouble, !said.length);
  }

  updateServers(proxy, shows) {
    if (!this.servers && !(shows && proxy.state.servers)) return;
    if (!this.servers) {
      this.servers = new ServerTable(this);
      this.element.append(this.servers.element, this.servers.rest);
    }
    this.servers.update(proxy, shows);
  }

  addDetails(proxy) {
    const http = proxy.mode === "http";
    this.requests = new Figure(this.track, `${http ? "Answers" : "Sessions"} of ${proxy.name}`, { bars: ANSWER_COLUMNS });
    this.latency = http ? new Figure(this.track, `Response times of ${proxy.name}`, { lines: ["p99", "p50"], least: 1000, say: time, perSecond: false }) : null;
    this.load = new Figure(this.track, `Sessions of ${proxy.name}`, { bars: ["s"], perSecond: false });
    this.numbers = h("dl", { className: "numbers" });
    this.values = {};
    const figures = [this.requests, this.latency, this.load].filter(Boolean).map(({ element }) => element);
    const description = proxy.description ? h("p", { className: "description" }, proxy.description) : null;
    this.details = h("div", { className: "open" }, description, h("div", { className: "figures" }, ...figures), this.numbers);
    this.trouble.after(this.details);
  }

  updateDetails(proxy, side) {
    if (!this.details) this.addDetails(proxy);
    setHidden(this.details, false);
    this.track.add(side.points);
    const http = proxy.mode === "http";
    const peak = short(this.track.peak(["r"]) / timeline.step);
    this.requests.update(h("b", {}, short(side.rate || 0)), http ? " requests/s " : " sessions/s ", h("small", {}, `peak ${peak}`));
    this.latency?.update(h("b", {}, time(side.p50)), " median ", h("b", {}, time(side.p99)), " for 99 %");
    this.load.update(h("b", {}, short(side.sessions || 0)), side.sessions === 1 ? " session " : " sessions ", h("small", {}, `peak ${short(this.track.peak(["s"]))}`));
    const { state } = proxy;
    const { more = {} } = side;
    this.number("Total", short(more.total || 0));
    if (state.back) {
      this.number("Waiting", String(state.back.queue || 0), state.back.queue > 0);
      this.number("Retries", short((more.retries || 0) + (more.redispatches || 0)));
      this.number("Failed connects", short(more.connect_errors || 0));
      this.number("Balancing", proxy.back.algorithm);
    } else {
      this.number("Denied", short(more.denied || 0));
      this.number("Bad requests", short(more.bad || 0));
    }
    this.number("Received", bytes(more.bytes_in || 0));
    this.number("Sent", bytes(more.bytes_out || 0));
    const listens = (proxy.front?.listeners || []).join(", ");
    if (listens && isBackend(proxy)) this.number("Listens on", listens);
    if (!http) this.number("Mode", "tcp");
    if (state.cache) this.updateCache(state.cache);
  }

  updateCache(seen) {
    const { more } = seen;
    this.number("From the cache", seen.lookups ? `${percent(seen.hits, seen.lookups)} of ${short(seen.lookups)}` : "–");
    if (!more) return;
    this.number("Bytes from the cache", bytes(more.saved));
    this.number("Objects", short(more.objects));
    if (more.bans) this.number("Bans", short(more.bans));
    for (const [name, used, whole] of more.storages) this.number(`Storage ${name}`, `${bytes(used)} of ${bytes(whole)}`);
    if (!this.uncached) {
      this.uncached = new Uncached(this.proxy.name);
      this.details.append(this.uncached.element);
    }
    this.uncached.update(more.uncached);
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

  clear() {
    this.track.clear();
    this.servers?.clear();
  }
}
