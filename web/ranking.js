// What is different in the selected span from before, or from a span that is pinned: a table, the largest difference first, and the
// two spans of a series over each other.

import { sparkline } from "./finding.js";
import { announce, button, element, fill, link } from "./dom.js";
import { differences } from "./differences.js";
import { quantity } from "./format.js";
import { Overlay } from "./overlay.js";

// Further ones are listed at a click.
const listed = 12;

export class Ranking {
  #isLong = false;

  // `charts` gives the charts as they are drawn, `isLoading` whether there will be more.
  constructor({ charts, view, reference, open, isLoading }) {
    Object.assign(this, { charts, view, reference, open, isLoading });
    this.overlay = new Overlay();
    this.before = element("div");
    this.after = element("div", { className: "buttons" });
    this.element = element("section", { id: "differences", hidden: true, attributes: { "aria-labelledby": "differences-heading" } },
      this.before, this.overlay.element, this.after);
    view.on("selection", () => this.#update(false));
    view.on("clock", () => this.#update(false));
  }

  recolor() {
    this.overlay.recolor();
  }

  // There are more charts.
  refresh() {
    if (this.view.selection !== null) this.#update(this.#isLong);
  }

  #update(isLong) {
    this.#isLong = isLong;
    const { selection, pinned } = this.view;
    this.element.hidden = selection === null && pinned === null;
    if (selection !== null) this.#compare(isLong);
    else if (pinned !== null) this.#await();
  }

  // One span is pinned, and the other one is to be chosen.
  #await() {
    const { pinned, clock } = this.view;
    const text = `${clock.span(pinned.from, pinned.to)} is pinned. Drag over another span with Shift, or in the mode 'Compare', to compare it with this one.`;
    fill(this.before, element("h3", { id: "differences-heading" }, "Compare two spans"), element("p", {}, text));
    this.overlay.element.hidden = true;
    fill(this.after, button("Unpin", {}, () => this.view.pin(null)));
    announce(text);
  }

  #compare(isLong) {
    const { view } = this;
    const { selection, clock } = view;
    const other = this.reference(selection);
    const { found, examined } = differences(this.charts(), selection, other);
    const shown = isLong ? found : found.slice(0, listed);
    const where = other.isPinned ? "the pinned span" : other.isBefore ? "before" : "after";
    const result = examined === 0
      ? other.isPinned ? "Too few samples to compare: select longer spans that do not overlap." : "Too few samples to compare: select a longer span, or one that begins later."
      : found.length === 0
        ? `None of ${examined} series differs clearly from ${where}.`
        : `${found.length} of ${examined} series differ clearly from ${where}.`;
    const isLoading = this.isLoading();
    const period = other.isPinned ? clock.span(other.from, other.to) : `${clock.time(other.from)}–${clock.time(other.to)}`;
    fill(this.before,
      element("h3", { id: "differences-heading" }, `What is different from ${where}`),
      element("p", {}, `${clock.span(selection.from, selection.to)}, compared with ${period}. ${isLoading ? `${result} More series are being loaded…` : result}`),
      found.length > 0 ? this.#table(shown, other) : null);
    this.#overlay(found, selection, other);
    fill(this.after,
      found.length > shown.length ? button(`Show all ${found.length}`, {}, () => this.#showAll()) : null,
      button("Zoom to the span", {}, () => view.show(selection.from, selection.to)),
      other.isPinned
        ? [button("Swap", { title: "Compare the other way round" }, () => this.#swap(selection, other)), button("Unpin", {}, () => view.pin(null))]
        : button("Pin", { title: "Keep this span, to compare another one with it" }, () => view.pin({ ...selection })),
      button("Clear", {}, () => view.deselect()));
    if (!isLoading) announce(result);
  }

  // What was selected is pinned, and the other way round.
  #swap(selection, other) {
    this.view.pin({ ...selection });
    this.view.select(other.from, other.to);
    this.element.querySelector(".buttons button").focus();
  }

  #showAll() {
    this.#update(true);
    // The button is gone.
    this.element.querySelector(".scroller").focus();
  }

  // Those that differ come first, then all others.
  #overlay(found, selection, other) {
    const all = this.charts().filter((chart) => chart.kind !== "heat" && !chart.x)
      .flatMap((chart) => chart.series.map((series) => ({ chart, series })));
    const differing = new Set(found.map(({ series }) => series));
    const { clock } = this.view;
    const name = ({ from, to }) => `${clock.time(from)}–${clock.time(to)}`;
    this.overlay.show([...found, ...all.filter(({ series }) => !differing.has(series))],
      [{ ...other, name: name(other) }, { ...selection, name: name(selection) }]);
  }

  #table(found, other) {
    const most = found[0].score;
    const rows = found.map(({ chart, series, before, now, score }) => element("tr", {},
      element("th", { scope: "row" }, link(chart.anchor, { on: { click: () => this.open(chart, (one) => one === series) } },
        `${chart.title}: ${series.name}`)),
      element("td", {}, element("button", { type: "button", className: "quiet course", title: "Draw both spans over each other",
        attributes: { "aria-label": `Draw both spans of ${chart.title}: ${series.name}` }, on: { click: () => this.overlay.choose(chart, series) } },
      sparkline(chart.times, series.mean))),
      element("td", { className: "number" }, quantity(before, chart.unit)),
      element("td", { className: "number" }, quantity(now, chart.unit)),
      element("td", { className: "number" }, change(before, now)),
      element("td", { className: "number" }, element("span", { className: "meter" },
        element("span", { style: { width: `${(score / most) * 100}%` } })), element("span", {}, score >= 100 ? "> 100" : score.toFixed(1)))));
    const headings = ["Series", "Over time", other.isPinned ? "Pinned span" : other.isBefore ? "Before" : "After", "In the span", "Change", "Times its spread"];
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
