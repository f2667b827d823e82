// Episodes over time, one bar each, with markers for changes and for events of the recording; and the same as a list.

import { button, element, fill, oncePerFrame } from "./dom.js";
import { action, command, details, facts } from "./finding.js";
import { drags } from "./gestures.js";
import { quantity, share } from "./format.js";
import { changeKind, headline, interferenceInWords, keyOf, quoted, sentence, severity, timeLost, waited } from "./words.js";

// The worst pairs of a group that waited and one that kept it waiting.
const mostPairs = 3;

// A label with more changes would cover the page.
const mostLabelled = 5;

// How the line before an episode begins that puts many changes together, each of which is in the explanation as well.
const together = /^\d+ .+ (changed|restarted): /;

const seconds = (text) => Date.parse(text) / 1000;

export function findingOf({ diagnosis, key }) {
  return diagnosis.findings.find((finding) => keyOf(finding) === key) ?? null;
}

// What explains an episode on another machine, the last in the chain; null if its cause is its own.
export function causeElsewhere({ diagnosis, key }) {
  const find = (key) => diagnosis.findings.find((finding) => keyOf(finding) === key);
  const own = find(key);
  let cause = null;
  const seen = new Set();
  for (let at = own; at && !seen.has(at); at = at.explained_by && find(at.explained_by)) {
    seen.add(at);
    if (at.subject.capture !== own.subject.capture) cause = at;
  }
  return cause;
}

// The episode that cost the most time.
export function worst(episodes) {
  const cost = (episode) => episode.mean_impact * episode.seconds;
  const found = episodes.filter(findingOf);
  return found.reduce((most, episode) => (most === null || cost(episode) > cost(most) ? episode : most), null);
}

// More rows than this would take the whole screen.
const mostLanes = 8;

// The rows that keep bars apart which would overlap: each bar goes into the first one that is free, or else into the one that
// will be free first.
export function lanes(spans) {
  const ends = [];
  return spans.map(({ from, to }) => {
    const free = ends.findIndex((end) => end <= from);
    const next = ends.length < mostLanes ? ends.length : ends.indexOf(Math.min(...ends));
    const lane = free < 0 ? next : free;
    ends[lane] = to;
    return lane;
  });
}

export class Timeline {
  constructor(explanation, view, links) {
    Object.assign(this, { explanation, view, links, chosen: null });
    this.track = element("div", { className: "track" });
    this.window = element("div", { className: "window" });
    this.selected = element("div", { className: "selected" });
    this.brush = element("div", { className: "brush", hidden: true });
    this.cursor = element("div", { className: "cursor", hidden: true });
    this.detail = element("div", { className: "episode", attributes: { "aria-live": "polite" } });
    this.list = element("ol", { className: "episodes" });
    this.key = element("ul", { className: "marker-key", attributes: { "aria-label": "Changes" } });
    this.element = element("div", {}, this.track, this.key, this.list, this.detail);
    const update = oncePerFrame(() => this.#update());
    view.on("range", update);
    view.on("selection", update);
    view.on("cursor", () => this.#moveCursor());
    view.on("clock", () => {
      this.#build();
      if (this.chosen) this.#describe(this.chosen);
    });
    this.#build();
    drags(this.track, {
      value: (x) => this.#whole.from + (x / this.track.clientWidth) * (this.#whole.to - this.#whole.from),
      brush: ({ left, width }) => {
        this.brush.hidden = width === 0;
        this.brush.style.setProperty("left", `${left}px`);
        this.brush.style.setProperty("width", `${width}px`);
      },
    }, view);
  }

  get #whole() {
    return this.view.whole;
  }

  // Where a moment is, as a share of the width.
  #at(moment) {
    const { from, to } = this.#whole;
    return Math.min(1, Math.max(0, (moment - from) / (to - from || 1)));
  }

