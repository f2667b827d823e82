// The page of `whyslow serve`: a list of hosts, or one of them, live or recorded. What is shown is in the page's address, so that
// reloading, bookmarks and the way back work.

import { Connection, pause } from "./connection.js";
import { Client, RequestError } from "./data.js";
import { element, fill, visible } from "./dom.js";
import { Hosts } from "./hosts.js";
import { ProfilePanel, StackPanel } from "./inspect.js";
import { Live } from "./live.js";
import { PeriodChoice, spanOf } from "./period.js";
import { Refinement } from "./refinement.js";
import { Report } from "./report.js";

// Verdicts that are not known yet are being worked on.
const soon = 3000;
const later = 10_000;

export class Site {
  #left = new AbortController();
  #report = null;
  // Whether what the address says is shown; and whether anything was before.
  #isOpen = false;
  #wasOpen = false;
  #zone = null;

  // `colors` is the choice of colours.
  constructor(colors) {
    this.colors = colors;
    this.token = new URLSearchParams(location.search).get("token") ?? "";
    this.client = new Client(this.token);
    this.connection = new Connection();
    this.hosts = new Hosts((host) => this.address({ host: host.id }), (host) => this.#go({ host: host.id }));
    this.place = element("div", { className: "site" });
    const main = document.querySelector("main");
    document.getElementById("charts").hidden = true;
    main.before(this.connection.element);
    main.prepend(this.place);
  }

  start() {
    addEventListener("popstate", () => {
      // Links within the page change the address too.
      if (this.address(route()) !== this.shown) this.#open(route());
    });
    this.#open(route());
  }

  recolor() {
    this.#report?.recolor();
  }

  // The address of what is shown.
  address({ host, period, from, to }) {
    const parameters = Object.entries({ token: this.token, host, period, from, to }).filter(([, value]) => (value ?? null) !== null);
    return `?${new URLSearchParams(parameters)}`;
  }

  #go(where) {
    history.pushState(null, "", this.address(where));
    this.#open(where);
  }

  // What was shown stays until the new is there.
  async #open(where) {
    this.#left.abort();
    this.#left = new AbortController();
    const { signal } = this.#left;
    this.shown = this.address(where);
    this.#isOpen = false;
    this.#wait();
    try {
      const { hosts } = await this.connection.persist(() => this.client.overview(signal), signal);
      const host = where.host ? hosts.find(({ id }) => id === where.host) : onlyMachine(hosts);
      if (where.host && !host) throw new RequestError("missing", "There is no such host here, or not any more.");
      if (host) await this.#openHost(host, hosts, where, signal);
      else await this.#openHosts(hosts, signal);
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  #wait() {
    delete document.documentElement.dataset.ready;
    document.querySelector("main").setAttribute("aria-busy", "true");
    if (!this.#report && !this.hosts.element.isConnected) fill(this.place, element("p", { className: "note", attributes: { role: "status" } }, "Loading…"));
  }

  // Makes room.
  #clear() {
    if (this.hosts.element.isConnected) this.hosts.leave();
    this.#report?.dispose();
    this.#report = null;
    fill(this.place);
    document.querySelector("main").removeAttribute("aria-busy");
  }

  #ready() {
    // The reader's place, if it is gone with what was shown before.
    if (this.#wasOpen && document.activeElement === document.body) {
      const title = document.getElementById("title");
      title.tabIndex = -1;
      (this.place.querySelector("[aria-pressed='true'], [aria-current]") ?? title).focus({ preventScroll: true });
    }
    this.#isOpen = this.#wasOpen = true;
    document.documentElement.dataset.ready = "true";
  }

  #fail(error) {
    const isKnown = error instanceof RequestError;
    const all = element("a", { href: this.address({}) }, "Show what there is");
    const failure = element("p", { className: "failure", attributes: { role: "alert" } },
      isKnown ? error.message : `This page has failed: ${error.message}`, error.kind === "missing" ? [" ", all] : null);
    document.querySelector("main").removeAttribute("aria-busy");
    // A report that cannot be continued can still be read.
    if (this.#report && this.#isOpen) {
      this.place.prepend(failure);
    } else {
      this.#clear();
      fill(document.getElementById("settings"), this.colors);
      fill(this.place, failure);
    }
    this.#ready();
  }

  async #openHosts(first, signal) {
    this.#clear();
    document.title = "whyslow: hosts";
    fill(document.getElementById("title"), "whyslow");
    fill(document.getElementById("settings"), this.colors);
    this.#skipTo("hosts", "Skip to the hosts");
    fill(this.place, this.hosts.element);
    this.hosts.enter(first);
    this.#ready();
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
    this.#clear();
    const back = onlyMachine(hosts) ? [] : [element("a", { href: this.address({}), on: { click: (event) => this.#follow(event, {}) } }, "← All hosts")];
    const panels = {
      stack: (view) => new StackPanel((at) => this.client.stack(host.id, at, signal), view, isLive, signal).element,
      profile: isLive ? () => new ProfilePanel((asked) => this.client.profile(host.id, asked, signal), signal).element : null,
    };
    const report = new Report(page, { settings: [this.colors], links: back, zone: this.#zone, isLive, panels, load });
    this.#report = report;
    report.view.on("clock", (clock) => (this.#zone = clock.zone ?? null));
    if (!isLive) document.title = visible(page.title);
    this.#skipTo("answer", "Skip to the answer");
    const finer = new Refinement(this.client, host, report, signal);
    const choice = isLive ? live.element : new PeriodChoice(host, where, report.view, (chosen) => this.#go({ host: host.id, ...chosen })).element;
    fill(this.place, element("div", { className: "controls" }, this.#kinds(host, hosts), choice, finer.element));
    scrollTo(0, 0);
    if (!isLive) await this.#answer(host, span, report, signal);
    this.#ready();
    await live?.run(report, signal);
  }

  // Finds out what happened; without it, the charts can still be read.
  async #answer(host, span, report, signal) {
    try {
      report.answered(await this.#page(host, { ...span, only: "answer" }, signal));
    } catch (error) {
      if (signal.aborted) throw error;
      report.answered({ diagnosis: null, explanation: null });
      this.#ready();
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
    return element("nav", { className: "kinds", attributes: { "aria-label": "Live or recorded" } }, same.map((one) => element("a", {
      href: this.address({ host: one.id }), attributes: { "aria-current": one.id === host.id ? "page" : null },
      on: { click: (event) => this.#follow(event, { host: one.id }) },
    }, label(one))));
  }

  // A link that needs no new page, unless it is to open elsewhere.
  #follow(event, where) {
    if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    this.#go(where);
  }

  #skipTo(id, text) {
    const skip = document.querySelector(".skip");
    skip.href = `#${id}`;
    fill(skip, text);
  }
}

function route() {
  const parameters = new URLSearchParams(location.search);
  const number = (name) => (parameters.has(name) && Number.isFinite(Number(parameters.get(name))) ? Number(parameters.get(name)) : null);
  return { host: parameters.get("host"), period: parameters.get("period"), from: number("from"), to: number("to") };
}

// The host to show if all of them are one machine: what happens now, or otherwise what was recorded last.
function onlyMachine(hosts) {
  const names = new Set(hosts.map(({ name, id }) => name || id));
  if (names.size !== 1) return null;
  return hosts.find(({ kind }) => kind === "live") ?? hosts.reduce((newest, host) => (host.to > newest.to ? host : newest));
}
