// The parts of the page that need no browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { classOf, decoded, isSick, marks, rowsOf } from "../cells.js";
import { differences, reference } from "../differences.js";
import { visible } from "../dom.js";
import { callTree, heaviest } from "../flame.js";
import { axisLabels, Clock, ElapsedClock, LabelClock, quantity, share } from "../format.js";
import { appendCharts, dropBefore, stepOf } from "../growth.js";
import { quantile, rowInWords, rows, starts } from "../heat.js";
import { listed } from "../hosts.js";
import { summarize } from "../legend.js";
import { colorNames, stacked } from "../lines.js";
import { elapsed, since } from "../overlay.js";
import { parse, print, spanOf } from "../period.js";
import { partsOf, toneOf } from "../stack.js";
import { median, nearest, spread, within } from "../statistics.js";
import { lanes, worst } from "../timeline.js";
import { View } from "../view.js";
import { changeInWords, changeKind, culpritInWords, duration, firstSentence, headline, idInWords, keyOf, timeLost } from "../words.js";

const plain = (text) => text.replaceAll("\u00a0", " ");

test("numbers are formatted as on the terminal", () => {
  const cases = [
    [0.184, "s", "184 ms"], [0, "s", "0 s"], [90, "s", "90 s"], [120, "s", "2 min"], [12.5 * 1048576, "By/s", "12.5 MiB/s"],
    [4096, "bytes", "4 KiB"], [943e6, "bit/s", "943 Mbit/s"], [0.623, "1", "62.3 %"], [0.623, "ratio", "62.3 %"], [170, "1/s", "170/s"],
    [2.5e6, "1/s", "2.50 M/s"], [31.2, "count", "31.2"], [0.00001, "ratio", "< 0.01 %"], [1, "flag", "yes"], [null, "s", "–"],
    [41, "Cel", "41 °C"], [3, "mystery", "3 mystery"],
  ];
  for (const [number, unit, expected] of cases) assert.equal(plain(quantity(number, unit)), expected);
  assert.deepEqual([0, 0.004, 0.62].map(share).map(plain), ["0 %", "< 1 %", "62 %"]);
});

test("the labels of an axis share a unit and differ", () => {
  assert.deepEqual(axisLabels([0, 0.0005, 0.001, 0.0015], "s").map(plain), ["0.0 ms", "0.5 ms", "1.0 ms", "1.5 ms"]);
  assert.deepEqual(axisLabels([0, 0.05, 0.1], "1").map(plain), ["0 %", "5 %", "10 %"]);
  assert.deepEqual(axisLabels([0, 2 ** 29, 2 ** 30], "By").map(plain), ["0.0 GiB", "0.5 GiB", "1.0 GiB"]);
  assert.deepEqual(axisLabels([0, 0.25, 0.5], "count"), ["0.00", "0.25", "0.50"]);
  assert.deepEqual(axisLabels([], "s"), []);
});

test("times are those of the zone, and the date stands where it begins", () => {
  const utc = new Clock("UTC");
  const at = Date.UTC(2026, 10, 21, 23, 59, 30) / 1000;
  assert.equal(utc.span(at, at + 60), "21 Nov 2026, 23:59:30–22 Nov 2026, 00:00:30 UTC");
  assert.deepEqual(utc.axis([at, at + 30, at + 60], 30), ["23:59:30", "22 Nov", "00:00:30"]);
  assert.equal(new ElapsedClock().time(3725), "01:02:05");
});

test("characters that deceive are written out", () => {
  assert.equal(visible("a\nb\tc\x1b[31m\x7f"), "a\\nb\\tc\\x1b[31m\\x7f");
  assert.equal(visible("\u009b2J\u202eexe\u2066\u200b\u2028\u{e0041}"), "\\u{9b}2J\\u{202e}exe\\u{2066}\\u{200b}\\u{2028}\\u{e0041}");
  assert.equal(visible("kworker/0:1-événements 日本"), "kworker/0:1-événements 日本");
});

