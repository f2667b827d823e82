// How devices respond to load: what they complete by the number of requests in flight. Beyond the knee, more requests only wait.

import { element, svg } from "./dom.js";
import { folded } from "./finding.js";
import { axisLabels, quantity } from "./format.js";

const width = 460;
const height = 190;
const margin = { left: 70, right: 12, top: 10, bottom: 34 };

// Round steps for at most so many labels.
function ticks(most, count) {
  const rough = most / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * (1 - 1e-9));
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

function text(x, y, content, anchor) {
  const made = svg("text", { x, y, "text-anchor": anchor });
  made.textContent = content;
  return made;
}

// A line with points; `points` are [in flight, per second].
function plot(points, label) {
  const [mostX, mostY] = [0, 1].map((axis) => Math.max(...points.map((point) => point[axis])) * 1.05 || 1);
  const x = (value) => margin.left + (value / mostX) * (width - margin.left - margin.right);
  const y = (value) => height - margin.bottom - (value / mostY) * (height - margin.top - margin.bottom);
  const [xs, ys] = [ticks(mostX, 8), ticks(mostY, 4)];
  const path = points.map(([inFlight, rate], i) => `${i === 0 ? "M" : "L"}${x(inFlight).toFixed(1)} ${y(rate).toFixed(1)}`).join("");
  const labels = [axisLabels(xs, "count"), axisLabels(ys, "1/s")];
  return svg("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    ...ys.map((value) => svg("path", { class: "grid", d: `M${margin.left} ${y(value)}H${width - margin.right}` })),
    ...ys.map((value, i) => text(margin.left - 8, y(value) + 4, labels[1][i], "end")),
    ...xs.map((value, i) => text(x(value), height - margin.bottom + 16, labels[0][i], "middle")),
    text((margin.left + width - margin.right) / 2, height - 2, "requests in flight", "middle"),
    svg("path", { class: "line", d: path }),
    ...points.map(([inFlight, rate]) => svg("circle", { cx: x(inFlight), cy: y(rate), r: 3.5 })));
}

const number = (value) => element("td", { className: "number" }, value);

function table(label, headings, rows) {
  return element("div", { className: "scroller", tabIndex: 0, attributes: { role: "group", "aria-label": label } },
    element("table", {}, element("thead", {}, element("tr", {}, headings.map((heading) => element("th", { scope: "col" }, heading)))),
      element("tbody", {}, rows)));
}

export function curves({ response_curves: all = [] }) {
  return all.map(({ device, throughput, latency }) => {
    const levels = [...throughput].sort((a, b) => a.in_flight - b.in_flight);
    if (levels.length === 0) return null;
    const title = `How ${device} responds to load`;
    const best = levels.reduce((most, level) => (level.requests_per_second > most.requests_per_second ? level : most));
    const summary = `At most ${quantity(best.requests_per_second, "1/s")}, with ${quantity(best.in_flight, "count")} requests in flight.`;
    const points = levels.map((level) => [level.in_flight, level.requests_per_second]);
    const rows = levels.map((level) => element("tr", {}, element("th", { scope: "row", className: "number" }, quantity(level.in_flight, "count")),
      number(quantity(level.requests_per_second, "1/s")), number(quantity(level.bytes_per_second, "bytes/s")),
      number(quantity(level.busy_seconds, "s"))));
    const times = latency.map((one) => element("tr", {},
      element("th", { scope: "row" }, `${one.access} ${one.operation}s ${one.size_up_to === null ? "of the largest size" : `up to ${quantity(one.size_up_to, "bytes")}`}`),
      number(quantity(one.in_flight, "count")), number(quantity(one.seconds, "s")), number(quantity(one.requests, "count"))));
    return folded(title, plot(points, `${title}. ${summary}`), element("p", { className: "note" }, summary),
      table(title, ["In flight", "Completed", "Throughput", "For"], rows),
      times.length > 0 ? table(`Time in ${device}`, ["Requests", "In flight", "Time in the device", "Count"], times) : null);
  });
}
