// Parts of the page below the tiles: each a heading and figures or a table.

// Figures by name; those that are undefined are left out.
function figures(list, pairs) {
  const cells = pairs.filter(([, value]) => value !== undefined).map(([name, value, kind]) => h("div", {}, h("dt", {}, name), h("dd", { className: kind || "" }, value)));
  list.replaceChildren(...cells);
}

function table(heads, rows, nothing) {
  if (!rows.length) return h("p", { className: "empty" }, nothing);
  const cell = (tag, [text, className = ""]) => h(tag, { className, ...(tag === "th" ? { scope: "col" } : {}) }, text);
  const head = h("tr", {}, ...heads.map((one) => cell("th", one)));
  const body = rows.map((row) => h("tr", {}, ...row.map((one) => cell("td", one))));
  return h("div", { className: "wide", tabIndex: 0 }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)));
}

class Panel {
  constructor(title) {
    this.figures = h("dl", { className: "numbers" });
    this.body = h("div");
    this.element = h("section", { className: "panel" }, h("h2", {}, title), this.figures, this.body);
  }

  // Keeps what is there while somebody selects text in it.
  fill(content) {
    const said = content.textContent;
    if (this.said === said) return;
    this.said = said;
    const scrolled = this.body.firstChild?.scrollLeft || 0;
    this.body.replaceChildren(content);
    content.scrollLeft = scrolled;
  }
}

class Panels {
  constructor() {
    this.memory = new Panel("Memory and disk");
    this.log = new Panel("Log and checkpoint");
    this.commands = new Panel("Commands");
    this.slow = new Panel("Slow commands");
    this.clients = new Panel("Clients");
    this.keys = new Panel("Keys");
    const column = (...panels) => h("div", { className: "board" }, ...panels.map(({ element }) => element));
    this.element = h("div", { className: "boards" }, column(this.memory, this.commands, this.clients), column(this.log, this.slow, this.keys));
  }

  update(data) {
    this.showMemory(data);
    this.showLog(data);
    this.showCommands(data);
    this.showSlow(data);
    this.showClients(data);
    this.showKeys(data);
  }

  showMemory({ info, disk }) {
    figures(this.memory.figures, [
      ["In use", room(info.used_memory)],
      ["Peak", room(info.used_memory_peak)],
      ["The process", room(info.used_memory_rss)],
      ["Fragmentation", String(info.mem_fragmentation_ratio)],
      ["Clients take", room(info.mem_clients_normal)],
      ["When it is full", info.maxmemory ? info.maxmemory_policy : undefined],
      ["Tables on the disk", disk ? room(disk.tables) : undefined],
      ["Log on the disk", disk ? room(disk.log) : undefined],
      ["Keys read from the disk", info.keys_read_from_tables === undefined ? undefined : short(info.keys_read_from_tables)],
      ["Keys that left memory", info.keys_left_to_tables === undefined ? undefined : short(info.keys_left_to_tables)],
    ]);
  }

  showLog({ info, folder }) {
    if (!folder) {
      figures(this.log.figures, []);
      return this.log.fill(h("p", { className: "empty" }, "All data is in memory alone, and gone when the store ends (--dir names a folder)."));
    }
    const behind = info.master_repl_offset - info.tables_applied_offset;
    const ago = Math.max(0, Math.round(info.server_time_usec / 1e6) - info.rdb_last_save_time);
    figures(this.log.figures, [
      ["Log begins at", String(info.repl_backlog_first_byte_offset)],
      ["Log ends at", String(info.master_repl_offset)],
      ["Synced", info.aof_pending_bio_fsync ? "soon" : "all of it"],
      ["Log is written", info.aof_last_write_status === "ok" ? "yes" : "no", info.aof_last_write_status === "ok" ? "" : "some"],
      ["Tables behind by", room(Math.max(0, behind))],
      ["Last checkpoint", info.rdb_saves ? `${span(ago)} ago` : "none yet"],
      ["It went", info.rdb_last_bgsave_status === "ok" ? "well" : "wrong", info.rdb_last_bgsave_status === "ok" ? "" : "some"],
      ["Changes since", short(info.rdb_changes_since_last_save)],
    ]);
    this.log.fill(h("small", {}, folder));
  }

  showCommands({ commands }) {
    const all = sum(commands.map(({ usec }) => usec)) || 1;
    const share = (part) => {
      const bar = h("i");
      bar.style.width = `${100 * part}%`;
      return h("span", {}, h("span", { className: "share", ariaHidden: "true" }, bar), percent(part, 1));
    };
    const shown = commands.slice(0, 12);
    const hasFailed = shown.some((one) => one.failed_calls);
    const rows = shown.map(({ name, calls, usec, usec_per_call: each, failed_calls: failed }) => [
      [name.replace("|", " ").toUpperCase()],
      [short(calls)],
      [each < 1000 ? `${short(each)} µs` : time(each)],
      ...(hasFailed ? [[failed ? short(failed) : "", failed ? "some" : ""]] : []),
      [share(usec / all)],
    ]);
    const heads = [["Command"], ["Calls"], ["Each takes"], ...(hasFailed ? [["Failed"]] : []), ["Of all time"]];
    this.commands.fill(table(heads, rows, "No command has run yet."));
  }

  showSlow({ slow }) {
    const rows = slow.slice(0, 12).map(({ at, time: took, words, address, name }) => [[clock(at)], [time(took)], [words, "text words"], [name || address, "text address"]]);
    this.slow.fill(table([["At"], ["Took"], ["Command", "text"], ["Client", "text"]], rows, "None took longer than slowlog-log-slower-than."));
  }

  showClients({ clients }) {
    const rows = clients.map((one) => [
      [one.name || one.addr, "text address"],
      [one.user, "text"],
      [`db${one.db}`],
      [one.cmd === "NULL" ? "–" : String(one.cmd).replace("|", " ").toUpperCase(), "text"],
      [span(one.idle)],
      [span(one.age)],
      [room(one["tot-mem"])],
    ]);
    const heads = [["Client", "text"], ["User", "text"], ["Database"], ["Last command", "text"], ["Silent for"], ["Here for"], ["Memory"]];
    this.clients.fill(table(heads, rows, "Nobody is connected."));
  }

  showKeys({ info, databases }) {
    figures(this.keys.figures, [
      ["Found", percent(info.keyspace_hits, info.keyspace_hits + info.keyspace_misses)],
      ["Expired", short(info.expired_keys)],
      ["Made way", short(info.evicted_keys)],
      ["Channels", short(info.pubsub_channels)],
      ["Scripts", short(info.number_of_cached_scripts)],
      ["Functions", short(info.number_of_functions)],
    ]);
    const rows = databases.map(({ db, keys, expires }) => [[`db${db}`], [short(keys)], [short(expires)]]);
    this.keys.fill(table([["Database"], ["Keys"], ["With an expiry"]], rows, "There are no keys."));
  }
}
