// What an administrator may do with a server, beside how it is at the moment.

const ACTIONS = [
  ["ready", "Ready", "Takes part again."],
  ["drain", "Drain", "Keeps the visitors it has and gets no new ones."],
  ["maint", "Maintenance", "Serves nothing and is not checked."],
  ["hrunn", "Health up", "Taken for up until a check says otherwise."],
  ["hnolb", "Health up, no new visitors", "As if its check had asked for it."],
  ["hdown", "Health down", "Taken for down until checks say otherwise."],
  ["ehlth", "Start checks", "Checks run again."],
  ["dhlth", "Stop checks", "Stays in the state it is in."],
  ["shutdown", "End all sessions", "Cuts every connection that it serves now."],
];

// Which actions would change nothing.
function isSo({ kind, checked, status }) {
  return { ready: ["up", "unchecked", "down", "unsteady"].includes(kind) && !status.startsWith("MAINT"), drain: kind === "drain", maint: kind === "maint", ehlth: checked, dhlth: !checked };
}

let managed;

function openActions(proxy, id) {
  readout.leave();
  const shape = proxy.byId.get(id);
  const name = `${proxy.name} / ${shape.name}`;
  const now = h("dl", { className: "numbers present" });
  const said = h("p", { className: "said", role: "status" });
  const act = async (action, label) => {
    said.textContent = `${label}…`;
    said.textContent = await post(proxy, shape, action, label);
    poller.fetchAll();
  };
  const buttons = {};
  const items = ACTIONS.map(([action, label, text]) => {
    const button = h("button", { type: "button", value: action }, h("b", {}, label), h("small", {}, text));
    button.addEventListener("click", () => (action === "shutdown" ? askToEnd(proxy, id, () => act(action, label)) : act(action, label)));
    if (["maint", "hdown", "shutdown"].includes(action)) button.className = "grave";
    buttons[action] = button;
    return h("li", {}, button);
  });
  const box = dialog("actions", name, now, h("ul", {}, ...items), said);
  managed = { key: proxy.key, id, now, buttons };
  box.addEventListener("close", () => (managed = undefined));
  showManaged(proxy);
}

function askToEnd(proxy, id, act) {
  const { name } = proxy.byId.get(id);
  const sessions = proxy.state.servers?.find((server) => server.id === id)?.sessions || 0;
  confirmFirst("End all sessions?", `${plural(sessions, "session", "sessions")} of ${proxy.name}/${name} would be cut now, in the middle of whatever they do.`, "End them", act);
}

async function post(proxy, shape, action, label) {
  const form = new URLSearchParams({ s: shape.name, action, b: `#${proxy.id}` });
  try {
    const answer = await fetch(`${URI}${OPTIONS}`, { method: "POST", body: form, credentials: "same-origin" });
    const outcome = /;st=([A-Z]{4})/.exec(answer.url)?.[1] || "UNKN";
    if (outcome === "DONE") return `${label}: done.`;
    return outcome === "DENY" ? "You are not allowed to change anything here." : "That cannot be done with this server.";
  } catch (error) {
    return `That did not work: ${error.message}`;
  }
}

// How the server is that the dialog is about; called with each answer.
function showManaged(proxy) {
  if (!managed || proxy?.key !== managed.key) return;
  const server = proxy.state.servers?.find(({ id }) => id === managed.id);
  if (!server) return;
  const shape = proxy.byId.get(managed.id);
  const facts = [
    ["State", server.status], ["For", span(server.change)], ["Sessions", String(server.sessions || 0)], ["Weight", String(server.weight)],
    ["Checks", server.checked ? (server.check ? server.check.code : "run") : "do not run"],
    ["Address", shape.address],
  ];
  managed.now.replaceChildren(...facts.filter(([, value]) => value).map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
  for (const [action, so] of Object.entries(isSo(server))) {
    setAttribute(managed.buttons[action], "aria-current", String(Boolean(so)));
  }
}