test("statistics leave out what is missing", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
  assert.equal(median([]), null);
  // Distances from the median 3: 2, 1, 0, 1, 97; their median is 1.
  assert.equal(spread([1, 2, 3, 4, 100]), 1.4826);
  assert.deepEqual(within([1, 2, 3, 4], [10, null, 30, 40], 1, 3), [10, 30]);
  assert.deepEqual([0, 1.4, 1.6, 9].map((at) => nearest([1, 2, 3], at)), [0, 0, 1, 2]);
  assert.deepEqual(summarize({ mean: [1, 2, null, 4], max: [1, 9, null, 5] }, 1, 3), { mean: 3, lowest: 2, highest: 9 });
});

test("a selection is compared with what was before, at the beginning with what follows", () => {
  const whole = { from: 0, to: 100 };
  assert.deepEqual(reference({ from: 50, to: 60 }, whole), { from: 40, to: 50, isBefore: true });
  assert.deepEqual(reference({ from: 6, to: 16 }, whole), { from: 0, to: 6, isBefore: true });
  assert.deepEqual(reference({ from: 2, to: 12 }, whole), { from: 12, to: 22, isBefore: false });
  assert.deepEqual(reference({ from: 50, to: 60 }, whole, { from: 3, to: 9 }), { from: 3, to: 9, isPinned: true });
});

test("a span over another begins at zero", () => {
  assert.deepEqual(since([10, 20, 30, 40], [1, null, 3, 4], { from: 15, to: 40 }), [[5, 15, 25], [null, 3, 4]]);
  assert.deepEqual(since([10], [1], { from: 20, to: 30 }), [[], []]);
  assert.deepEqual([elapsed(0.5, 0.1), elapsed(90, 30), elapsed(3723, 60)].map(plain), ["0.5 s", "1:30", "1:02:03"]);
});

test("a pinned span is compared with those selected afterwards", () => {
  const view = new View(0, 100, null);
  view.select(10, 20);
  view.pin({ from: 10, to: 20 });
  assert.equal(view.selection, null);
  view.select(60, 70);
  assert.deepEqual([view.pinned, view.selection], [{ from: 10, to: 20 }, { from: 60, to: 70 }]);
  // A chart by queue depth has nothing to compare.
  const other = new View(0, 5, null, { canCompare: false });
  other.select(1, 2);
  assert.deepEqual([other.selection, other.range], [null, { from: 1, to: 2 }]);
});

test("stacks become a tree, and a function that recurses counts once", () => {
  const frames = ["a", "b"].map((name) => ({ function: name, module: null, space: "user", inlined: false }));
  const stacks = [{ process: { pid: 1, name: "p" }, frames: [0, 1, 0], weight: 3 }, { process: { pid: 2, name: "p" }, frames: [0], weight: 4 }];
  const root = callTree({ frames, stacks });
  assert.deepEqual([root.total, root.children.length, root.children[0].total], [7, 1, 7]);
  const a = root.children[0].children[0];
  assert.deepEqual([a.label, a.total, a.own, a.start, a.children[0].label], ["a", 7, 4, 0, "b"]);
  assert.deepEqual(heaviest({ frames, stacks }).map(({ name, own, total }) => [name, own, total]), [["a", 7, 7], ["b", 0, 3]]);
  // An index that the document lacks is left out.
  assert.equal(callTree({ frames, stacks: [{ process: { pid: 1, name: "p" }, frames: [9], weight: 1 }] }).children[0].own, 1);
});

test("the labels of an axis that is not time are those nearest", () => {
  const clock = new LabelClock({ times: [0, 1, 2], x: { title: "queue depth", labels: ["1", "2", "4"] } });
  assert.deepEqual([clock.moment(0.9), clock.time(2.2), clock.span(0, 2)], ["2", "queue depth 4", "queue depth 1–4"]);
  assert.deepEqual(clock.axis([0, 2]), ["1", "4"]);
});

