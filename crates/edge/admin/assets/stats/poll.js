// Asks for numbers once a second: only for what has come since, and only of what is shown.

const POLL_MS = 1000;
const TABLE_MS = Math.max(2, Number(document.body.dataset.refresh) || 5) * 1000;

const poller = {
  // The last second that is known; 0 asks for everything.
  second: 0,
  // What the last question began with, and which proxies it asked everything of.
  since: 0,
  opened: "",
  call: 0,
  paused: false,

  // Everything anew, since something was unfolded or another window chosen.
  fetchAll() {
    this.second = 0;
    return this.poll();
  },

  address() {
    this.some = page.view === "table" ? table.wanted : "";
    if (page.view === "table") return `${URI};rows${this.some}${OPTIONS}`;
    const open = page.board.opened;
    [this.since, this.opened] = [this.second, open.join()];
    const parts = [`;since=${this.second}`, `;window=${page.window}`, open.length ? `;open=${this.opened}` : "", page.model.shape ? `;shape=${page.model.shape}` : "", `;changes=${page.changes.last}`];
    return `${URI};json;live${parts.join("")}${OPTIONS}`;
  },

  // Fetches once. Only the answer of the latest call counts and plans the next one.
  async poll() {
    clearTimeout(this.timer);
    const mine = ++this.call;
    const started = performance.now();
    const { view } = page;
    let wait = view === "live" ? POLL_MS : TABLE_MS;
    let data;
    try {
      const answer = await fetch(this.address(), { cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      data = await (view === "live" ? answer.json() : answer.text());
    } catch (error) {
      if (mine !== this.call) return;
      page.tell(`No answer from the edge (${error.message}). The numbers below are old. Trying again…`, true);
      wait = 2 * POLL_MS;
    }
    if (mine !== this.call) return;
    if (data !== undefined) {
      const received = performance.now();
      if (view === "live") page.take(data);
      else {
        page.tell("");
        table.replace(data, Boolean(this.some));
      }
      this.took = performance.now() - received;
      // A page that is work for the browser comes less often.
      wait = Math.max(wait, 20 * this.took);
    }
    if (!this.paused && !document.hidden) this.timer = setTimeout(() => this.poll(), Math.max(100, wait - (performance.now() - started)));
  },

  pause(on) {
    this.paused = on;
    if (on) clearTimeout(this.timer);
    else this.poll();
  },
};
