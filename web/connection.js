// Repeats requests while the server cannot be reached or is busy, and says so above the page.

import { announce, button, element, fill } from "./dom.js";

// Before the next attempt, seconds.
const waits = [1, 2, 4, 8, 15, 30];

export class Connection {
  #wake = () => {};

  constructor() {
    this.text = element("p", { attributes: { role: "alert" } });
    this.element = element("div", { className: "notice", hidden: true }, this.text, button("Try now", {}, () => this.#wake()));
    addEventListener("online", () => this.#wake());
  }

  // The answer of `call`, as soon as there is one. What does not pass is thrown, and so is the end by `signal`.
  async persist(call, signal) {
    for (let tried = 0; ; tried += 1) {
      try {
        const answer = await call();
        if (tried > 0) this.#back();
        return answer;
      } catch (error) {
        if (signal.aborted || !error.isTemporary) {
          this.element.hidden = true;
          throw error;
        }
        this.#say(`${error.message} Trying again.`);
      }
      await pause(waits[Math.min(tried, waits.length - 1)] * 1000, signal, (wake) => (this.#wake = wake));
    }
  }

  #say(text) {
    this.element.hidden = false;
    // The same again would be announced again.
    if (this.text.textContent !== text) fill(this.text, text);
  }

  #back() {
    this.element.hidden = true;
    fill(this.text);
    announce("Connected again.");
  }
}

// Waits for so many milliseconds, or until the function that `waking` gets is called. The end by `signal` is thrown.
export function pause(milliseconds, signal, waking = () => {}) {
  return new Promise((resolve, reject) => {
    const end = (call) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", aborted);
      call();
    };
    const aborted = () => end(() => reject(signal.reason));
    const timer = setTimeout(() => end(resolve), milliseconds);
    signal.addEventListener("abort", aborted);
    if (signal.aborted) aborted();
    waking(() => end(resolve));
  });
}