test("the parts of a disk are compared with its ceiling, or with what it did", () => {
  const upper = (name, read) => ({ name, load: { read, write: 0 } });
  const disk = { load: { read: 50, write: 10, ceiling: 100 } };
  const found = partsOf(disk, [upper("a", 10), upper("b", 45), upper("c", 0)]);
  assert.deepEqual([found.parts.map(({ node, amount }) => [node.name, amount]), found.whole, found.isCeiling], [[["b", 45], ["a", 10]], 100, true]);
  // Of two ceilings, the one that it is nearer to: 80 of 100 requests, and 60 of 100 bytes.
  const requests = { load: { ...disk.load, requests: 80, request_ceiling: 100 } };
  const small = partsOf(requests, [{ name: "a", load: { read: 10, requests: 70 } }]);
  assert.deepEqual([small.parts[0].amount, small.whole, small.isBytes], [70, 100, false]);
  assert.equal(partsOf({ load: { read: 60 } }, [upper("a", 10), upper("b", 5)]).whole, 60);
  assert.equal(partsOf({ load: { read: 60 } }, [upper("a", 60)]), null);
  assert.equal(partsOf({ load: {} }, [upper("a", 10)]), null);
  assert.equal(toneOf({ busy: 1, waiting: 0.01 }), null);
  assert.deepEqual([0.05, 0.3, 0.9].map((waiting) => toneOf({ waiting })), ["warning", "serious", "critical"]);
});

const chart = (...series) => ({ kind: "lines", unit: "s", times: series[0].map((_, i) => i), series: series.map((mean, i) => ({ name: `s${i}`, entity: "", mean })) });

test("series are ranked by how far their medians differ, in units of their spread", () => {
  const before = [10, 11, 9, 10, 12, 8, 10, 11];
  const jump = [...before, 30, 31, 29, 30, 32, 28, 30, 31];
  const little = [...before, ...before.map((value) => value + 1)];
  const steady = before.concat(before).map(() => 5);
  const { found, examined } = differences([chart(jump, little, steady)], { from: 8, to: 15 }, { from: 0, to: 8 });
  assert.equal(examined, 3);
  // Median 10 before, distances 0, 1, 1, 0, 2, 2, 0, 1: their median is 1; (30 - 10) / 1.4826.
  assert.deepEqual(found.map(({ series, before, now, score }) => [series.name, before, now, score.toFixed(2)]), [["s0", 10, 30, "13.49"]]);
});

test("a rise from a constant is found, and few samples are not compared", () => {
  const rise = [0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4];
  assert.equal(differences([chart(rise)], { from: 6, to: 11 }, { from: 0, to: 6 }).found.length, 1);
  assert.equal(differences([chart(rise)], { from: 6, to: 7 }, { from: 0, to: 6 }).examined, 0);
});

test("noise is rarely called a difference", () => {
  let state = 7;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  for (const count of [5, 8, 20]) {
    const all = Array.from({ length: 2000 }, () => Array.from({ length: 2 * count }, () => random() + random() + random()));
    const { found, examined } = differences([chart(...all)], { from: count, to: 2 * count - 1 }, { from: 0, to: count });
    assert.equal(examined, 2000);
    assert.ok(found.length < 0.01 * examined, `${found.length} of ${examined} with ${count} samples`);
  }
});

test("areas are stacked on one another", () => {
  const series = [{ mean: [1, 2, null] }, { mean: [10, null, null] }, { mean: [100, 100, null] }];
  assert.deepEqual(stacked(series, [true, true, true]), [[1, 2, null], [11, 2, null], [111, 102, null]]);
  assert.deepEqual(stacked(series, [true, false, true])[2], [101, 102, null]);
});

test("the eight largest series have colours", () => {
  const colors = colorNames({ series: Array.from({ length: 10 }, (_, i) => ({ mean: [i] })) });
  assert.deepEqual(colors, ["series-other", "series-other", ...Array.from({ length: 8 }, (_, i) => `series-${i + 1}`)]);
});

