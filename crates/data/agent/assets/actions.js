// What can be done: its plan is shown and confirmed first. Whoever has not given the token is asked for it then.

/**
 * @typedef {object} Deed
 * @property {string} title
 * @property {string} yes what the button says
 * @property {string} method
 * @property {string} path
 * @property {object} [body]
 * @property {boolean} [grave] something ends by it
 */

const actions = {
  // Shows the plan of a deed, and does it when that is confirmed.
  /** @param {Deed} deed */
  async plan(deed) {
    const plan = await this.tried(deed, { ...deed.body, plan: true }, () => this.plan(deed));
    if (!plan) return;
    const go = h("button", { type: "button", className: deed.grave ? "grave" : "", value: "yes" }, deed.yes);
    const no = h("button", { type: "button", value: "no" }, "Cancel");
    const box = dialog("confirm", deed.title, h("p", {}, plan.what || "Nothing would be done."), this.moves(plan), h("div", { className: "choices" }, no, go));
    no.addEventListener("click", () => box.close());
    go.addEventListener("click", () => {
      box.close();
      this.act(deed);
    });
    if (plan.moves && !plan.moves.length && !plan.cancelled?.length) go.disabled = true;
    (deed.grave ? no : go).focus();
  },

  // Does it without a plan.
  /** @param {Deed} deed */
  async act(deed) {
    const done = await this.tried(deed, deed.body, () => this.act(deed));
    if (!done) return;
    const left = [done.data].flat().filter(Boolean);
    page.say(`Done: ${done.what || deed.title}.${left.length ? ` The data is still there, and may be removed: ${left.join(", ")}.` : ""}`, "good");
    page.poll();
  },

  // Asks, and gives nothing if it was refused; the reason is shown.
  async tried(deed, body, again) {
    try {
      return await client.ask(deed.method, deed.path, body || {});
    } catch (error) {
      if (error.status === 401) this.token(error.message, again);
      else page.say(`${deed.title}: ${error.message}`, "bad");
      return null;
    }
  },

  moves({ moves, slots, keys_about: keys, bytes_about: size }) {
    if (!moves) return null;
    if (!moves.length) return h("p", { className: "empty" }, "No slot is to move.");
    const shown = moves.slice(0, 8).map(({ first, last, from, to }) => h("li", {}, `${first} to ${last}: group ${from} → group ${to}`));
    if (moves.length > shown.length) shown.push(h("li", {}, `and ${moves.length - shown.length} more ranges`));
    const cost = keys ? `, about ${short(keys)} keys and ${room(size)}` : "";
    return h("div", {}, h("p", {}, `${plural(slots, "slot moves", "slots move")}${cost}:`), h("ul", { className: "plan" }, ...shown));
  },

  // Asks for the token.
  token(reason, then) {
    const input = h("input", { type: "password", autocomplete: "off", id: "token-text", required: true });
    const form = h("form", { method: "dialog" }, h("label", { htmlFor: "token-text" }, "Token"), input, h("div", { className: "choices" }, client.token ? h("button", { type: "button", value: "forget" }, "Forget it") : null, h("button", { type: "submit", value: "yes" }, "Use it")));
    const where = page.live ? `${page.live.agent.dir}/api.token` : "api.token in the cluster's folder";
    const box = dialog("ask-token", "Token", h("p", {}, reason || `Whoever changes something needs the token of the cluster: ${where}. It is kept until this tab is closed.`), form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      client.token = input.value.trim();
      box.close();
      page.showToken();
      if (then) then();
      else page.poll();
    });
    form.querySelector("[value=forget]")?.addEventListener("click", () => {
      client.token = "";
      box.close();
      page.showToken();
    });
    input.focus();
  },

  // A list of what can be done with something.
  choose(title, facts, deeds) {
    const items = deeds.map(([name, about, act]) => {
      const button = h("button", { type: "button", onclick: () => (box.close(), act()) }, h("b", {}, name), " ", h("small", {}, about));
      return h("li", {}, button);
    });
    const pairs = facts.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))));
    const box = dialog("choose", title, h("dl", { className: "numbers" }, ...pairs), h("ul", {}, ...items));
    (box.querySelector("li button") || box.querySelector(".close")).focus();
  },

  /** @param {Group} group @param {Server} server */
  server(group, server) {
    const figures = page.live.figures[server.address];
    const facts = [["Group", group.id], ["Role", server.role], ["Host", server.host || "none: no agent starts it again"], ["Process", server.pid], ["Starts", server.starts], ["Log ends at", server.offset], ["Answers the agent in", figures && time(figures.round_trip_us)], ["From clients", figures && `${bytes(figures.input)}/s`], ["To clients", figures && `${bytes(figures.output)}/s`], ["Problem", server.problem]];
    const at = `/api/groups/${group.id}`;
    const deeds = [];
    if (server.role === "replica") {
      deeds.push(["Promote", "makes it the master; no command fails", () => this.plan({ title: `Promote ${server.address}`, yes: "Promote", method: "POST", path: `${at}/promote`, body: { server: server.address } })]);
      deeds.push(["Remove", "it ends; its data stays on the disk", () => this.plan({ title: `Remove ${server.address}`, yes: "Remove", method: "DELETE", path: `${at}/servers/${encodeURIComponent(server.address)}`, grave: true })]);
    }
    this.choose(server.address, facts, deeds);
  },

  /** @param {Group} group */
  group(group) {
    const at = `/api/groups/${group.id}`;
    const deeds = [["Add a replica", "a new store, which the agent starts", () => this.plan({ title: `Add a replica to group ${group.id}`, yes: "Add", method: "POST", path: `${at}/servers` })]];
    if (group.slots) deeds.push(["Drain", "spreads its slots over the other groups", () => this.plan({ title: `Drain group ${group.id}`, yes: "Move slots", method: "POST", path: "/api/rebalance", body: { drain: group.id } })]);
    deeds.push(["Remove", group.slots ? "only without slots: drain it first" : "its servers end; their data stays on the disk", () => this.plan({ title: `Remove group ${group.id}`, yes: "Remove", method: "DELETE", path: at, grave: true })]);
    this.choose(`Group ${group.id}`, [["Slots", short(group.slots)], ["Servers", group.servers.length], ["Master", group.master]], deeds);
  },

  addGroup() {
    this.plan({ title: "Add a group", yes: "Add", method: "POST", path: "/api/groups" });
  },

  rebalance() {
    this.plan({ title: "Rebalance", yes: "Move slots", method: "POST", path: "/api/rebalance" });
  },

  // Asks which slots go where.
  migrate() {
    const number = (id, label, value) => [h("label", { htmlFor: id }, label), h("input", { id, type: "number", min: "0", max: "16383", required: true, value })];
    const groups = h("select", { id: "to-group" }, ...page.live.groups.map(({ id }) => h("option", { value: String(id) }, `group ${id}`)));
    const form = h("form", { method: "dialog", className: "fields" }, ...number("first-slot", "First slot", "0"), ...number("last-slot", "Last slot", "0"), h("label", { htmlFor: "to-group" }, "To"), groups, h("div", { className: "choices" }, h("button", { type: "submit", value: "yes" }, "Show the plan")));
    const box = dialog("migrate", "Move slots", form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = (id) => Number(byId(id).value);
      const body = { first: value("first-slot"), last: value("last-slot"), group: Number(groups.value) };
      box.close();
      this.plan({ title: `Move slots ${body.first} to ${body.last}`, yes: "Move slots", method: "POST", path: "/api/migrations", body });
    });
    byId("first-slot").focus();
  },

  cancel() {
    confirmFirst("Cancel moves", "Slots that have not moved yet stay where they are. Those that have moved stay where they have gone.", "Cancel the moves", () => this.act({ title: "Moves are cancelled", yes: "", method: "DELETE", path: "/api/migrations" }));
  },

  /** @param {{address: string, state: string}} proxy */
  proxy(proxy) {
    const at = `/api/proxies/${encodeURIComponent(proxy.address)}`;
    const isOffline = proxy.state === "offline";
    const word = isOffline ? "online" : "offline";
    this.choose(`Proxy ${proxy.address}`, [["State", proxy.state]], [
      [isOffline ? "Set online" : "Set offline", isOffline ? "it runs and takes clients" : "it ends until it is set online; its clients are closed", () => this.plan({ title: `Set ${proxy.address} ${word}`, yes: `Set ${word}`, method: "POST", path: `${at}/${word}`, grave: !isOffline })],
      ["Remove", "it ends; its clients are closed", () => this.plan({ title: `Remove proxy ${proxy.address}`, yes: "Remove", method: "DELETE", path: at, grave: true })],
    ]);
  },

  addProxy() {
    this.plan({ title: "Add a proxy", yes: "Add", method: "POST", path: "/api/proxies" });
  },

  /** @param {number} epoch */
  undo(epoch) {
    this.plan({ title: `Undo change ${epoch}`, yes: "Undo it", method: "POST", path: `/api/actions/${epoch}/undo` });
  },
};
