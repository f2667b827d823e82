// A stand-in for `whyslow serve` that a test has in its hands: it serves the modules of the page and plays documents.
// `node server.mjs` serves them until it is killed, to be looked at.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { charts, diagnosis, documents, night, saturated } from "./documents.mjs";
import { profile } from "./profiles.mjs";
import { stack } from "./stacks.mjs";

const web = new URL("../", import.meta.url);
const types = { html: "text/html; charset=utf-8", css: "text/css", js: "text/javascript" };
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const wordy = ["Disk sda is saturated: 31 requests are queued", "There is more work than 4 CPUs can do", "web.service waits for pages that were evicted too early"];

// So many recordings; every fifth one has a bottleneck, every seventh is undetermined.
export function recordings(count) {
  return Array.from({ length: count }, (_, i) => {
    const verdict = i % 5 === 0 ? "bottleneck" : i % 7 === 0 ? "undetermined" : "healthy";
    const isBad = verdict === "bottleneck";
    return {
      id: String(i), name: `db${i + 1}`, kind: "recording", from: night, to: night + 7 * 86400, interval: 1, folder: `/var/lib/whyslow/db${i + 1}`,
      verdict, finding: isBad ? wordy[(i / 5) % 3] : null, severity: isBad ? ((i * 37) % 100) / 100 : null,
      pressure: Array.from({ length: 60 }, (_, n) => (i % 9 === 3 && n < 10 ? null : Math.abs(Math.sin((i + 1) * n)) * (isBad ? 0.8 : 0.05))),
    };
  });
}

export const live = { id: "live", name: "web1", kind: "live", from: night, to: night + 120, interval: 1, verdict: "healthy", finding: null, severity: null };

const window = (from, to) => ({ start: new Date(from * 1000).toISOString(), end: new Date(to * 1000).toISOString(), seconds: to - from, samples: to - from, source: "live" });

// As in driver.mjs.
const isSlow = Number(process.env.WHYSLOW_TEST_SLOWDOWN ?? 1) > 1;

export class Server {
  token = "s3cret";
  // The module that starts the page.
  main = "main.js";
  hosts = [live];
  // The newest sample of the live machine, and what is asked of it.
  now = night + 120;
  isSlow = false;
  requests = [];
  // What a request is answered with instead: `(url) => [status, text] | null`.
  instead = () => null;

  async start(port = 0) {
    this.server = createServer((request, response) => this.#answer(request, response));
    await new Promise((done) => this.server.listen(port, "127.0.0.1", done));
    this.port = this.server.address().port;
    return this;
  }

  get url() {
    return `http://127.0.0.1:${this.port}/?token=${this.token}`;
  }

  // As if it were killed; `start` with the same port begins it again.
  async stop() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  asked(path) {
    return this.requests.filter((url) => url.pathname === path);
  }

  async #answer(request, response) {
    const url = new URL(request.url, "http://127.0.0.1");
    this.requests.push(url);
    const say = (status, type, text) => response.writeHead(status, {
      "content-type": type, "content-security-policy": policy, "cache-control": "no-store", "referrer-policy": "no-referrer",
    }).end(text);
    const error = (status, text) => say(status, "application/json", JSON.stringify({ error: text }));
    const instead = this.instead(url);
    if (instead) return error(...instead);
    if (!url.pathname.startsWith("/api/")) return this.#file(url.pathname, say);
    if (isSlow) await new Promise((done) => setTimeout(done, 100 + 900 * Math.random()));
    if (request.headers.authorization !== `Bearer ${this.token}`) return say(401, "text/plain", "a token is needed\n");
    const document = this.document(url);
    if (document === undefined) return error(404, "there is no such host");
    return document === null ? response.writeHead(204).end() : say(200, "application/json", JSON.stringify(document));
  }

  // What is at a path; null if nothing is new, and undefined if there is no such thing.
  document({ pathname, searchParams }) {
    if (pathname === "/api/overview") return { schema: "whyslow.serve/1", version: "0", hosts: this.hosts };
    const host = this.hosts.find(({ id }) => id === searchParams.get("host"));
    if (!host) return undefined;
    if (pathname === "/api/stack") return stack();
    if (pathname === "/api/profile") return profile();
    return host.kind === "live" ? this.#live(searchParams) : this.#recorded(host, searchParams);
  }

  async #file(path, say) {
    // Browsers ask for it by themselves.
    if (path === "/favicon.ico") return say(204, "image/x-icon", "");
    const name = path === "/" ? "index.html" : path.slice(1);
    try {
      const file = await readFile(new URL(name, web));
      const content = name === "index.html" ? String(file).replace("main.js", this.main) : file;
      say(200, types[name.split(".").at(-1)] ?? "application/octet-stream", content);
    } catch {
      say(404, "text/plain", "not found");
    }
  }

  #live(parameters) {
    const since = Number(parameters.get("since"));
    if (parameters.has("since") && since >= this.now) return null;
    const from = parameters.has("since") ? since : Math.max(night, Number(parameters.get("from") ?? night));
    const made = charts(from, Math.round(this.now - from), 1);
    const busy = made.find(({ id }) => id === "cpu.each");
    // From the second minute on sdc is there, and cpu11 is not.
    if (this.now > night + 120) busy.series = busy.series.filter(({ name }) => name !== "cpu11");
    const latency = made.find(({ id }) => id === "disk.latency");
    if (this.now > night + 125) latency.series.push({ name: "sdc", entity: "sdc", mean: latency.times.map(() => 0.002) });
    const isBad = this.isSlow;
    const finding = saturated();
    finding.summary = finding.summary.replace("31 requests", `${30 + (this.now % 7)} requests`);
    return {
      schema: "whyslow.report/1", title: "whyslow: web1", host: "web1", from: parameters.has("since") ? night : from, to: this.now, explanation: null, charts: made,
      diagnosis: parameters.get("only") === "charts" ? null : diagnosis(isBad ? [finding] : [], window(this.now - 10, this.now)),
    };
  }

  #recorded(host, parameters) {
    const from = Number(parameters.get("from") ?? host.to - 86400);
    const to = Number(parameters.get("to") ?? host.to);
    const step = Math.max(1, Math.ceil((to - from) / Number(parameters.get("intervals") ?? 500)));
    const only = parameters.get("only");
    const recorded = documents.recording();
    return { ...recorded, title: `whyslow: ${host.name}`, host: host.name, from, to, explanation: [null, "answer"].includes(only) ? recorded.explanation : null,
      charts: this.#parts(parameters, charts(from, Math.floor((to - from) / step), step)) };
  }

  // The charts that are asked for.
  #parts(parameters, all) {
    const only = parameters.get("only");
    if (only === "answer") return [];
    const spec = ({ id }) => id.split("@")[0];
    if (only === "outline") {
      // One chart stands for those of several things, and there may be one without data.
      const outlines = all.filter((chart, i) => all.findIndex((other) => spec(other) === spec(chart)) === i)
        .map((chart) => ({ ...chart, id: spec(chart), title: chart.title.split(":")[0], times: [], series: [], buckets: [], counts: [] }));
      return [...outlines, { ...outlines[0], id: "process.nothing", family: "process", title: "Nothing of it", signals: [] }];
    }
    const asked = parameters.get("charts")?.split(",");
    return all.filter((chart) => !asked || asked.includes(spec(chart)));
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const server = new Server();
  server.hosts = [live, { ...recordings(1)[0], name: "web1" }, ...recordings(Number(process.argv[2] ?? 200)).slice(1)];
  await server.start(9791);
  console.log(server.url);
  setInterval(() => (server.now += 1), 1000);
}
