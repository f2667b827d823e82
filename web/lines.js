// Lines and stacked areas: what uPlot draws of a chart's series.

import { color, faded, slots } from "./colors.js";
import { isKnown, mean } from "./statistics.js";

// With more lines than this, the range from minimum to maximum of each would hide the others.
const mostBands = 4;

// The colour of each series: the largest ones have one each, in the order of the document; the others share a grey. A series
// keeps the colour that it had before: `former` has them by name, and is brought up to date.
export function colorNames(chart, former = new Map()) {
  const size = chart.series.map(({ mean: values }) => mean(values.filter(isKnown)) ?? -Infinity);
  const largest = size.map((_, i) => i).sort((a, b) => size[b] - size[a]).slice(0, slots);
  const free = new Set(Array.from({ length: slots }, (_, slot) => `series-${slot + 1}`));
  const names = chart.series.map(() => "series-other");
  const give = (i, name) => {
    names[i] = name;
    free.delete(name);
    former.set(chart.series[i].name, name);
  };
  for (const i of largest) {
    const own = former.get(chart.series[i].name);
    if (free.has(own)) give(i, own);
  }
  for (const i of largest.sort((a, b) => a - b)) if (names[i] === "series-other") give(i, free.values().next().value);
  return names;
}

// Sums from the first series up. Where no series is known, so is the sum; a single missing one counts as zero.
export function stacked(series, shown) {
  const known = (at) => series.some((one, i) => shown[i] && isKnown(one.mean[at]));
  const sums = new Array(series[0]?.mean.length ?? 0).fill(0);
  return series.map((one, i) => one.mean.map((value, at) => {
    if (!shown[i] || !known(at)) return null;
    sums[at] += isKnown(value) ? value : 0;
    return sums[at];
  }));
}

// What is drawn: the data, uPlot's series and bands, and which of uPlot's series is which of the chart's.
export function plotted(chart, colors, shown) {
  return chart.kind === "stacked" ? areas(chart, colors, shown) : lines(chart, colors, shown);
}

function lines(chart, colors, shown) {
  const plot = { data: [chart.times], series: [{}], bands: [], index: [] };
  // Between labels of other series there is no gap.
  const spanGaps = Boolean(chart.x);
  const add = (values, options) => plot.series.push({ spanGaps, ...options }) && plot.data.push(values) - 1;
  const hasRange = (one) => Array.isArray(one.min) && Array.isArray(one.max);
  // Those in grey are drawn first, below the others.
  const order = chart.series.map((_, i) => i).sort((a, b) => Number(isGrey(colors[b])) - Number(isGrey(colors[a])));
  const isFew = shown.filter(Boolean).length <= mostBands;
  for (const i of order) {
    const one = chart.series[i];
    const name = colors[i];
    const width = isGrey(name) ? 1 : 1.5;
    const marks = one.points ? { paths: () => null, points: marked(name, 8) } : { points: chart.x ? marked(name, 6) : points(name) };
    plot.index[i] = add(one.mean, { show: shown[i], stroke: () => color(name), width, ...marks });
    if (isGrey(name) || !hasRange(one)) continue;
    const edge = { show: shown[i], points: { show: false }, width: 0, stroke: "transparent" };
    const range = [add(one.max, edge), add(one.min, edge)];
    // A point of its own has a bar, which `drawRanges` draws; the scale has to reach as far.
    if (!one.points) plot.bands.push({ series: range, fill: () => faded(name, isFew ? 0.22 : 0.09) });
  }
  return plot;
}

function areas(chart, colors, shown) {
  const sums = stacked(chart.series, shown);
  const plot = { data: [chart.times], series: [{}], bands: [], index: [] };
  // The highest sum is drawn first; each one covers what is below the next.
  for (let i = chart.series.length - 1; i >= 0; i -= 1) {
    const name = colors[i];
    const stroke = () => color(name);
    const fill = () => faded(name, 0.75);
    plot.series.push({ show: shown[i], stroke, fill, width: 1, points: { show: false }, spanGaps: false });
    plot.index[i] = plot.data.push(sums[i]) - 1;
  }
  const drawn = chart.series.map((_, i) => i).filter((i) => shown[i]).reverse();
  drawn.slice(1).forEach((below, n) => {
    const above = drawn[n];
    plot.bands.push({ series: [plot.index[above], plot.index[below]], fill: () => faded(colors[above], 0.75) });
  });
  return plot;
}

const isGrey = (name) => name === "series-other";

// Every value as a point.
function marked(name, size) {
  return { show: true, size, fill: () => color(name), stroke: () => color(name) };
}

// The ranges of points that are not joined.
export function drawRanges(u, chart, colors, shown) {
  chart.series.forEach((one, i) => {
    if (!shown[i] || !one.points || !one.min || !one.max) return;
    u.ctx.save();
    u.ctx.strokeStyle = faded(colors[i], 0.5);
    u.ctx.lineWidth = 3 * devicePixelRatio;
    one.mean.forEach((value, at) => {
      if (!isKnown(one.min[at]) || !isKnown(one.max[at])) return;
      const [x, top, bottom] = [u.valToPos(chart.times[at], "x", true), u.valToPos(one.max[at], "y", true), u.valToPos(one.min[at], "y", true)];
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
      u.ctx.beginPath();
      u.ctx.moveTo(x, top);
      u.ctx.lineTo(x, bottom);
      u.ctx.stroke();
    });
    u.ctx.restore();
  });
}

// A value between two missing ones is no line; it is drawn as a point.
function points(name) {
  return { show: false, size: 4, fill: () => color(name), stroke: () => color(name), filter: alone };
}

function alone(u, series) {
  const values = u.data[series];
  const found = [];
  values.forEach((value, i) => {
    if (isKnown(value) && !isKnown(values[i - 1]) && !isKnown(values[i + 1])) found.push(i);
  });
  return found.length > 0 ? found : null;
}
