// What waits for a person, with what can be said to it; and the policy that has it wait.

/**
 * @typedef {object} Pending
 * @property {number} number
 * @property {string} action
 * @property {string} what
 * @property {"waits" | "confirmed" | "refused" | "off"} state
 * @property {number} since_ms
 */

const MODES = { auto: "by itself", ask: "when I confirm it", off: "never" };

class Waiting {
  constructor() {
    this.list = h("ul", { className: "list" });
    this.element = h("section", { className: "panel waiting", ariaLabel: "What waits for you" }, h("header", {}, h("h2", {}, "Waits for you")), this.list);
    this.element.hidden = true;
    this.drawn = "[]";
  }

  /** @param {Live} live */
  update(live) {
    setHidden(this.element, !live.pending.length);
    // Not drawn anew for each second that passes: somebody may be about to press a button.
    const said = JSON.stringify(live.pending.map(({ number, state, what }) => [number, state, what]));
    if (this.drawn === said) return;
    this.drawn = said;
    const focus = document.activeElement?.closest?.(".waiting button");
    const [number, name] = [focus?.closest("li").dataset.number, focus?.name];
    this.list.replaceChildren(...live.pending.map((one) => this.item(one, live.now)));
    if (number) this.list.querySelector(`li[data-number="${number}"] button[name="${name}"]:not(:disabled)`)?.focus({ preventScroll: true });
  }

  /** @param {Pending} one @param {number} now */
  item({ number, action, what, state, since_ms: since }, now) {
    const answer = (name, title, path) => {
      const deed = { title: `${title} ${number}`, yes: title, method: "POST", path: `/api/pending/${number}/${path}` };
      return h("button", { type: "button", name, ariaLabel: `${title}: ${what}`, onclick: () => actions.act(deed) }, title);
    };
    const notes = { waits: "", confirmed: ", confirmed: it is about to be done", refused: ", dismissed: it stays undone while this lasts", off: ", off in the policy: it is left to you" };
    const buttons = { waits: ["confirm", "dismiss"], confirmed: [], refused: ["confirm"], off: ["policy"] }[state].map(
      (name) =>
        ({
          confirm: () => answer("confirm", "Confirm", "confirm"),
          dismiss: () => answer("dismiss", "Dismiss", "refuse"),
          policy: () => h("button", { type: "button", name, onclick: () => actions.policy() }, "Policy"),
        })[name](),
    );
    const line = h("small", {}, `number ${number}, since ${clock(Math.floor((now - since) / 1000))}${notes[state]}`);
    const item = h("li", {}, mark(state === "waits" ? "wary" : "idle"), h("span", { className: "by" }, action), h("div", {}, what, line), h("span", { className: "answers" }, ...buttons));
    item.dataset.number = String(number);
    return item;
  }

  // To the first that can be answered.
  focus() {
    this.list.querySelector("button")?.focus();
  }
}

Object.assign(actions, {
  // Shows what agents do by themselves, to be changed.
  async policy() {
    let all;
    try {
      all = await client.ask("GET", "/api/policy");
    } catch (error) {
      page.say(`The policy cannot be shown: ${error.message}`, "bad");
      return;
    }
    const rows = all.map(({ action, mode, about }) => {
      const id = `policy-${action}`;
      const select = h("select", { id }, ...Object.entries(MODES).map(([value, name]) => h("option", { value, selected: value === mode }, name)));
      select.addEventListener("change", () => this.act({ title: `Policy: ${action}`, yes: "", method: "POST", path: "/api/policy", body: { action, mode: select.value } }));
      return [h("label", { htmlFor: id }, h("b", {}, action), h("small", {}, about)), select];
    });
    const box = dialog("policy", "What agents do by themselves", h("form", { method: "dialog", className: "fields" }, ...rows.flat()));
    box.querySelector("select")?.focus();
  },
});
