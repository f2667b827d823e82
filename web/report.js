// What is shown of one document: the answer, the timeline and the charts, and how they change when there is newer data.

import { answer } from "./answer.js";
import { Chart } from "./chart.js";
import { reference } from "./differences.js";
import { announce, arrange, element, fill, morph, visible } from "./dom.js";
import { Links } from "./finding.js";
import { FlameGraph } from "./flame.js";
import { Clock, ElapsedClock, LabelClock, quantity } from "./format.js";
import { appendCharts, dropBefore, isOvergrown, sizesOf } from "./growth.js";
import { ChartLoader } from "./loader.js";
import { Placeholder } from "./placeholder.js";
import { Ranking } from "./ranking.js";
import { StackDiagram } from "./stack.js";
import { causeElsewhere, findingOf, Timeline, worst } from "./timeline.js";
import { keyHelp, toolbar } from "./toolbar.js";
import { View } from "./view.js";
import { idInWords, keyOf, sentence } from "./words.js";

// How far from sight charts are made already.
const margin = "400px";
// The names of families that are no word.
const titles = { bench: "Benchmark", try: "Experiment", filesystem: "File systems", cgroup: "Control groups", process: "Processes", pressure: "Pressure (time lost)" };
const verdicts = { bottleneck: "Bottleneck", healthy: "Healthy", undetermined: "Undetermined" };

export class Report {
  #made = 0;
  #ended = new AbortController();
  // What asks for charts, and what is told when some are there.
  #loaders = new Set();
  #onLoaded = [];

