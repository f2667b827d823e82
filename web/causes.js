// What the hosts with a finding share, and the others lack: the answer of `whyslow-fleet why`.

import { element } from "./dom.js";
import { command, folded } from "./finding.js";
import { share } from "./format.js";
import { hostsInWords } from "./markers.js";
import { quoted } from "./words.js";

const strengths = { strong: "cause", weak: "suspicion" };
// Further features are folded.
const mostListed = 6;

export function featureInWords({ kind, name, value, is_change: isChange }) {
  const what = value === null ? "none" : value;
  return `${isChange ? "changed: " : ""}${kind} ${name} ${what}`;
}

export function causes(answer) {
  const { finding, sick, healthy, summary, candidates, within, tests, caveats } = answer;
  const notes = [
    within ? `Hosts were compared with others of the same ${within}.` : null,
    `${tests} different features tested. Sick: lost a hundredth of an hour to it.`,
    ...caveats.map((caveat) => `Note: ${caveat}.`),
    counted(answer.barely, "lost a little time to it, and count neither as sick nor as healthy."),
    counted(answer.sick_from_the_start, "were sick from the start of that time: what was changed before is not known."),
    counted(answer.without_inventory, "sent no inventory."),
  ].filter(Boolean);
  return [
    element("p", { className: "note" }, `${sick} of ${hostsInWords(sick + healthy)} sick with it`),
    element("p", { className: "verdict-line" }, summary),
    element("ol", { className: "plain candidates" }, candidates.map(candidate)),
    element("p", { className: "note" }, notes.join(" ")),
    folded("The same in a terminal", command(`whyslow-fleet why ${quoted(finding)}`)),
  ];
}

const counted = (count, what) => (count > 0 ? `${count === 1 ? "1 host" : `${count} hosts`} ${what}` : null);

function candidate(of) {
  const { features, strength, is_marker: isMarker, inseparable, explained } = of;
  const [first, ...others] = features;
  const label = isMarker ? "marker" : strengths[strength] ?? strength;
  return element("li", { className: "candidate" },
    element("p", {}, element("span", { className: `tag ${strength === "strong" && !isMarker ? "serious" : "event"}` }, label), " ",
      element("strong", {}, featureInWords(first))),
    element("dl", { className: "parts" },
      part("sick", of.sick_with, of.sick_known), part("healthy", of.healthy_with, of.healthy_known)),
    element("p", { className: "note" }, effect(of)),
    listed("Cannot be distinguished from it", [...others, ...inseparable]), listed("Explained by it", explained));
}

// How many of these hosts have it.
function part(what, count, all) {
  const of = all > 0 ? count / all : 0;
  return [element("dt", {}, what), element("dd", {},
    element("span", { className: "meter" }, of > 0 ? element("span", { style: { width: `${of * 100}%` } }) : null),
    element("span", {}, `${count} of ${all} (${share(of)})`))];
}

function effect({ risk_difference: risk, odds_ratio: odds, p }) {
  const points = (part) => (100 * part).toFixed(0);
  const high = risk.high ?? 1;
  const chance = p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`;
  return `With it, ${points(risk.estimate ?? 1)} points more are sick (95\u00a0% interval ${points(risk.low)} to ${points(high)}), odds at least ${
    odds.low < 10 ? odds.low.toFixed(1) : odds.low.toFixed(0)} times as high; ${chance}, corrected.`;
}

function listed(title, features) {
  if (features.length === 0) return null;
  const more = features.length > mostListed ? element("li", {}, `and ${features.length - mostListed} more`) : null;
  return folded(`${title} (${features.length})`, element("ul", { className: "plain" },
    features.slice(0, mostListed).map((feature) => element("li", {}, featureInWords(feature))), more));
}
