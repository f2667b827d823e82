// Base units for people, as crates/model/src/human.rs formats them: binary multiples for memory and storage, decimal for
// network.

const binary = [[1, ""], [1024, "Ki"], [1024 ** 2, "Mi"], [1024 ** 3, "Gi"], [1024 ** 4, "Ti"], [1024 ** 5, "Pi"]];
const decimal = [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]];
// From how many seconds on, the size of the unit, its name.
const times = [
  [0, 1e-9, "ns"], [1e-6, 1e-6, "µs"], [1e-3, 1e-3, "ms"], [1, 1, "s"], [120, 60, "min"], [7200, 3600, "h"],
  [172800, 86400, "d"],
];

const isBytes = (unit) => unit === "By" || unit === "bytes";
const isByteRate = (unit) => unit === "By/s" || unit === "bytes/s";
const isRatio = (unit) => unit === "1" || unit === "ratio";

// Three significant digits; whole numbers, and those of four digits and more, without a fraction.
export function digits(number) {
  const magnitude = Math.abs(number);
  if (magnitude >= 1e15) return number.toExponential(2);
  if (Number.isInteger(number) || magnitude >= 100) return number.toFixed(0);
  if (magnitude >= 10) return number.toFixed(1);
  if (magnitude >= 0.01) return number.toFixed(2);
  return number < 0 ? "> -0.01" : "< 0.01";
}

// The size and the name of the unit that suits a number.
function scale(number, unit) {
  const from = (steps, suffix) => {
    const [size, prefix] = steps.findLast(([size]) => Math.abs(number) >= size) ?? steps[0];
    return [size, prefix + suffix];
  };
  if (unit === "s") {
    const [, size, name] = times.findLast(([from]) => Math.abs(number) >= from);
    return number === 0 ? [1, "s"] : [size, name];
  }
  if (isBytes(unit)) return from(binary, "B");
  if (isByteRate(unit)) return from(binary, "B/s");
  if (unit === "bit/s" || unit === "Hz") return from(decimal, unit);
  if (isRatio(unit)) return [0.01, "%"];
  if (unit === "1/s") return Math.abs(number) >= 1e6 ? from(decimal, "/s") : [1, "/s"];
  if (unit === "Cel") return [1, "°C"];
  if (unit === "count" || unit === "" || unit.startsWith("{")) return [1, ""];
  return [1, unit];
}

// A number in a base unit; a flag is yes or no; what is missing is a dash.
export function quantity(number, unit) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  if (unit === "flag") return number === 0 ? "no" : "yes";
  const [size, name] = scale(number, unit);
  return joined(digits(number / size), name);
}

// Number and unit stay on one line.
function joined(number, name) {
  return name === "" || name.startsWith("/") ? number + name : `${number}\u00a0${name}`;
}

// A share of a whole as a whole percentage; little is not nothing.
export function share(ratio) {
  const percent = ratio * 100;
  return percent > 0 && percent < 1 ? "<\u00a01\u00a0%" : `${percent.toFixed(0)}\u00a0%`;
}

// The labels of an axis: all in the unit that suits the largest, with as many decimals as they need to differ.
export function axisLabels(splits, unit) {
  const known = splits.filter((split) => split !== null);
  if (known.length === 0) return splits.map(() => "");
  const [size, name] = scale(Math.max(...known.map(Math.abs)), unit);
  const scaled = known.map((split) => split / size);
  const step = scaled.length > 1 ? Math.abs(scaled[1] - scaled[0]) : Math.abs(scaled[0]);
  const decimals = step > 0 ? Math.min(6, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9), needed(scaled))) : 0;
  return splits.map((split) => (split === null ? "" : joined((split / size).toFixed(decimals), name)));
}

// Decimals that the labels need: 2.5 needs one, although a step of 2.5 is larger than one.
function needed(numbers) {
  const isExact = (decimals) =>
    numbers.every((number) => Math.abs(Number(number.toFixed(decimals)) - number) <= Math.abs(number) * 1e-6);
  return [0, 1, 2, 3].find(isExact) ?? 3;
}

