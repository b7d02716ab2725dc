// The classic tables: brought up to date in place, filtered, and asked before sessions are ended.

// Tables up to which all of them are asked for each time.
const SECTIONS_ALL = 20;

const table = {
  element: byId("table"),
  sections: [],

  // Of very many only those in sight are brought up to date, unless a filter has to see all.
  get wanted() {
    if (this.sections.length <= SECTIONS_ALL || filter.active) return "";
    const inSight = (section) => {
      const { top, bottom } = section.getBoundingClientRect();
      return bottom > -200 && top < innerHeight + 200;
    };
    const numbers = this.sections.filter(inSight).map((section) => section.dataset.number);
    return numbers.length ? `;open=${numbers.slice(0, 60).join(",")}` : "";
  },

  // What is chosen, where the focus is and how far it is scrolled stays. Sections that say the same stay as they are; where
  // only some were asked for, so do all others.
  replace(html, onlySome) {
    if (this.element.contains(document.activeElement) && document.activeElement.tagName === "SELECT") return;
    const fresh = [...new DOMParser().parseFromString(html, "text/html").body.children];
    const known = new Map(this.sections.map((section) => [section.dataset.proxy + section.dataset.number, section]));
    const brought = fresh.map((section) => {
      const before = known.get(section.dataset.proxy + section.dataset.number);
      section.text = section.innerHTML;
      if (before?.text === section.text) return before;
      if (before) this.keepChoices(before, section);
      return section;
    });
    const byNumber = new Map(brought.map((section) => [section.dataset.number, section]));
    this.sections = onlySome ? this.sections.map((section) => byNumber.get(section.dataset.number) || section) : brought;
    const sheet = this.element.querySelector(".sheet") || this.element.appendChild(h("div", { className: "sheet", tabIndex: 0, role: "region", ariaLabel: "Tables" }));
    if (!this.empty) this.element.append((this.empty = h("p", { className: "empty", hidden: true })));
    order(sheet, this.sections);
    this.filter();
  },

  keepChoices(before, section) {
    const chosen = new Set([...before.querySelectorAll("input:checked")].map((input) => input.value));
    const focus = before.contains(document.activeElement) ? document.activeElement : null;
    for (const input of section.querySelectorAll("input[name=s]")) {
      input.checked = chosen.has(input.value);
      if (focus?.value === input.value) setTimeout(() => input.focus({ preventScroll: true }));
    }
    const action = before.querySelector("select")?.value;
    if (action) section.querySelector("select").value = action;
  },

  // Rows of servers go one by one; those of the proxy itself stay as long as one of its servers does, or its name is meant.
  filter() {
    let found = 0;
    for (const section of this.sections) {
      const rows = [...section.querySelectorAll("tbody tr")];
      const inName = filter.has(section.dataset.proxy);
      const isOwn = (row) => !row.classList.contains("server");
      const troubled = (row) => row.classList.contains("bad") || row.classList.contains("wary");
      const state = (row) => row.querySelector(".state")?.textContent.toLowerCase() || "";
      const hit = (row) => {
        if (filter.problems && !troubled(row)) return false;
        return !filter.text || inName || filter.has(row.querySelector("th")?.textContent) || state(row).split(/[ ,]+/).includes(filter.text);
      };
      const hits = new Set(rows.filter(hit));
      const any = filter.active ? hits.size > 0 : true;
      for (const row of rows) setHidden(row, filter.active && !hits.has(row) && !isOwn(row));
      setHidden(section, !any);
      found += any;
    }
    const text = filter.text ? `Nothing matches “${byId("filter").value.trim()}”${filter.problems ? " among what has problems" : ""}.` : "No problems: everything is up.";
    if (!this.empty) return;
    setText(this.empty, found ? "" : text);
    setHidden(this.empty, found > 0);
  },

  start() {
    this.element.addEventListener("submit", (event) => {
      const form = event.target;
      if (form.querySelector("select")?.value !== "shutdown" || form.confirmed) return;
      const servers = [...form.querySelectorAll("input[name=s]:checked")].map((input) => input.value);
      if (!servers.length) return;
      event.preventDefault();
      const proxy = form.closest("section").dataset.proxy;
      confirmFirst("End all sessions?", `Every session of ${servers.map((server) => `${proxy}/${server}`).join(", ")} would be cut now.`, "End them", () => {
        form.confirmed = true;
        form.submit();
      });
    });
  },
};
