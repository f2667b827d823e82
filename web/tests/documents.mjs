// Documents to show, the same at every run: `node documents.mjs NAME` prints one.

import { profile } from "./profiles.mjs";
import { named, stack, wide } from "./stacks.mjs";

// 3:00 on 21 November 2026, UTC.
export const night = Date.UTC(2026, 10, 21, 3) / 1000;
const rfc = (at) => new Date(at * 1000).toISOString();

// A sequence that looks like noise (Park and Miller's generator), from 0 to 1.
function noise(seed) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

const times = (from, count, step) => Array.from({ length: count }, (_, i) => from + (i + 1) * step);

// A series around `usual`, and around `worse` within the span.
function series(name, entity, at, seed, usual, worse = usual, span = null) {
  const random = noise(seed);
  const level = (t) => (span && t > span.from && t <= span.to ? worse : usual);
  const mean = at.map((t) => level(t) * (0.9 + 0.2 * random()));
  return {
    name, entity, mean,
    min: mean.map((value) => value * 0.7),
    max: mean.map((value) => value * (1.2 + random())),
  };
}

const chart = (id, title, unit, signals, at, series, more = {}) => ({
  id, title, family: id.split(".")[0], unit, help: more.help ?? "", kind: "lines", signals, times: at, left_out: 0, series, ...more,
});

const labelled = (id, title, unit, along, places, series) =>
  chart(id, title, unit, [], places.map(([place]) => place), series, { x: { title: along, labels: places.map(([, label]) => label) } });

export const host = { name: "db1", kernel: "6.1.0-31-amd64", cpus: 4, memory_bytes: 16 * 1024 ** 3, virtualization: "kvm" };

const evidence = (metric, value, unit, expected, how, source) => ({ metric, value, unit, expected, source, how });

export function saturated(device = "sdb", process = "backup.sh") {
  return {
    id: "disk.saturated", subject: { kind: "device", name: device },
    culprits: [
      { kind: "process", name: process, pid: 812, command_line: `/bin/sh /usr/local/bin/${process} --full`, cgroup: "/system.slice/backup.service", unit: "backup.service", share: 0.71, of: "requests in flight" },
      { kind: "process", name: "postgres", pid: 4711, share: 0.2, of: "requests in flight" },
    ],
    impact: 0.62, impact_is: "measured", confidence: "high",
    since: { seconds: 300, source: "/proc/pressure/io", average: "pressure" },
    summary: `${device} cannot keep up: 31 requests are queued, each waiting 184 ms. The device finishes one every 5.9 ms.`,
    evidence: [
      evidence("disk.wait", 0.184, "s", "under 20 ms", "(Δread_time + Δwrite_time) / (Δreads + Δwrites)", "/proc/diskstats"),
      evidence("disk.queue", 31.2, "count", "under 4", "Δweighted_time / Δt", "/proc/diskstats"),
      evidence("disk.throughput", 2778726, "bytes/s", "", "(Δread_bytes + Δwrite_bytes) / Δt", "/proc/diskstats"),
      evidence("disk.scheduler", "mq-deadline", "text", "", "", `/sys/block/${device}/queue/scheduler`),
      evidence("psi.io.some", 0.623, "ratio", "under 5 %", "Δtotal / Δt", "/proc/pressure/io"),
      evidence("disk.busy", 0.998, "ratio", "", "Δbusy_time / Δt", "/proc/diskstats"),
    ],
    explains: ["task.blocked@postgres[4711/4730]"], explained_by: null,
    actions: [
      { kind: "tunable", text: `Lower the I/O priority of ${process}; in the long run, reduce the load or use more devices`, set: { "process.ionice@812": "idle" }, try: "whyslow tune set process.ionice@812=idle", expect: "other requests go first (with the bfq or mq-deadline scheduler)" },
      { kind: "tunable", text: "Let the queue merge neighbouring requests", try: `whyslow tune set /sys/block/${device}/queue/nomerges=0` },
      { kind: "diagnostic", text: "See which files it reads", try: "whyslow profile --pid 812" },
    ],
  };
}

