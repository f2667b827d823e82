// Beside the heat map: what the fleet loses time to, its groups, what was changed, and who is missing.

import { element } from "./dom.js";
import { folded } from "./finding.js";
import { quantity, share } from "./format.js";
import { hostsInWords } from "./markers.js";
import { changeInWords, changeKind, idInWords } from "./words.js";

const mostFindings = 8;
const mostGroups = 8;
const mostChanges = 6;
// Names of hosts in a list.
const mostNames = 200;

// `link` makes a link to what the page shows of `where`; `look` takes the text that the map is to be filtered by.
export function overview({ sick, changes, by, clock }, { link, look }) {
  const { findings, groups = [], not_reporting: notReporting, silent, left_out: leftOut } = sick;
  return [
    section("Findings", findings.length === 0 ? note("No host lost time to anything.")
      : list(findings, mostFindings, ({ finding, hosts, lost_s: lost }) => [
        link({ finding }, { className: "what warning" }, idInWords(finding)),
        note(`${hostsInWords(hosts)} · lost ${quantity(lost, "s")}`)])),
    by ? section(`By ${by}`, list(groups, mostGroups, (group) => [
      element("button", { type: "button", className: "quiet", on: { click: () => look(group.value ?? "(not known)") } }, group.value ?? "(not known)"),
      note(`${group.sick} of ${hostsInWords(group.hosts)} sick · ${group.judged_s > 0 ? share(group.lost_s / group.judged_s) : "–"} lost${
        group.finding ? `, mostly to ${idInWords(group.finding)}` : ""}`)])) : null,
    section("Changes", changes === null ? note("Looking…") : changes.length === 0 ? note("Nothing was changed in this time.")
      : list(changes, mostChanges, (change) => [
        element("span", { className: `sign ${changeKind(changeInWords(change.id)).kind}` }),
        link({ change: change.id }, {}, changeInWords(change.id)), note(`${hostsInWords(change.hosts)} · ${when(change, clock)}`)])),
    missing("Not reporting", "shipped in the two days before, and not in this time: how they are is not known", notReporting, clock, link),
    missing("Silent", "nothing of the last hour has come", silent, clock, link),
    leftOut.length === 0 ? null : folded(`Not valid and left out (${leftOut.length})`, element("ul", { className: "plain" },
      leftOut.slice(0, mostNames).map(({ host, reason, files, rows }) => element("li", {},
        `${host}: ${reason} (${rows > 0 ? `${rows} rows` : `${files} files`})`)))),
  ];
}

const note = (text) => element("p", { className: "note" }, text);
const section = (title, ...content) => element("section", {}, element("h3", {}, title), content);

export function when({ first, last }, clock) {
  const [from, to] = [first, last].map((text) => Date.parse(text) / 1000);
  return to - from < 120 ? clock.brief(from) : `${clock.brief(from)} to ${clock.brief(to)}`;
}

// A list of which the rest is folded.
function list(all, most, item) {
  const items = (some) => element("ul", { className: "plain entries" }, some.map((one) => element("li", {}, item(one))));
  const rest = all.slice(most, most + mostNames);
  return [items(all.slice(0, most)), rest.length > 0 ? folded(`${all.length - most} more`, items(rest)) : null];
}

function missing(title, meaning, hosts, clock, link) {
  if (hosts.length === 0) return null;
  const names = hosts.slice(0, mostNames).map(({ host, last }) => element("li", {}, link({ host }, {}, host), ` until ${clock.brief(Date.parse(last) / 1000)}`));
  const more = hosts.length > mostNames ? element("li", {}, `and ${hosts.length - mostNames} more`) : null;
  return folded(element("span", { className: "what event" }, `${title}: ${hostsInWords(hosts.length)}`),
    note(`${meaning[0].toUpperCase()}${meaning.slice(1)}.`), element("ul", { className: "plain" }, names, more));
}
