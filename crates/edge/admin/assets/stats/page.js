// The live statistics page as a whole: its parts, what is chosen in the toolbar, and keys.

const page = {
  model: new Model(),
  board: new Board(),
  flow: new Flow(),
  changes: new Changes(),
  vitals: new Vitals(() => page.setProblems(!filter.problems)),
  title: document.title,
  // Seconds that charts are to show; the timeline follows with the next answer.
  window: 60,

  get view() {
    return document.documentElement.dataset.view;
  },

  // Takes an answer of the edge in and shows it.
  take(data) {
    // Another process, whose seconds began anew.
    const restarted = data.now < (this.last?.now || 0) || (this.last && data.process.pid !== this.last.process.pid);
    if (restarted) this.changes.clear();
    if (restarted && poller.since) {
      this.last = undefined;
      this.model.shape = undefined;
      return poller.fetchAll();
    }
    const whole = !poller.since;
    if (whole) this.reset();
    Object.assign(timeline, { window: data.window, step: data.step, end: data.at - (data.now % data.step) });
    poller.second = data.now;
    const first = !this.last;
    this.last = data;
    this.model.take(data);
    this.vitals.update(data, this.model);
    this.changes.add(data.changes, first);
    this.flow.update(data, this.model);
    this.show();
    this.tell(data.stopping ? "This process is on its way out: it only finishes what it has begun." : "");
    const { down } = this.model.totals;
    document.title = (down ? `(${down} down) ` : "") + this.title;
    // Whatever is new has no past yet.
    if (this.board.opened.join() !== poller.opened || (this.lacksPast && !whole)) setTimeout(() => poller.fetchAll());
    this.lacksPast = false;
  },

  // What is known again, as filters or folds have changed.
  show() {
    if (this.last) this.board.update(this.model);
    if (managed) showManaged(this.model.all.find(({ key }) => key === managed.key));
    const count = this.model.inTrouble.length;
    setText(byId("problems"), count ? `Problems ${count}` : "Problems");
    setAttribute(byId("problems"), "data-some", String(count > 0));
  },

  reset() {
    this.vitals.track.clear();
    this.board.reset();
  },

  tell(text, stale = false) {
    const line = byId("connection");
    setText(line, text);
    setHidden(line, !text);
    byId("live").classList.toggle("stale", stale);
  },

  applyFilter() {
    filter.text = byId("filter").value.trim().toLowerCase();
    setAttribute(byId("problems"), "aria-pressed", String(filter.problems));
    if (this.last) {
      this.show();
      this.vitals.health.update(this.model.totals, this.model.inTrouble);
    }
    table.filter();
    // Tables out of sight may be old.
    if (this.view === "table" && filter.active && poller.some) poller.fetchAll();
  },

  setProblems(on) {
    filter.problems = on;
    this.applyFilter();
  },

  clearFilter() {
    byId("filter").value = "";
    this.setProblems(false);
    byId("filter").focus();
  },

  setWindow(seconds) {
    readout.leave();
    for (const button of document.querySelectorAll("#windows button")) setAttribute(button, "aria-pressed", String(button.value === String(seconds)));
    this.window = seconds;
    settings.set("window", String(seconds));
    if (this.view === "live") poller.fetchAll();
  },

  setView(name) {
    readout.leave();
    document.documentElement.dataset.view = name;
    byId("view-live").setAttribute("aria-pressed", String(name === "live"));
    byId("view-table").setAttribute("aria-pressed", String(name === "table"));
    settings.set("view", name);
    poller.fetchAll();
  },

  setPaused(on) {
    byId("pause").setAttribute("aria-pressed", String(on));
    setText(byId("pause"), on ? "Go on" : "Pause");
    poller.pause(on);
  },

  build() {
    const heading = h("h2", { className: "hidden" }, "The whole edge");
    const aside = [this.changes.element, this.flow.element];
    byId("live").replaceChildren(heading, this.vitals.element, h("div", { className: "columns" }, this.board.element, ...aside));
    document.body.append(readout.element);
  },
};
