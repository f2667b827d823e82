// A chart: heading, plot, summary in words, legend and data as a table.

import { color, faded } from "./colors.js";
import { element, fill, oncePerFrame } from "./dom.js";
import { axisLabels, increments, quantity } from "./format.js";
import { drags, keys } from "./gestures.js";
import { draw as drawHeat, largestCount, palette, quantile, rowInWords, rows as heatRows } from "./heat.js";
import { Legend, summarize } from "./legend.js";
import { colorNames, drawRanges, plotted, stacked } from "./lines.js";
import { lowerBound, nearest } from "./statistics.js";
import { dataTable } from "./table.js";

const height = 190;
// Between the labels of the time axis, seconds.
const steps = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 604800, 2592000,
];
const font = "11px system-ui, sans-serif";
// The width of a character of it, with a margin between labels.
const letter = 7.5;

export class Chart {
  // `reference` gives the span that the selection is compared with.
  constructor(chart, view, reference) {
    Object.assign(this, { base: chart, chart, view, reference, plot: null, emphasized: null, text: "" });
    Object.assign(this, { isNear: false, isStale: true, isGrown: false, isUnderPointer: false });
    this.former = new Map();
    this.hidden = new Set();
    this.#adopt();
    const id = chart.anchor;
    this.holder = element("div", { className: "plot", tabIndex: 0, attributes: {
      role: "application", "aria-roledescription": "chart", "aria-label": chart.title,
      "aria-describedby": `${id}-summary`,
    } });
    this.summary = element("p", { className: "summary", id: `${id}-summary` });
    this.legend = this.isHeat ? null : new Legend(chart, this.colors, {
      toggle: (i) => this.#toggle(i),
      focus: (i) => this.#focus(i),
    });
    this.scale = this.isHeat ? element("div", { className: "scale" }) : null;
    this.leftOut = element("p", { className: "summary" });
    this.element = element("figure", { className: "chart", id, tabIndex: -1 },
      element("figcaption", {}, element("h4", {}, chart.title), chart.help ? element("p", {}, chart.help) : null),
      this.holder, this.summary, this.scale, this.legend?.element, this.leftOut, this.#data());
    this.#countLeftOut();
    this.refresh = oncePerFrame(() => this.#refresh());
    keys(this.holder, () => this.chart.times, view, (at) => this.#readout(at));
    view.on("range", this.refresh);
    view.on("clock", this.refresh);
    view.on("selection", () => this.plot?.redraw(false));
    view.on("cursor", () => this.#follow());
    this.holder.addEventListener("pointerenter", () => {
      this.isUnderPointer = true;
      this.emphasized = null;
    });
    this.holder.addEventListener("pointerleave", () => {
      this.isUnderPointer = false;
      view.point(null);
    });
    this.observer = new ResizeObserver(() => this.#resize());
    this.observer.observe(this.holder);
  }

  get isHeat() {
    return this.chart.kind === "heat";
  }

  // Shows other data of the same chart, or with null its own again.
  show(chart) {
    if (this.chart === (chart ?? this.base)) return;
    this.chart = chart ?? this.base;
    this.changed();
  }

  // The data that is shown has changed.
  changed() {
    if (this.shape === shapeOf(this.chart)) {
      this.isGrown = true;
      this.legend?.outdate();
    } else {
      this.#adopt();
      this.legend?.adopt(this.chart, this.colors);
      this.#discard();
    }
    this.#countLeftOut();
    this.refresh();
  }

  // What follows from the names of the series.
  #adopt() {
    const { chart } = this;
    this.shape = shapeOf(chart);
    this.colors = colorNames(chart, this.former);
    this.#choose();
  }

  #choose() {
    this.shown = this.chart.series.map(({ name }) => !this.hidden.has(name) && contains(name, this.text));
  }

  // It is not shown any more.
  dispose() {
    this.observer.disconnect();
    this.isNear = false;
    this.#discard();
  }

  // Charts far from sight are neither made nor kept up to date.
  near(isNear) {
    this.isNear = isNear;
    if (isNear && this.isStale) this.refresh();
  }

  // Makes it anew in the colours of the theme.
  recolor() {
    this.#discard();
    this.refresh();
  }

  // The same at once, whether it is in sight or not: a printer does not wait for the next frame.
  redraw() {
    this.#discard();
    this.isNear = true;
    this.#refresh();
  }

  #discard() {
    this.plot?.destroy();
    this.plot = null;
  }

  // Lists and draws the series whose names contain a text.
  filter(text) {
    if (this.isHeat) return;
    this.text = text;
    this.hidden.clear();
    this.legend.filter(text);
    this.#show();
  }

  hasSeries(text) {
    return this.chart.series.some((series) => contains(series.name, text));
  }

  // Whether its title, its id or one of its series contains a text.
  matches(text) {
    return contains(this.chart.title, text) || contains(this.chart.id, text) || this.hasSeries(text);
  }

  #refresh() {
    this.isStale = !this.isNear;
    if (this.isStale) return;
    if (this.plot === null) this.#make();
    else if (this.isGrown) this.plot.setData(this.#parts().data, false);
    if (this.isGrown && this.isHeat) this.#drawScale();
    this.isGrown = false;
    if (this.emphasized) this.#focus(this.chart.series.findIndex(this.emphasized));
    const { from, to } = this.view.range;
    this.plot.setScale("x", { min: from, max: to });
    // After uPlot has applied the scale, which it does in a microtask of its own.
    queueMicrotask(() => this.#follow());
    this.legend?.update(this.view, this.shown);
    this.#summarize();
    if (this.table?.open) this.#tabulate();
  }

  // What uPlot draws.
  #parts() {
    const { chart } = this;
    if (!this.isHeat) return plotted(chart, this.colors, this.shown);
    const none = chart.times.map(() => null);
    return { data: [chart.times, none], series: [{}, { paths: () => null, points: { show: false } }], bands: [] };
  }

  #make() {
    const { kind } = this.chart;
    const parts = this.#parts();
    this.index = parts.index;
    fill(this.holder);
    this.plot = new uPlot({
      width: this.holder.clientWidth, height, legend: { show: false }, series: parts.series, bands: parts.bands, padding: [null, this.#lastLabel(), null, null],
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), this.view.clock.zone ?? undefined),
      scales: { x: { time: !this.chart.x, auto: false, range: () => [this.view.range.from, this.view.range.to] }, y: this.#yScale() },
      axes: [this.#xAxis(), this.#yAxis()],
      cursor: {
        // Near a line, and not near the edge of a band, the others fade.
        focus: { prox: this.isHeat ? -1 : 24, dist: (u, i, at, y, pointer) => (this.index.includes(i) ? y - pointer : Infinity) },
        y: false, drag: { x: false, y: false },
        points: { size: 7, show: (u, i) => (this.index?.includes(i) && kind === "lines" ? element("div") : null) },
        bind: Object.fromEntries(["mousedown", "mouseup", "click", "dblclick"].map((name) => [name, () => null])),
      },
      focus: { alpha: 0.25 },
      hooks: {
        // Below lines, but above the cells of a heat map.
        drawClear: [(u) => this.isHeat || this.#drawSelection(u)],
        draw: [(u) => {
          if (!this.isHeat) {
            drawRanges(u, this.chart, this.colors, this.shown);
            return;
          }
          drawHeat(u, this.chart);
          this.#drawSelection(u);
        }],
        // uPlot also calls this when it draws anew, with the former position.
        setCursor: [(u) => this.isUnderPointer && u.cursor.left >= 0 && this.view.point(u.posToVal(u.cursor.left, "x"))],
      },
    }, parts.data, this.holder);
    this.plot.root.querySelector("canvas").setAttribute("aria-hidden", "true");
    drags(this.plot.over, { value: (x) => this.plot.posToVal(x, "x"), brush: (span, mode) => this.#brush(span, mode) }, this.view);
    if (this.isHeat) this.#drawScale();
  }

  #brush({ left, width }, mode) {
    this.plot.root.classList.toggle("comparing", mode === "compare");
    this.plot.setSelect({ left, width, top: 0, height: this.plot.over.clientHeight }, false);
  }

  #xAxis() {
    const { view } = this;
    const labels = this.chart.x ? { splits: (u) => this.#placesInSight(u) } : {};
    return {
      ...labels,
      stroke: () => color("muted"), grid: { stroke: () => color("grid"), width: 1 }, ticks: { show: false }, font, size: 30, gap: 9,
      space: 68, incrs: steps, values: (u, splits, axis, space, step) => view.clock.axis(splits, step),
    };
  }

  // Room for half of the last label, which would be cut off; null for as much as times need.
  #lastLabel() {
    const last = this.chart.x?.labels.at(-1);
    return last ? (last.length * letter) / 2 : null;
  }

  // The places whose labels do not overlap the one before.
  #placesInSight(u) {
    let end = -Infinity;
    const wide = (label) => label.length * letter;
    return this.chart.times.filter((at, i) => {
      const { from, to } = this.view.range;
      if (at < from || at > to) return false;
      const [middle, half] = [((at - from) / (to - from)) * (u.bbox.width / devicePixelRatio), wide(this.chart.x.labels[i] ?? "") / 2];
      if (middle - half < end) return false;
      end = middle + half;
      return true;
    });
  }

  #yAxis() {
    const { unit } = this.chart;
    const usual = {
      stroke: () => color("muted"), grid: { stroke: () => color("grid"), width: 1 }, ticks: { show: false }, font,
      size: 72, space: 34, gap: 8,
    };
    if (!this.isHeat) return { ...usual, incrs: increments(unit), values: (u, splits) => axisLabels(splits, unit) };
    const rows = heatRows(this.chart);
    // Labels of the edges, as many as fit.
    const every = Math.ceil(rows.length / 6);
    const splits = rows.map((_, row) => row).filter((row) => row % every === 0);
    return { ...usual, splits: () => splits, grid: { show: false },
      values: () => splits.map((row) => (rows[row].low === null ? "" : quantity(rows[row].low, unit))) };
  }

  #yScale() {
    if (this.isHeat) return { auto: false, range: () => [0, heatRows(this.chart).length] };
    return { range: (u, low, high) => {
      if (low === null || high === null) return [0, 1];
      const top = Math.max(high, 0) * 1.06;
      return [Math.min(low, 0), top > Math.min(low, 0) ? top : 1];
    } };
  }

