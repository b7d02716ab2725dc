// What changed lately, from before the page was opened too: the edge remembers it.

const CHANGES_SHOWN = 6;
const CHANGES_KEPT = 200;

class Changes {
  constructor() {
    this.last = 0;
    this.list = h("ol");
    this.more = h("button", { type: "button", className: "more", hidden: true, ariaExpanded: "false", onclick: () => this.toggle() });
    this.announcer = h("p", { className: "hidden", role: "status" });
    this.element = h("section", { className: "panel changes" }, h("h2", {}, "Changes"), this.list, this.more, this.announcer);
  }

  // `first`: whether these are from before the page was opened.
  add(changes, first) {
    for (const change of changes) {
      this.last = change.number;
      this.list.prepend(this.item(change, first));
      if (!first) this.announcer.textContent = change.text;
    }
    while (this.list.children.length > CHANGES_KEPT) this.list.lastElementChild.remove();
    if (changes.length) this.arrange();
  }

  item({ at, tone, text }, first) {
    const today = new Date(at * 1000).toDateString() === new Date().toDateString();
    const day = today ? "" : `${new Date(at * 1000).toLocaleDateString([], { day: "numeric", month: "short" })} `;
    const when = h("time", { dateTime: new Date(at * 1000).toISOString() }, `${day}${clock(at)}`);
    // The log's words, without what the page shows elsewhere.
    const reason = tone === "good" ? /, reason: .*$/ : /^$/;
    const brief = text.replace(/^(Backup )?Server /, "").replace(/\. \d+ active and .*$/, "").replace(/, check duration: \d+ms/, "").replace(/[.!]$/, "").replace(reason, "");
    const [subject] = /^[^\s,:]+/.exec(brief) || [""];
    return h("li", { className: first ? "" : "changed", title: text }, when, mark(tone), h("span", {}, h("b", {}, subject), brief.slice(subject.length)));
  }

  toggle() {
    this.all = !this.all;
    this.arrange();
  }

  arrange() {
    const items = [...this.list.children];
    items.forEach((item, index) => setHidden(item, !this.all && index >= CHANGES_SHOWN));
    setHidden(this.more, items.length <= CHANGES_SHOWN);
    this.more.ariaExpanded = String(Boolean(this.all));
    setText(this.more, this.all ? "Show the latest only" : `Show all ${items.length}`);
  }

  clear() {
    this.last = 0;
    this.list.replaceChildren();
  }
}
