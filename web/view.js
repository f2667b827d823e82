// What is shown: the span of time, the span that is compared, what dragging does, and the cursor. Charts and timeline listen.

// A span of less than this is a click that moved.
const shortest = 1e-3;

export class View extends EventTarget {
  // Without `canCompare` a span that is chosen is zoomed to.
  constructor(from, to, clock, { canCompare = true } = {}) {
    super();
    this.canCompare = canCompare;
    this.whole = { from, to };
    this.range = { from, to };
    this.selection = null;
    // The span that a selection is compared with, if the reader chose one.
    this.pinned = null;
    this.mode = "zoom";
    this.cursor = null;
    this.clock = clock;
  }

  // Calls back at changes of `range`, `selection`, `pinned`, `mode`, `cursor` or `clock`.
  on(what, call) {
    this.addEventListener(what, () => call(this[what]));
  }

  #changed(what) {
    this.dispatchEvent(new Event(what));
  }

  get isWhole() {
    return this.range.from === this.whole.from && this.range.to === this.whole.to;
  }

  // There is newer data. Who looks at everything goes on doing so, and a span that was zoomed to stays.
  extend(from, to) {
    const { isWhole } = this;
    this.whole = { from, to };
    if (isWhole) this.range = { from, to };
    this.#changed("range");
  }

  // Shows a span, moved or cut to what there is.
  show(from, to) {
    const { whole } = this;
    let [start, end] = from <= to ? [from, to] : [to, from];
    const length = Math.max(end - start, shortest);
    if (length >= whole.to - whole.from) {
      this.range = { ...whole };
    } else {
      start = Math.min(Math.max(start, whole.from), whole.to - length);
      this.range = { from: start, to: start + length };
    }
    this.#changed("range");
  }

  reset() {
    this.show(this.whole.from, this.whole.to);
  }

  // Changes the length of the span by a factor; the moment `at` stays where it is.
  zoom(factor, at = (this.range.from + this.range.to) / 2) {
    const { from, to } = this.range;
    this.show(at - (at - from) * factor, at + (to - at) * factor);
  }

  // Moves the span by a part of its length.
  pan(part) {
    const { from, to } = this.range;
    const by = (to - from) * part;
    // At an edge the span keeps its length.
    this.show(from + by, to + by);
  }

  select(from, to) {
    if (!this.canCompare) {
      this.show(from, to);
      return;
    }
    const [start, end] = from <= to ? [from, to] : [to, from];
    this.selection = { from: Math.max(start, this.whole.from), to: Math.min(end, this.whole.to) };
    this.#changed("selection");
  }

  deselect() {
    if (this.selection === null) return;
    this.selection = null;
    this.#changed("selection");
  }

  // The next selections are compared with this span; with null, with what is before each.
  pin(span) {
    this.pinned = span;
    // A span is not compared with itself.
    if (span !== null) this.selection = null;
    this.#changed("pinned");
    this.#changed("selection");
  }

  setMode(mode) {
    this.mode = mode;
    this.#changed("mode");
  }

  // The moment under the pointer, or null.
  point(at) {
    if (this.cursor === at) return;
    this.cursor = at;
    this.#changed("cursor");
  }

  setClock(clock) {
    this.clock = clock;
    this.#changed("clock");
  }
}