test("the rows of a heat map are between its edges", () => {
  const heat = { buckets: [0, 1, 2, null], times: [10, 20, 60], counts: [[5, 0, 0], [], [4, 90, 1]], unit: "s" };
  assert.deepEqual(rows(heat).map((row) => plain(rowInWords(row, "s"))), ["up to 1 s", "1 s–2 s", "above 2 s"]);
  // The column after a gap is as wide as usual; the median distance of 10 and 40 is 25.
  assert.deepEqual(starts([10, 20, 30, 90]), [0, 10, 20, 80]);
  assert.deepEqual(starts([10]), [9]);
  assert.deepEqual(quantile(heat, 0.5, 0, 100), { low: 1, high: 2 });
  assert.deepEqual(quantile(heat, 0.5, 0, 15), { low: 0, high: 1 });
  assert.equal(quantile(heat, 0.5, 15, 30), null);
});

test("findings are named as on the terminal", () => {
  const finding = (more) => ({ id: "disk.saturated", subject: { kind: "device", name: "sdb" }, impact: 0.62, impact_is: "measured", confidence: "high", ...more });
  assert.equal(idInWords("mem.oom_kill"), "Memory OOM kill");
  assert.equal(headline(finding()), "Disk saturated (device sdb)");
  assert.equal(headline(finding({ id: "net.link_saturated", confidence: "low" })), "Network link possibly saturated (device sdb)");
  assert.equal(headline(finding({ id: "net.loss", confidence: "low", subject: { kind: "host", name: "host" } })), "Possible network loss");
  assert.equal(headline(finding({ host: "kvm1" })), "kvm1: Disk saturated (device sdb)");
  assert.equal(keyOf({ id: "a.b", subject: { name: "n", pid: 1, tid: 2 } }), "a.b@n[1/2]");
  assert.equal(plain(timeLost(finding())), "requests waited 62 % of the time");
  assert.equal(plain(timeLost(finding({ subject: { kind: "host", name: "host" }, id: "cpu.saturated", impact: 1 }))), "at least one task waited for a CPU all of the time");
  assert.equal(plain(timeLost(finding({ impact_is: "at_least", impact: 0.2 }))), "requests waited at least 20 % of the time");
  assert.equal(culpritInWords({ kind: "process", name: "make", pid: 1, pids: [1, 2, 3], unit: "ci.service" }), "make ×3 (unit ci.service)");
  const cgroups = [{ cgroup: "/a", share: 0.5 }, { cgroup: "/b", share: 0.2 }];
  assert.equal(culpritInWords({ kind: "process", name: "make", pid: 1, pids: [1, 2], cgroup: "/a", cgroups }), "make ×2 (2 control groups)");
  assert.equal(firstSentence("a 3.5. B c. D"), "a 3.5.");
});

test("how long a change lasts stands beside its command", () => {
  assert.equal(duration("whyslow try vm.swappiness=10 -- make"), "A trial: rolled back unless you add --keep.");
  assert.equal(duration("whyslow tune set process.ionice@812=idle process.nice@812=10"), "Until the process ends; undo: whyslow tune undo.");
  assert.equal(duration("whyslow tune set vm.swappiness=10"), "Until reboot; undo: whyslow tune undo.");
  assert.equal(duration("iostat -x 1"), null);
});

test("bars that overlap are in different lanes", () => {
  assert.deepEqual(lanes([{ from: 0, to: 5 }, { from: 3, to: 9 }, { from: 5, to: 6 }, { from: 9, to: 10 }]), [0, 1, 0, 0]);
  const many = Array.from({ length: 10 }, (_, i) => ({ from: i, to: 100 - i }));
  // The eighth lane is free first, at 93; then, until 92, the ninth bar is in it.
  assert.deepEqual(lanes(many), [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]);
  assert.equal(worst([]), null);
});

