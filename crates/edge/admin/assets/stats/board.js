// The lists of backends and frontends: trouble first, what is well in one line each, and of very many only some.

// Lines of a group that are shown unasked; those in trouble beyond.
const LINES_SHOWN = 30;
const TROUBLED_SHOWN = 60;
// Servers that folded backends show together, the worst backends first.
const UNWELL_SHOWN = 24;
// Backends of an edge that is so small that they are all unfolded.
const SMALL = 3;

const HEADINGS = {
  backends: ["Backend", "Servers", "Requests", "Answers, last minute", "4xx", "5xx", "Median", "Sessions"],
  frontends: ["Frontend", "Listens on", "Requests", "Answers, last minute", "4xx", "5xx", "Median", "Sessions"],
};

class Group {
  constructor(name, title) {
    this.name = name;
    this.all = false;
    this.count = h("small");
    this.list = h("ul", { className: "lines" });
    this.more = h("button", { type: "button", className: "more", hidden: true, onclick: () => this.toggle() });
    const heads = HEADINGS[name].map((text, index) => h("span", { className: ["name", "about", "rate", "answers", "missing", "failing", "times", "sessions"][index] }, text));
    this.element = h("section", { className: `group ${name}` }, h("h2", {}, title, " ", this.count), h("div", { className: "line heads", ariaHidden: "true" }, ...heads), this.list, this.more);
  }

  toggle() {
    this.all = !this.all;
    page.show();
  }

  // Shows these proxies' cards; returns how many are left out.
  update(proxies, cards, total) {
    const troubled = proxies.filter((proxy) => proxy.level > 0).sort((one, other) => other.level - one.level);
    const well = proxies.filter((proxy) => !proxy.level);
    const room = this.all ? Infinity : LINES_SHOWN;
    const few = proxies.length <= LINES_SHOWN + 3;
    const shown = few || this.all ? [...troubled, ...well] : [...troubled.slice(0, TROUBLED_SHOWN), ...well.slice(0, Math.max(0, room - troubled.length))];
    let unwell = UNWELL_SHOWN;
    const elements = shown.map((proxy) => {
      const card = cards.get(proxy.key);
      const servers = proxy.state.servers?.length || 0;
      card.update(proxy, filter.active || servers <= unwell);
      unwell -= card.open ? 0 : servers;
      return card.element;
    });
    const { children } = this.list;
    if (children.length !== elements.length || elements.some((element, index) => children[index] !== element)) order(this.list, elements);
    setHidden(this.element, !proxies.length);
    setText(this.count, proxies.length === total ? String(total) : `${proxies.length} of ${total}`);
    const left = proxies.length - shown.length;
    setHidden(this.more, few);
    setAttribute(this.more, "aria-expanded", String(this.all));
    setText(this.more, this.all ? "Show fewer" : `Show ${left} more`);
  }
}

class Board {
  constructor() {
    this.cards = new Map();
    this.groups = { backends: new Group("backends", "Backends"), frontends: new Group("frontends", "Frontends") };
    // What somebody folded or unfolded by hand: key -> whether it is open.
    this.chosen = new Map();
    this.empty = h("p", { className: "empty", hidden: true });
    this.clear = h("button", { type: "button", onclick: () => page.clearFilter() }, "Show everything");
    this.element = h("div", { className: "board" }, this.empty, ...Object.values(this.groups).map(({ element }) => element));
  }

  isOpen({ proxy, group }) {
    return this.chosen.get(proxy.key) ?? (this.small && group === "backends");
  }

  toggle(card) {
    readout.leave();
    this.chosen.set(card.proxy.key, !card.open);
    card.fold.ariaExpanded = String(card.open);
    poller.fetchAll();
  }

  // Numbers of proxies of which everything is wanted.
  get opened() {
    return [...this.cards.values()].filter((card) => card.open).map((card) => card.proxy.id);
  }

  update(model) {
    const { all } = model;
    this.small = all.filter(isBackend).length <= SMALL;
    const known = new Set();
    for (const proxy of all) {
      known.add(proxy.key);
      if (!this.cards.has(proxy.key)) this.cards.set(proxy.key, new Card(proxy, this));
    }
    for (const key of this.cards.keys()) if (!known.has(key)) this.cards.delete(key);
    let found = 0;
    for (const group of Object.values(this.groups)) {
      const mine = all.filter((proxy) => this.cards.get(proxy.key).group === group.name);
      const wanted = mine.filter((proxy) => filter.wants(proxy));
      found += wanted.length;
      group.update(wanted, this.cards, mine.length);
    }
    this.tellNothing(found, all.length);
  }

  tellNothing(found, total) {
    const nothing = filter.text ? `Nothing matches “${byId("filter").value.trim()}”${filter.problems ? " among what has problems" : ""}.` : filter.problems ? "No problems: everything is up." : "There is nothing to show.";
    const text = found ? "" : nothing;
    if (this.said !== text) this.empty.replaceChildren(text, " ", ...(filter.active && total ? [this.clear] : []));
    this.said = text;
    setHidden(this.empty, found > 0);
  }

  reset() {
    for (const card of this.cards.values()) card.clear();
  }
}
