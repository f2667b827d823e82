// Stands where a chart will be until its data is there.

import { element, fill } from "./dom.js";

export class Placeholder {
  isPlaceholder = true;
  isNear = false;
  emphasized = null;

  constructor(chart) {
    Object.assign(this, { base: chart, chart });
    this.state = element("p", { className: "plot note" }, "Loading…");
    this.element = element("figure", { className: "chart pending", id: chart.anchor, tabIndex: -1, attributes: { "aria-busy": "true" } },
      element("figcaption", {}, element("h4", {}, chart.title), element("p", {}, chart.help)), this.state);
  }

  near(isNear) {
    this.isNear = isNear;
  }

  fail(message) {
    fill(this.state, message);
    this.element.removeAttribute("aria-busy");
  }

  // A series that stands out once it is there.
  emphasize(isWanted) {
    this.emphasized = isWanted;
  }

  matches(text) {
    return [this.chart.title, this.chart.id].some((name) => name.toLowerCase().includes(text.toLowerCase()));
  }

  hasSeries() {
    return false;
  }

  // What a chart does with its data.
  changed() {}

  dispose() {}

  filter() {}

  recolor() {}

  redraw() {}

  show() {}
}
