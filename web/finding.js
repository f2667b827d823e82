// A finding: what is wrong, who causes it, how bad it is, what to do, and the evidence.

import { announce, button, element, link, svg } from "./dom.js";
import { quantity, share } from "./format.js";
import { isKnown } from "./statistics.js";
import {
  culpritInWords, duration, firstSentence, headline, normal, recommended, sentence, severity, since, timeLost, unattributed,
} from "./words.js";

// Whether a series is about a subject.
const isAbout = ({ name, pid }) => ({ entity }) => entity === name || (pid !== undefined && entity === `${name} (${pid})`);

// The charts by the signals that they show.
export class Links {
  // `open` shows a chart and, in it, the first series that is wanted.
  constructor(open) {
    this.open = open;
    this.lead([]);
  }

  // From now on they lead to these charts.
  lead(charts) {
    this.bySignal = new Map();
    for (const chart of charts) {
      for (const signal of chart.signals) this.bySignal.set(signal, [...(this.bySignal.get(signal) ?? []), chart]);
    }
  }

  // The chart of a number: one that shows its subject, if there are several.
  #chart(evidence, subject) {
    const charts = this.bySignal.get(evidence.metric) ?? [];
    return charts.find((chart) => chart.series.some(isAbout(subject))) ?? charts.find((chart) => chart.id.includes(`@${subject.name}`)) ?? charts[0] ?? null;
  }

  // A number as a link to its chart, if there is one.
  number(evidence, subject, text) {
    const chart = this.#chart(evidence, subject);
    if (!chart) return text;
    return link(chart.anchor, { title: `Show ${chart.title}`, on: { click: () => this.open(chart, isAbout(subject)) } }, text);
  }

  // The course of a number, where its chart shows nothing else, and one series of it is about the subject.
  sparkline(evidence, subject) {
    const chart = this.#chart(evidence, subject);
    if (!chart || (chart.id !== evidence.metric && chart.signals.length > 1)) return null;
    const found = chart.series.filter((series) => series.entity === "" || isAbout(subject)(series));
    return found.length === 1 ? sparkline(chart.times, found[0].mean) : null;
  }
}

