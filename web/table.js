// The data of a chart as a table.

import { element } from "./dom.js";
import { quantity } from "./format.js";
import { rowInWords, rows } from "./heat.js";
import { lowerBound } from "./statistics.js";
import { capital } from "./words.js";

// More rows than this are of no use to a reader, and slow.
const most = 200;

export function dataTable(chart, view, shown) {
  const { times, unit } = chart;
  const { from, to } = view.range;
  const [first, end] = [lowerBound(times, from), lowerBound(times, to)];
  const last = times[end] === to ? end + 1 : end;
  const columns = chart.kind === "heat"
    ? rows(chart).map((row, i) => [rowInWords(row, unit), (at) => quantity(chart.counts[at][i], "count")])
    : chart.series.filter((_, i) => shown[i]).map(({ name, mean }) => [name, (at) => quantity(mean[at], unit)]);
  const cells = (at) => columns.map(([, value]) => element("td", { className: "number" }, value(at)));
  const step = times.length > 1 ? times[1] - times[0] : 1;
  const body = [];
  for (let at = first; at < Math.min(last, first + most); at += 1) {
    body.push(element("tr", {}, element("th", { scope: "row" }, view.clock.moment(times[at], step)), cells(at)));
  }
  const hidden = last - first - body.length;
  const head = columns.map(([name]) => element("th", { scope: "col", className: "number" }, name));
  return [
    hidden > 0 ? element("p", { className: "summary" }, `The first ${most} of ${last - first} rows; zoom in to see others.`) : null,
    element("div", { className: "scroller", tabIndex: 0, attributes: { role: "group", "aria-label": `Data of ${chart.title}` } },
      element("table", { className: "data-table" }, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, chart.x ? capital(chart.x.title || "what was measured") : "Time"), head)),
        element("tbody", {}, body))),
  ];
}