const blocked = {
  id: "task.blocked", subject: { kind: "thread", name: "postgres", pid: 4711, tid: 4730 },
  culprits: [{ kind: "device", name: "sdb", share: 1, of: "the time it slept" }],
  impact: 0.41, impact_is: "measured", confidence: "medium",
  summary: "postgres (4711) was stuck for 4.1 s, waiting for sdb.",
  evidence: [evidence("task.blocked_time", 4.1, "s", "0 s", "readings in state D x interval", "/proc/PID/task/TID/stat")],
  explains: [], explained_by: "disk.saturated@sdb", actions: [],
};

const shaped = {
  id: "net.link_saturated", subject: { kind: "interface", name: "eth0", netns: "blue" }, culprits: [],
  impact: 0.004, impact_is: "measured", confidence: "low", summary: "eth0 sends as fast as its shaper lets it.",
  evidence: [evidence("net.sent", 94300000, "bit/s", "under 90 Mbit/s", "Δtx_bytes x 8 / Δt", "/proc/net/dev")],
  explains: [], explained_by: null, actions: [],
};

const overloaded = {
  id: "cpu.saturated", subject: { kind: "host", name: "host" },
  culprits: [{ kind: "process", name: "make", pid: 990, pids: [990, 991, 992, 993, 994, 995], share: 0.93, of: "all CPU time" }],
  impact: 0.98, impact_is: "measured", confidence: "high",
  summary: "There is more work than 4 CPUs can do; make (×6) uses the most.",
  evidence: [evidence("cpu.run_delay", 3.4, "s", "under 50 ms", "Δrun_delay", "/proc/schedstat")],
  explains: [], explained_by: null,
  actions: [{ kind: "advice", text: "Run fewer of make (×6) at once, make its work cheaper, or add CPUs." }],
};

const leaking = {
  id: "mem.thrashing", subject: { kind: "cgroup", name: "/system.slice/web.service" }, culprits: [],
  unattributed: { share: 0.8, of: "the memory", why: "it belongs to tmpfs", remedy: "" },
  impact: 0.17, impact_is: "at_least", confidence: "medium",
  summary: "web.service waits for pages that were evicted too early.", evidence: [], explains: [], explained_by: null,
  actions: [{ kind: "advice", text: "Raise memory.high of web.service." }],
};

// One request takes 5.9 ms; from 8 in flight on, more only wait.
const curve = {
  device: "sdb",
  throughput: [1, 2, 4, 8, 16, 31].map((inFlight) => {
    const rate = Math.min(inFlight, 8) * 21.2;
    return { in_flight: inFlight, busy_seconds: 1.5, requests: rate * 1.5, requests_per_second: rate, bytes_per_second: rate * 16384 };
  }),
  latency: [{ operation: "read", size_up_to: 16384, access: "random", in_flight: 16, requests: 1200, seconds: 0.091 }, { operation: "write", size_up_to: null, access: "sequential", in_flight: 2, requests: 31, seconds: 0.012 }],
};

export function diagnosis(findings, window, more = {}) {
  return {
    schema: "whyslow.diagnosis/1", host, window,
    verdict: findings.length > 0 ? "bottleneck" : "healthy", findings,
    ruled_out: [
      { id: "cpu", because: "tasks waited for a CPU 0.4 % of the time (PSI cpu)" },
      { id: "memory", because: "nothing was swapped in, and 3.91 GiB are available" },
      { id: "cpu.throttled", because: "no cgroup was throttled" },
    ],
    blind_spots: [
      { what: "threads of other users", why: "/proc/*/io: permission denied", remedy: "run as root" },
      { what: "time lost to interrupts", why: "this kernel has no /proc/pressure/irq", remedy: "" },
    ],
    interference: [{ victim: { kind: "cgroup", name: "/system.slice/postgresql.service", unit: "postgresql.service" }, culprit: { kind: "cgroup", name: "/system.slice/backup.service", unit: "backup.service" }, resource: "disk", on: "sdb", seconds: 5.2, observed: 10, share: 0.7, loss: 0.6, confidence: "high", how: "time waited x share of the requests in flight" }],
    closer_looks: [{ source: "bpf/sched", tells: "who waits for a CPU behind whom", seconds: 6.7 }],
    response_curves: findings.some(({ id }) => id === "disk.saturated") ? [curve] : [],
    cpu_explained: 0.97, cost: { cpu_seconds: 0.183, cpu_share: 0.0092, memory_bytes: 19293798 },
    ...more,
  };
}

