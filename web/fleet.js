// The page of `whyslow-fleet serve`: the fleet, or one of its hosts.

import { pause } from "./connection.js";
import { Client, RequestError } from "./data.js";
import { element, fill, visible } from "./dom.js";
import { FleetView } from "./fleetview.js";
import { command, folded } from "./finding.js";
import { Clock } from "./format.js";
import { timesForm } from "./period.js";
import { Report } from "./report.js";
import { ServedPage } from "./served.js";
import { View } from "./view.js";

const periods = [["1h", "Last hour"], ["6h", "6 hours"], ["24h", "24 hours"], ["7d", "7 days"]];
const usualPeriod = "24h";
// A question that takes longer than this many milliseconds says that it is being worked on.
const patience = 2000;
// Newer values come this often at most, and in at most a tenth of the time.
const renewal = 60_000;

export class FleetPage extends ServedPage {
  constructor(colors) {
    super(colors);
    this.client = new Client(this.token, "whyslow-fleet serve");
    this.clock = new Clock(undefined);
    this.progress = element("p", { className: "note progress", hidden: true, attributes: { role: "status" } });
    this.fleet = new FleetView(this.clock, {
      link: (where, ...rest) => this.link({ ...this.time, by: this.where.by, ...where }, ...rest),
      go: (where) => this.go({ ...this.time, by: this.where.by, ...where }),
      ask: (path, parameters) => this.#ask(path, parameters),
    });
    this.connection.element.after(this.progress);
  }

  route() {
    const parameters = new URLSearchParams(location.search);
    const names = ["host", "since", "from", "to", "by", "finding", "change"];
    return Object.fromEntries(names.filter((name) => parameters.has(name)).map((name) => [name, parameters.get(name)]));
  }

  recolor() {
    super.recolor();
    this.fleet.recolor();
  }

  // What of the address says which time is meant.
  get time() {
    const { since, from, to } = this.where;
    return from !== undefined && to !== undefined ? { from, to } : { since: since ?? usualPeriod };
  }

  get isOccupied() {
    return super.isOccupied || this.fleet.element.isConnected;
  }

  clear() {
    this.fleet.leave();
    super.clear();
  }

  async show(where, signal) {
    this.where = where;
    this.signal = signal;
    if (where.host === undefined) await this.#showFleet(signal);
    else await this.#showHost(where.host, signal);
  }

