// Elements. Text only ever becomes text nodes, never markup.

const byId = (id) => document.getElementById(id);

function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function svg(name, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// A change costs the browser work even if nothing changes, so what is as it was is left alone.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

function setHidden(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

// A state's colour and shape: good, wary, bad, idle or plain.
const mark = (kind) => h("span", { className: `mark ${kind}`, ariaHidden: "true" });

// Puts children into this order and moves only those that stand elsewhere, so that focus and scrolling stay.
function order(parent, children) {
  const focus = document.activeElement;
  let at = parent.firstElementChild;
  for (const child of children) {
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  while (at) {
    const next = at.nextElementSibling;
    at.remove();
    at = next;
  }
  if (focus !== document.activeElement && parent.contains(focus)) focus.focus({ preventScroll: true });
}