test("the view stays within the data", () => {
  const view = new View(0, 100, null);
  view.show(-20, 10);
  assert.deepEqual(view.range, { from: 0, to: 30 });
  view.pan(-1);
  assert.deepEqual(view.range, { from: 0, to: 30 });
  view.pan(10);
  assert.deepEqual(view.range, { from: 70, to: 100 });
  view.zoom(0.5, 100);
  assert.deepEqual(view.range, { from: 85, to: 100 });
  view.zoom(100);
  assert.ok(view.isWhole);
  view.select(50, 40);
  assert.deepEqual(view.selection, { from: 40, to: 50 });
});

const lines = (id, times, series) => ({
  id, title: id, family: "disk", unit: "1", help: "", kind: "lines", signals: [], times, left_out: 0,
  series: Object.entries(series).map(([name, mean]) => ({ name, entity: name, mean })),
});

test("newer samples are appended by chart and series, with gaps where there are none", () => {
  const charts = [lines("a", [1, 2], { x: [10, 20], y: [5, 6] }), lines("b", [1, 2], { z: [0, 0] })];
  const added = appendCharts(charts, [lines("a", [2, 3, 4], { y: [9, 7, 8], w: [9, 1, 2] }), lines("c", [3, 4], { v: [1, 1] })]);
  assert.deepEqual(charts[0].times, [1, 2, 3, 4]);
  const means = Object.fromEntries(charts[0].series.map(({ name, mean }) => [name, mean]));
  assert.deepEqual(means, { x: [10, 20, null, null], y: [5, 6, 7, 8], w: [null, null, 1, 2] });
  assert.deepEqual([charts[1].times, charts[1].series[0].mean], [[1, 2, 3, 4], [0, 0, null, null]]);
  assert.deepEqual(added.map(({ id }) => id), ["c"]);
});

test("the range of longer intervals goes on with single values", () => {
  const chart = lines("a", [10, 20], { x: [1, 2] });
  Object.assign(chart.series[0], { min: [0, 1], max: [3, 4] });
  appendCharts([chart], [lines("a", [21], { x: [7] })]);
  assert.deepEqual([chart.series[0].min, chart.series[0].max], [[0, 1, 7], [3, 4, 7]]);
  const exact = lines("a", [1], { x: [1] });
  const ranged = lines("a", [2], { x: [2] });
  Object.assign(ranged.series[0], { min: [1], max: [5] });
  appendCharts([exact], [ranged]);
  assert.deepEqual([exact.series[0].min, exact.series[0].max], [[1, 1], [1, 5]]);
});

test("two series of one name stay two", () => {
  const chart = { ...lines("a", [1], {}), series: [{ name: "x", entity: "1", mean: [1] }, { name: "x", entity: "2", mean: [2] }] };
  appendCharts([chart], [{ ...chart, times: [2], series: [{ name: "x", entity: "1", mean: [3] }, { name: "x", entity: "2", mean: [4] }] }]);
  assert.deepEqual(chart.series.map(({ mean }) => mean), [[1, 3], [2, 4]]);
});

test("counts are added to a heat map's last column until it is as wide as the others", () => {
  const heat = (times, buckets, counts) => ({ ...lines("h", times, {}), kind: "heat", buckets, counts });
  const chart = heat([10, 20, 30], [1, 2, 4], [[1, 0], [], [2, 2]]);
  appendCharts([chart], [heat([31, 35, 40, 41], [2, 4, 8], [[1, 1], [], [3, 0], [4, 0]])]);
  assert.deepEqual(chart.buckets, [1, 2, 4, 8]);
  assert.deepEqual(chart.times, [10, 20, 30, 40, 41]);
  assert.deepEqual(chart.counts, [[1, 0, 0], [], [2, 2, 0], [0, 4, 1], [0, 4, 0]]);
});

test("what is older goes, with series that have no value any more", () => {
  const chart = lines("a", [1, 2, 3], { x: [1, null, null], y: [1, 2, 3] });
  dropBefore([chart], 2);
  assert.deepEqual([chart.times, chart.series.map(({ name }) => name), chart.series[0].mean], [[2, 3], ["y"], [2, 3]]);
  assert.equal(stepOf([lines("a", [1, 2, 3, 90], { x: [] })]), 1);
  assert.equal(stepOf([]), null);
});

