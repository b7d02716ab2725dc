// Asks the agent, with the token where somebody has given one.

/**
 * @typedef {object} Server
 * @property {string} address
 * @property {string} host empty for one that no agent starts
 * @property {"master" | "replica"} role
 * @property {"up" | "down" | "changing"} state
 * @property {boolean} in_sync
 * @property {number | null} offset
 * @property {number | null} pid
 * @property {string | null} link
 * @property {string | null} problem
 * @property {number} starts
 *
 * @typedef {object} Group
 * @property {number} id
 * @property {"ok" | "down"} state
 * @property {string} master
 * @property {number} ack
 * @property {number} slots
 * @property {[number, number][]} ranges
 * @property {Server[]} servers
 *
 * @typedef {object} Move
 * @property {number} first
 * @property {number} last
 * @property {number} from
 * @property {number} to
 * @property {"planned" | "copying" | "clearing" | "undoing"} phase
 * @property {{keys: number, bytes: number, is_following: boolean, lag_bytes: number} | null} progress
 * @property {number | null} keys_per_second
 * @property {number} attempts
 * @property {string | null} problem
 *
 * @typedef {object} Figures
 * @property {number[]} commands by second, the last one last
 * @property {number | null} command_us
 * @property {number} round_trip_us
 * @property {number} clients
 * @property {number} memory
 * @property {number} memory_max
 * @property {number} keys
 * @property {number} input
 * @property {number} output
 *
 * @typedef {object} Live
 * @property {"ok" | "down"} state
 * @property {number} epoch
 * @property {number} now
 * @property {string} version
 * @property {Group[]} groups
 * @property {{online: number, migrating: number, offline: number}} slots
 * @property {Move[]} moves
 * @property {{address: string, pid: number | null, state: string}[]} proxies
 * @property {Pending[]} pending
 * @property {{epoch: number, at: number, by: string, what: string}[]} changes
 * @property {Record<string, Figures | null>} figures
 * @property {{host: string, pid: number, dir: string}} agent
 */

// What the agent says instead of an answer.
class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const client = {
  key: "tidegate-cluster-token",

  // A link may bring the token behind its #, which no browser sends to anybody. It does not stay in the address.
  start() {
    const found = location.hash.match(/^#token=([\x21-\x7e]+)$/);
    if (!found) return;
    this.token = decodeURIComponent(found[1]);
    history.replaceState(null, "", location.pathname);
  },

  // It is forgotten with the tab.
  get token() {
    try {
      return sessionStorage.getItem(this.key) || "";
    } catch {
      return this.kept || "";
    }
  },
  set token(text) {
    this.kept = text;
    try {
      if (text) sessionStorage.setItem(this.key, text);
      else sessionStorage.removeItem(this.key);
    } catch {
      // A browser that keeps nothing asks again after a reload.
    }
  },

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   */
  async ask(method, path, body) {
    const headers = {};
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    if (body) headers["content-type"] = "application/json";
    const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store", credentials: "omit" });
    let value;
    try {
      value = await answer.json();
    } catch {
      throw new Refused(answer.status, `status ${answer.status}`);
    }
    if (!answer.ok) throw new Refused(answer.status, value.error || `status ${answer.status}`);
    return value;
  },

  /** @returns {Promise<Live>} */
  live() {
    return this.ask("GET", "/api/live");
  },
};