  // `settings` stand beside the title, `links` before those of the contents. In `zone` (the name of one, or null) times are
  // shown if the reader has chosen it before. Of a live machine newer samples follow. With `load`, which asks for charts by their
  // ids, the charts of the document have no data before they come near sight, and `answered` follows.
  constructor(page, { settings = [], links = [], zone = null, isLive = false, panels = {}, load = null } = {}) {
    Object.assign(this, { page, isLive, panels, lead: links, figures: new Map(), families: new Map(), isAnswered: load === null });
    this.clocks = page.is_elapsed ? [new ElapsedClock()] : [new Clock(undefined), new Clock("UTC")];
    this.view = new View(page.from, page.to, this.clocks.find((clock) => clock.zone === zone) ?? this.clocks[0]);
    this.sizes = sizesOf(page.charts);
    this.verdict = this.#verdictKey();
    this.toolbar = toolbar(this.view, (text) => this.#filter(text));
    this.links = new Links((...what) => this.#open(...what));
    this.view.on("selection", () => this.#poke());
    this.ranking = new Ranking({
      charts: () => this.#drawn(), view: this.view, reference: (selection) => this.#reference(selection),
      open: (...what) => this.#open(...what), isLoading: () => this.#isLoading,
    });
    this.area = element("div");
    this.#watch();
    for (const chart of page.charts) this.#add(chart, { isPending: load !== null });
    if (load) {
      this.startLoading({
        wants: (figure) => figure.isPlaceholder, ask: load, got: (ids, charts) => this.#loaded(ids, charts),
        failed: (ids, error) => this.#failed(ids, error),
      }, this.#ended.signal);
    }
    this.#stack();
    this.#profile();
    this.#arrange();
    fill(document.getElementById("settings"), this.#zones(), settings);
    fill(document.getElementById("chart-area"), this.toolbar, keyHelp(), this.ranking.element, this.area);
    this.#drawHead();
    this.view.on("clock", () => this.#drawHead());
    this.#timeline();
    // Without charts over time there is nothing to zoom.
    if (page.charts.length > 0 && page.charts.every((chart) => chart.x)) fill(document.getElementById("chart-area"), this.area);
  }

  // It makes room for another one.
  dispose() {
    this.#ended.abort();
    this.observer.disconnect();
    for (const figure of this.figures.values()) figure.dispose();
    for (const id of ["settings", "machine", "contents", "answer", "chart-area"]) fill(document.getElementById(id));
    for (const id of ["timeline", "stack", "profile", "charts"]) document.getElementById(id).hidden = true;
  }

  // In other colours.
  recolor() {
    for (const figure of this.figures.values()) figure.recolor();
    this.ranking.recolor();
  }

  // Newer samples of a live machine: charts grow, and what is older than `from` goes, unless the reader looks at a part.
  grow(newer, from) {
    const { page, view } = this;
    const added = appendCharts(page.charts, newer.charts);
    if (view.isWhole) dropBefore(page.charts, from);
    for (const figure of this.figures.values()) if (figure.chart === figure.base) figure.changed();
    this.#insert(added, newer.charts);
    Object.assign(page, { from: view.isWhole ? from : page.from, to: newer.to, diagnosis: newer.diagnosis ?? page.diagnosis });
    this.#extended();
  }

  // Another document of the same machine, as after a time without connection.
  replace(newer) {
    const { page } = this;
    const byId = new Map(newer.charts.map((chart) => [chart.id, chart]));
    for (const chart of page.charts) {
      const figure = this.figures.get(chart.anchor);
      const other = byId.get(chart.id);
      if (other) {
        Object.assign(chart, other);
        if (figure.chart === figure.base) figure.changed();
      } else {
        this.#remove(figure);
      }
    }
    page.charts = page.charts.filter(({ anchor }) => this.figures.has(anchor));
    const known = new Set(page.charts.map(({ id }) => id));
    this.#insert(newer.charts.filter(({ id }) => !known.has(id)), newer.charts);
    this.#arrange();
    this.sizes = sizesOf(page.charts);
    Object.assign(page, { from: newer.from, to: newer.to, diagnosis: newer.diagnosis ?? page.diagnosis });
    this.#extended();
  }

  // Whether so much has been appended that `replace` is due.
  get isOvergrown() {
    return isOvergrown(this.page.charts, this.sizes);
  }

  // Shows finer data of these charts.
  refine(charts) {
    const byId = new Map(charts.map((chart) => [chart.id, chart]));
    for (const figure of this.figures.values()) {
      const finer = byId.get(figure.base.id);
      if (!finer) continue;
      finer.anchor = figure.base.anchor;
      figure.show(finer);
    }
  }

  // Shows what the document has of all charts.
  coarsen() {
    for (const figure of this.figures.values()) figure.show(null);
  }

  // What happened, which can take longer to find out than what charts there are.
  answered({ diagnosis, explanation }) {
    Object.assign(this.page, { diagnosis, explanation });
    this.isAnswered = true;
    this.#drawHead();
    this.#timeline();
    this.#arrange();
  }

  // Asks for charts as they are needed, until the signal ends it: for those that `wants` says of.
  startLoading({ wants, ask, got, failed, idle = () => {} }, signal) {
    const loader = new ChartLoader({
      wanted: () => this.#needed().filter(wants).map(({ base }) => base.id.split("@")[0]), ask, failed,
      got: (ids, charts) => {
        got(ids, charts);
        for (const call of this.#onLoaded) call();
        this.#poke();
      },
      idle: () => {
        idle();
        if (!this.#isLoading) this.ranking.refresh();
      },
    }, signal);
    this.#loaders.add(loader);
    signal.addEventListener("abort", () => this.#loaders.delete(loader));
    loader.poke();
    return loader;
  }

  // Calls back when charts are there that were not before.
  onLoaded(call) {
    this.#onLoaded.push(call);
  }

  #poke() {
    for (const loader of this.#loaders) loader.poke();
  }

  get #isLoading() {
    return [...this.#loaders].some((loader) => loader.isBusy);
  }

  // The charts whose data is needed, those near sight first: all, where series are compared or looked for by their names.
  #needed() {
    const all = [...this.figures.values()];
    const near = all.filter(({ isNear }) => isNear);
    return this.view.selection !== null || this.text ? [...near, ...all.filter(({ isNear }) => !isNear)] : near;
  }

  // Puts charts where others stand for them; those that have no data are left out.
  #loaded(ids, charts) {
    const own = this.page.charts;
    const focused = document.activeElement;
    const arrived = [];
    for (const id of ids) {
      const at = own.findIndex((chart) => chart.id === id);
      const placeholder = this.figures.get(own[at].anchor);
      const made = charts.filter((chart) => chart.id === id || chart.id.startsWith(`${id}@`));
      own.splice(at, 1, ...made);
      this.#remove(placeholder);
      for (const [i, chart] of made.entries()) {
        // Links lead to the first of several.
        const figure = this.#add(chart, i === 0 ? { anchor: placeholder.base.anchor } : {});
        if (placeholder.emphasized) figure.emphasize(placeholder.emphasized);
        figure.near(placeholder.isNear);
        if (i === 0 && placeholder.element === focused) arrived.push(figure);
      }
    }
    this.#arrange();
    if (this.text) this.#filter(this.text);
    this.#drawHead();
    for (const figure of arrived) figure.element.focus({ preventScroll: true });
  }

  #failed(ids, error) {
    for (const figure of this.figures.values()) if (figure.isPlaceholder && ids.includes(figure.base.id)) figure.fail(error.message);
  }

  #extended() {
    const { page, view } = this;
    view.extend(page.from, page.to);
    this.#drawHead();
    const key = this.#verdictKey();
    if (key === this.verdict) return;
    this.verdict = key;
    const { diagnosis } = page;
    const finding = diagnosis.verdict === "bottleneck" ? diagnosis.findings[0] : null;
    announce(`${verdicts[diagnosis.verdict] ?? diagnosis.verdict}${finding ? `: ${sentence(finding)}` : "."}`);
  }

  // What the verdict is about: its numbers may change without a change of the verdict.
  #verdictKey() {
    const { diagnosis } = this.page;
    if (!diagnosis) return null;
    const finding = diagnosis.verdict === "bottleneck" ? diagnosis.findings[0] : null;
    return `${diagnosis.verdict} ${finding ? keyOf(finding) : ""}`;
  }

  #drawn() {
    return [...this.figures.values()].map((figure) => figure.chart);
  }

  #reference(selection) {
    return reference(selection, this.view.whole, this.view.pinned);
  }

  #add(chart, { isPending = false, anchor = null } = {}) {
    // Ids of charts contain names of others.
    this.#made += 1;
    chart.anchor = anchor ?? `chart-${this.#made}`;
    const figure = isPending ? new Placeholder(chart) : new Chart(chart, chart.x ? viewOf(chart) : this.view, (selection) => this.#reference(selection));
    this.figures.set(chart.anchor, figure);
    this.byElement.set(figure.element, figure);
    this.observer.observe(figure.element);
    return figure;
  }

  #remove(figure) {
    figure.dispose();
    this.observer.unobserve(figure.element);
    this.figures.delete(figure.base.anchor);
  }

  // Puts new charts where a document has them: behind the one that it has before them.
  #insert(added, order) {
    const { charts } = this.page;
    for (const chart of added) {
      const before = order[order.indexOf(chart) - 1];
      const at = charts.findIndex(({ id }) => id === before?.id);
      charts.splice(before && at < 0 ? charts.length : at + 1, 0, chart);
      this.#add(chart);
    }
    if (added.length > 0) {
      this.#arrange();
      if (this.text) this.#filter(this.text);
    }
  }

