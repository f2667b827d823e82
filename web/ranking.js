// What is different in the selected span from before: a table, the largest difference first.

import { sparkline } from "./finding.js";
import { announce, button, element, fill, link } from "./dom.js";
import { differences } from "./differences.js";
import { quantity } from "./format.js";

// Further ones are listed at a click.
const listed = 12;

export class Ranking {
  constructor(charts, view, reference, open) {
    Object.assign(this, { charts, view, reference, open });
    this.element = element("section", { id: "differences", hidden: true, attributes: { "aria-labelledby": "differences-heading" } });
    view.on("selection", () => this.#update(false));
    view.on("clock", () => this.#update(false));
  }

  #update(isLong) {
    const { selection, clock } = this.view;
    this.element.hidden = selection === null;
    if (selection === null) return;
    const other = this.reference(selection);
    const { found, examined } = differences(this.charts, selection, other);
    const shown = isLong ? found : found.slice(0, listed);
    const where = other.isBefore ? "before" : "after";
    const result = examined === 0
      ? "Too few samples to compare: select a longer span, or one that begins later."
      : found.length === 0
        ? `None of ${examined} series differs clearly from ${where}.`
        : `${found.length} of ${examined} series differ clearly from ${where}.`;
    fill(this.element,
      element("h3", { id: "differences-heading" }, `What is different from ${where}`),
      element("p", {}, `${clock.span(selection.from, selection.to)}, compared with ${clock.time(other.from)}–${clock.time(other.to)}. ${result}`),
      found.length > 0 ? this.#table(shown, where) : null,
      element("div", { className: "buttons" },
        found.length > shown.length ? button(`Show all ${found.length}`, {}, () => this.#showAll()) : null,
        button("Zoom to the span", {}, () => this.view.show(selection.from, selection.to)),
        button("Clear", {}, () => this.view.deselect())));
    announce(result);
  }

  #showAll() {
    this.#update(true);
    // The button is gone.
    this.element.querySelector(".scroller").focus();
  }

  #table(found, where) {
    const most = found[0].score;
    const rows = found.map(({ chart, series, before, now, score }) => element("tr", {},
      element("th", { scope: "row" }, link(chart.anchor, { on: { click: () => this.open(chart, (one) => one === series) } },
        `${chart.title}: ${series.name}`)),
      element("td", {}, sparkline(chart.times, series.mean)),
      element("td", { className: "number" }, quantity(before, chart.unit)),
      element("td", { className: "number" }, quantity(now, chart.unit)),
      element("td", { className: "number" }, change(before, now)),
      element("td", { className: "number" }, element("span", { className: "meter" },
        element("span", { style: { width: `${(score / most) * 100}%` } })), element("span", {}, score >= 100 ? "> 100" : score.toFixed(1)))));
    const headings = ["Series", "Over time", where === "before" ? "Before" : "After", "In the span", "Change", "Times its spread"];
    return element("div", { className: "scroller", tabIndex: 0, attributes: { role: "group", "aria-label": "Series that differ" } },
      element("table", {}, element("thead", {}, element("tr", {},
        headings.map((heading) => element("th", { scope: "col" }, heading)))), element("tbody", {}, rows)));
  }
}

// How many times as much.
function change(before, now) {
  if (before === 0 || before * now < 0) return now > before ? "up" : "down";
  const factor = now / before;
  return factor >= 0.1 ? `×\u00a0${factor >= 9.95 ? factor.toFixed(0) : factor.toFixed(2)}` : `÷\u00a0${(1 / factor).toFixed(0)}`;
}
