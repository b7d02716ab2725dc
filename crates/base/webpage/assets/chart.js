// Charts of a track, drawn as inline SVG. Every step stands for itself: nothing is smoothed, and a step that stands alone is
// a bar or a dot. Colours come from the style sheet through classes, so a chart follows the theme by itself.

// Pixels that a value has at least, so that one error among thousands of requests is seen.
const BAR_MIN = 2;

// The next round number above: what an axis ends with.
function roundUp(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((times) => times * unit >= value * 0.999999) * unit;
}

const digits = (value) => Math.round(value * 100) / 100;

class Chart {
  // `bars`: columns that stand on each other; `lines`: columns where 0 is no value. `least`: the smallest value that fills the
  // height, so that a single request does not look like a storm. `say`: a value as text. `rows`: what the readout says of
  // a slot. `axis`: whether times stand below.
  constructor(label, track, { bars = [], lines = [], height = 64, least = 5, say = short, perSecond = true, rows, axis = true }) {
    Object.assign(this, { label, track, bars, lines, height, least, say, perSecond, rows });
    this.plot = svg("svg", { preserveAspectRatio: "none", class: "plot", role: "img", tabindex: axis ? "0" : "-1" });
    this.marks = {};
    for (const name of bars) this.plot.append((this.marks[name] = svg("path", { class: `bar ${name}` })));
    for (const name of lines) this.plot.append((this.marks[name] = svg("path", { class: `line ${name}` })));
    this.cursor = svg("path", { class: "cursor", visibility: "hidden" });
    this.plot.append(this.cursor);
    this.top = h("span", { className: "top-value", ariaHidden: "true" });
    this.axis = axis ? h("div", { className: "axis", ariaHidden: "true" }, h("span"), h("span"), h("span")) : null;
    this.element = h("div", { className: axis ? "chart" : "chart small" }, this.top, this.plot, this.axis);
    this.plot.addEventListener("pointermove", (event) => this.point(this.slotAt(event.clientX), event.clientX));
    this.plot.addEventListener("pointerleave", () => this.leave());
    this.plot.addEventListener("blur", () => this.leave());
    this.plot.addEventListener("keydown", (event) => this.step(event));
  }

  value(name, slot) {
    return this.perSecond ? this.track.rate(name, slot) : this.track.value(name, slot);
  }

  draw() {
    const drawn = `${this.track.version} ${timeline.end} ${timeline.window}`;
    if (this.drawn === drawn) return;
    this.drawn = drawn;
    const { slots } = timeline;
    const peak = this.peak();
    const top = Math.max(this.least, peak ? roundUp(peak) : 0);
    this.scale = (value) => (value / top) * (this.height - 2);
    setAttribute(this.plot, "viewBox", `0 0 ${slots} ${this.height}`);
    setText(this.top, this.say(top));
    this.drawBars(slots);
    for (const name of this.lines) this.drawLine(name, slots);
    if (this.axis) this.drawAxis();
    this.describe(peak);
    if (this.pointed !== undefined) this.point(this.pointed, this.pointedX);
  }

  peak() {
    const step = this.perSecond ? timeline.step : 1;
    const lines = this.lines.map((name) => this.track.peak([name]));
    return Math.max(this.track.peak(this.bars), ...lines) / step;
  }

  drawBars(slots) {
    const paths = this.bars.map(() => "");
    for (let slot = 0; slot < slots; slot++) {
      let bottom = this.height;
      this.bars.forEach((name, index) => {
        const value = this.value(name, slot);
        if (!value) return;
        const height = Math.max(BAR_MIN, this.scale(value));
        paths[index] += `M${digits(slot + 0.08)},${digits(bottom)}h0.84v${digits(-height)}h-0.84z`;
        bottom -= height;
      });
    }
    this.bars.forEach((name, index) => setAttribute(this.marks[name], "d", paths[index]));
  }

  drawLine(name, slots) {
    let path = "";
    for (let slot = 0; slot < slots; slot++) {
      const [before, value, after] = [this.value(name, slot - 1), this.value(name, slot), this.value(name, slot + 1)];
      if (!value) continue;
      const y = digits(this.height - 2 - this.scale(value) * 0.96);
      // One that stands alone is a dash as wide as its step.
      path += before ? `L${slot + 0.5},${y}` : after ? `M${slot + 0.5},${y}` : `M${slot + 0.2},${y}h0.6`;
    }
    setAttribute(this.marks[name], "d", path);
  }

  drawAxis() {
    const [from, middle, to] = this.axis.children;
    const withSeconds = timeline.window <= 60;
    setText(from, clock(timeline.end - timeline.window, withSeconds));
    setText(middle, clock(timeline.end - timeline.window / 2, withSeconds));
    setText(to, clock(timeline.end, withSeconds));
  }

  describe(peak) {
    const span = { 60: "minute", 600: "ten minutes", 3600: "hour" }[timeline.window];
    setAttribute(this.plot, "aria-label", `${this.label}, last ${span}: at most ${this.say(peak)}. Arrow keys read single steps.`);
  }

  slotAt(x) {
    const { left, width } = this.plot.getBoundingClientRect();
    return Math.min(timeline.slots - 1, Math.max(0, Math.floor(((x - left) / width) * timeline.slots)));
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!by) return;
    event.preventDefault();
    const slot = Math.min(timeline.slots - 1, Math.max(0, (this.pointed ?? timeline.slots) + by));
    const { left, width } = this.plot.getBoundingClientRect();
    this.point(slot, left + ((slot + 0.5) / timeline.slots) * width);
  }

  point(slot, x) {
    if (this.track.value("", slot) === undefined) return this.leave();
    if (readout.chart !== this) readout.chart?.leave();
    readout.chart = this;
    [this.pointed, this.pointedX] = [slot, x];
    setAttribute(this.cursor, "d", `M${slot + 0.5},0v${this.height}`);
    setAttribute(this.cursor, "visibility", "visible");
    const { step } = timeline;
    const end = timeline.at(slot);
    const title = step === 1 ? clock(end) : `${clock(end - step)} to ${clock(end)}`;
    readout.show(this.plot, x, title, this.rows(this.track, slot));
  }

  leave() {
    this.pointed = undefined;
    setAttribute(this.cursor, "visibility", "hidden");
    readout.hide();
  }
}