  // A section for each family, in the order of the document.
  #arrange() {
    const { charts, explanation } = this.page;
    const byFamily = new Map();
    for (const chart of charts) byFamily.set(chart.family, [...(byFamily.get(chart.family) ?? []), chart]);
    for (const family of this.families.keys()) if (!byFamily.has(family)) this.families.delete(family);
    for (const [family, members] of byFamily) {
      const section = this.families.get(family) ?? familySection(family);
      this.families.set(family, section);
      arrange(section.lastElementChild, members.map(({ anchor }) => this.figures.get(anchor).element));
    }
    const sections = [...byFamily.keys()].map((family) => this.families.get(family));
    arrange(this.area, sections);
    document.getElementById("charts").hidden = charts.length === 0;
    this.links.lead(charts);
    morph(document.getElementById("contents"), contents(this.lead, Boolean(explanation), sections));
  }

  #filter(text) {
    const isNew = this.text !== text;
    this.text = text;
    const search = this.toolbar.querySelector("input[type=search]");
    if (search.value.trim() !== text) search.value = text;
    for (const figure of this.figures.values()) {
      figure.element.hidden = !figure.matches(text);
      figure.filter(figure.hasSeries(text) ? text : "");
    }
    for (const family of this.families.values()) family.hidden = [...family.querySelectorAll("figure")].every((figure) => figure.hidden);
    if (isNew) this.#poke();
  }

  #open(chart, isWanted) {
    const figure = this.figures.get(chart.anchor);
    // In live data it may be gone since.
    if (!figure) return;
    if (figure.element.closest("[hidden]")) this.#filter("");
    figure.near(true);
    this.#poke();
    figure.emphasize(isWanted);
    // Behind the link's own jump.
    setTimeout(() => figure.element.focus({ preventScroll: true }));
  }

  // The choice between the reader's zone and UTC, if they differ.
  #zones() {
    const { clocks, view } = this;
    const names = clocks.map((clock) => clock.zone ?? clock.zoneName(view.whole.to));
    if (new Set(names).size < 2) return null;
    const options = names.map((name, i) => element("option", { value: String(i), selected: clocks[i] === view.clock }, name));
    const select = element("select", { on: { change: () => view.setClock(clocks[Number(select.value)]) } }, options);
    return element("label", {}, element("span", {}, "Times"), select);
  }

  // The title, the machine and the verdict.
  #drawHead() {
    const { page, view, links, isLive } = this;
    const heading = page.result ? page.title : page.host || (isLive ? "This machine" : page.title);
    morph(document.getElementById("title"), heading);
    morph(document.getElementById("machine"), machine(page, view.clock, heading));
    const answer = document.getElementById("answer");
    answer.setAttribute("aria-busy", String(!this.isAnswered));
    morph(answer, this.isAnswered ? verdict(page, view.clock, links) : element("h2", { id: "answer-heading" }, "Finding out what happened…"));
    if (isLive && page.diagnosis) document.title = visible(`${verdicts[page.diagnosis.verdict] ?? page.diagnosis.verdict}: ${page.host || "whyslow"}`);
  }

  // What requests and packets pass through, if the document has it.
  // What the document has, or what the server says at request.
  #section(id, made) {
    const section = document.getElementById(id);
    section.hidden = made === null;
    if (made !== null) section.replaceChildren(section.firstElementChild, made);
  }

  #stack() {
    const { stack } = this.page;
    const diagram = stack ? new StackDiagram() : null;
    this.#section("stack", diagram?.element ?? this.panels.stack?.(this.view) ?? null);
    diagram?.show(stack);
  }

  #profile() {
    const { profile } = this.page;
    this.#section("profile", profile ? new FlameGraph(profile).element : this.panels.profile?.() ?? null);
  }

  #timeline() {
    const { page: { explanation }, view, links } = this;
    const section = document.getElementById("timeline");
    section.hidden = !explanation || (explanation.episodes.length === 0 && explanation.events.length === 0);
    if (section.hidden) return;
    const { samples, missed, left_out: leftOut = 0 } = explanation;
    const note = `${samples} samples${missed > 0 ? `, ${missed} missed` : ""}${leftOut > 0 ? `; ${leftOut} more episodes, which cost less, are not listed` : ""}`;
    section.replaceChildren(section.firstElementChild, new Timeline(explanation, view, links).element, element("p", { className: "note" }, note));
  }

  // Charts are made when they come near sight, and all of them for paper.
  #watch() {
    this.byElement = new WeakMap();
    this.observer = new IntersectionObserver((entries) => {
      for (const entry of entries) this.byElement.get(entry.target).near(entry.isIntersecting);
      this.#poke();
    }, { rootMargin: margin });
    const { signal } = this.#ended;
    // On paper nothing unfolds.
    let unfolded = [];
    addEventListener("beforeprint", () => {
      for (const figure of this.figures.values()) figure.redraw();
      unfolded = [...document.querySelectorAll("details:not(.data, [open])")];
      for (const details of unfolded) details.open = true;
    }, { signal });
    addEventListener("afterprint", () => {
      for (const details of unfolded) details.open = false;
    }, { signal });
  }
}

