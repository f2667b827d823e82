// Asks for the charts that are needed, a few at a time, the most urgent first.

// Charts of one request, and requests at a time: the server reads two at once.
const mostCharts = 8;
const mostRequests = 2;
// What is scrolled past faster is not asked for, milliseconds.
const delay = 60;

export class ChartLoader {
  #asked = new Set();
  #running = 0;
  #timer = 0;
  #hasLoaded = false;

  // `wanted` gives the ids of the charts that are needed now, the most urgent first. `ask` requests some of them, and `got` takes
  // their ids and what there is; `failed` takes an error. `idle` is told when nothing more is needed. It ends with the signal.
  constructor({ wanted, ask, got, failed, idle }, signal) {
    Object.assign(this, { wanted, ask, got, failed, idle, signal });
    signal.addEventListener("abort", () => clearTimeout(this.#timer));
  }

  // What is needed may have changed.
  poke() {
    if (this.#timer === 0 && !this.signal.aborted) this.#timer = setTimeout(() => this.#next(), delay);
  }

  // Whether something that is needed is not there yet.
  get isBusy() {
    return !this.signal.aborted && (this.#running > 0 || this.#missing().length > 0);
  }

  #missing() {
    return [...new Set(this.wanted())].filter((id) => !this.#asked.has(id));
  }

  #next() {
    this.#timer = 0;
    while (this.#running < mostRequests && !this.signal.aborted) {
      const ids = this.#missing().slice(0, mostCharts);
      if (ids.length === 0) break;
      for (const id of ids) this.#asked.add(id);
      this.#load(ids);
    }
    if (this.#hasLoaded && !this.isBusy && !this.signal.aborted) {
      this.#hasLoaded = false;
      this.idle();
    }
  }

  async #load(ids) {
    this.#running += 1;
    try {
      const page = await this.ask(ids, this.signal);
      if (!this.signal.aborted) this.got(ids, page?.charts ?? []);
    } catch (error) {
      if (!this.signal.aborted) this.failed(ids, error);
    }
    this.#running -= 1;
    this.#hasLoaded = true;
    this.#next();
  }
}
