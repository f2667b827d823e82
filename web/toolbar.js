// What is shown, and the buttons to change it.

import { button, element, fill } from "./dom.js";
import { quantity } from "./format.js";

const help = [
  ["Shift and drag", "compare a span with what was before"],
  ["Ctrl and wheel", "zoom at the pointer"],
  ["Double click", "show everything"],
  ["← → Page Up Page Down Home End", "on a chart: move the cursor; with Shift: mark a span"],
  ["Enter, C", "zoom to the marked span, compare it"],
  ["+ − 0", "zoom in, zoom out, show everything"],
  ["F", "pin the marked span as the first one; the next that is compared is compared with it"],
  ["Esc", "clear the mark and the comparison, then the pinned span"],
];
const modes = [["zoom", "Zoom"], ["pan", "Pan"], ["compare", "Compare"]];

export function toolbar(view, onFilter) {
  const range = element("p", { className: "range" });
  const tool = (label, sign, call) =>
    button(sign, { className: "tool", title: label, attributes: { "aria-label": label } }, call);
  const reset = button("Reset", { title: "Show the whole time" }, () => view.reset());
  const search = element("input", { type: "search", placeholder: "Filter charts and series",
    attributes: { "aria-label": "Filter charts and series" }, on: { input: () => onFilter(search.value.trim()) } });
  const choices = modes.map(([mode, label]) => element("label", {}, element("input", {
    type: "radio", name: "mode", value: mode, checked: view.mode === mode, on: { change: () => view.setMode(mode) },
  }), element("span", {}, label)));
  const update = () => {
    const { from, to } = view.range;
    fill(range, `${view.clock.span(from, to)} (${quantity(Math.max(1, Math.round(to - from)), "s")})`);
    reset.disabled = view.isWhole;
  };
  view.on("range", update);
  view.on("clock", update);
  update();
  return element("div", { className: "toolbar", attributes: { role: "toolbar", "aria-label": "Span of time" } },
    element("div", { className: "group" },
      tool("Earlier", "←", () => view.pan(-0.5)), tool("Later", "→", () => view.pan(0.5)),
      tool("Zoom in", "+", () => view.zoom(0.5)), tool("Zoom out", "−", () => view.zoom(2)), reset),
    element("fieldset", { className: "modes" }, element("legend", {}, "Drag to"), choices), range, search);
}

export function keyHelp() {
  return element("details", { className: "note keys" }, element("summary", {}, "Mouse and keys"),
    element("dl", { className: "reasons" }, help.map(([key, what]) => [element("dt", {}, key), element("dd", {}, what)])));
}
