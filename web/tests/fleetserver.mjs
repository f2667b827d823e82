// A stand-in for `whyslow-fleet serve`: a made-up fleet in which the hosts of one kernel are sick.
// `node fleetserver.mjs [HOSTS]` serves it until it is killed, to be looked at.

import { charts, night } from "./documents.mjs";
import { Server } from "./server.mjs";

const hour = 3600;
const bad = "6.12.9-cloud";
const iso = (at) => new Date(at * 1000).toISOString();
const number = (text) => Number(text ?? 0);
const noise = (i, n) => Math.abs(Math.sin(i * 12.9898 + n * 78.233) * 43758.5453) % 1;

// Host `i`: every fifth one has the kernel that makes it sick from two thirds of the time on.
export function host(i) {
  const kernel = i % 5 === 0 ? bad : "6.8.0-45-generic";
  return { name: `db${i + 1}`, kernel, role: ["web", "db", "cache"][i % 3], rack: `r${Math.floor(i / 20)}` };
}

export class FleetServer extends Server {
  main = "fleetmain.js";
  hosts = Array.from({ length: 40 }, (_, i) => host(i));
  // Hosts that did not report.
  gone = [{ name: "gone1", kernel: bad, role: "db", rack: "r0" }];
  to = night + 24 * hour;

  document(url) {
    const made = this.#made(url);
    if (made === undefined) return undefined;
    const { from, to } = this.#time(url.searchParams);
    return { schema: `whyslow.fleet${url.pathname.slice(4)}/1`, from: iso(from), to: iso(to), left_out: [], ...made };
  }

  #time(parameters) {
    if (parameters.has("from")) return { from: number(parameters.get("from")), to: number(parameters.get("to")) };
    const hours = { "1h": 1, "6h": 6, "24h": 24, "7d": 168 }[parameters.get("since")] ?? 24;
    return { from: this.to - hours * hour, to: this.to };
  }

  #made({ pathname, searchParams }) {
    const time = this.#time(searchParams);
    const known = (name) => [...this.hosts, ...this.gone].find((one) => one.name === name);
    switch (pathname) {
      case "/api/heat": return this.#heat(time);
      case "/api/sick": return this.#sick(time, searchParams.get("by"));
      case "/api/keys": return { keys: ["rack", "role", "kernel", "model"] };
      case "/api/property": return { by: searchParams.get("by"), values: Object.fromEntries(this.hosts.map((one) => [one.name, one[searchParams.get("by")] ?? "R650"])) };
      case "/api/why": return why(this.hosts, searchParams.get("finding"));
      case "/api/change": return this.#change(searchParams.get("id"));
      case "/api/host": return this.hosts.includes(known(searchParams.get("host"))) ? this.#host(known(searchParams.get("host")), time) : undefined;
      case "/api/page": return this.#page(known(searchParams.get("host")), searchParams, time);
      case "/api/raw": return { command: `ssh -- ${searchParams.get("host")} 'whyslow explain --from ${iso(time.from)}'` };
      default: return undefined;
    }
  }

  #isSick({ kernel }) {
    return kernel === bad;
  }

  #heat({ from, to }) {
    const lengths = [60, 300, 900, 1800, 3600, 7200];
    const step_s = lengths.find((one) => (to - from) / one <= 100) ?? 86400;
    const start = Math.floor(from / step_s) * step_s;
    const pieces = Math.ceil((to - start) / step_s);
    const rows = this.hosts.map((one, i) => {
      const share = (n) => {
        if (i % 7 === 3 && n > pieces * 0.4 && n < pieces * 0.5) return null;
        if (i === 1 && n > pieces * 0.8) return null;
        if (this.#isSick(one) && n >= (pieces * 2) / 3) return Math.round((0.3 + 0.6 * noise(i, n)) * 1000) / 1000;
        return noise(i, n) > 0.96 ? 0.004 + 0.1 * noise(n, i) : 0;
      };
      const shares = Array.from({ length: pieces }, (_, n) => share(n));
      const causes = shares.flatMap((one_, n) => (one_ > 0 ? [[n, this.#isSick(one) && n >= (pieces * 2) / 3 ? 0 : 1]] : []));
      const known = shares.filter((one_) => one_ !== null);
      const lost_s = known.reduce((sum, one_) => sum + one_, 0) * step_s;
      return { host: one.name, judged_s: known.length * step_s, lost_s, finding: this.#isSick(one) ? "disk.saturated" : "cpu.saturated",
        last: iso(i === 1 ? from + 0.8 * (to - from) : to - 60), ...(i === 1 ? { missing: "silent" } : {}), shares, causes };
    });
    rows.sort((a, b) => b.lost_s - a.lost_s);
    const gone = this.gone.map(({ name }) => ({ host: name, judged_s: 0, lost_s: 0, last: iso(from - 7200), missing: "not_reporting", shares: new Array(pieces).fill(null), causes: [] }));
    return { start: iso(start), step_s, pieces, findings: ["disk.saturated", "cpu.saturated"], hosts: [...rows, ...gone] };
  }

  #sick({ from, to }, by) {
    const sick = this.hosts.filter((one) => this.#isSick(one));
    const values = [...new Set(this.hosts.map((one) => one[by] ?? "R650"))];
    return {
      observed: this.hosts.length, sick: sick.length, not_reporting: this.gone.map(({ name }) => ({ host: name, last: iso(from - 7200) })),
      silent: [{ host: this.hosts[1].name, last: iso(from + 0.8 * (to - from)) }], hosts: [], more: 0,
      findings: [{ finding: "disk.saturated", hosts: sick.length, lost_s: 50_000 }, { finding: "cpu.saturated", hosts: 30, lost_s: 900 }],
      ...(by ? { groups: values.map((value) => ({ value, hosts: this.hosts.filter((one) => (one[by] ?? "R650") === value).length,
        sick: sick.filter((one) => (one[by] ?? "R650") === value).length, lost_s: 5000, judged_s: 100_000, finding: "disk.saturated" })) } : {}),
    };
  }

  #change(id) {
    const at = (part) => iso(this.to - 24 * hour * (1 - part));
    const changes = [
      { id: `kernel:release=${bad}`, hosts: 8, first: at(0.62), last: at(0.66) }, { id: "package:openssl=3.0.15", hosts: 30, first: at(0.2), last: at(0.3) },
      { id: "sysctl:vm.swappiness=10", hosts: 2, first: at(0.2), last: at(0.2) },
    ];
    if (id === null) return { id: null, rollout: null, changes };
    const of = { effect: "hurt", changed: 8, controls: 30, changed_lost: [0.01, 0.46], controls_lost: [0.01, 0.012], difference: { estimate: 0.44, low: 0.3, high: 0.6 }, p: 0.0002 };
    const rollout = { effect: "hurt", summary: "After it, changed hosts lose 44 points more of their time than hosts that did not change.", changed: 8, controls: 30,
      unobserved: 1, waves: 2, sick: { ...of, effect: "unknown", changed: 0, controls: 0, difference: null, p: 1 }, healthy: of, caveats: ["no host was sick before"] };
    return { id, rollout, changes: [] };
  }

  #host({ name, kernel, role, rack }, { from, to }) {
    const label = (key, value) => ({ kind: "label", name: key, value });
    return { host: name, properties: [{ kind: "kernel", name: "release", value: kernel }, label("rack", rack), label("role", role)],
      seconds: to - from, judged_s: to - from, lost_s: 100, timeline: name === this.hosts[1].name ? [{ at: iso(to - 7200), until: iso(to), what: "gap", goes_on: true }] : [],
      more: 0, worst_minutes: [] };
  }

  #page(one, parameters, { from, to }) {
    if (!one) return undefined;
    const only = parameters.get("only");
    const step = Math.max(60, Math.ceil((to - from) / 500));
    const all = charts(from, Math.floor((to - from) / step), step).filter(({ kind }) => kind !== "heat");
    const asked = parameters.get("charts")?.split(",");
    const outline = (chart) => ({ ...chart, times: [], series: [] });
    return {
      schema: "whyslow.report/1", title: `whyslow: ${one.name}`, host: one.name, from, to, diagnosis: null, explanation: only === "answer" ? explanation(one, from, to) : null,
      charts: only === "answer" ? [] : only === "outline" ? all.map(outline) : all.filter(({ id }) => !asked || asked.includes(id)),
    };
  }
}

