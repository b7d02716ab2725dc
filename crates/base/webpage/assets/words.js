// How numbers are said.

function short(value) {
  if (value < 1000) return value < 10 && value % 1 ? value.toFixed(1) : String(Math.round(value));
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= unit) return `${(value / unit).toFixed(value / unit < 100 ? 1 : 0)} ${name}`;
  }
}

function bytes(value) {
  return value < 1000 ? `${short(value)} B` : `${short(value)}B`;
}

// Memory and disks are said as `maxmemory 1gb` is meant: 1024 of one are one of the next.
function room(value) {
  if (value < 1000) return `${Math.round(value)} B`;
  let at = -1;
  while (value >= 1000 && at < 4) {
    value /= 1024;
    at++;
  }
  return `${value.toFixed(value < 100 ? 1 : 0)} ${["kB", "MB", "GB", "TB", "PB"][at]}`;
}

function time(microseconds) {
  if (!microseconds && microseconds !== 0) return "–";
  if (microseconds < 100) return "< 0.1 ms";
  const ms = microseconds / 1000;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function span(seconds) {
  const [d, hours, m] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (d) return `${d}d ${hours}h`;
  if (hours) return `${hours}h ${m}m`;
  return m ? `${m}m ${seconds % 60}s` : `${seconds}s`;
}

// What is there is never said to be 0 %.
function percent(part, whole) {
  if (!part || !whole) return "0 %";
  const value = (100 * part) / whole;
  if (value >= 9.95) return `${Math.round(value)} %`;
  return value < 0.01 ? "< 0.01 %" : `${value.toFixed(value < 1 ? 2 : 1)} %`;
}

function clock(seconds, withSeconds = true) {
  const options = { hour12: false, hour: "2-digit", minute: "2-digit", ...(withSeconds ? { second: "2-digit" } : {}) };
  return new Date(seconds * 1000).toLocaleTimeString([], options);
}

const plural = (count, one, many) => `${short(count)} ${count === 1 ? one : many}`;
const sum = (values) => values.reduce((total, value) => total + value, 0);
