// The points of one object, step by step, in columns of the same length; and the time that all tracks share.

const timeline = {
  // Seconds that are shown, seconds of a step, and when the last step ended (seconds since the epoch).
  window: 60,
  step: 1,
  end: 0,
  get slots() {
    return this.window / this.step;
  },
  // When the step in a slot ended; slot 0 is the oldest.
  at(slot) {
    return this.end - (this.slots - 1 - slot) * this.step;
  },
};

class Track {
  constructor() {
    this.clear();
  }

  clear() {
    this.columns = {};
    this.length = 0;
    this.version = (this.version || 0) + 1;
  }

  // Adds `points.n` steps. A column that is not there is zero.
  add(points) {
    if (!points || !points.n) return;
    for (const [name, values] of Object.entries(points)) {
      if (name !== "n" && !this.columns[name]) this.columns[name] = new Array(this.length).fill(0);
    }
    for (const [name, column] of Object.entries(this.columns)) {
      column.push(...(points[name] || new Array(points.n).fill(0)));
      column.splice(0, Math.max(0, column.length - timeline.slots));
    }
    this.length = Math.min(timeline.slots, this.length + points.n);
    this.version++;
  }

  // The value in a slot of the timeline; `undefined` where nothing is known yet.
  value(name, slot) {
    const index = this.length - timeline.slots + slot;
    if (index < 0 || index >= this.length) return undefined;
    return this.columns[name] ? this.columns[name][index] : 0;
  }

  // The same for each second of the step.
  rate(name, slot) {
    const value = this.value(name, slot);
    return value === undefined ? undefined : value / timeline.step;
  }

  // Greatest sum of these columns in a step.
  peak(names) {
    let most = 0;
    for (let index = 0; index < this.length; index++) {
      let value = 0;
      for (const name of names) value += this.columns[name]?.[index] || 0;
      if (value > most) most = value;
    }
    return most;
  }

  // The sum of a column over what is shown.
  sum(name) {
    return sum(this.columns[name] || []);
  }
}