const window = (from, to, source) => ({ start: rfc(from), end: rfc(to), seconds: to - from, samples: to - from, source });

function episode(from, to, finding, mean, more = {}) {
  const { id, subject } = finding;
  const key = `${id}@${subject.name}`;
  return {
    start: rfc(from), end: rfc(to), seconds: to - from, impact: finding.impact, mean_impact: mean, key, overlaps: [], before: [],
    diagnosis: diagnosis([finding, ...(id === "disk.saturated" ? [blocked, shaped] : [])], window(to - 60, to, "recording")), ...more,
  };
}

// Charts of an hour in which sdb is saturated from 3:20 to 3:30.
export function charts(from = night, count = 360, step = 10) {
  const at = times(from, count, step);
  const bad = { from: from + count * step / 3, to: from + count * step / 2 };
  const cpus = Array.from({ length: 12 }, (_, i) => series(`cpu${i}`, `cpu${i}`, at, 50 + i, 0.1 + 0.02 * i));
  const gap = series("web.service", "web.service", at, 71, 2.1e9);
  for (let i = 100; i < Math.min(130, count); i += 1) gap.mean[i] = gap.min[i] = gap.max[i] = null;
  const buckets = [0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512];
  const random = noise(99);
  const counts = at.map((t, i) => {
    if (i >= 40 && i < 44) return [];
    const isBad = t > bad.from && t <= bad.to;
    const peak = isBad ? 7.5 : 2;
    return buckets.slice(1).map((_, row) => Math.round(400 * Math.exp(-((row - peak) ** 2)) * (0.6 + 0.8 * random())));
  });
  return [
    chart("cpu.busy", "CPU time", "1", ["cpu.busy"], at, ["user", "system", "interrupts", "stolen"].map((name, i) =>
      ({ name, entity: "", mean: series(name, "", at, 10 + i, 0.2 / (i + 1), 0.25 / (i + 1), bad).mean })), { kind: "stacked", help: "What the CPUs did, as a share of their time." }),
    chart("cpu.each", "Busy time of each CPU", "1", [], at, cpus, { left_out: 4 }),
    chart("pressure.io", "Tasks waiting for I/O", "1", ["psi.io.some"], at, [series("some", "", at, 3, 0.02, 0.62, bad)], { help: "Pressure stall information: the share of time in which at least one task waited." }),
    chart("disk.latency", "Disk latency", "s", ["disk.wait"], at, [
      series("sda", "sda", at, 1, 0.0012), series("sdb", "sdb", at, 2, 0.004, 0.184, bad)], { help: "Mean time from a request's start to its completion." }),
    chart("disk.queue", "Requests in flight", "count", ["disk.queue"], at, [
      series("sda", "sda", at, 4, 0.2), series("sdb", "sdb", at, 5, 0.6, 31, bad)]),
    chart("disk.throughput", "Disk throughput", "By/s", ["disk.throughput"], at, [
      series("sda reads", "sda", at, 6, 1.1e6), series("sda writes", "sda", at, 7, 4.3e5),
      series("sdb reads", "sdb", at, 8, 6.1e7, 2.6e6, bad), series("sdb writes", "sdb", at, 9, 2.4e6, 1.2e5, bad)]),
    chart("disk.device_time@sdb read", "Time in the device: sdb reads", "s", [], at, [], { kind: "heat", buckets, counts, help: "How many requests took how long." }),
    chart("network.sent", "Network sent", "bit/s", ["net.sent"], at, [series("eth0", "eth0", at, 11, 8.2e6)]),
    chart("cgroup.memory", "Memory of control groups", "By", [], at, [gap, series("postgresql.service", "postgresql.service", at, 72, 5.4e9)]),
  ];
}

