// What the pointer or the arrow keys point at: all values of one step.

const readout = {
  element: h("div", { className: "readout", hidden: true, role: "status" }),

  // `rows`: [class of its colour, name, value].
  show(anchor, x, title, rows) {
    const cells = rows.flatMap(([colour, name, value]) => [h("i", { className: `swatch ${colour}` }), h("span", {}, name), h("b", {}, value)]);
    this.element.replaceChildren(h("p", {}, title), h("div", {}, ...cells));
    this.element.hidden = false;
    const { top, bottom } = anchor.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
    this.element.style.left = `${Math.max(8, left)}px`;
    this.element.style.top = `${bottom + 6 + height > innerHeight ? Math.max(4, top - height - 6) : bottom + 6}px`;
  },

  hide() {
    this.element.hidden = true;
  },

  // What it points at is about to go.
  leave() {
    this.chart?.leave();
  },
};
