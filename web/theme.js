// Light or dark: as the system has it, or as chosen here.

import { element } from "./dom.js";

const key = "whyslow-theme";

// Storage may be forbidden for files.
function stored() {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function store(theme) {
  try {
    localStorage.setItem(key, theme);
  } catch {
    // The choice lasts as long as the page.
  }
}

// Paper is light, whatever the screen is. `onChange` is called when the colours of the screen change.
export function theme(onChange) {
  const root = document.documentElement;
  const apply = (chosen) => {
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
    else delete root.dataset.theme;
  };
  let chosen = stored() ?? "system";
  apply(chosen);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onChange);
  addEventListener("beforeprint", () => apply("light"));
  addEventListener("afterprint", () => {
    apply(chosen);
    onChange();
  });
  const options = [["system", "System"], ["light", "Light"], ["dark", "Dark"]].map(([value, label]) =>
    element("option", { value, selected: value === chosen }, label));
  const select = element("select", { on: { change: () => {
    chosen = select.value;
    store(chosen);
    apply(chosen);
    onChange();
  } } }, options);
  return element("label", {}, element("span", {}, "Theme"), select);
}
