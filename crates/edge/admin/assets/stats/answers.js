// What HTTP answers: classes of status codes, and what charts and readouts say of them.

// Name of the column, of the class, and its place in `mix`.
const CLASSES = [
  ["c2", "2xx", 1],
  ["c3", "3xx", 2],
  ["c1", "1xx", 0],
  ["c4", "4xx", 3],
  ["c5", "5xx", 4],
  ["c0", "no answer", 5],
];
// From the bottom of a chart to its top.
const ANSWER_COLUMNS = ["t", ...CLASSES.map(([column]) => column)];

// Every value of a step: how many a second, how many in all if the step is longer, times, sessions.
function tellAll(track, slot) {
  const each = (name) => track.value(name, slot);
  const count = (value) => (timeline.step === 1 ? short(value) : `${short(value / timeline.step)}/s (${short(value)})`);
  const rows = [];
  if (each("t")) rows.push(["t", "TCP sessions", count(each("t"))]);
  for (const [column, name] of CLASSES) if (each(column) || column === "c2") rows.push([column, name, count(each(column))]);
  if (each("e") && each("e") !== each("c5")) rows.push(["e", "failed", count(each("e"))]);
  rows.push(["p50", "half within", time(each("p50") || undefined)], ["p99", "99 % within", time(each("p99") || undefined)], ["s", "sessions", short(each("s"))]);
  if (track.columns.bytes) rows.push(["bytes", "sent", `${bytes(each("bytes") / timeline.step)}/s`]);
  return rows;
}

// A bar of the classes of the last minute, and what it says.
class Mix {
  constructor() {
    this.parts = CLASSES.map(([column]) => h("i", { className: column }));
    this.element = h("span", { className: "mix", role: "img" }, ...this.parts);
  }

  update(mix = []) {
    const total = sum(mix);
    const shares = CLASSES.map(([, , place]) => (total ? (mix[place] || 0) / total : 0));
    const shown = shares.map((share) => Math.round(share * 1000) || (share ? 1 : 0)).join();
    if (shown === this.shown) return;
    this.shown = shown;
    this.parts.forEach((part, index) => (part.style.flexGrow = String(shares[index] ? Math.max(0.02, shares[index]) : 0)));
    const said = CLASSES.filter((_, index) => shares[index]).map(([, name, place]) => `${percent(mix[place], total)} ${name}`);
    const text = said.length ? `Last minute: ${said.join(", ")}` : "No answers in the last minute";
    setAttribute(this.element, "aria-label", text);
    this.element.title = text;
    this.element.classList.toggle("none", !total);
  }
}