// A small line; `top` is the value at the upper edge, by default the largest one.
export function sparkline(times, values, top = Math.max(0, ...values.filter(isKnown)) || 1) {
  const [width, height] = [96, 22];
  if (values.filter(isKnown).length < 2) return null;
  const [from, to] = [times[0], times.at(-1)];
  let path = "";
  let isGap = true;
  values.forEach((value, i) => {
    if (!isKnown(value)) {
      isGap = true;
      return;
    }
    const x = ((times[i] - from) / (to - from || 1)) * width;
    const y = height - 1 - (Math.max(0, value) / top) * (height - 2);
    path += `${isGap ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    isGap = false;
  });
  return svg("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    svg("path", { d: path }));
}

export function command(text) {
  const code = element("code", {}, text);
  const parts = [element("pre", { tabIndex: 0 }, code)];
  if (navigator.clipboard) {
    const copy = button("Copy", { className: "quiet", attributes: { "aria-label": `Copy: ${text}` } }, async ({ currentTarget }) => {
      try {
        await navigator.clipboard.writeText(text);
        announce("Copied.");
        currentTarget.textContent = "Copied";
        setTimeout(() => (currentTarget.textContent = "Copy"), 2000);
      } catch {
        getSelection().selectAllChildren(currentTarget.previousElementSibling);
      }
    });
    parts.push(copy);
  }
  return element("div", { className: "command" }, parts);
}

// A long one unfolds.
const short = 100;

function commandLine(text) {
  if (text.length <= short) return element("code", {}, text);
  const cut = `${[...text].slice(0, short).join("")}…`;
  return element("details", {}, element("summary", {}, element("code", {}, cut)), element("code", {}, text));
}

// Who, how bad, since when, how sure: a list of terms.
export function facts(finding, diagnosis, clock) {
  const first = finding.culprits[0];
  // Of what, is not known of everything.
  const withShare = (one) => (one.of ? `${culpritInWords(one)} with ${share(one.share)} of ${one.of}` : culpritInWords(one));
  const who = first
    ? withShare(first)
    : finding.unattributed ? `not identified: ${unattributed(finding.unattributed)}` : null;
  const others = finding.culprits.slice(1).map((one) => `${culpritInWords(one)}: ${share(one.share)} of ${one.of}`);
  const list = [
    ["Who", who && [who, others.map((other) => element("span", { className: "further" }, other))]],
    ["Command line", first?.command_line && commandLine(first.command_line)],
    ["How bad", finding.impact_is === "not_measured" ? null : timeLost(finding)],
    ["How long", diagnosis.window.source === "live" ? since(finding, clock) : null],
    ["Confidence", finding.confidence],
  ];
  return element("dl", { className: "facts" }, list.filter(([, what]) => what).map(([term, what]) => [
    element("dt", {}, term), element("dd", {}, what),
  ]));
}

// What follows the first sentence.
export function rest(finding) {
  const more = finding.summary.slice(firstSentence(finding.summary).length).trim();
  return more ? element("p", {}, more) : null;
}

export function action(finding, heading, source) {
  const first = recommended(finding);
  if (!first) return null;
  const title = first.kind === "diagnostic" ? "To find out more" : "Recommended action";
  const where = first.try && source === "import" ? note("On the captured host:") : null;
  return element("div", { className: "action" }, element(heading, {}, title), element("p", {}, first.text), where,
    first.try ? [command(first.try), note(duration(first.try))] : null,
    note(first.expect && `Expected: ${first.expect}`));
}

const note = (text) => (text ? element("p", { className: "note" }, text) : null);

function otherActions(finding) {
  const others = finding.actions.filter((other) => other !== recommended(finding));
  if (others.length === 0) return null;
  return folded(`Other actions (${others.length})`, element("ul", { className: "plain" }, others.map((other) => element("li", {},
    element("p", {}, other.kind === "diagnostic" ? `To find out more: ${other.text}` : other.text),
    other.try ? command(other.try) : null))));
}

export function folded(title, ...content) {
  return element("details", {}, element("summary", {}, title), content);
}

export function evidenceTable(evidence, subject, links, label) {
  const courses = evidence.map((one) => links.sparkline(one, subject));
  const hasCourse = courses.some((course) => course !== null);
  const rows = evidence.map((one, i) => {
    const value = typeof one.value === "number" ? quantity(one.value, one.unit) : one.value;
    const how = [one.how, one.source].filter(Boolean).join(" · ");
    return element("tr", {},
      element("th", { scope: "row" }, one.metric),
      element("td", { className: "number" }, links.number(one, subject, value)),
      hasCourse ? element("td", {}, courses[i]) : null,
      element("td", {}, one.expected ? normal(one.expected) : null),
      element("td", { className: "origin" }, how));
  });
  const headings = ["Signal", "Value", hasCourse ? "Over time" : null, "Expected", "How and where from"].filter(Boolean);
  return element("div", { className: "scroller", tabIndex: 0, attributes: { role: "group", "aria-label": label } },
    element("table", { className: "evidence" }, element("thead", {}, element("tr", {},
      headings.map((heading) => element("th", { scope: "col" }, heading)))), element("tbody", {}, rows)));
}

// Evidence and other actions, folded.
export function details(finding, links, isOpen = false) {
  const count = finding.evidence.length;
  const evidence = count === 0 ? null
    : folded(`Evidence (${count})`, evidenceTable(finding.evidence, finding.subject, links, `Evidence: ${headline(finding)}`));
  if (evidence) evidence.open = isOpen;
  return [evidence, otherActions(finding)];
}

// A further finding: a line that unfolds.
export function item(finding, diagnosis, clock, links) {
  const more = note(finding.more > 0 && `${finding.more} more like it ${finding.more === 1 ? "is" : "are"} not listed.`);
  const cause = note(finding.explained_by && `Effect of ${finding.explained_by}.`);
  return element("li", {}, element("details", { className: `finding ${severity(finding)}` },
    element("summary", {}, element("span", { className: "headline" }, headline(finding)),
      element("span", { className: "bad" }, `${timeLost(finding)} · confidence ${finding.confidence}`)),
    element("p", {}, finding.summary), cause, more, facts(finding, diagnosis, clock),
    action(finding, "h4", diagnosis.window.source), details(finding, links)));
}
