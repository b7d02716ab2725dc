// Where requests go: frontends at the left, backends at the right, bands as wide as their rates.

const FLOW_FRONTS = 6;
const FLOW_BACKS = 9;
const FLOW_HEIGHT = 26;
const FLOW_GAP = 6;

class Flow {
  constructor() {
    this.plot = svg("svg", { class: "flow-plot", role: "img" });
    this.note = h("small");
    this.element = h("section", { className: "panel flow", hidden: true }, h("h2", {}, "Flow"), this.plot, this.note);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  update({ flows, flow_seconds: seconds }, model) {
    const known = flows.map(([from, to, requests]) => ({ from: model.proxies.get(from), to: model.proxies.get(to), rate: requests / seconds }));
    this.flows = known.filter(({ from, to }) => from?.state && to?.state);
    setHidden(this.element, !this.flows.length);
    this.draw();
  }

  // Nodes of one side: the busiest, in their order in the configuration so that they stay where they are; what has no room
  // of its own is one node together.
  nodes(side, most) {
    const rates = new Map();
    for (const flow of this.flows) rates.set(flow[side], (rates.get(flow[side]) || 0) + flow.rate);
    const sorted = [...rates].sort(([, one], [, other]) => other - one);
    const own = sorted.slice(0, sorted.length > most ? most - 1 : most);
    own.sort(([one], [other]) => one.id - other.id);
    const nodes = own.map(([proxy, rate]) => ({ proxies: new Set([proxy]), name: proxy.name, tone: proxy.tone, rate }));
    const others = sorted.slice(own.length);
    if (others.length) {
      const [{ tone }] = others.map(([proxy]) => proxy).sort((one, other) => other.level - one.level);
      nodes.push({ proxies: new Set(others.map(([proxy]) => proxy)), name: `${others.length} others`, tone, rate: sum(others.map(([, rate]) => rate)) });
    }
    return nodes;
  }

  // Gives every node its place: as high as its rate, but high enough for its name.
  place(nodes, height, total) {
    const spare = Math.max(0, height - nodes.length * (FLOW_HEIGHT + FLOW_GAP) + FLOW_GAP);
    let top = 0;
    for (const node of nodes) {
      node.top = top;
      node.height = FLOW_HEIGHT + (spare * node.rate) / total;
      node.used = 0;
      top += node.height + FLOW_GAP;
    }
  }

  draw() {
    const width = Math.round(this.plot.getBoundingClientRect().width);
    if (!this.flows?.length || !width) return;
    const total = sum(this.flows.map(({ rate }) => rate));
    const [fronts, backs] = [this.nodes("from", FLOW_FRONTS), this.nodes("to", FLOW_BACKS)];
    const rows = Math.max(fronts.length, backs.length);
    const height = rows * (FLOW_HEIGHT + FLOW_GAP) - FLOW_GAP + (rows === 1 ? 14 : 40);
    this.place(fronts, height, total);
    this.place(backs, height, total);
    const labels = [];
    const bands = [];
    for (const front of fronts) {
      for (const back of backs) {
        const rate = sum(this.flows.filter(({ from, to }) => front.proxies.has(from) && back.proxies.has(to)).map((flow) => flow.rate));
        if (rate) bands.push(this.band(front, back, rate, width));
      }
    }
    for (const [nodes, side] of [[fronts, "from"], [backs, "to"]]) for (const node of nodes) labels.push(...this.node(node, side, width));
    this.plot.replaceChildren(...bands, ...labels);
    setAttribute(this.plot, "viewBox", `0 0 ${width} ${height}`);
    setAttribute(this.plot, "height", String(height));
    const said = this.flows.slice(0, 12).map(({ from, to, rate }) => `${from.name} to ${to.name} ${short(rate)} a second`);
    setAttribute(this.plot, "aria-label", `Requests from frontends to backends: ${said.join("; ")}`);
    setText(this.note, "Requests a second over the last 10 s; a band is as wide as its part.");
  }

  band(front, back, rate, width) {
    const [thick, thin] = [(front.height * rate) / front.rate, (back.height * rate) / back.rate];
    const [y0, y1] = [front.top + front.used, back.top + back.used];
    front.used += thick;
    back.used += thin;
    const middle = width / 2;
    const path = `M4,${digits(y0)}C${middle},${digits(y0)} ${middle},${digits(y1)} ${width - 4},${digits(y1)}v${digits(thin)}C${middle},${digits(y1 + thin)} ${middle},${digits(y0 + thick)} 4,${digits(y0 + thick)}z`;
    const band = svg("path", { d: path, class: `band ${back.tone}` });
    const title = svg("title");
    title.textContent = `${front.name} to ${back.name}: ${short(rate)}/s`;
    band.append(title);
    return band;
  }

  node({ top, height, name, rate, tone }, side, width) {
    const left = side === "from";
    const bar = svg("rect", { x: left ? 0 : width - 4, y: digits(top), width: 4, height: digits(height), rx: 2, class: `node ${tone}` });
    const text = svg("text", { x: left ? 11 : width - 11, y: digits(top + height / 2), "text-anchor": left ? "start" : "end", "dominant-baseline": "central" });
    const most = Math.max(6, Math.floor(width / 18));
    const value = svg("tspan", { class: "rate" });
    value.textContent = `${short(rate)}/s`;
    const label = svg("tspan");
    label.textContent = name.length > most ? `${name.slice(0, most - 1)}…` : name;
    if (left) text.append(label, " ", value);
    else text.append(value, " ", label);
    return [bar, text];
  }
}
