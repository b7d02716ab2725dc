// What is searched for, and whether only trouble is shown.

const filter = {
  text: "",
  problems: false,

  get active() {
    return Boolean(this.text) || this.problems;
  },

  has(text) {
    return Boolean(text) && text.toLowerCase().includes(this.text);
  },

  // Servers of a proxy that a text finds by name, address or state. The state of those that are well and folded is known
  // without being told.
  servers(proxy) {
    const kinds = new Map((proxy.state.servers || []).map((server) => [server.id, server]));
    return proxy.servers.filter((server) => {
      const state = kinds.get(server.id);
      const words = state ? `${state.status} ${KIND_WORDS[state.kind] || "up"}` : "up";
      return this.has(server.name) || this.has(server.address) || words.toLowerCase().split(/[ ,]+/).includes(this.text);
    });
  },

  names(proxy) {
    return this.has(proxy.name) || this.has(proxy.description) || (proxy.front?.listeners || []).some((listener) => this.has(listener));
  },

  // Kinds whose servers are not all sent: a backend has more that are down than its line shows.
  states(proxy) {
    return Object.entries(KIND_WORDS).some(([kind, words]) => proxy.count[kind] && (kind === this.text || words.split(" ").includes(this.text)));
  },

  wants(proxy) {
    if (this.problems && !proxy.level) return false;
    return !this.text || this.names(proxy) || this.states(proxy) || this.servers(proxy).length > 0;
  },
};
