// The legend of a chart is a table: what each series is, at the cursor and in the span that is shown. Its buttons show and hide
// series.

import { arrange, element, fill } from "./dom.js";
import { quantity } from "./format.js";
import { isKnown, lowerBound, mean, nearest } from "./statistics.js";

// Further series are listed at a click.
const listed = 8;

export class Legend {
  constructor(chart, colors, on) {
    this.chart = chart;
    this.on = on;
    this.isLong = false;
    this.text = "";
    this.rows = [];
    this.time = element("th", { scope: "col", className: "number" });
    const heading = (text) => element("th", { scope: "col", className: "number" }, text);
    // A mean over sizes or depths says nothing.
    const head = element("tr", {}, element("th", { scope: "col" }, "Series"), this.time,
      chart.x ? null : heading("Mean"), heading("Lowest"), heading("Highest"));
    this.body = element("tbody");
    this.more = element("button", { type: "button", className: "quiet", on: { click: () => this.#lengthen() } });
    const table = element("table", { className: "legend" },
      element("caption", { className: "unseen" }, `Series of ${chart.title}`), element("thead", {}, head), this.body);
    const scroller = element("div", { className: "scroller", tabIndex: 0, attributes: {
      role: "group", "aria-label": `Series of ${chart.title}`,
    } }, table);
    this.element = element("div", {}, scroller, this.more);
    this.adopt(chart, colors);
  }

  // Lists the series of a chart anew; those of a known name keep their rows.
  adopt(chart, colors) {
    const former = [...this.rows];
    this.chart = chart;
    this.rows = chart.series.map((series, i) => {
      const known = former.findIndex((row) => row.name === series.name);
      const row = known < 0 ? new Row(series.name, this.on, !chart.x) : former.splice(known, 1)[0];
      row.place(i, colors[i]);
      return row;
    });
    // Coloured ones first: these are the largest.
    const isGrey = (i) => Number(colors[i] === "series-other");
    this.order = chart.series.map((_, i) => i).sort((a, b) => isGrey(a) - isGrey(b) || a - b);
    this.filter(this.text);
  }

  // The values of the span have changed.
  outdate() {
    for (const row of this.rows) row.span = "";
  }

  #lengthen() {
    this.isLong = !this.isLong;
    this.#list();
  }

  // Lists the series whose names contain a text.
  filter(text) {
    this.text = text;
    const wanted = text.toLowerCase();
    this.matching = this.order.filter((i) => this.chart.series[i].name.toLowerCase().includes(wanted));
    this.#list();
  }

  #list() {
    const rows = this.isLong ? this.matching : this.matching.slice(0, listed);
    arrange(this.body, rows.map((i) => this.rows[i].element));
    const hidden = this.matching.length - listed;
    this.more.hidden = hidden <= 0;
    fill(this.more, this.isLong ? "Fewer" : `${hidden} more`);
  }

  // Writes the values at the cursor (or the last ones) and those of the span that is shown.
  update(view, shown) {
    const { times, unit } = this.chart;
    const { from, to } = view.range;
    const [first, end] = [lowerBound(times, from), lowerBound(times, to)];
    const last = times[end] === to ? end : end - 1;
    const at = view.cursor === null ? last : nearest(times, view.cursor);
    const step = times.length > 1 ? times[1] - times[0] : 1;
    const isLast = view.cursor === null && !this.chart.x;
    fill(this.time, isLast || at < 0 ? "Last" : view.clock.moment(times[at], step));
    this.rows.forEach((row, i) => row.update(this.chart.series[i], { first, last, at, unit, isShown: shown[i] }));
  }
}

class Row {
  constructor(name, on, hasMean) {
    this.hasMean = hasMean;
    this.name = name;
    this.swatch = element("span", { className: "swatch" });
    this.button = element("button", { type: "button", attributes: { "aria-pressed": "true" }, on: {
      click: () => on.toggle(this.index),
    } }, this.swatch, element("span", { className: "name", title: name }, name));
    this.numbers = Array.from({ length: hasMean ? 4 : 3 }, () => element("td", { className: "number" }));
    this.element = element("tr", { on: {
      mouseenter: () => on.focus(this.index),
      mouseleave: () => on.focus(null),
      focusin: () => on.focus(this.index),
      focusout: () => on.focus(null),
    } }, element("th", { scope: "row" }, this.button), this.numbers);
    this.span = "";
  }

  place(index, color) {
    this.index = index;
    this.swatch.style.setProperty("background", `var(--${color})`);
    this.span = "";
  }

  update(series, { first, last, at, unit, isShown }) {
    this.button.setAttribute("aria-pressed", String(isShown));
    const [here, ...others] = this.numbers;
    here.textContent = quantity(series.mean[at], unit);
    const span = `${first} ${last}`;
    if (this.span === span) return;
    this.span = span;
    const figures = summarize(series, first, last);
    [...(this.hasMean ? [figures.mean] : []), figures.lowest, figures.highest].forEach((n, i) => (others[i].textContent = quantity(n, unit)));
  }
}

// The mean of the means, and the extremes of all that was measured, from one index to another, both included.
export function summarize(series, first, last) {
  const part = (values) => (values ?? series.mean).slice(first, last + 1).filter(isKnown);
  const extreme = (values, better) => values.reduce((best, value) => (best === null || better(value, best) ? value : best), null);
  return {
    mean: mean(part(series.mean)),
    lowest: extreme(part(series.min), (a, b) => a < b),
    highest: extreme(part(series.max), (a, b) => a > b),
  };
}
