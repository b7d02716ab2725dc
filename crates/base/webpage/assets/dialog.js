// Dialogs: the browser's own, so that Escape closes them and the focus stays inside.

function dialog(id, title, ...children) {
  const close = h("button", { type: "button", className: "close", onclick: () => element.close() }, "Close");
  const element = h("dialog", { id, className: "dialog" }, h("header", {}, h("h2", {}, title), close), ...children);
  element.addEventListener("click", (event) => event.target === element && element.close());
  element.addEventListener("close", () => element.remove());
  byId(id)?.remove();
  document.body.append(element);
  element.showModal();
  return element;
}

// Asks before something that cannot be taken back.
function confirmFirst(title, text, yes, act) {
  const go = h("button", { type: "button", className: "grave", value: "yes" }, yes);
  const no = h("button", { type: "button", value: "no", autofocus: true }, "Cancel");
  const box = dialog("confirm", title, h("p", {}, text), h("div", { className: "choices" }, no, go));
  no.addEventListener("click", () => box.close());
  go.addEventListener("click", () => {
    box.close();
    act();
  });
  no.focus();
}
