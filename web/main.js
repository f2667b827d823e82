// Puts the page together.

import { answer } from "./answer.js";
import { Chart } from "./chart.js";
import { load } from "./data.js";
import { reference } from "./differences.js";
import { element, fill } from "./dom.js";
import { Links } from "./finding.js";
import { FlameGraph } from "./flame.js";
import { Clock, ElapsedClock, LabelClock, quantity } from "./format.js";
import { Ranking } from "./ranking.js";
import { StackDiagram } from "./stack.js";
import { theme } from "./theme.js";
import { findingOf, Timeline, worst } from "./timeline.js";
import { keyHelp, toolbar } from "./toolbar.js";
import { View } from "./view.js";
import { idInWords } from "./words.js";

// How far from sight charts are made already.
const margin = "400px";
// The names of families that are no word.
const titles = { bench: "Benchmark", try: "Experiment", filesystem: "File systems", cgroup: "Control groups", process: "Processes", pressure: "Pressure (time lost)" };

start().catch((error) => {
  fill(document.querySelector("main"), element("p", { className: "failure", attributes: { role: "alert" } },
    `This page cannot be shown: ${error.message}`));
});

async function start() {
  const page = await load();
  const clocks = page.is_elapsed ? [new ElapsedClock()] : [new Clock(undefined), new Clock("UTC")];
  const view = new View(page.from, page.to, clocks[0]);
  const { charts } = page;
  // Ids of charts contain names of others.
  charts.forEach((chart, i) => (chart.anchor = `chart-${i + 1}`));
  const compared = (selection) => reference(selection, view.whole, view.pinned);
  const figures = new Map(charts.map((chart) => [chart, new Chart(chart, chart.x ? viewOf(chart) : view, compared)]));
  const open = (chart, isWanted) => {
    const figure = figures.get(chart);
    if (figure.element.closest("[hidden]")) filter("");
    figure.near(true);
    figure.emphasize(isWanted);
    // Behind the link's own jump.
    setTimeout(() => figure.element.focus({ preventScroll: true }));
  };
  const links = new Links(charts, open);
  const { families, filter } = sections(page, figures);

  const ranking = new Ranking(charts, view, compared, open);
  const recolor = () => {
    figures.forEach((figure) => figure.recolor());
    ranking.recolor();
  };
  fill(document.getElementById("settings"), zones(clocks, view), theme(recolor));
  fill(document.getElementById("title"), page.title);

  const drawHead = () => {
    fill(document.getElementById("machine"), machine(page, view.clock));
    fill(document.getElementById("answer"), verdict(page, view.clock, links));
  };
  drawHead();
  view.on("clock", drawHead);
  timeline(page, view, links);
  stackSection(page.stack);
  profileSection(page.profile);
  const { explanation } = page;
  if (charts.length === 0) {
    document.getElementById("charts").hidden = true;
  } else {
    const isOverTime = charts.some((chart) => !chart.x);
    fill(document.getElementById("chart-area"), isOverTime ? [toolbar(view, filter), keyHelp(), ranking.element] : null, families);
    watch(figures);
  }
  navigation(Boolean(explanation), families);
  document.documentElement.dataset.ready = "true";
}

// The view of a chart that is not over time: it has nothing in common with others.
function viewOf(chart) {
  const [from, to] = [chart.times[0], chart.times.at(-1)];
  const room = (to - from) * 0.04 || 0.5;
  return new View(from - room, to + room, new LabelClock(chart), { canCompare: false });
}

// The choice between the reader's zone and UTC, if they differ.
function zones(clocks, view) {
  const names = clocks.map((clock) => clock.zone ?? clock.zoneName(view.whole.to));
  if (new Set(names).size < 2) return null;
  const options = names.map((name, i) => element("option", { value: String(i) }, name));
  const select = element("select", { on: { change: () => view.setClock(clocks[Number(select.value)]) } }, options);
  return element("label", {}, element("span", {}, "Times"), select);
}

// The machine and the time in one line.
function machine(page, clock) {
  const diagnosis = page.diagnosis ?? page.explanation?.episodes[0]?.diagnosis;
  const { kernel, cpus, memory_bytes: memory, virtualization } = diagnosis?.host ?? {};
  return [
    page.host,
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
    const count = explanation.episodes.length;
    const lead = count > 1 ? ` · the worst of ${count} episodes, ${clock.span(Date.parse(episode.start) / 1000, Date.parse(episode.end) / 1000)}` : null;
    return answer({ diagnosis: episode.diagnosis, finding: findingOf(episode), lead, clock, links });
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

function timeline({ explanation }, view, links) {
  const section = document.getElementById("timeline");
  section.hidden = !explanation || (explanation.episodes.length === 0 && explanation.events.length === 0);
  if (section.hidden) return;
  const { samples, missed } = explanation;
  const note = `${samples} samples${missed > 0 ? `, ${missed} missed` : ""}`;
  section.append(new Timeline(explanation, view, links).element, element("p", { className: "note" }, note));
}

// What requests and packets pass through, if the document has it.
function stackSection(stack) {
  const section = document.getElementById("stack");
  section.hidden = !stack;
  if (!stack) return;
  const diagram = new StackDiagram();
  section.append(diagram.element);
  diagram.show(stack);
}

// Where the time went, if the document has a profile.
function profileSection(profile) {
  const section = document.getElementById("profile");
  section.hidden = !profile;
  if (profile) section.append(new FlameGraph(profile).element);
}

// A section for each family, in the order of the document.
function sections(page, figures) {
  const byFamily = new Map();
  for (const chart of page.charts) {
    const family = byFamily.get(chart.family) ?? [];
    family.push(chart);
    byFamily.set(chart.family, family);
  }
  const families = [...byFamily].map(([family, charts]) => element("section", { className: "family", id: `family-${family}`,
    attributes: { "aria-labelledby": `family-${family}-heading` } },
    element("h3", { id: `family-${family}-heading` }, titles[family] ?? idInWords(family)),
    element("div", { className: "grid" }, charts.map((chart) => figures.get(chart).element))));
  const filter = (text) => {
    const search = document.querySelector("input[type=search]");
    if (search.value.trim() !== text) search.value = text;
    for (const figure of figures.values()) {
      figure.element.hidden = !figure.matches(text);
      figure.filter(figure.hasSeries(text) ? text : "");
    }
    for (const family of families) family.hidden = [...family.querySelectorAll("figure")].every((figure) => figure.hidden);
  };
  return { families, filter };
}

// Charts are made when they come near sight, and all of them for paper.
function watch(figures) {
  const byElement = new Map([...figures.values()].map((figure) => [figure.element, figure]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) byElement.get(entry.target).near(entry.isIntersecting);
  }, { rootMargin: margin });
  for (const [shown] of byElement) observer.observe(shown);
  // On paper nothing unfolds.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    for (const figure of figures.values()) figure.redraw();
    unfolded = [...document.querySelectorAll("details:not(.data, [open])")];
    for (const details of unfolded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of unfolded) details.open = false;
  });
}

function navigation(hasTimeline, families) {
  const to = (id, text) => element("li", {}, element("a", { href: `#${id}` }, text));
  const list = [to("answer", "Answer"), hasTimeline ? to("timeline", "Timeline") : null,
    ...[["stack", "Stack"], ["profile", "Profile"]].map(([id, text]) => (document.getElementById(id).hidden ? null : to(id, text))),
    ...families.map((family) => to(family.id, family.querySelector("h3").textContent))];
  fill(document.getElementById("contents"), element("ul", {}, list));
}