  // What the server says about the time that is shown.
  #ask(path, parameters = {}) {
    const { signal } = this;
    const asked = { ...this.time, ...parameters };
    return this.#timed(this.connection.persist(() => this.client.get(`api/${path}`, asked, signal), signal));
  }

  // Says how long a question has taken so far.
  async #timed(answer) {
    const begin = performance.now();
    const say = () => {
      this.progress.hidden = false;
      fill(this.progress, `Reading the store: ${Math.round((performance.now() - begin) / 1000)}\u00a0s`);
    };
    let timer = 0;
    const first = setTimeout(() => {
      say();
      timer = setInterval(say, 1000);
    }, patience);
    try {
      return await answer;
    } finally {
      clearTimeout(first);
      clearInterval(timer);
      this.progress.hidden = true;
    }
  }

  async #showFleet(signal) {
    const { fleet, where } = this;
    const period = JSON.stringify(this.time);
    const isSame = fleet.element.isConnected && fleet.period === period;
    const map = isSame ? fleet.document : await this.#ask("heat");
    if (!isSame) {
      if (!fleet.element.isConnected) this.clear();
      fill(document.getElementById("settings"), this.colors);
      fill(document.getElementById("title"), "whyslow fleet");
      this.skipTo("fleet", "Skip to the fleet");
      fill(this.place, fleet.element);
    }
    document.title = "whyslow: fleet";
    fleet.period = period;
    fleet.show(map, where, this.#periods(map));
    document.querySelector("main").removeAttribute("aria-busy");
    await fleet.explain(signal);
    this.ready();
    await this.#renew(signal);
  }

  // Newer values of the last part of the time.
  async #renew(signal) {
    while (this.time.since !== undefined) {
      await pause(renewal, signal);
      if (document.hidden || this.fleet.isBusy) continue;
      const begin = performance.now();
      this.fleet.renew(await this.#ask("heat"));
      await this.fleet.explain(signal);
      await pause(Math.max(0, 9 * (performance.now() - begin) - renewal), signal);
    }
  }

  // The choice of a time, and what is kept of the address.
  #periods(span, more = {}) {
    const { by, finding, change } = this.where;
    const kept = { by, finding, change, ...more };
    const chosen = this.time.since ?? null;
    const links = periods.map(([since, label]) => this.link({ since, ...kept }, { attributes: { "aria-current": since === chosen ? "true" : null } }, label));
    const view = new View(Date.parse(span.from) / 1000, Date.parse(span.to) / 1000, this.clock);
    return element("div", { className: "period" }, element("nav", { className: "kinds", attributes: { "aria-label": "Period" } }, links),
      timesForm(view, chosen === null, (times) => this.go({ ...times, ...kept })));
  }

  async #showHost(host, signal) {
    const back = this.link({ ...this.time, by: this.where.by }, {}, "← All hosts");
    let report;
    try {
      report = await this.#ask("host", { host });
    } catch (error) {
      if (!(error instanceof RequestError) || error.kind !== "missing") throw error;
      this.#showNothing(host, error.message, back);
      return;
    }
    // What is asked for later is of the same time.
    const span = { from: Date.parse(report.from) / 1000, to: Date.parse(report.to) / 1000 };
    const page = (parameters) => this.#timed(this.connection.persist(
      () => this.client.get("api/page", { host, ...span, ...parameters }, signal), signal));
    const outline = await page({ only: "outline" });
    this.clear();
    this.report = new Report(outline, { settings: [this.colors], links: [back], load: (ids) => page({ charts: ids.join(), only: "charts" }) });
    document.title = visible(outline.title);
    this.skipTo("answer", "Skip to the answer");
    const isSilent = report.timeline.some((entry) => entry.what === "gap" && entry.goes_on);
    fill(this.place, element("div", { className: "controls" }, this.#periods(report, { host })),
      isSilent ? element("p", { className: "what warning" }, "This host is silent: nothing has come of the end of this time.") : null,
      properties(report), await this.#raw(host, signal));
    scrollTo(0, 0);
    this.report.answered(await page({ only: "answer" }));
    this.ready();
  }

  #showNothing(host, message, back) {
    this.clear();
    const now = { from: new Date(Date.now() - 86_400_000), to: new Date() };
    fill(document.getElementById("settings"), this.colors);
    fill(document.getElementById("title"), host);
    document.title = visible(`whyslow: ${host}`);
    fill(this.place, element("div", { className: "controls" }, back, this.#periods(now, { host })),
      element("p", { className: "failure", attributes: { role: "alert" } }, message));
    this.ready();
  }

  // The command that asks the host about the span that is shown.
  async #raw(host, signal) {
    const { view } = this.report;
    const place = element("div");
    const write = async () => {
      const { from, to } = view.range;
      try {
        fill(place, command((await this.client.get("api/raw", { host, from, to }, signal)).command));
      } catch (error) {
        if (!signal.aborted) fill(place, element("p", { className: "note" }, error.message));
      }
    };
    let timer = 0;
    view.on("range", () => {
      clearTimeout(timer);
      timer = setTimeout(write, 400);
    });
    await write();
    return folded("What the host itself recorded of the time that is shown", element("p", { className: "note" },
      "This command asks the host's own recording over your ssh; it only reads."), place);
  }
}

// What is known of a host.
function properties({ properties: all }) {
  if (all.length === 0) return null;
  const title = all.filter(({ kind }) => kind === "label").map(({ name, value }) => `${name} ${value}`).join(" · ");
  return folded(title ? `Properties: ${title}` : `Properties (${all.length})`, element("dl", { className: "facts" },
    all.map(({ kind, name, value }) => [element("dt", {}, `${kind} ${name}`), element("dd", {}, value)])));
}
