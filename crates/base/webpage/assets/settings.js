// What somebody chose and this browser remembers; light or dark.

const settings = {
  get: (key) => {
    try {
      return localStorage.getItem(`tidegate-${key}`);
    } catch {
      return null;
    }
  },
  set: (key, value) => {
    try {
      if (value === null) localStorage.removeItem(`tidegate-${key}`);
      else localStorage.setItem(`tidegate-${key}`, value);
    } catch {
      // A browser that keeps nothing still shows everything.
    }
  },
};

const theme = {
  system: matchMedia("(prefers-color-scheme: dark)"),
  now: () => document.documentElement.dataset.theme || (theme.system.matches ? "dark" : "light"),
  show: (own) => {
    if (own) document.documentElement.dataset.theme = own;
    else delete document.documentElement.dataset.theme;
    setText(theme.button, theme.now() === "dark" ? "Light" : "Dark");
  },
  // Whoever chooses what the system says anyway follows the system from then on.
  toggle: () => {
    const wanted = theme.now() === "dark" ? "light" : "dark";
    const own = wanted === (theme.system.matches ? "dark" : "light") ? null : wanted;
    settings.set("theme", own);
    theme.show(own);
  },
  start: (button) => {
    theme.button = button;
    button.addEventListener("click", theme.toggle);
    theme.system.addEventListener("change", () => theme.show(settings.get("theme")));
    theme.show(settings.get("theme"));
  },
};