test("a series keeps its colour when larger ones come", () => {
  const former = new Map();
  const of = (values) => lines("a", [1], Object.fromEntries(Object.entries(values).map(([name, value]) => [name, [value]])));
  assert.deepEqual(colorNames(of({ a: 1, b: 2 }), former), ["series-1", "series-2"]);
  assert.deepEqual(colorNames(of({ c: 9, b: 2 }), former), ["series-1", "series-2"]);
  assert.deepEqual(colorNames(of({ a: 1, c: 9, b: 2 }), former), ["series-3", "series-1", "series-2"]);
});

test("who looks at everything goes on doing so, and a zoomed span stays", () => {
  const view = new View(0, 100, null);
  view.extend(10, 110);
  assert.deepEqual(view.range, { from: 10, to: 110 });
  view.show(20, 30);
  view.extend(15, 120);
  assert.deepEqual([view.range, view.whole], [{ from: 20, to: 30 }, { from: 15, to: 120 }]);
});

test("hosts are found by name, finding and verdict, and sorted with the unknown last", () => {
  const host = (id, name, verdict, severity, finding = null) => ({ id, name, verdict, severity, finding, from: 0, to: 1, kind: "recording" });
  const hosts = [host("0", "db10", "healthy", null), host("1", "db9", "bottleneck", 0.2, "Disk full"), host("2", "web", "bottleneck", 0.7, "CPU saturated"), host("3", "old", null, null)];
  const ids = (text, id, isDescending) => listed(hosts, text, { id, isDescending }).map((one) => one.id);
  assert.deepEqual(ids("", "severity", true), ["2", "1", "0", "3"]);
  assert.deepEqual(ids("DISK", "severity", true), ["1"]);
  assert.deepEqual(ids("bottle", "name", false), ["1", "2"]);
  assert.deepEqual(ids("db", "name", false), ["1", "0"]);
  assert.deepEqual(ids("", "verdict", false), ["1", "2", "3", "0"]);
});

test("changes are told apart by what changed", () => {
  const kinds = ["setting vm.swappiness: value was 60, is 10", "queue of sdb: scheduler was none, is bfq", "machine host: release was 6.1, is 6.2",
    "disk sdc appeared", "disk sdc was removed", "process machine [3] started", "recording began"].map((what) => changeKind(what).kind);
  assert.deepEqual(kinds, ["setting", "setting", "kernel", "device", "device", "process", "recording"]);
  const ofMachine = ["package bash: was 5.1, is 5.2", "12 packages changed: a, b, c and 9 others", "unit db.service restarted", "kernel release: was 6.1, is 6.2",
    "machine bios: was 1, is 2", "firmware SSD 980 added: 2B", "sysctl vm.swappiness: was 60, is 10", "disk SSD 980 scheduler: was none, is bfq",
    "machine host: clock_source was tsc, is hpet", "tuning vm.swappiness: was 60, is 10"].map((what) => changeKind(what).kind);
  assert.deepEqual(ofMachine, ["package", "package", "unit", "kernel", "kernel", "kernel", "setting", "setting", "setting", "tuning"]);
});

test("times are entered in the zone that is shown", () => {
  const utc = new Clock("UTC");
  assert.equal(print(Date.UTC(2026, 10, 21, 3, 4, 5) / 1000, utc), "2026-11-21T03:04:05");
  assert.equal(parse("2026-11-21T03:04:05", utc), Date.UTC(2026, 10, 21, 3, 4, 5) / 1000);
  const local = new Clock(undefined);
  assert.equal(parse(print(1795230245, local), local), 1795230245);
});