const page = (more) => ({ schema: "whyslow.report/1", title: "db1", host: "db1", from: night, to: night + 3600, diagnosis: null, explanation: null, charts: [], ...more });

function recording() {
  const at = (minutes) => night + minutes * 60;
  const episodes = [
    episode(at(8), at(9), overloaded, 0.9, { is_excerpt: true, before: [{ at: rfc(at(8) - 2), what: "process make [990] began" }] }),
    episode(at(20), at(30), saturated(), 0.55, { overlaps: ["mem.thrashing@/system.slice/web.service"], before: [
      { at: rfc(at(20) - 40), what: "queue of sdb: scheduler was mq-deadline, is none" },
      { at: rfc(at(20) - 3), what: "process backup.sh [812] began" }] }),
    episode(at(24), at(41), leaking, 0.12, { overlaps: ["disk.saturated@sdb"] }),
  ];
  return { schema: "whyslow.explanation/1", recording: "/var/lib/whyslow", start: rfc(night), end: rfc(night + 3600), samples: 3598, missed: 2, episodes, left_out: 4, events: [{ at: rfc(at(50)), what: "2 samples are missing: the disk was slow" }],
    changes: [
      { at: rfc(at(5)), kind: "package", name: "postgresql", old: "15.4", new: "15.5", what: "package postgresql: was 15.4, is 15.5" },
      { at: rfc(at(5)), kind: "package", name: "libpq5", old: "15.4", new: "15.5", what: "package libpq5: was 15.4, is 15.5" },
      { at: rfc(at(6)), kind: "unit", name: "postgresql.service", new: "restarted", what: "unit postgresql.service restarted" },
    ] };
}

// Names that attack a page: markup, an end of the script, an override of the direction, and names of JavaScript's own.
export const attack = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>";
export const override = "a\u202egnp.exe\u2028\u0007";

function hostile() {
  const [latency, ...others] = charts();
  const evil = [latency, ...others.slice(2, 7)].map((one, i) => ({
    ...one, id: `${one.id}@${attack}`, title: `${one.title} ${attack}`, help: override,
    series: one.series.map((s, n) => ({ ...s, name: [attack, override, "__proto__", "constructor"][(i + n) % 4], entity: attack })),
  }));
  const finding = saturated(attack, override);
  finding.summary = `${attack} cannot keep up. ${override}`;
  const at = night + 600;
  return page({
    title: `</title>${attack}`, host: attack, charts: evil, stack: named(`${attack}${override}`), profile: profile(() => `${attack}${override}`),
    diagnosis: diagnosis([finding, { ...shaped, subject: { kind: "interface", name: override } }], window(night, night + 3600, "live")),
    explanation: { ...recording(), episodes: [{ ...episode(at, at + 60, finding, 0.5), before: [{ at: rfc(at), what: attack }] }],
      changes: [{ at: rfc(at), kind: attack, name: override, new: attack, what: `${attack} ${override}` }] },
  });
}

