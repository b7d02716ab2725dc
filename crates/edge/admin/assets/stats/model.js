// What is known of proxies: shape and state in one, and what is wrong with them.

// Shares of a minute's answers from which something is wrong, and the fewest answers to judge by.
const FAILING = 0.05;
const MISSING = 0.3;
const JUDGED_MIN = 20;
// The share of 4xx from which it is worth a colour: a few are everyday life.
const MISSING_MUCH = 0.1;

const KIND_WORDS = { down: "down", unsteady: "unsteady", drain: "draining", maint: "in maintenance", unchecked: "not checked" };
const KIND_MARKS = { up: "good", unchecked: "plain", unsteady: "wary", drain: "idle", maint: "idle", down: "bad" };

// Whatever is wrong with a proxy, the worst first: [level, words, whether its line shows it anyway]. Level 2 means that
// some requests fail or a server is missing, 3 that none is served.
function troublesOf({ front, back, servers }, state) {
  const found = [];
  const add = (level, text, shown = false) => found.push([level, text, shown]);
  const kinds = state.back?.kinds || {};
  if (state.back?.down) add(3, "no server is up", true);
  else if (kinds.down) add(2, `${kinds.down} of ${plural(servers.length, "server", "servers")} down`, true);
  if (kinds.unsteady) add(1, `${plural(kinds.unsteady, "server", "servers")} unsteady`, true);
  const side = state.back || state.front;
  const answered = sum(side.mix || []);
  if (answered >= JUDGED_MIN) {
    const [, , , missing, failing] = side.mix;
    if (failing / answered >= FAILING) add(2, `${percent(failing, answered)} of answers are 5xx`, true);
    if (missing / answered >= MISSING) add(1, `${percent(missing, answered)} of answers are 4xx`, true);
  }
  if (!side.mix && side.minute?.[1]) add(2, `${plural(side.minute[1], "session", "sessions")} of ${short(side.minute[0])} failed in the last minute`);
  if (state.back?.queue) add(1, `${plural(state.back.queue, "request waits", "requests wait")} for a server`);
  if (state.front?.full) add(1, `at its limit of ${short(front.limit)} sessions`);
  if (state.front?.state) add(1, `${state.front.state.toLowerCase()}: it takes no connections`, true);
  return found.sort(([one], [other]) => other - one);
}

class Model {
  constructor() {
    this.proxies = new Map();
    this.totals = {};
  }

  // Takes an answer in. `proxies` comes only when names or addresses have changed.
  take(data) {
    if (data.proxies) {
      this.shape = data.shape;
      this.proxies = new Map(data.proxies.map((proxy) => [proxy.id, { servers: [], ...proxy, key: `${proxy.id} ${proxy.name}` }]));
      for (const proxy of this.proxies.values()) proxy.byId = new Map(proxy.servers.map((server) => [server.id, server]));
    }
    const totals = { servers: 0, up: 0, down: 0, unsteady: 0, drain: 0, maint: 0, unchecked: 0, backends: 0 };
    for (const state of data.states) {
      const proxy = this.proxies.get(state.id);
      if (!proxy) continue;
      proxy.state = state;
      proxy.troubles = troublesOf(proxy, state);
      proxy.level = proxy.troubles[0]?.[0] || 0;
      proxy.tone = ["good", "wary", "bad", "bad"][proxy.level];
      const count = { up: proxy.servers.length };
      for (const [kind, number] of Object.entries(state.back?.kinds || {})) {
        count[kind] = number;
        count.up -= number;
      }
      proxy.count = count;
      totals.servers += proxy.servers.length;
      if (state.back?.down) totals.backends++;
      for (const [kind, number] of Object.entries(count)) totals[kind] += number;
    }
    this.totals = totals;
  }

  get all() {
    return [...this.proxies.values()].filter((proxy) => proxy.state);
  }

  get inTrouble() {
    return this.all.filter((proxy) => proxy.level > 0).sort((one, other) => other.level - one.level);
  }
}

const isBackend = (proxy) => proxy.servers.length > 0 || !proxy.front;

// "7 of 8 up", "4 up", or what a proxy without servers does.
function healthWords({ servers, count, state }) {
  if (!servers.length) return state.front ? (state.front.state || "OPEN").toLowerCase() : "no servers";
  const well = count.up + (count.unchecked || 0);
  if (count.unchecked === servers.length) return `${count.unchecked} not checked`;
  const parts = [well === servers.length ? (well === 1 ? "1 up" : `all ${well} up`) : well ? `${well} of ${servers.length} up` : `none of ${servers.length} up`];
  for (const kind of ["down", "unsteady", "drain", "maint"]) if (count[kind] && (well || count[kind] < servers.length || kind !== "down")) parts.push(`${count[kind]} ${KIND_WORDS[kind]}`);
  return parts.join(", ");
}

function markOf({ level, tone, servers, count, state }) {
  if (level) return tone;
  if (servers.length && !count.up) return count.unchecked ? "plain" : "idle";
  return state.front?.state ? "idle" : "good";
}