// Steps between the labels of an axis, which are round in the unit that people read.
export function increments(unit) {
  if (isBytes(unit) || isByteRate(unit)) {
    return Array.from({ length: 60 }, (_, power) => 2 ** (power - 4));
  }
  const round = [];
  for (let power = -12; power <= 18; power += 1) round.push(...[1, 2, 2.5, 5].map((n) => Number(`${n}e${power}`)));
  if (unit !== "s") return round;
  return [...round.filter((step) => step < 60), 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400];
}

// Times in one zone; `zone` is undefined for the reader's own.
export class Clock {
  constructor(zone) {
    this.zone = zone;
    const format = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options });
    const two = "2-digit";
    this.formats = {
      time: format({ hour: two, minute: two, second: two }),
      precise: format({ hour: two, minute: two, second: two, fractionalSecondDigits: 3 }),
      minute: format({ hour: two, minute: two }),
      day: format({ day: "numeric", month: "short" }),
      date: format({ day: "numeric", month: "short", year: "numeric" }),
    };
    const named = format({ hour: two, timeZoneName: "short" });
    this.zoneName = (at) => named.formatToParts(at * 1000).find((part) => part.type === "timeZoneName").value;
  }

  time(at) {
    return this.formats.time.format(at * 1000);
  }

  // As precise as times differ by so many seconds.
  moment(at, step) {
    return this.formats[step < 1 ? "precise" : "time"].format(at * 1000);
  }

  dateAndTime(at) {
    return `${this.formats.date.format(at * 1000)}, ${this.time(at)}`;
  }

  // `21 Nov, 14:03`.
  brief(at) {
    return `${this.formats.day.format(at * 1000)}, ${this.formats.minute.format(at * 1000)}`;
  }

  // `21 Nov 2026, 14:03:22–14:03:32 CET`.
  span(from, to) {
    const [first, last] = [from, to].map((at) => this.formats.date.format(at * 1000));
    const end = first === last ? this.time(to) : this.dateAndTime(to);
    return `${first}, ${this.time(from)}–${end} ${this.zoneName(to)}`;
  }

  // Labels of a time axis: times of day, and the date where it begins.
  axis(splits, step) {
    let before = null;
    return splits.map((at) => {
      const day = this.formats.day.format(at * 1000);
      const isNew = before !== null && day !== before;
      before = day;
      if (step >= 86400 || isNew) return day;
      return step >= 60 ? this.formats.minute.format(at * 1000) : this.moment(at, step);
    });
  }
}

// Times since the first reading, for captures that do not say when they were made.
export class ElapsedClock {
  constructor() {
    this.zone = "UTC";
  }

  time(at) {
    const whole = Math.max(0, Math.round(at));
    const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    return parts.map((part) => String(part).padStart(2, "0")).join(":");
  }

  moment(at, step) {
    return step < 1 ? `${at.toFixed(3)}\u00a0s` : this.time(at);
  }

  dateAndTime(at) {
    return this.time(at);
  }

  span(from, to) {
    return `${this.time(from)}–${this.time(to)} since the first reading`;
  }

  // With as many decimals as the steps between labels have.
  axis(splits, step) {
    const decimals = step < 0.01 ? 3 : step < 0.1 ? 2 : 1;
    return splits.map((at) => (step < 1 ? `${at.toFixed(decimals)}\u00a0s` : this.time(at)));
  }
}

// The places of a chart that is not over time, with their labels.
export class LabelClock {
  constructor({ times, x }) {
    Object.assign(this, { places: times, labels: x.labels, title: x.title });
  }

  #label(at) {
    const distances = this.places.map((place) => Math.abs(place - at));
    return this.labels[distances.indexOf(Math.min(...distances))] ?? "";
  }

  time(at) {
    return [this.title, this.#label(at)].filter(Boolean).join(" ");
  }

  moment(at) {
    return this.#label(at);
  }

  dateAndTime(at) {
    return this.time(at);
  }

  span(from, to) {
    return `${this.time(from)}–${this.#label(to)}`;
  }

  axis(splits) {
    return splits.map((at) => this.#label(at));
  }
}