export const documents = {
  recording: () => page({ title: "db1: 21 November, 03:00–04:00", charts: charts(), explanation: recording() }),
  live: () => page({ title: "db1", to: night + 10, charts: charts(night, 10, 1), stack: stack(), profile: profile(),
    diagnosis: diagnosis([saturated(), blocked, shaped], window(night, night + 10, "live")) }),
  healthy: () => page({ charts: charts(night, 10, 1).slice(0, 3), to: night + 10, diagnosis: diagnosis([], window(night, night + 10, "live")) }),
  capture: () => page({ title: "captured host", host: "", is_elapsed: true, from: 0, to: 100, charts: charts(0, 10, 10).slice(3, 5),
    diagnosis: diagnosis([{ ...saturated(), confidence: "low", culprits: [] }], { ...window(night, night + 100, "import"), start: null, end: null, is_assumed: true }, {
      verdict: "undetermined", not_cleared: [{ id: "disk", because: "tasks waited for I/O 46 % of the time" }],
      virtual_disks: [{ disk: { kind: "device", name: "vda", capture: "db.txt" }, guest: "db", name: "disk0", known_by: "serial number DB1",
        device: { kind: "device", name: "sdb", capture: "host.txt" }, requests: 30, device_requests: 200, wait: 0.06, device_wait: 0.048, device_busy: 0.99 }],
      next_capture: { command: "iostat -x 1 10", outcomes: [{ if: "a device has %util near 100", then: "that device is the bottleneck", decides: ["disk."] }], otherwise: "the wait is not for a block device" },
      comparisons: [{ a: "before.txt", b: "after.txt", conclusions: ["sda completed 1.4 times as many requests."] }],
      figures: [{ subject: { kind: "device", name: "sda" }, values: saturated().evidence.slice(0, 2) }],
    }) }),
  empty: () => page({ to: night }),
  // The result of a benchmark: a knee at a queue depth of 8, and pairs of an experiment.
  result: () => page({
    title: "whyslow: Benchmark: disk of /srv", to: night + 60,
    result: { headline: "Benchmark: disk of /srv", text: "/srv: folder\n\nSummary\n  random read of 4 KiB: 170/s" },
    charts: [
      labelled("bench.depth_rate", "Requests by queue depth", "1/s", "queue depth", [1, 2, 4, 8, 16, 32].map((depth) => [Math.log2(depth), String(depth)]), [
        { name: "random read of 4 KiB", entity: "a", mean: [21.2, 42.4, 84.8, 169.6, 170, 168] }, { name: "random write of 4 KiB", entity: "b", mean: [11, 20, 31, 33, null, 34] }]),
      labelled("bench.latency_percentiles", "Latency percentiles", "s", "percentile", [[0.3, "50\u00a0%"], [1, "90\u00a0%"], [2, "99\u00a0%"], [3, "99.9\u00a0%"]], [
        { name: "1 in flight", entity: "a", mean: [0.04, 0.06, 0.07, 0.08] }, { name: "8 in flight", entity: "b", mean: [0.05, 0.09, 0.2, 0.9] }]),
      labelled("try.effect", "Effect of each pair", "1", "pair", [[-1, "no change 1"], [0, "1"], [1, "2"], [2, "3"]], [
        { name: "without any change", entity: "a", points: true, mean: [0.02, null, null, null] },
        { name: "with the change", entity: "b", points: true, mean: [null, 0.5, 0.4, 0.45], min: [null, 0.4, 0.3, 0.4], max: [null, 0.6, 0.5, 0.5] },
        { name: "estimate and its interval", entity: "c", mean: [null, 0.45, 0.45, 0.45], min: [null, 0.4, 0.4, 0.4], max: [null, 0.5, 0.5, 0.5] }]),
    ],
  }),
  array: () => page({ title: "store1", host: "store1", to: night, stack: wide() }),
  hostile,
  // Ten series over a day at one second, as many as a report's reduction leaves.
  day: () => page({ to: night + 86400, charts: Array.from({ length: 6 }, (_, i) => ({ ...charts(night, 1440, 60)[3 + (i % 3)], id: `disk.${i}`, title: `Disk ${i}`,
    series: Array.from({ length: 10 }, (_, n) => series(`sd${n}`, `sd${n}`, times(night, 1440, 60), i * 10 + n + 1, 0.004)) })) }),
};

if (process.argv[1] === new URL(import.meta.url).pathname) {
  process.stdout.write(JSON.stringify(documents[process.argv[2]]()));
}
