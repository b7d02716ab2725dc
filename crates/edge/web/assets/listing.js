
"use strict";
(() => {
  const find = document.getElementById("find");
  const none = document.getElementById("none");
  const sum = document.getElementById("sum");
  const rows = [...document.querySelectorAll("tbody tr")].filter((row) => !row.classList.contains("up"));
  const said = sum.textContent;
  let names;

  // Times are those of whoever looks.
  const two = (number) => String(number).padStart(2, "0");
  const local = (date) =>
    `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
  if (rows.length <= 5000) {
    for (const time of document.querySelectorAll("time")) {
      const date = new Date(time.dateTime);
      if (!isNaN(date)) time.textContent = local(date);
    }
    document.getElementById("zone").textContent = "Times are local";
  }

  function filter() {
    names ??= rows.map((row) => row.querySelector("a").textContent.toLowerCase());
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => {
      const fits = words.every((word) => names[at].includes(word));
      if (row.hidden === fits) row.hidden = !fits;
      if (fits) shown++;
    });
    sum.textContent = words.length ? `${shown} of ${rows.length} shown` : said;
    none.hidden = shown > 0 || !words.length;
    none.textContent = none.hidden ? "" : "No name has this.";
  }

  if (rows.length) {
    find.parentElement.hidden = false;
    let waits = 0;
    find.addEventListener("input", () => {
      cancelAnimationFrame(waits);
      waits = requestAnimationFrame(filter);
    });
    if (find.value) filter();
  }

  const links = () => [...document.querySelectorAll("tbody tr:not([hidden]) a")];
  function move(by) {
    const all = links();
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
    if (next) next.focus();
    else if (at === 0 && by < 0 && !find.parentElement.hidden) find.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const types = document.activeElement === find;
    if (event.key === "/" && !types && !find.parentElement.hidden) find.focus();
    else if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp" && !types) move(-1);
    else if (event.key === "Home" && !types) (links()[0] ?? document.body).focus();
    else if (event.key === "End" && !types) (links().at(-1) ?? document.body).focus();
    else if (event.key === "Backspace" && !types) document.querySelector("a[rel=up]")?.click();
    else if (event.key === "Escape" && types) {
      find.value = "";
      filter();
      links()[0]?.focus();
    } else if (event.key === "Enter" && types) links().find((link) => !link.rel)?.click();
    else return;
    event.preventDefault();
  });
})();
