// The page of `whyslow serve`: a list of hosts, or one of them, live or recorded.

import { pause } from "./connection.js";
import { Client, RequestError } from "./data.js";
import { element, fill, visible } from "./dom.js";
import { Hosts } from "./hosts.js";
import { ProfilePanel, StackPanel } from "./inspect.js";
import { Live } from "./live.js";
import { PeriodChoice, spanOf } from "./period.js";
import { Refinement } from "./refinement.js";
import { Report } from "./report.js";
import { ServedPage } from "./served.js";

// Verdicts that are not known yet are being worked on.
const soon = 3000;
const later = 10_000;

export class Site extends ServedPage {
  #zone = null;

  constructor(colors) {
    super(colors);
    this.client = new Client(this.token);
    this.hosts = new Hosts((host) => this.address({ host: host.id }), (host) => this.go({ host: host.id }));
  }

  route() {
    const parameters = new URLSearchParams(location.search);
    const number = (name) => (parameters.has(name) && Number.isFinite(Number(parameters.get(name))) ? Number(parameters.get(name)) : null);
    return { host: parameters.get("host"), period: parameters.get("period"), from: number("from"), to: number("to") };
  }

  async show(where, signal) {
    const { hosts } = await this.connection.persist(() => this.client.overview(signal), signal);
    const host = where.host ? hosts.find(({ id }) => id === where.host) : onlyMachine(hosts);
    if (where.host && !host) throw new RequestError("missing", "There is no such host here, or not any more.");
    if (host) await this.#openHost(host, hosts, where, signal);
    else await this.#openHosts(hosts, signal);
  }

  get isOccupied() {
    return super.isOccupied || this.hosts.element.isConnected;
  }

  clear() {
    if (this.hosts.element.isConnected) this.hosts.leave();
    super.clear();
  }

  async #openHosts(first, signal) {
    this.clear();
    document.title = "whyslow: hosts";
    fill(document.getElementById("title"), "whyslow");
    fill(document.getElementById("settings"), this.colors);
    this.skipTo("hosts", "Skip to the hosts");
    fill(this.place, this.hosts.element);
    this.hosts.enter(first);
    this.ready();
    let hosts = first;
    for (;;) {
      const isComplete = hosts.every(({ kind, verdict, error }) => kind === "live" || verdict !== null || error);
      await pause(isComplete ? later : soon, signal);
      if (document.hidden) continue;
      ({ hosts } = await this.connection.persist(() => this.client.overview(signal), signal));
      this.hosts.update(hosts);
    }
  }

  async #openHost(host, hosts, where, signal) {
    const isLive = host.kind === "live";
    const live = isLive ? new Live(this.client, this.connection, host) : null;
    const asked = isLive ? live.span : spanOf(where, host);
    const page = await this.#page(host, isLive ? asked : { ...asked, only: "outline" }, signal);
    // A recording may go on, but what is asked for later is of the same span.
    const span = { from: page.from, to: page.to };
    const load = isLive ? null : (ids) => this.#page(host, { ...span, charts: ids.join(), only: "charts" }, signal);
    this.clear();
    const back = onlyMachine(hosts) ? [] : [this.link({}, {}, "← All hosts")];
    const panels = {
      stack: (view) => new StackPanel((at) => this.client.stack(host.id, at, signal), view, isLive, signal).element,
      profile: isLive ? () => new ProfilePanel((asked) => this.client.profile(host.id, asked, signal), signal).element : null,
    };
    const report = new Report(page, { settings: [this.colors], links: back, zone: this.#zone, isLive, panels, load });
    this.report = report;
    report.view.on("clock", (clock) => (this.#zone = clock.zone ?? null));
    if (!isLive) document.title = visible(page.title);
    this.skipTo("answer", "Skip to the answer");
    const finer = new Refinement(this.client, host, report, signal);
    const choice = isLive ? live.element : new PeriodChoice(host, where, report.view, (chosen) => this.go({ host: host.id, ...chosen })).element;
    fill(this.place, element("div", { className: "controls" }, this.#kinds(host, hosts), choice, finer.element));
    scrollTo(0, 0);
    if (!isLive) await this.#answer(host, span, report, signal);
    this.ready();
    await live?.run(report, signal);
  }

  // Finds out what happened; without it, the charts can still be read.
  async #answer(host, span, report, signal) {
    try {
      report.answered(await this.#page(host, { ...span, only: "answer" }, signal));
    } catch (error) {
      if (signal.aborted) throw error;
      report.answered({ diagnosis: null, explanation: null });
      this.ready();
      throw error;
    }
  }

  // A server that has just begun has no sample yet.
  async #page(host, span, signal) {
    for (;;) {
      const page = await this.connection.persist(() => this.client.page(host.id, span, signal), signal);
      if (page) return page;
      await pause(1000, signal);
    }
  }

  // The same machine, live and as it was recorded.
  #kinds(host, hosts) {
    const same = hosts.filter(({ name, id }) => id === host.id || (name === host.name && name !== ""));
    if (same.length < 2) return null;
    const recordings = same.filter(({ kind }) => kind !== "live").length;
    const label = ({ kind, folder, id }) => (kind === "live" ? "Live" : recordings > 1 ? `Recorded: ${folder ?? id}` : "Recorded");
    return element("nav", { className: "kinds", attributes: { "aria-label": "Live or recorded" } }, same.map((one) => this.link({ host: one.id }, {
      attributes: { "aria-current": one.id === host.id ? "page" : null },
    }, label(one))));
  }
}

// The host to show if all of them are one machine: what happens now, or otherwise what was recorded last.
function onlyMachine(hosts) {
  const names = new Set(hosts.map(({ name, id }) => name || id));
  if (names.size !== 1) return null;
  return hosts.find(({ kind }) => kind === "live") ?? hosts.reduce((newest, host) => (host.to > newest.to ? host : newest));
}
