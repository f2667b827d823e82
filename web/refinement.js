// Zooming in beyond the intervals of the document asks the server for finer ones of that span, for the charts that are needed. Until
// they are there, and if they do not come, the charts show what the document has.

import { element, fill } from "./dom.js";
import { stepOf } from "./growth.js";

// The most intervals that the server gives.
const most = 1500;
// After the last change of the span, milliseconds.
const delay = 250;
// Finer data must have this many times as many intervals.
const gain = 1.9;

export class Refinement {
  #timer = 0;
  #asked = null;
  #range = null;
  // The span and the interval of the finer data that is shown.
  #shown = null;

  constructor(client, host, report, signal) {
    Object.assign(this, { client, host, report, signal });
    this.element = element("span", { className: "note", attributes: { role: "status" } });
    report.view.on("range", () => this.#changed());
    // Until charts are there, it is not known how fine they are.
    report.onLoaded(() => this.#asked === null && this.#plan());
    signal.addEventListener("abort", () => this.#cancel());
  }

  #cancel() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
    this.#asked = null;
  }

  #plan() {
    clearTimeout(this.#timer);
    if (!this.signal.aborted) this.#timer = setTimeout(() => this.#refine(), delay);
  }

  #changed() {
    const { range, isWhole } = this.report.view;
    // It only grows behind what is shown.
    if (this.#range?.from === range.from && this.#range.to === range.to) return;
    this.#range = range;
    if (!this.#shown || isWhole || !contains(this.#shown, range)) {
      this.#cancel();
      if (this.#shown) this.report.coarsen();
      this.#shown = null;
    }
    this.#plan();
  }

  #refine() {
    const { view, page } = this.report;
    const { range, whole } = view;
    fill(this.element);
    if (view.isWhole) return;
    // As much on either side, so that what is compared with the span right before it is as fine.
    const length = range.to - range.from;
    const span = { from: Math.max(whole.from, range.from - length), to: Math.min(whole.to, range.to + length) };
    const finest = Math.max(this.host.interval, (span.to - span.from) / most);
    const step = this.#shown?.step ?? stepOf(page.charts);
    if (step !== null && step >= gain * finest) this.#load(span, step);
  }

  // Asks for finer data of a span, `step` being the interval of what is shown.
  #load(span, step) {
    this.#cancel();
    const asked = new AbortController();
    this.#asked = asked;
    this.report.startLoading({
      wants: ({ chart, isPlaceholder }) => !isPlaceholder && !chart.x,
      ask: (ids, signal) => {
        fill(this.element, "Loading finer data…");
        return this.client.page(this.host.id, { ...span, charts: ids.join(), intervals: most, only: "charts" }, signal);
      },
      got: (ids, charts) => {
        this.#shown = { ...span, step: stepOf(charts) ?? step };
        this.report.refine(charts);
      },
      failed: (ids, error) => {
        fill(this.element, `Finer data is missing. ${error.message}`);
        asked.abort();
      },
      idle: () => fill(this.element),
    }, asked.signal);
  }
}

const contains = (span, { from, to }) => span.from <= from && to <= span.to;
