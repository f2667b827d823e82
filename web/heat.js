// Heat maps: a column for each time, a row for each bucket, and the darker, the more was counted there.

import { ramp } from "./colors.js";
import { quantity } from "./format.js";
import { lowerBound, median } from "./statistics.js";

const shades = 24;

// The lower and the upper edge of each row; an edge that is null is open.
export function rows({ buckets }) {
  return buckets.slice(1).map((high, row) => ({ low: buckets[row], high }));
}

export function rowInWords({ low, high }, unit) {
  if (high === null || high === undefined) return `above ${quantity(low, unit)}`;
  return low === null || low === 0 ? `up to ${quantity(high, unit)}` : `${quantity(low, unit)}–${quantity(high, unit)}`;
}

export function largestCount({ counts }) {
  return counts.reduce((most, column) => column.reduce((a, b) => Math.max(a, b ?? 0), most), 0);
}

// Where each column begins; it ends at its time. One after a gap is as wide as usual.
export function starts(times) {
  const usual = median(times.slice(1).map((at, i) => at - times[i])) ?? 1;
  return times.map((at, i) => (i > 0 && at - times[i - 1] <= 1.5 * usual ? times[i - 1] : at - usual));
}

// Draws the columns in sight. A count of zero leaves the background; the root makes rare slow requests visible beside
// many fast ones.
export function draw(u, chart) {
  const { left, top, width, height } = u.bbox;
  const begins = starts(chart.times);
  const most = largestCount(chart);
  if (most === 0) return;
  const colors = palette();
  const { min, max } = u.scales.x;
  const first = lowerBound(chart.times, min);
  const last = Math.min(chart.times.length, lowerBound(begins, max) + 1);
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  const y = (row) => Math.round(u.valToPos(row, "y", true));
  for (let i = first; i < last; i += 1) {
    const x = Math.round(u.valToPos(begins[i], "x", true));
    const wide = Math.max(1, Math.round(u.valToPos(chart.times[i], "x", true)) - x);
    chart.counts[i].forEach((count, row) => {
      if (!(count > 0)) return;
      u.ctx.fillStyle = colors[Math.min(shades - 1, Math.floor(Math.sqrt(count / most) * shades))];
      u.ctx.fillRect(x, y(row + 1), wide, y(row) - y(row + 1));
    });
  }
  u.ctx.restore();
}

export function palette() {
  return ramp(["heat-1", "heat-2", "heat-3"], shades);
}

// The upper edge of the row that contains the given part of all counts from `from` to `to`; null if nothing was counted.
export function quantile(chart, part, from, to) {
  const sums = new Array(rows(chart).length).fill(0);
  chart.times.forEach((at, i) => {
    if (at >= from && at <= to) chart.counts[i].forEach((count, row) => (sums[row] += count ?? 0));
  });
  const all = sums.reduce((a, b) => a + b, 0);
  if (all === 0) return null;
  let below = 0;
  const row = sums.findIndex((count) => (below += count) >= part * all);
  return rows(chart)[row];
}
