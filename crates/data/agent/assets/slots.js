// The slots as a map: a point for each, coloured by the group that serves it or by how much that group has to do.

const SLOTS = 16384;
const SIDE = 128;

const palette = {
  // Colours that lie far from each other for numbers that lie near each other.
  hue: (id) => (id * 137.508 + 40) % 360,
  group(id) {
    return theme.now() === "dark" ? [this.hue(id), 52, 62] : [this.hue(id), 52, 45];
  },
  css: ([hue, saturation, lightness]) => `hsl(${hue.toFixed(1)} ${saturation}% ${lightness}%)`,
  load(share) {
    const [least, most] = theme.now() === "dark" ? [16, 66] : [90, 32];
    return [184, 62, least + (most - least) * share];
  },
  rgb([hue, saturation, lightness]) {
    const [s, l] = [saturation / 100, lightness / 100];
    const part = (n) => {
      const k = (n + hue / 30) % 12;
      return Math.round(255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
    };
    return [part(0), part(8), part(4)];
  },
};

class SlotMap {
  constructor() {
    this.canvas = h("canvas", { width: SIDE, height: SIDE, className: "map", tabIndex: 0, role: "img" });
    this.legend = h("ul", { className: "legend" });
    this.buttons = ["group", "load"].map((by) => h("button", { type: "button", value: by, onclick: () => this.colourBy(by) }, by === "group" ? "By group" : "By load"));
    const choice = h("div", { className: "switch", role: "group", ariaLabel: "What colours mean" }, ...this.buttons);
    this.element = h("section", { className: "panel slots-panel" }, h("h2", {}, "Slots"), choice, this.canvas, this.legend);
    this.owners = new Uint16Array(SLOTS);
    this.moving = new Uint8Array(SLOTS);
    this.canvas.addEventListener("pointermove", (event) => this.point(this.slotAt(event), event.clientX));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("blur", () => this.leave());
    this.canvas.addEventListener("keydown", (event) => this.step(event));
    theme.system.addEventListener("change", () => this.draw());
    this.colourBy(settings.get("cluster-map") === "load" ? "load" : "group");
  }

  colourBy(by) {
    this.by = by;
    settings.set("cluster-map", by);
    for (const button of this.buttons) setAttribute(button, "aria-pressed", String(button.value === by));
    if (this.live) this.draw();
  }

  /** @param {Live} live @param {Map<number, number>} rates commands a second by group */
  update(live, rates) {
    [this.live, this.rates] = [live, rates];
    this.owners.fill(0);
    this.moving.fill(0);
    for (const { id, ranges } of live.groups) for (const [first, last] of ranges) this.owners.fill(id, first, last + 1);
    for (const { first, last } of live.moves) this.moving.fill(1, first, last + 1);
    this.draw();
  }

  load(id) {
    const group = this.live.groups.find((one) => one.id === id);
    return group?.slots ? (this.rates.get(id) || 0) / group.slots : 0;
  }

  colours() {
    const most = Math.max(...this.live.groups.map(({ id }) => this.load(id)), 1e-9);
    return new Map(this.live.groups.map(({ id }) => [id, this.by === "group" ? palette.group(id) : palette.load(this.load(id) / most)]));
  }

  draw() {
    if (!this.live) return;
    const colours = this.colours();
    const drawn = JSON.stringify([[...colours], this.live.groups.map(({ ranges }) => ranges), this.live.moves.map(({ first, last }) => [first, last]), theme.now()]);
    if (this.drawn !== drawn) {
      this.drawn = drawn;
      this.paint(colours);
      this.explain(colours);
    }
    const { online, migrating, offline } = this.live.slots;
    setAttribute(this.canvas, "aria-label", `Slots 0 to 16383 in rows of 128: ${online} served, ${migrating} on their way, ${offline} served by nobody. Arrow keys read single slots.`);
  }

  paint(colours) {
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(SIDE, SIDE);
    const rgb = new Map([...colours].map(([id, colour]) => [id, palette.rgb(colour)]));
    const dark = theme.now() === "dark";
    const [nobody, way] = dark ? [[60, 28, 34], [255, 255, 255]] : [[244, 205, 211], [16, 38, 43]];
    for (let slot = 0; slot < SLOTS; slot++) {
      const colour = rgb.get(this.owners[slot]) || nobody;
      // Those on their way are a pattern of two colours, so that they are seen without colours too.
      const isMarked = this.moving[slot] && (slot + (slot >> 7)) % 3 === 0;
      image.data.set([...(isMarked ? way : colour), 255], slot * 4);
    }
    context.putImageData(image, 0, 0);
  }

  explain(colours) {
    const most = 12;
    const groups = this.live.groups;
    const items = groups.slice(0, most).map(({ id, slots }) => {
      const swatch = h("i", { className: "swatch" });
      swatch.style.background = palette.css(colours.get(id));
      return h("li", {}, swatch, ` group ${id} `, h("small", {}, percent(slots, SLOTS)));
    });
    if (groups.length > most) items.push(h("li", {}, h("small", {}, `and ${groups.length - most} more`)));
    if (this.live.slots.migrating) items.push(h("li", {}, h("i", { className: "swatch way" }), ` on their way `, h("small", {}, short(this.live.slots.migrating))));
    if (this.live.slots.offline) items.push(h("li", { className: "some" }, h("i", { className: "swatch nobody" }), ` nobody's `, h("small", {}, short(this.live.slots.offline))));
    this.legend.replaceChildren(...items);
  }

  slotAt({ clientX, clientY }) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const place = (at, length) => Math.min(SIDE - 1, Math.max(0, Math.floor((at / length) * SIDE)));
    return place(clientY - top, height) * SIDE + place(clientX - left, width);
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -SIDE, ArrowDown: SIDE, Home: -SLOTS, End: SLOTS }[event.key];
    if (!by) return;
    event.preventDefault();
    const slot = Math.min(SLOTS - 1, Math.max(0, this.pointed === undefined ? 0 : this.pointed + by));
    const { left, width } = this.canvas.getBoundingClientRect();
    this.point(slot, left + ((slot % SIDE) / SIDE) * width);
  }

  point(slot, x) {
    if (!this.live) return;
    if (readout.chart !== this) readout.chart?.leave();
    readout.chart = this;
    this.pointed = slot;
    const owner = this.owners[slot];
    const move = this.live.moves.find(({ first, last }) => slot >= first && slot <= last);
    const rows = [["", "Served by", owner ? `group ${owner}` : "nobody"]];
    if (owner) rows.push(["", "Master", this.live.groups.find(({ id }) => id === owner)?.master || "–"]);
    if (owner) rows.push(["", "Load of a slot there", `about ${short(this.load(owner))}/s`]);
    if (move) rows.push(["", "On its way", `${move.from} → ${move.to}, ${move.phase}`]);
    readout.show(this.canvas, x, `Slot ${slot}`, rows);
  }

  leave() {
    this.pointed = undefined;
    readout.hide();
  }
}
