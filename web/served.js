// A page of a server: what is shown is in the page's address, so that reloading, bookmarks and the way back work.

import { Connection } from "./connection.js";
import { RequestError } from "./data.js";
import { element, fill } from "./dom.js";

// Subclasses have `route()`, which reads the address, and `show(where, signal)`, which shows what it says.
export class ServedPage {
  #left = new AbortController();
  // Whether what the address says is shown; and whether anything was before.
  #isOpen = false;
  #wasOpen = false;

  // `colors` is the choice of colours.
  constructor(colors) {
    this.colors = colors;
    this.token = new URLSearchParams(location.search).get("token") ?? "";
    this.connection = new Connection();
    this.report = null;
    this.place = element("div", { className: "site" });
    const main = document.querySelector("main");
    document.getElementById("charts").hidden = true;
    main.before(this.connection.element);
    main.prepend(this.place);
  }

  start() {
    addEventListener("popstate", () => {
      // Links within the page change the address too.
      if (this.address(this.route()) !== this.shown) this.open(this.route());
    });
    this.open(this.route());
  }

  recolor() {
    this.report?.recolor();
  }

  // The address of what is shown.
  address(where) {
    const parameters = Object.entries({ token: this.token, ...where }).filter(([, value]) => (value ?? null) !== null);
    return `?${new URLSearchParams(parameters)}`;
  }

  go(where) {
    history.pushState(null, "", this.address(where));
    this.open(where);
  }

  // A link that needs no new page, unless it is to open elsewhere.
  link(where, properties, ...content) {
    const follow = (event) => {
      if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      this.go(where);
    };
    return element("a", { href: this.address(where), ...properties, on: { click: follow } }, content);
  }

  // What was shown stays until the new is there.
  async open(where) {
    this.#left.abort();
    this.#left = new AbortController();
    const { signal } = this.#left;
    this.shown = this.address(where);
    this.#isOpen = false;
    this.#wait();
    try {
      await this.show(where, signal);
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  // Whether something is shown that can stay until there is something else.
  get isOccupied() {
    return this.report !== null;
  }

  #wait() {
    delete document.documentElement.dataset.ready;
    document.querySelector("main").setAttribute("aria-busy", "true");
    if (!this.isOccupied) fill(this.place, element("p", { className: "note", attributes: { role: "status" } }, "Loading…"));
  }

  // Makes room.
  clear() {
    this.report?.dispose();
    this.report = null;
    fill(this.place);
    document.querySelector("main").removeAttribute("aria-busy");
  }

  ready() {
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
    if (this.report && this.#isOpen) {
      this.place.prepend(failure);
    } else {
      this.clear();
      fill(document.getElementById("settings"), this.colors);
      fill(this.place, failure);
    }
    this.ready();
  }

  skipTo(id, text) {
    const skip = document.querySelector(".skip");
    skip.href = `#${id}`;
    fill(skip, text);
  }
}
