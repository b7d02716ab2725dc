// Everything by keyboard.

const KEYS = [
  ["/", "Filter by name, address or state"],
  ["x", "Only what has problems, or everything"],
  ["w", "The last minute, ten minutes, hour"],
  ["j k", "Next or previous line; Enter unfolds it"],
  ["t", "Live view or table"],
  ["d", "Dark or light"],
  ["p", "Pause"],
  ["?", "This list"],
  ["Esc", "Close, or clear the filter"],
];

function openHelp() {
  if (byId("keys")) return byId("keys").close();
  const rows = KEYS.map(([key, text]) => h("div", {}, h("dt", {}, ...key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, text)));
  dialog("keys", "Keys", h("dl", {}, ...rows));
}

function stepLine(by) {
  const all = [...document.querySelectorAll(page.view === "live" ? ".card .fold" : ".classic h2 a")].filter((element) => element.getClientRects().length);
  if (!all.length) return;
  const here = document.activeElement.closest?.(".card, .classic");
  const at = all.findIndex((element) => here?.contains(element));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function nextWindow() {
  const windows = [...document.querySelectorAll("#windows button")].map((button) => Number(button.value));
  page.setWindow(windows[(windows.indexOf(page.window) + 1) % windows.length]);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const box = byId("filter");
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    box.value = "";
    page.setProblems(false);
    if (event.target === box) box.blur();
    return;
  }
  const writing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
  if (writing || (document.querySelector("dialog[open]") && event.key !== "?")) return;
  const does = {
    "?": openHelp,
    "/": () => box.focus(),
    x: () => page.setProblems(!filter.problems),
    w: nextWindow,
    t: () => page.setView(page.view === "live" ? "table" : "live"),
    d: theme.toggle,
    p: () => page.setPaused(!poller.paused),
    j: () => stepLine(1),
    k: () => stepLine(-1),
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}