// The machine and the time in one line, below the heading.
function machine(page, clock, heading) {
  const diagnosis = page.diagnosis ?? page.explanation?.episodes[0]?.diagnosis;
  const { kernel, cpus, memory_bytes: memory, virtualization } = diagnosis?.host ?? {};
  return [
    page.host === heading ? null : page.host,
    cpus ? (cpus === 1 ? "1 CPU" : `${cpus} CPUs`) : null,
    memory ? quantity(memory, "bytes") : null,
    virtualization && virtualization !== "none" ? virtualization : null,
    kernel ? `Linux ${kernel}` : null,
    page.to > page.from ? clock.span(page.from, page.to) : null,
  ].filter(Boolean).join(" · ");
}

// The diagnosis, or that of the worst episode.
function verdict({ diagnosis, explanation, result }, clock, links) {
  if (result) return resultText(result);
  if (diagnosis) {
    const finding = diagnosis.verdict === "bottleneck" ? diagnosis.findings[0] ?? null : null;
    return answer({ diagnosis, finding, clock, links });
  }
  if (!explanation) return element("h2", { id: "answer-heading" }, "No diagnosis");
  const episode = worst(explanation.episodes);
  if (episode) {
    const count = explanation.episodes.length + (explanation.left_out ?? 0);
    const lead = count > 1 ? ` · the worst of ${count} episodes, ${clock.span(Date.parse(episode.start) / 1000, Date.parse(episode.end) / 1000)}` : null;
    return answer({ diagnosis: episode.diagnosis, finding: causeElsewhere(episode) ?? findingOf(episode), lead, clock, links });
  }
  return element("div", { className: "answer healthy" }, element("p", { className: "verdict" }, "Healthy"),
    element("h2", { id: "answer-heading" }, "Nothing kept tasks waiting for long."));
}

