// Curves of the last two minutes, drawn as inline SVG.
//
// A chart keeps its own points, one a second. When one is added the curve moves left by a second within a second, so that
// it flows instead of jumping. Colours come from the style sheet through classes, so a chart follows the theme by itself.
"use strict";

// Seconds that are drawn: those there are, but not so few that the first ones fill the whole width.
const SECONDS = 120;
const SECONDS_MIN = 30;
const WIDTH = 120;
const SVG = "http://www.w3.org/2000/svg";
const calm = matchMedia("(prefers-reduced-motion: reduce)");

function svg(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// A smooth line through points at equal steps that never rises above or falls below its neighbours: cubic pieces with
// slopes limited after Fritsch and Carlson.
function curve(xs, ys) {
  const n = xs.length;
  if (n === 0) return "";
  if (n === 1) return `M${round(xs[0])},${round(ys[0])}h0.01`;
  const slopes = [];
  for (let i = 0; i < n - 1; i++) slopes.push(ys[i + 1] - ys[i]);
  const tangents = [slopes[0]];
  for (let i = 1; i < n - 1; i++) {
    const [before, after] = [slopes[i - 1], slopes[i]];
    const flat = before * after <= 0;
    tangents.push(flat ? 0 : Math.sign(before) * Math.min(Math.abs(before + after) / 2, 3 * Math.min(Math.abs(before), Math.abs(after))));
  }
  tangents.push(slopes[n - 2]);
  let path = `M${round(xs[0])},${round(ys[0])}`;
  const third = (xs[1] - xs[0]) / 3;
  for (let i = 0; i < n - 1; i++) {
    path += `C${round(xs[i] + third)},${round(ys[i] + tangents[i] / 3)} ${round(xs[i + 1] - third)},${round(ys[i + 1] - tangents[i + 1] / 3)} ${round(xs[i + 1])},${round(ys[i + 1])}`;
  }
  return path;
}

// Where values stand without a gap between them: [first, behind the last].
function runs(values, gaps) {
  if (!gaps) return values.length ? [[0, values.length]] : [];
  const found = [];
  values.forEach((value, index) => {
    if (!value) return;
    const last = found.at(-1);
    if (last && last[1] === index) last[1]++;
    else found.push([index, index + 1]);
  });
  return found;
}

function round(value) {
  return Math.round(value * 100) / 100;
}

// The chart whose values the pointer shows, and the text that shows them.
const readout = document.createElement("div");
readout.className = "readout";
readout.hidden = true;

class Chart {
  // `lines`: name -> { kind: "area" | "line" | "bars", gaps, tell: value -> text }; with `gaps` a zero is no value. `least`: the smallest value that fills the
  // whole height, so that a single request does not look like a storm.
  constructor(label, lines, { height = 40, least = 5, flow = true } = {}) {
    this.label = label;
    this.lines = lines;
    this.height = height;
    this.least = least;
    this.flow = flow;
    this.points = {};
    this.marks = {};
    for (const name of Object.keys(lines)) this.points[name] = [];
    this.element = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", class: "spark", role: "img" });
    this.moving = svg("g", {});
    for (const [name, { kind }] of Object.entries(lines)) {
      const marks = [];
      if (kind === "area") marks.push(svg("path", { class: `fill ${name}` }));
      marks.push(svg("path", { class: `${kind === "bars" ? "bars" : "stroke"} ${name}` }));
      this.marks[name] = marks;
      this.moving.append(...marks);
    }
    this.cursor = svg("line", { y1: 0, y2: height, class: "cursor", visibility: "hidden" });
    this.element.append(this.moving, this.cursor);
    this.element.addEventListener("pointermove", (event) => this.show(event));
    this.element.addEventListener("pointerleave", () => this.hide());
    this.dirty = false;
    this.describe();
  }

  // Adds points of the seconds that have passed: name -> values. Lines without values stay where they are.
  add(points) {
    let added = 0;
    for (const [name, kept] of Object.entries(this.points)) {
      const fresh = points[name] || [];
      added = Math.max(added, fresh.length);
      kept.push(...fresh);
      kept.splice(0, Math.max(0, kept.length - SECONDS));
    }
    if (added === 0) return;
    this.dirty = true;
    this.added = added;
  }

  clear() {
    for (const kept of Object.values(this.points)) kept.length = 0;
    this.dirty = true;
  }

  // How many points fit side by side.
  get shown() {
    const most = Math.max(...Object.values(this.points).map((values) => values.length));
    return Math.min(SECONDS, Math.max(SECONDS_MIN, most));
  }

  get max() {
    let max = 0;
    for (const values of Object.values(this.points)) for (const value of values) if (value > max) max = value;
    return max;
  }

  draw() {
    if (!this.dirty) return;
    this.dirty = false;
    const top = Math.max(this.least, this.max * 1.08);
    const y = (value) => this.height - 1 - (value / top) * (this.height - 3);
    const shown = this.shown;
    const step = WIDTH / (shown - 1);
    for (const [name, { kind, gaps }] of Object.entries(this.lines)) {
      const values = this.points[name];
      const x = (index) => (shown - values.length + index) * step;
      const marks = this.marks[name];
      if (kind === "bars") {
        let path = "";
        values.forEach((value, index) => {
          if (value > 0) path += `M${round(x(index))},${this.height}V${round(Math.min(y(value), this.height - 4))}`;
        });
        marks[0].setAttribute("d", path);
        continue;
      }
      const pieces = runs(values, gaps).map(([from, to]) => {
        const xs = Array.from({ length: to - from }, (_, index) => x(from + index));
        const path = curve(xs, values.slice(from, to).map(y));
        return [path, `${path}L${round(xs.at(-1))},${this.height}L${round(xs[0])},${this.height}Z`];
      });
      marks[marks.length - 1].setAttribute("d", pieces.map(([path]) => path).join(""));
      if (kind === "area") marks[0].setAttribute("d", pieces.map(([, area]) => area).join(""));
    }
    if (this.flow && !calm.matches && this.added === 1 && !document.hidden) {
      this.moving.animate([{ transform: `translateX(${step}px)` }, { transform: "none" }], { duration: 1000, easing: "linear" });
    }
    this.describe();
  }

  describe() {
    const parts = Object.entries(this.lines).map(([name, { tell }]) => {
      const values = this.points[name];
      const last = values.at(-1) ?? 0;
      return `now ${tell(last) || "none"}, at most ${tell(Math.max(0, ...values)) || "none"}`;
    });
    this.element.setAttribute("aria-label", `${this.label}, last two minutes: ${parts.join("; ")}`);
  }

  show(event) {
    const box = this.element.getBoundingClientRect();
    const shown = this.shown;
    const at = Math.round(((event.clientX - box.left) / box.width) * (shown - 1));
    const ago = shown - 1 - at;
    const values = Object.entries(this.lines).map(([name, { tell }]) => {
      const value = this.points[name].at(-1 - ago);
      return value === undefined ? null : tell(value);
    });
    if (values[0] === null || values[0] === undefined) return this.hide();
    const x = (at * WIDTH) / (shown - 1);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.cursor.setAttribute("visibility", "visible");
    readout.textContent = `${ago === 0 ? "now" : `${ago} s ago`} · ${values.filter(Boolean).join(" · ")}`;
    readout.hidden = false;
    const left = Math.min(event.clientX + 12, innerWidth - readout.offsetWidth - 8);
    readout.style.left = `${Math.max(8, left)}px`;
    readout.style.top = `${box.top - readout.offsetHeight - 6 < 4 ? box.bottom + 6 : box.top - readout.offsetHeight - 6}px`;
  }

  hide() {
    this.cursor.setAttribute("visibility", "hidden");
    readout.hidden = true;
  }
}
