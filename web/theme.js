// Light or dark: as the system has it, or as chosen here. The style sheet has the colours of both, and goes by `data-theme`.

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
  const isDark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = stored();
  const apply = () => {
    const ofSystem = isDark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : ofSystem;
  };
  const change = () => {
    apply();
    onChange();
  };
  const choose = (value) => {
    chosen = value;
    change();
  };
  apply();
  isDark.addEventListener("change", change);
  // Chosen in another window, or stored only after this one had asked.
  addEventListener("storage", (event) => {
    if (event.key !== key) return;
    choose(event.newValue);
    select.value = chosen ?? "system";
  });
  addEventListener("beforeprint", () => (document.documentElement.dataset.theme = "light"));
  addEventListener("afterprint", change);
  const options = [["system", "System"], ["light", "Light"], ["dark", "Dark"]].map(([value, label]) =>
    element("option", { value, selected: value === (chosen ?? "system") }, label));
  const select = element("select", { on: { change: () => {
    store(select.value);
    choose(select.value);
  } } }, options);
  return element("label", {}, element("span", {}, "Theme"), select);
}
