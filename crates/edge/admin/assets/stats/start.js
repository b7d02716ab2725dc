// Brings the page to life. Comes last.

page.build();
table.start();
theme.start(byId("theme"));
byId("view-live").addEventListener("click", () => page.setView("live"));
byId("view-table").addEventListener("click", () => page.setView("table"));
byId("pause").addEventListener("click", () => page.setPaused(!poller.paused));
byId("help").addEventListener("click", openHelp);
byId("problems").addEventListener("click", () => page.setProblems(!filter.problems));
byId("filter").addEventListener("input", () => page.applyFilter());
byId("filter").closest("form").addEventListener("submit", (event) => event.preventDefault());
for (const button of document.querySelectorAll("#windows button")) button.addEventListener("click", () => page.setWindow(Number(button.value)));
document.addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(poller.timer) : poller.paused || poller.poll()));
{
  const window = Number(settings.get("window")) || 60;
  page.window = [60, 600, 3600].includes(window) ? window : 60;
  for (const button of document.querySelectorAll("#windows button")) button.setAttribute("aria-pressed", String(Number(button.value) === page.window));
}
// A link to a proxy (`#name`) is one to its table.
page.setView(location.hash || settings.get("view") === "table" ? "table" : "live");
