// Whether a change helped: the answer of `whyslow-fleet change`.

import { element } from "./dom.js";
import { command, folded } from "./finding.js";
import { share } from "./format.js";
import { hostsInWords } from "./markers.js";
import { quoted } from "./words.js";

const effects = {
  helped: ["healthy", "helped"], hurt: ["critical", "hurt"], mixed: ["warning", "mixed"], no_difference: ["event", "no difference"],
  unknown: ["event", "too few hosts to tell"],
};

export function rollout({ id, rollout: of }) {
  const [tone, label] = effects[of.effect] ?? ["event", of.effect];
  const waves = of.waves === 1 ? "at once" : `in ${of.waves} waves`;
  const notes = [...of.caveats.map((caveat) => `Note: ${caveat}.`),
    of.unobserved > 0 ? `${hostsInWords(of.unobserved)} that changed were not observed long enough before and after.` : null].filter(Boolean);
  return [
    element("p", {}, element("span", { className: `tag ${tone}` }, label), " ",
      element("span", { className: "note" }, `${hostsInWords(of.changed)} changed, ${waves}; ${hostsInWords(of.controls)} did not`)),
    element("p", { className: "verdict-line" }, of.summary),
    element("div", { className: "scroller", tabIndex: 0, attributes: { role: "group", "aria-label": "Time lost before and after" } },
      element("table", { className: "before-after" },
        element("thead", {}, element("tr", {}, ["Before it", "Hosts", "Lost before", "After", "p"].map((title, i) => element("th", { scope: "col", className: i > 0 ? "number" : "" }, title)))),
        element("tbody", {}, groupRows("sick", of.sick), groupRows("healthy", of.healthy)))),
    notes.length > 0 ? element("p", { className: "note" }, notes.join(" ")) : null,
    folded("The same in a terminal", command(`whyslow-fleet change ${quoted(id)}`)),
  ];
}

// Those that changed, and their controls.
function groupRows(name, of) {
  const row = (what, hosts, [before, after], p) => element("tr", {}, element("th", { scope: "row" }, what), cell(hosts),
    cell(hosts > 0 ? share(before) : "–"), cell(hosts > 0 ? share(after) : "–"), cell(p));
  const p = of.difference === null ? "too few" : of.p < 0.001 ? "<\u00a00.001" : of.p.toFixed(3);
  return [row(`${name}, changed`, of.changed, of.changed_lost, p), row(`${name}, unchanged`, of.controls, of.controls_lost, "")];
}

const cell = (text) => element("td", { className: "number" }, text);
