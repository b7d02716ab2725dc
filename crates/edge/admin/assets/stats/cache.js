// What a cache neither answered nor stored lately, and why: the answer to "why was this not cached?".

// Rows that are shown unasked.
const UNCACHED_SHOWN = 5;

class Uncached {
  constructor(name) {
    this.rows = h("tbody");
    this.more = h("button", { type: "button", className: "more", hidden: true, ariaExpanded: "false", onclick: () => this.toggle() });
    this.none = h("p", { className: "empty" }, "Everything was answered from the cache or stored lately.");
    const heads = ["When", "Request", "Status", "Why"].map((text) => h("th", { scope: "col" }, text));
    this.table = h("table", { ariaLabel: `Not cached lately of ${name}` }, h("thead", {}, h("tr", {}, ...heads)), this.rows);
    this.element = h("section", { className: "uncached" }, h("h3", {}, "Why was this not cached?"), this.none, h("div", { className: "sheet" }, this.table), this.more);
    this.all = false;
    this.seen = [];
  }

  toggle() {
    this.all = !this.all;
    this.update(this.seen);
  }

  update(seen) {
    this.seen = seen;
    setHidden(this.none, seen.length > 0);
    setHidden(this.table, !seen.length);
    const shown = this.all ? seen : seen.slice(0, UNCACHED_SHOWN);
    const said = JSON.stringify(shown);
    // Only what has changed is drawn anew: somebody may be reading it, or marking a line.
    if (said !== this.said) {
      this.said = said;
      this.rows.replaceChildren(...shown.map(({ at, request, status, why }) => h("tr", {}, h("td", {}, new Date(at * 1000).toLocaleTimeString("en-GB")), h("td", { className: "request", title: request }, request), h("td", {}, status ? String(status) : "–"), h("td", {}, why))));
    }
    setHidden(this.more, seen.length <= UNCACHED_SHOWN);
    setAttribute(this.more, "aria-expanded", String(this.all));
    setText(this.more, this.all ? "Show fewer" : `Show ${seen.length - UNCACHED_SHOWN} more`);
  }
}
