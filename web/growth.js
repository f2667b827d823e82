// Newer samples are appended to charts by the id of the chart and the name of the series. What is not in the newer ones has a
// gap there.

import { isKnown, lowerBound, median } from "./statistics.js";

const blank = (length) => new Array(length).fill(null);

// By name; several of one name are told apart by their order.
function byName(series) {
  const counts = new Map();
  return new Map(series.map((one) => {
    const count = (counts.get(one.name) ?? 0) + 1;
    counts.set(one.name, count);
    return [`${count} ${one.name}`, one];
  }));
}

// Appends newer charts to those that there are, and returns the charts that are new.
export function appendCharts(charts, newer) {
  const byId = new Map(newer.map((chart) => [chart.id, chart]));
  const known = new Set(charts.map(({ id }) => id));
  const isHeat = ({ kind }) => kind === "heat";
  // A chart without data is left out of a document: it has a gap at the times that the others have.
  const times = newer.filter((chart) => !isHeat(chart)).reduce((most, chart) => (chart.times.length > most.length ? chart.times : most), []);
  for (const chart of charts) {
    const more = byId.get(chart.id);
    if (isHeat(chart)) appendColumns(chart, more);
    else appendLines(chart, more ?? { times, series: [] });
    if (more) chart.left_out = more.left_out;
  }
  return newer.filter(({ id }) => !known.has(id));
}

function appendLines(chart, more) {
  const { times } = chart;
  const before = times.length;
  const first = before === 0 ? 0 : firstAfter(more.times, times[before - 1]);
  const newer = byName(more.series);
  for (const [name, series] of byName(chart.series)) {
    appendSeries(series, newer.get(name), before, first, more.times.length);
    newer.delete(name);
  }
  for (const series of newer.values()) {
    const begun = { name: series.name, entity: series.entity, mean: blank(before) };
    appendSeries(begun, series, before, first, more.times.length);
    chart.series.push(begun);
  }
  for (let i = first; i < more.times.length; i += 1) times.push(more.times[i]);
}

function appendSeries(series, more, before, first, end) {
  if (more?.min && !series.min) Object.assign(series, { min: series.mean.slice(0, before), max: series.mean.slice(0, before) });
  for (let i = first; i < end; i += 1) {
    const value = more?.mean[i] ?? null;
    series.mean.push(value);
    series.min?.push(more?.min?.[i] ?? value);
    series.max?.push(more?.max?.[i] ?? value);
  }
}

// Newer counts are added to the last column until it is as wide as the others, so that shades mean the same everywhere.
function appendColumns(chart, more) {
  if (!more) return;
  const { times, counts } = chart;
  const width = median(times.slice(1).map((at, i) => at - times[i])) ?? 0;
  const edges = [...new Set([...chart.buckets, ...more.buckets])].sort((a, b) => a - b);
  const last = times.at(-1) ?? -Infinity;
  const from = (buckets) => (column) => (column.length === 0 ? [] : regrouped(column, buckets, edges));
  if (edges.length !== chart.buckets.length) chart.counts = counts.map(from(chart.buckets));
  chart.buckets = edges;
  const regroup = from(more.buckets);
  for (let i = firstAfter(more.times, last); i < more.times.length; i += 1) {
    const column = regroup(more.counts[i] ?? []);
    const begin = times.at(-2) ?? -Infinity;
    const fits = more.times[i] - begin <= width * 1.01 && times.length > 1;
    if (fits) {
      times[times.length - 1] = more.times[i];
      chart.counts[chart.counts.length - 1] = sum(chart.counts.at(-1), column);
    } else {
      times.push(more.times[i]);
      chart.counts.push(column);
    }
  }
}

// Counts by other edges; where a bucket had none of its own, nothing was counted in it.
function regrouped(column, buckets, edges) {
  const counts = new Map(column.map((count, i) => [buckets[i], count]));
  return edges.slice(0, -1).map((edge) => counts.get(edge) ?? 0);
}

function sum(a, b) {
  const [long, short] = a.length >= b.length ? [a, b] : [b, a];
  return long.map((count, i) => count + (short[i] ?? 0));
}

function firstAfter(times, at) {
  const first = lowerBound(times, at);
  return times[first] === at ? first + 1 : first;
}

// Drops what is older than a moment, and the series that have no value any more.
export function dropBefore(charts, at) {
  for (const chart of charts) {
    const count = lowerBound(chart.times, at);
    if (count === 0) continue;
    chart.times.splice(0, count);
    chart.counts?.splice(0, count);
    for (const series of chart.series) for (const values of [series.mean, series.min, series.max]) values?.splice(0, count);
    chart.series = chart.series.filter((series) => series.mean.some(isKnown));
  }
}

// Whether so much was appended that a new document, with fewer and longer intervals and only the largest series, is better.
export function isOvergrown(charts, sizes) {
  return charts.some((chart) => {
    const { times, series } = sizes.get(chart.id) ?? { times: 0, series: 0 };
    const most = chart.kind === "heat" ? mostColumns : mostTimes;
    return chart.times.length > Math.max(most, 2 * times) || chart.series.length > 2 * series + moreSeries;
  });
}

const mostTimes = 3000;
const mostColumns = 480;
const moreSeries = 16;

// What `isOvergrown` compares with.
export function sizesOf(charts) {
  return new Map(charts.map(({ id, times, series }) => [id, { times: times.length, series: series.length }]));
}

// The usual length of the intervals of charts; null if there are too few. Heat maps have longer ones.
export function stepOf(charts) {
  const longest = charts.filter(({ kind }) => kind !== "heat").reduce((most, { times }) => (times.length > most.length ? times : most), []);
  return median(longest.slice(1).map((at, i) => at - longest[i]));
}
