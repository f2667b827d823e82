// Changes as marks over the time axis of the heat map: a sign for each place, which stands for all that was changed then.

import { marks } from "./cells.js";
import { button, element } from "./dom.js";
import { changeKind, changeInWords } from "./words.js";

// So many places side by side.
const places = 60;
// A label with more changes would cover the page.
const mostLabelled = 5;

// The signs of these changes; `choose` gets those of one.
export function markers(changes, map, clock, choose) {
  return marks(changes, map, places).map((of) => {
    const [first] = of;
    const labels = of.slice(0, mostLabelled).map((change) => `${clock.brief(change.at)} ${changeInWords(change.id)} on ${hostsInWords(change.hosts)}`);
    const more = of.length > mostLabelled ? [`and ${of.length - mostLabelled} more`] : [];
    const label = [...labels, ...more].join("; ");
    return button("", {
      className: `marker ${changeKind(changeInWords(first.id)).kind}`, title: label, attributes: { "aria-label": `Changed: ${label}` },
      style: { "--at": `${((first.at - map.from) / (map.to - map.from)) * 100}%` },
    }, () => choose(of));
  });
}

// What the signs mean, of those that are there.
export function markerKey(changes, map) {
  const kinds = new Map(marks(changes, map, places).map(([first]) => changeKind(changeInWords(first.id))).map(({ kind, label }) => [kind, label]));
  return element("ul", { className: "marker-key", hidden: kinds.size === 0, attributes: { "aria-label": "Changes" } },
    [...kinds].map(([kind, label]) => element("li", {}, element("span", { className: `sign ${kind}` }), label)));
}

export function hostsInWords(count) {
  return count === 1 ? "1 host" : `${count.toLocaleString("en")} hosts`;
}
