// What is different in a span of time from before: series ranked by the difference of their medians over their spread.

import { isKnown, median, spread, within } from "./statistics.js";

// With fewer values than this on either side a median says little.
const fewest = 3;
// A smaller difference, in units of the spread, is noise; of few values the spread is uncertain. Of noise alone, less than one
// series in a hundred is above it.
const threshold = (count) => 3 + 10 / count;
// A series that never varied has no spread; then this share of its largest value takes its place.
const floor = 0.02;

// The span that a selection is compared with: the one that is pinned; otherwise as long as it and right before it, at the beginning
// of the data right behind it.
export function reference({ from, to }, whole, pinned = null) {
  if (pinned !== null) return { ...pinned, isPinned: true };
  const length = to - from;
  const before = { from: Math.max(whole.from, from - length), to: from };
  // Half of the length before it serves better than what follows, which may be its effect.
  if (before.to - before.from >= length / 2) return { ...before, isBefore: true };
  const after = { from: to, to: Math.min(whole.to, to + length) };
  return after.to - after.from > before.to - before.from ? { ...after, isBefore: false } : { ...before, isBefore: true };
}

// The differences of all series of all charts over time, the largest first; `reference` and the selection share no sample.
export function differences(charts, selection, other) {
  const found = [];
  let examined = 0;
  for (const chart of charts.filter((chart) => chart.kind !== "heat" && !chart.x)) {
    for (const series of chart.series) {
      const [now, then] = split(chart.times, series.mean, selection, other);
      if (now.length < fewest || then.length < fewest) continue;
      examined += 1;
      const difference = compare(now, then, series.mean);
      if (difference.score >= threshold(Math.min(now.length, then.length))) found.push({ chart, series, ...difference });
    }
  }
  found.sort((a, b) => b.score - a.score);
  return { found, examined };
}

// A sample at the edge belongs to the selection alone.
function split(times, values, selection, other) {
  const now = within(times, values, selection.from, selection.to);
  const isOutside = (at) => at < selection.from || at > selection.to;
  const outside = values.map((value, i) => (isOutside(times[i]) ? value : null));
  return [now, within(times, outside, other.from, other.to)];
}

function compare(now, then, all) {
  const [after, before] = [median(now), median(then)];
  let largest = 0;
  for (const value of all) if (isKnown(value)) largest = Math.max(largest, Math.abs(value));
  const distances = [...then.map((value) => value - before), ...now.map((value) => value - after)];
  const unit = Math.max(spread(then), spread(distances), floor * largest);
  return { before, now: after, score: unit > 0 ? Math.abs(after - before) / unit : 0 };
}