function explanation(one, from, to) {
  const at = (part) => iso(from + part * (to - from));
  const window = { start: at(0.66), end: at(0.98), seconds: 0.3 * (to - from), samples: 0, source: "recording" };
  const diagnosis = { schema: "whyslow.diagnosis/1", host: { name: one.name, kernel: one.kernel }, window, verdict: "bottleneck", ruled_out: [], blind_spots: [],
    cost: { cpu_seconds: 0, cpu_share: 0, memory_bytes: 0 }, findings: [{ id: "disk.saturated", subject: { kind: "device", name: "nvme0n1" },
      culprits: [{ kind: "process", name: "backup", share: 0, of: "" }], impact: 0.9, impact_is: "measured", confidence: "high", summary: "", evidence: [], actions: [] }] };
  const episode = { start: at(0.66), end: at(0.98), seconds: 0.3 * (to - from), impact: 0.9, mean_impact: 0.5, key: "disk.saturated@nvme0n1", overlaps: [], before: [], diagnosis };
  return { schema: "whyslow.explanation/1", recording: "", start: iso(from), end: iso(to), samples: 86000, missed: 3, episodes: [episode],
    events: [{ at: at(0.4), what: "nothing shipped for 2 h" }], changes: [{ at: at(0.62), kind: "kernel", name: "release", old: "6.8", new: one.kernel, what: `kernel release: was 6.8, is ${one.kernel}` }] };
}

function why(hosts, finding) {
  const feature = (kind, name, value, isChange = false) => ({ is_change: isChange, kind, name, value });
  return {
    finding, verdict: "cause", summary: `kernel release ${bad} is what the sick hosts share: 8 of 8 have it, and 0 of 32 healthy ones.`, sick: 8, healthy: hosts.length - 8, tests: 214, within: "role",
    candidates: [{ features: [feature("kernel", "release", bad), feature("driver", "nvme", bad)], strength: "strong", is_marker: false, sick_with: 8, sick_known: 8, healthy_with: 0,
      healthy_known: 32, risk_difference: { estimate: 1, low: 0.62, high: 1 }, odds_ratio: { estimate: null, low: 28, high: null }, p: 0.0004, inseparable: [], explained: [feature("package", "linux-image", bad)] }],
    caveats: [], barely: 3, sick_from_the_start: 0, without_inventory: 1,
  };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const server = new FleetServer();
  server.hosts = Array.from({ length: Number(process.argv[2] ?? 300) }, (_, i) => host(i));
  await server.start(9792);
  console.log(server.url);
}
