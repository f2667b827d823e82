// What a server says beyond the charts of a host: its stack with the load of each part, and a profile of a live machine.

import { announce, button, element, fill } from "./dom.js";
import { FlameGraph } from "./flame.js";
import { StackDiagram } from "./stack.js";

// Between two requests for the stack of a live machine, and after a zoom of a recorded one, milliseconds.
const pace = 5000;
const debounce = 600;
const lengths = [2, 5, 10, 30];
const kinds = [["on_cpu", "Running"], ["off_cpu", "Waiting"]];

// The stack of a host, read again while it is in sight: live every few seconds, of a recording at the end of the span that is shown.
export class StackPanel {
  #timer = 0;
  #asked = 0;

  // `read` asks the server for the stack at a time, or now; `signal` ends the panel.
  constructor(read, view, isLive, signal) {
    Object.assign(this, { read, view, isLive, signal, isInSight: false, shownAt: null });
    this.diagram = new StackDiagram();
    this.state = element("p", { className: "note", attributes: { role: "status" } }, "Loading…");
    this.element = element("div", {}, this.state, this.diagram.element);
    const observer = new IntersectionObserver(([entry]) => {
      this.isInSight = entry.isIntersecting;
      this.#plan(0);
    }, { rootMargin: "200px" });
    observer.observe(this.element);
    signal.addEventListener("abort", () => {
      observer.disconnect();
      clearTimeout(this.#timer);
    });
    if (!isLive) view.on("range", () => this.#plan(debounce));
  }

  #plan(wait) {
    clearTimeout(this.#timer);
    if (this.isInSight && !this.signal.aborted) this.#timer = setTimeout(() => this.#refresh(), wait);
  }

  async #refresh() {
    const at = this.isLive ? undefined : this.view.range.to;
    if (!this.isLive && at === this.shownAt) return;
    if (this.isLive && document.hidden) {
      this.#plan(pace);
      return;
    }
    // A later request makes an earlier answer void.
    const asked = (this.#asked += 1);
    try {
      const stack = await this.read(at, this.signal);
      if (asked !== this.#asked || this.signal.aborted) return;
      this.shownAt = at;
      this.diagram.show(stack);
      fill(this.state, this.isLive ? "" : `At ${this.view.clock.dateAndTime(at)}`);
      this.state.hidden = this.isLive;
    } catch (error) {
      if (this.signal.aborted || asked !== this.#asked) return;
      this.state.hidden = false;
      fill(this.state, error.message);
    }
    if (this.isLive) this.#plan(pace);
  }
}

// A form that profiles the machine, and the flame graph of the last profile.
export class ProfilePanel {
  constructor(read, signal) {
    Object.assign(this, { read, signal });
    this.kind = choice(kinds, "on_cpu");
    this.length = choice(lengths.map((seconds) => [String(seconds), `${seconds} s`]), "5");
    this.start = button("Profile", {}, () => this.#run());
    this.state = element("span", { className: "note", attributes: { role: "status" } });
    this.graph = element("div");
    this.element = element("div", {}, element("div", { className: "flame-tools" },
      element("label", {}, element("span", { className: "note" }, "What"), " ", this.kind), element("label", {}, element("span", { className: "note" }, "How long"), " ", this.length),
      this.start, this.state), this.graph);
  }

  async #run() {
    const seconds = Number(this.length.value);
    this.start.disabled = true;
    fill(this.state, `Profiling the whole machine for ${seconds} s…`);
    try {
      const profile = await this.read({ seconds, kind: this.kind.value }, this.signal);
      if (this.signal.aborted) return;
      fill(this.state);
      fill(this.graph, new FlameGraph(profile).element);
      announce("The profile is there.");
    } catch (error) {
      if (!this.signal.aborted) fill(this.state, error.message);
    }
    this.start.disabled = false;
  }
}

function choice(options, chosen) {
  return element("select", {}, options.map(([value, label]) => element("option", { value, selected: value === chosen }, label)));
}