// The result of a benchmark or an experiment.
function resultText({ headline, text }) {
  const lines = text.trimEnd().split("\n").map((line) => [line, element("br")]);
  return element("div", { className: "answer event" }, element("h2", { id: "answer-heading" }, headline),
    element("pre", { className: "result", tabIndex: 0 }, lines));
}

// The view of a chart that is not over time: it has nothing in common with others.
function viewOf(chart) {
  const [from, to] = [chart.times[0], chart.times.at(-1)];
  const room = (to - from) * 0.04 || 0.5;
  return new View(from - room, to + room, new LabelClock(chart), { canCompare: false });
}

function familySection(family) {
  return element("section", { className: "family", id: `family-${family}`, attributes: { "aria-labelledby": `family-${family}-heading` } },
    element("h3", { id: `family-${family}-heading` }, titles[family] ?? idInWords(family)), element("div", { className: "grid" }));
}

function contents(lead, hasTimeline, families) {
  const to = (id, text) => element("li", {}, element("a", { href: `#${id}` }, text));
  const list = [...lead.map((link) => element("li", {}, link)), to("answer", "Answer"), hasTimeline ? to("timeline", "Timeline") : null,
    ...[["stack", "Stack"], ["profile", "Profile"]].map(([id, text]) => (document.getElementById(id).hidden ? null : to(id, text))),
    ...families.map((family) => to(family.id, family.querySelector("h3").textContent))];
  return element("ul", {}, list);
}
