// Two spans of one series drawn over each other, by the time since each began.

import { color } from "./colors.js";
import { element, fill, oncePerFrame } from "./dom.js";
import { axisLabels, increments, quantity } from "./format.js";
import { summarize } from "./legend.js";
import { isKnown, lowerBound, median } from "./statistics.js";

const height = 200;
// Between the labels of the time axis, seconds.
const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const font = "11px system-ui, sans-serif";

// The values of a series in a span, with the time since it began.
export function since(times, values, { from, to }) {
  const end = lowerBound(times, to);
  const [first, last] = [lowerBound(times, from), times[end] === to ? end + 1 : end];
  return [times.slice(first, last).map((at) => at - from), values.slice(first, last)];
}

// `1:02:03`, `2:03`, or seconds where times differ by less.
export function elapsed(at, step) {
  if (step < 1) return `${at.toFixed(1)}\u00a0s`;
  const [hours, minutes, rest] = [Math.floor(at / 3600), Math.floor(at / 60) % 60, Math.round(at % 60)];
  const two = (number) => String(number).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export class Overlay {
  constructor() {
    this.plot = null;
    this.holder = element("div", { className: "overlay-plot", attributes: { "aria-hidden": "true" } });
    this.choice = element("select", { on: { change: () => {
      this.isChosen = true;
      this.#draw();
    } } });
    this.figures = element("div");
    this.element = element("div", { className: "overlay" },
      element("label", {}, element("span", {}, "Both over each other:"), this.choice), this.holder, this.figures);
    this.resize = oncePerFrame(() => this.plot && this.holder.clientWidth > 0 && this.plot.setSize({ width: this.holder.clientWidth, height }));
    new ResizeObserver(this.resize).observe(this.holder);
  }

  // `choices` are series with their charts, the ones that differ most first; one that the reader chose stays. `spans` are what is
  // drawn over each other, each with its `name`.
  show(choices, spans) {
    const key = ({ chart, series }) => `${chart.id} ${series.name}`;
    const chosen = this.choices?.[this.choice.value];
    Object.assign(this, { choices, spans });
    const kept = Math.max(0, choices.findIndex((one) => chosen && this.isChosen && key(one) === key(chosen)));
    fill(this.choice, choices.map(({ chart, series }, i) =>
      element("option", { value: String(i), selected: i === kept }, `${chart.title}: ${series.name}`)));
    this.element.hidden = choices.length === 0;
    this.#draw();
  }

  // Shows another series.
  choose(chart, series) {
    const at = this.choices.findIndex((one) => one.chart === chart && one.series === series);
    if (at < 0) return;
    this.isChosen = true;
    this.choice.value = String(at);
    this.#draw();
  }

  recolor() {
    this.plot?.redraw();
  }

  #draw() {
    const chosen = this.choices[this.choice.value];
    this.plot?.destroy();
    this.plot = null;
    fill(this.holder);
    fill(this.figures);
    if (!chosen) return;
    const { chart, series } = chosen;
    const parts = this.spans.map((span) => since(chart.times, series.mean, span));
    const colors = ["series-8", "series-1"];
    fill(this.figures, this.#table(chart, series, parts, colors));
    const axis = { stroke: () => color("muted"), grid: { stroke: () => color("grid"), width: 1 }, ticks: { show: false }, font };
    // Where only one of them has a sample, the other's line goes on; a value that is missing stays a gap.
    const data = parts.every(([at]) => at.length === 0) ? [[], [], []] : uPlot.join(parts);
    const range = (u, low, high) => {
      if (low === null || high === null) return [0, 1];
      const top = Math.max(high, 0) * 1.06;
      return [Math.min(low, 0), top > Math.min(low, 0) ? top : 1];
    };
    this.plot = new uPlot({
      width: this.holder.clientWidth || 600, height, legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false }, y: { range } },
      axes: [{ ...axis, size: 30, gap: 9, space: 68, incrs: steps, values: (u, splits, axis, space, step) => splits.map((at) => elapsed(at, step)) },
        { ...axis, size: 72, gap: 8, incrs: increments(chart.unit), values: (u, splits) => axisLabels(splits, chart.unit) }],
      series: [{}, ...colors.map((name) => ({ stroke: () => color(name), width: 1.6, spanGaps: false, points: { show: false } }))],
    }, data, this.holder);
  }

  // The same in numbers.
  #table(chart, series, parts, colors) {
    const rows = this.spans.map((span, i) => {
      const [first, end] = [lowerBound(chart.times, span.from), lowerBound(chart.times, span.to)];
      const last = chart.times[end] === span.to ? end : end - 1;
      const { mean, lowest, highest } = summarize(series, first, last);
      const values = [median(parts[i][1].filter(isKnown)), mean, lowest, highest];
      return element("tr", {}, element("th", { scope: "row" }, element("span", { className: "swatch", style: { background: `var(--${colors[i]})` } }), ` ${span.name}`),
        values.map((value) => element("td", { className: "number" }, quantity(value, chart.unit))));
    });
    return element("table", { className: "overlay-figures" }, element("caption", { className: "unseen" }, `${chart.title}: ${series.name}, in both spans`),
      element("thead", {}, element("tr", {}, ["Span", "Median", "Mean", "Lowest", "Highest"].map((text, i) =>
        element("th", { scope: "col", className: i > 0 ? "number" : "" }, text)))), element("tbody", {}, rows));
  }
}