  #drawSelection(u) {
    const { selection, pinned } = this.view;
    if (selection === null && pinned === null) return;
    const band = ({ from, to }, style) => {
      const [left, right] = [from, to].map((at) => u.valToPos(at, "x", true));
      const { bbox } = u;
      const start = Math.max(left, bbox.left);
      const end = Math.min(right, bbox.left + bbox.width);
      if (end <= start) return;
      u.ctx.fillStyle = style;
      u.ctx.fillRect(start, bbox.top, end - start, bbox.height);
    };
    // In the colours of what is drawn over each other.
    band(pinned ?? this.reference(selection), faded("series-8", 0.16));
    if (selection !== null) band(selection, faded("accent", 0.2));
  }

  // Takes the cursor to where it is in another chart. So far above the plot it is near no line.
  #follow() {
    if (!this.isNear || this.plot === null) return;
    const { cursor } = this.view;
    const isOwn = cursor !== null && this.plot.cursor.left >= 0
      && Math.abs(this.plot.posToVal(this.plot.cursor.left, "x") - cursor) < 1e-6;
    if (!isOwn) {
      const left = cursor === null ? -10 : this.plot.valToPos(cursor, "x");
      const isOutside = left < 0 || left > this.plot.over.clientWidth;
      this.plot.setCursor(isOutside ? { left: -10, top: -10 } : { left, top: -1000 }, false);
    }
    this.legend?.update(this.view, this.shown);
    if (this.isHeat) this.#summarize();
  }

  #resize() {
    if (this.plot && this.holder.clientWidth > 0) this.plot.setSize({ width: this.holder.clientWidth, height });
  }

  #toggle(index) {
    const { name } = this.chart.series[index];
    if (this.shown[index]) this.hidden.add(name);
    else this.hidden.delete(name);
    this.#show();
  }

  #show() {
    this.#choose();
    this.#discard();
    this.refresh();
  }

  // A series stands out, or with null none.
  #focus(index) {
    if (!this.plot || this.isHeat || this.chart.kind === "stacked" || index === -1) return;
    this.plot.setSeries(index === null ? null : this.index[index], { focus: true }, false);
  }

  // Lets the first series that is wanted stand out, until the pointer is on the chart.
  emphasize(isWanted) {
    this.emphasized = isWanted;
    this.refresh();
  }

  #readout(at) {
    const { times, series, unit } = this.chart;
    const index = nearest(times, at);
    if (this.isHeat) return `${this.view.clock.time(at)}: ${this.#column(index)}.`;
    const shown = series.filter((_, i) => this.shown[i]);
    const values = shown.slice(0, 5).map((one) => `${one.name} ${quantity(one.mean[index], unit)}`);
    const rest = shown.length > 5 ? `, and ${shown.length - 5} more` : "";
    return `${this.view.clock.time(times[index])}: ${values.join(", ")}${rest}.`;
  }

  // What was counted at one time.
  #column(index) {
    const { counts, unit } = this.chart;
    const rows = heatRows(this.chart);
    const counted = rows.map((row, i) => [row, counts[index]?.[i] ?? 0]).filter(([, count]) => count > 0);
    if (counted.length === 0) return "nothing counted";
    return counted.map(([row, count]) => `${rowInWords(row, unit)} ${quantity(count, "count")}`).join(", ");
  }

  // What the picture shows, in a sentence.
  #summarize() {
    const { chart, view } = this;
    const { from, to } = view.range;
    if (this.isHeat && view.cursor !== null) {
      const index = nearest(chart.times, view.cursor);
      fill(this.summary, index < 0 ? "" : `${view.clock.time(chart.times[index])}: ${this.#column(index)}`);
      return;
    }
    fill(this.summary, this.isHeat ? this.#spread(from, to) : this.#highest(from, to));
  }

  #spread(from, to) {
    const [half, most] = [0.5, 0.99].map((part) => quantile(this.chart, part, from, to));
    if (half === null) return "Nothing was counted in this span.";
    const bound = (row) => (row.high === null ? `above ${quantity(row.low, this.chart.unit)}` : `up to ${quantity(row.high, this.chart.unit)}`);
    return `Half of all: ${bound(half)}; 99\u00a0%: ${bound(most)}.`;
  }

  #highest(from, to) {
    const { times, series, unit } = this.chart;
    const [first, end] = [lowerBound(times, from), lowerBound(times, to)];
    const last = times[end] === to ? end : end - 1;
    let best = null;
    if (this.chart.kind === "stacked") return this.#highestSum(first, last);
    series.forEach((one, i) => {
      const { highest } = summarize(one, first, last);
      if (this.shown[i] && highest !== null && (best === null || highest > best.highest)) best = { one, highest };
    });
    if (best === null) return "No data in this span.";
    const values = best.one.max ?? best.one.mean;
    const at = values.indexOf(best.highest, first);
    const when = `at ${this.view.clock.time(times[at])}`;
    const what = series.length > 1 ? `${best.one.name}, ` : "";
    return `Highest: ${what}${quantity(best.highest, unit)} ${when}.`;
  }

  #highestSum(first, last) {
    const { times, series, unit } = this.chart;
    const top = this.shown.lastIndexOf(true);
    const sums = top < 0 ? [] : stacked(series, this.shown)[top];
    const { highest } = summarize({ mean: sums }, first, last);
    if (highest === null) return "No data in this span.";
    return `Highest sum: ${quantity(highest, unit)} at ${this.view.clock.time(times[sums.indexOf(highest, first)])}.`;
  }

  #drawScale() {
    const colors = palette();
    const bar = element("span", { className: "ramp", style: { background: `linear-gradient(to right, ${colors.join(",")})` } });
    const most = quantity(largestCount(this.chart), "count");
    fill(this.scale, element("span", {}, "Count: 1"), bar, element("span", {}, most));
  }

  #countLeftOut() {
    const count = this.chart.left_out ?? 0;
    this.leftOut.hidden = count === 0;
    fill(this.leftOut, count === 1 ? "1 more is left out: the one with the smallest mean." : `${count} more are left out: those with the smallest means.`);
  }

  #data() {
    const body = element("div");
    this.tabulated = body;
    this.table = element("details", { className: "data", on: { toggle: () => this.table.open && this.#tabulate() } },
      element("summary", {}, "Data as a table"), body);
    return this.table;
  }

  #tabulate() {
    fill(this.tabulated, dataTable(this.chart, this.view, this.shown));
  }
}

// As long as this is the same, new data fits into the same plot.
function shapeOf({ series, buckets = [] }) {
  return JSON.stringify([series.map(({ name, min }) => [name, min ? 1 : 0]), buckets]);
}

const contains = (name, text) => name.toLowerCase().includes(text.toLowerCase());
