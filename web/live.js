// Follows a live machine: asks for newer samples every few seconds, lets charts grow, and pauses.

import { pause } from "./connection.js";
import { announce, button, element, fill } from "./dom.js";

// What is shown, seconds up to now; what the server keeps, if that is less.
const lengths = [[300, "last 5 minutes"], [600, "last 10 minutes"], [1800, "last 30 minutes"], [Infinity, "everything kept"]];
const usual = 600;
// Between two requests, milliseconds.
const pace = 2000;
// After so long without news a new document is smaller than all that was missed.
const longPause = 60_000;
// So many answers without a sample: the clock of the machine may have been set back.
const mostIdle = 10;

export class Live {
  #isPaused = false;
  #wake = () => {};

  constructor(client, connection, host) {
    Object.assign(this, { client, connection, host, length: usual, report: null });
    this.button = button("Pause", { attributes: { "aria-keyshortcuts": "p" }, title: "P" }, () => this.#toggle());
    this.follow = button("Follow", { hidden: true, title: "Show the newest samples" }, () => this.report.view.reset());
    this.state = element("span", { className: "note" });
    const options = lengths.map(([length, label]) => element("option", { value: String(length), selected: length === usual }, label));
    const select = element("select", { on: { change: () => {
      this.length = Number(select.value);
      this.isDue = true;
      this.#wake();
    } } }, options);
    this.element = element("div", { className: "live" }, this.button, element("label", {}, element("span", {}, "Show"), select), this.follow, this.state);
  }

  // What to ask for.
  get span() {
    const { to } = this.report?.page ?? this.host;
    return Number.isFinite(this.length) && to > 0 ? { from: to - this.length } : {};
  }

  // Goes on until the signal ends it.
  async run(report, signal) {
    this.report = report;
    report.view.on("range", () => this.#tell());
    report.view.on("clock", () => this.#tell());
    addEventListener("keydown", (event) => this.#key(event), { signal });
    addEventListener("visibilitychange", () => document.hidden || this.#wake(), { signal });
    this.#tell();
    let [idle, newest] = [0, performance.now()];
    for (;;) {
      await this.#rest(signal);
      const isBehind = performance.now() - newest > longPause || idle >= mostIdle || report.isOvergrown;
      const isWhole = this.isDue || isBehind;
      this.isDue = false;
      const { to } = report.page;
      const ask = isWhole
        ? () => this.client.page(this.host.id, this.span, signal)
        : () => this.client.newer(this.host.id, to, signal);
      const answer = await this.connection.persist(ask, signal);
      if (answer === null) {
        idle += 1;
      } else if (isWhole) {
        report.replace(answer);
      } else if (answer.from > to) {
        // The server no longer has what comes between.
        this.isDue = true;
      } else if (!this.#isPaused) {
        report.grow(answer, Math.max(report.page.from, answer.from, answer.to - this.length));
      }
      if (answer !== null) [idle, newest] = [0, performance.now()];
      this.#tell();
    }
  }

  // Until it is time for the next request: not while nobody looks.
  async #rest(signal) {
    const wait = this.isDue ? 0 : Math.max(pace, (this.host.interval ?? 0) * 1000);
    await pause(wait, signal, (wake) => (this.#wake = wake));
    while (!this.isDue && (this.#isPaused || document.hidden)) await pause(longPause, signal, (wake) => (this.#wake = wake));
  }

  #toggle() {
    this.#isPaused = !this.#isPaused;
    fill(this.button, this.#isPaused ? "Resume" : "Pause");
    announce(this.#isPaused ? "Paused." : "Resumed.");
    this.#tell();
    this.#wake();
  }

  #key(event) {
    const isTyping = event.target.closest?.("input, select, textarea");
    if (event.key !== "p" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    event.preventDefault();
    this.#toggle();
  }

  #tell() {
    const { page, view } = this.report;
    this.follow.hidden = view.isWhole;
    const at = page.to > 0 ? view.clock.time(page.to) : "";
    const how = this.#isPaused ? "Paused at" : view.isWhole ? "Newest sample:" : "Zoomed, so that charts stay; newest sample:";
    fill(this.state, at === "" ? "Waiting for the first samples" : `${how} ${at}`);
  }
}
