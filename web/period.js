// Which part of a recording is shown.

import { button, element } from "./dom.js";

const hour = 3600;
const periods = [["1h", "Last hour", hour], ["24h", "24 hours", 24 * hour], ["7d", "7 days", 168 * hour], ["all", "Everything", Infinity]];
const defaultPeriod = "24h";

// The span that an address asks for, within a recording.
export function spanOf({ period, from, to }, host) {
  if (from !== null && from !== undefined && to !== null && to !== undefined) return { from, to };
  // It has not been looked at yet.
  if (host.to === null) return {};
  const name = periods.some(([known]) => known === period) ? period : defaultPeriod;
  const [, , length] = periods.find(([known]) => known === name);
  return { from: Math.max(host.from, host.to - length), to: host.to };
}

// Buttons for the last hour and so on, and times to enter. `choose` gets what belongs into the address.
export class PeriodChoice {
  constructor(host, { period, from, to }, view, choose) {
    const isOwn = from !== null && from !== undefined;
    const chosen = isOwn ? null : period ?? defaultPeriod;
    // A period that is not shorter than the recording is everything.
    const offered = periods.filter(([, , length]) => length === Infinity || length < host.to - host.from);
    const isChosen = (name) => name === chosen || (name === "all" && !isOwn && !offered.some(([known]) => known === chosen));
    const buttons = offered.map(([name, label]) => button(label, {
      attributes: { "aria-pressed": String(isChosen(name)) },
    }, () => choose({ period: name })));
    this.element = element("div", { className: "period" },
      element("div", { className: "group", attributes: { role: "group", "aria-label": "Period" } }, buttons),
      timesForm(view, isOwn, choose));
  }
}

// Times to enter, which unfold.
export function timesForm(view, isOpen, choose) {
  const time = (label) => element("input", { type: "datetime-local", step: "1", required: true, attributes: { "aria-label": label } });
  const [start, end] = [time("From"), time("To")];
  const form = element("form", { className: "times", on: { submit: (event) => {
    event.preventDefault();
    const span = [start, end].map((input) => parse(input.value, view.clock));
    if (span[0] < span[1]) {
      choose({ from: span[0], to: span[1] });
    } else {
      end.setCustomValidity("The end must be after the start.");
      end.reportValidity();
    }
  }, input: () => end.setCustomValidity("") } }, start, element("span", {}, "to"), end, element("button", { type: "submit" }, "Show"));
  const write = () => {
    start.value = print(view.whole.from, view.clock);
    end.value = print(view.whole.to, view.clock);
  };
  view.on("clock", write);
  write();
  return element("details", { open: isOpen }, element("summary", {}, "From–to"), form);
}

// A moment as such an input has it, in the zone of a clock.
export function print(at, clock) {
  const zone = clock.zone === "UTC" ? 0 : new Date(at * 1000).getTimezoneOffset();
  return new Date(Math.round(at) * 1000 - zone * 60_000).toISOString().slice(0, 19);
}

export function parse(text, clock) {
  return Date.parse(clock.zone === "UTC" ? `${text}Z` : text) / 1000;
}