test("a period is the end of the recording, or what the address says", () => {
  const host = { from: 1000, to: 1000 + 30 * 3600 };
  assert.deepEqual(spanOf({}, host), { from: host.to - 86400, to: host.to });
  assert.deepEqual(spanOf({ period: "7d" }, host), { from: 1000, to: host.to });
  assert.deepEqual(spanOf({ period: "constructor" }, host), { from: host.to - 86400, to: host.to });
  assert.deepEqual(spanOf({ period: "1h", from: 5, to: 6 }, host), { from: 5, to: 6 });
});

const fleetMap = decoded({
  start: "2026-11-26T10:00:00Z", step_s: 900, pieces: 3, findings: ["disk.saturated", "cpu.saturated"],
  hosts: [
    { host: "db1", judged_s: 2700, lost_s: 1350, finding: "disk.saturated", last: "2026-11-26T10:44:00Z", shares: [0, 0.5, 1], causes: [[1, 1], [2, 0]] },
    { host: "db2", judged_s: 900, lost_s: 0, last: "2026-11-26T10:14:00Z", missing: "silent", shares: [0, null, null], causes: [] },
    { host: "web1", judged_s: 2700, lost_s: 27, finding: "cpu.saturated", last: "2026-11-26T10:44:00Z", shares: [0.03, 0, 0], causes: [[0, 1]] },
  ],
});
const shownNames = ({ rows }) => rows.map(({ host, group }) => host?.name ?? `${group.value}:${group.hosts.length}`);

test("a share of time lost has a class, and none lost is not unknown", () => {
  assert.deepEqual([null, 0, 0.001, 0.01, 0.05, 0.2, 0.5, 1].map(classOf), [null, -1, 0, 1, 2, 3, 4, 4]);
});

test("hosts of a fleet are filtered by their names, findings and groups", () => {
  assert.deepEqual(shownNames(rowsOf(fleetMap, {})), ["db1", "db2", "web1"]);
  assert.deepEqual(shownNames(rowsOf(fleetMap, { text: " DB " })), ["db1", "db2"]);
  assert.deepEqual(shownNames(rowsOf(fleetMap, { text: "cpu saturated" })), ["db1", "web1"]);
  assert.deepEqual(shownNames(rowsOf(fleetMap, { finding: "disk.saturated" })), ["db1"]);
  assert.deepEqual(fleetMap.hosts.map(isSick), [true, false, true]);
});

test("a group is the mean of its hosts, and hides them when it is folded", () => {
  const groups = new Map([["db1", "db"], ["db2", "db"]]);
  const all = rowsOf(fleetMap, { groups });
  assert.deepEqual(shownNames(all), ["db:2", "db1", "db2", "(not known):1", "web1"]);
  const [{ group }] = all.rows;
  assert.deepEqual([group.sick, group.shares], [1, [0, 0.5, 1]]);
  assert.deepEqual(shownNames(rowsOf(fleetMap, { groups, isFolded: (value) => value === "db" })), ["db:2", "(not known):1", "web1"]);
  assert.deepEqual(shownNames(rowsOf(fleetMap, { groups, text: "not known" })), ["(not known):1", "web1"]);
});

test("changes at one place of the time have one mark, that of most hosts first", () => {
  const change = (id, hosts, first) => ({ id, hosts, first: `2026-11-26T${first}:00Z`, last: `2026-11-26T${first}:00Z` });
  const made = marks([change("a", 1, "10:10"), change("b", 5, "10:10"), change("c", 2, "10:40"), change("d", 9, "09:00")], fleetMap, 10);
  assert.deepEqual(made.map((of) => of.map(({ id }) => id)), [["b", "a"], ["c"]]);
});

test("the id of a change is words", () => {
  assert.equal(changeInWords("kernel:release=6.8.0"), "kernel release: 6.8.0");
  assert.equal(changeInWords("sysctl:vm.x=1=2"), "sysctl vm.x: 1=2");
  assert.equal(changeInWords("unit:nginx.service"), "unit nginx.service");
  assert.equal(changeKind(changeInWords("package:openssl=3")).kind, "package");
});