  #place({ from, to }) {
    const left = this.#at(from);
    return { left: `${left * 100}%`, width: `${(this.#at(to) - left) * 100}%` };
  }

  #build() {
    const { episodes } = this.explanation;
    const spans = episodes.map(({ start, end }) => ({ from: seconds(start), to: seconds(end) }));
    // Bars have a least width, so that short episodes can be seen and hit.
    const least = (this.#whole.to - this.#whole.from) * 0.012;
    const rows = lanes(spans.map(({ from, to }) => ({ from, to: Math.max(to, from + least) })));
    this.track.style.setProperty("--lanes", Math.max(1, ...rows.map((row) => row + 1)));
    this.bars = episodes.map((episode, i) => this.#bar(episode, spans[i], rows[i]));
    this.lines = episodes.map((episode, i) => this.#line(episode, spans[i]));
    fill(this.track, this.#ticks(), this.window, this.selected, this.brush, this.bars, this.#markers(), this.cursor);
    fill(this.list, this.lines.map((line) => element("li", {}, line)));
    this.#update();
  }

  // What changes without losing the reader's place.
  #update() {
    const cover = (part, span) => {
      part.hidden = span === null;
      if (span) for (const [name, value] of Object.entries(this.#place(span))) part.style.setProperty(name, value);
    };
    cover(this.window, this.view.isWhole ? null : this.view.range);
    cover(this.selected, this.view.selection);
    this.explanation.episodes.forEach((episode, i) => {
      for (const button of [this.bars[i], this.lines[i]]) button.setAttribute("aria-pressed", String(episode === this.chosen));
    });
  }

  #ticks() {
    const { from, to } = this.#whole;
    const steps = [1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800];
    const step = steps.find((step) => (to - from) / step <= 8) ?? 604800 * 4;
    const zone = new Date(from * 1000).getTimezoneOffset() * -60;
    const offset = this.view.clock.zone ? 0 : zone;
    const moments = [];
    for (let at = Math.ceil((from + offset) / step) * step - offset; at <= to; at += step) moments.push(at);
    // A label would be cut off at the right edge.
    const fits = (moment) => this.#at(moment) < 0.94;
    return this.view.clock.axis(moments, step).map((label, i) => element("span", {
      className: "tick", style: { left: `${this.#at(moments[i]) * 100}%` },
    }, fits(moments[i]) ? label : ""));
  }

  #bar(episode, span, row) {
    const finding = findingOf(episode);
    const name = finding ? headline(finding) : episode.key;
    const { clock } = this.view;
    const label = `${name}, ${clock.time(span.from)}, for ${long(episode)}`;
    return button(name, {
      className: `bar ${finding ? severity(finding) : "event"}`, title: label, attributes: { "aria-label": label },
      style: { ...this.#place(span), "--row": row },
    }, () => this.choose(episode));
  }

  // Changes before episodes and of the machine, and events of the recording; those of a kind that are at one place share a marker.
  #markers() {
    const { episodes, events, changes = [] } = this.explanation;
    const before = episodes.flatMap(({ before }) => before).filter(({ what }) => !together.test(what));
    const { from } = this.#whole;
    const seen = new Map();
    for (const { at, what } of [...before, ...events, ...changes]) {
      const moment = seconds(at);
      // Some changes are from the hour before the first episode.
      if (moment < from - 120) continue;
      const kind = changeKind(what);
      const place = `${kind.kind} ${Math.round(this.#at(moment) * 200)}`;
      const same = seen.get(place) ?? { moment, kind, texts: new Set() };
      same.texts.add(`${this.view.clock.time(moment)} ${what}`);
      seen.set(place, same);
    }
    const markers = [...seen.values()];
    const kinds = new Map(markers.map(({ kind: { kind, label } }) => [kind, label]));
    fill(this.key, [...kinds].map(([kind, label]) => element("li", {}, element("span", { className: `sign ${kind}` }), label)));
    this.key.hidden = kinds.size === 0;
    return markers.map(({ moment, kind, texts }) => {
      const all = [...texts];
      const more = all.length > mostLabelled ? [`and ${all.length - mostLabelled} more`] : [];
      const label = [...all.slice(0, mostLabelled), ...more].join("; ");
      return button("", {
        className: `marker ${kind.kind}`, title: label, attributes: { "aria-label": `Changed: ${label}` },
        style: { "--at": `${this.#at(moment) * 100}%` },
      }, () => this.#note(all));
    });
  }

  #note(texts) {
    this.chosen = null;
    this.#update();
    fill(this.detail, element("h3", {}, "Changed"), element("ul", {}, texts.map((text) => element("li", {}, text))));
  }

  // The same in words, for those who cannot see the bars and for narrow screens.
  #line(episode, span) {
    const finding = findingOf(episode);
    return button([
      element("span", { className: "when" }, this.view.clock.time(span.from)),
      element("span", { className: "long" }, long(episode)),
      element("span", { className: `what ${finding ? severity(finding) : "event"}` }, finding ? sentence(finding) : episode.key),
    ], { className: "quiet" }, () => this.choose(episode));
  }

  // Shows an episode. The charts go to its time, with some of what was before.
  choose(episode) {
    this.chosen = episode;
    const [from, to] = [seconds(episode.start), seconds(episode.end)];
    const margin = Math.max((to - from) * 0.5, 10);
    this.view.show(from - margin, to + margin);
    this.#describe(episode);
  }

  #describe(episode) {
    const [finding, cause] = [findingOf(episode), causeElsewhere(episode)];
    const { clock } = this.view;
    const [from, to] = [seconds(episode.start), seconds(episode.end)];
    const changes = episode.before.map(({ at, what }) => element("li", {}, `${clock.time(seconds(at))} ${what}`));
    fill(this.detail,
      element("h3", {}, finding ? sentence(finding) : episode.key),
      element("p", { className: "note" }, `${clock.span(from, to)} (${long(episode)}) · ${cost(episode, finding)}`),
      cause ? [element("h4", {}, "Caused by"), element("p", {}, sentence(cause)), action(cause, "h4", episode.diagnosis.window.source)] : null,
      finding ? [facts(finding, episode.diagnosis, clock), cause ? null : action(finding, "h4", episode.diagnosis.window.source)] : null,
      affected(episode),
      changes.length > 0 ? [element("h4", {}, "Just before"), element("ul", {}, changes)] : null,
      episode.overlaps.length > 0 ? element("p", { className: "note" }, `At the same time: ${episode.overlaps.join(", ")}`) : null,
      element("div", { className: "buttons" },
        button("Compare with before", {}, () => {
          this.view.pin(null);
          this.view.select(from, to);
        }),
        button("Show everything", {}, () => this.view.reset())),
      finding ? details(finding, this.links) : null,
      episode.is_excerpt ? [element("p", { className: "note" }, "For everything that was found at that time:"), command(this.#wholeCommand(episode))] : null);
  }

  // What prints all of an episode, where it is recorded.
  #wholeCommand({ start, end }) {
    const { recording, beside = [] } = this.explanation;
    return `whyslow explain ${[recording, ...beside].map(quoted).join(" ")} --from ${start} --to ${end} -v`;
  }

  #moveCursor() {
    const { cursor } = this.view;
    this.cursor.hidden = cursor === null;
    if (cursor !== null) this.cursor.style.setProperty("left", `${this.#at(cursor) * 100}%`);
  }
}

function long({ seconds: duration }) {
  return quantity(Math.max(1, Math.round(duration)), "s");
}

// What an episode cost: at its worst, and over its length.
function cost(episode, finding) {
  if (!finding) return "no details";
  if (finding.impact_is === "not_measured") return timeLost(finding);
  if (finding.how_bad) return `at worst: ${timeLost(finding)}`;
  return `${waited(finding)} ${share(episode.mean_impact)} of the time, ${share(episode.impact)} at worst`;
}

// Who waited because of it, and what else it led to.
function affected({ diagnosis, key }) {
  const pairs = (diagnosis.interference ?? []).slice(0, mostPairs).map((pair) => `${interferenceInWords(pair)}.`);
  const effects = diagnosis.findings.filter((finding) => finding.explained_by === key).map(sentence);
  const said = [...pairs, ...effects];
  if (said.length === 0) return null;
  return [element("h4", {}, "Who was affected"), element("ul", {}, said.map((one) => element("li", {}, one)))];
}
