// Dragging, the wheel and the keyboard on a plot. Dragging with a mouse, a pen or a finger zooms, moves or compares, as the
// view's mode says; with Shift it always compares.

import { announce } from "./dom.js";
import { nearest } from "./statistics.js";

// A drag of fewer pixels is a click.
const shortestDrag = 4;

// `area` receives the events; `value` is the moment at a place in it, and `brush` draws what is being marked.
export function drags(area, { value, brush }, view) {
  let drag = null;
  const at = (event) => clamp(event.clientX - area.getBoundingClientRect().left, 0, area.clientWidth);

  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest("button")) return;
    const mode = event.shiftKey ? "compare" : view.mode;
    drag = { mode, start: at(event), range: { ...view.range }, moved: false };
    area.setPointerCapture(event.pointerId);
  });
  area.addEventListener("pointermove", (event) => {
    const x = at(event);
    // Only a mouse moves uPlot's own cursor.
    if (event.pointerType !== "mouse") view.point(value(x));
    if (!drag) return;
    drag.moved ||= Math.abs(x - drag.start) >= shortestDrag;
    if (!drag.moved) return;
    if (drag.mode === "pan") {
      const by = ((drag.start - x) / area.clientWidth) * (drag.range.to - drag.range.from);
      view.show(drag.range.from + by, drag.range.to + by);
    } else {
      brush({ left: Math.min(x, drag.start), width: Math.abs(x - drag.start) }, drag.mode);
    }
  });
  const end = (event, isDone) => {
    if (!drag) return;
    const { mode, moved, start } = drag;
    drag = null;
    brush({ left: 0, width: 0 }, mode);
    if (!isDone || !moved || mode === "pan") return;
    const [from, to] = [start, at(event)].map(value).sort((a, b) => a - b);
    if (mode === "zoom") view.show(from, to);
    else view.select(from, to);
  };
  area.addEventListener("pointerup", (event) => end(event, true));
  area.addEventListener("pointercancel", (event) => end(event, false));
  area.addEventListener("dblclick", (event) => event.target.closest("button") || view.reset());
  // The wheel alone scrolls the page.
  area.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      view.zoom(event.deltaY > 0 ? 1.25 : 0.8, value(at(event)));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      view.pan(event.deltaX / area.clientWidth);
    }
  }, { passive: false });
}

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// The same from the keyboard, on the element that holds the plot. `timesNow` are the moments that the cursor can be at, and
// `readout` says what is there.
export function keys(holder, timesNow, view, readout) {
  let anchor = null;
  let mark = null;
  const to = (index, extends_) => {
    const times = timesNow();
    const at = times[clamp(index, 0, times.length - 1)];
    if (at === undefined) return;
    if (extends_) anchor ??= view.cursor ?? at;
    else anchor = null;
    mark = anchor === null || anchor === at ? null : { from: Math.min(anchor, at), to: Math.max(anchor, at) };
    if (at < view.range.from || at > view.range.to) {
      const by = at < view.range.from ? at - view.range.from : at - view.range.to;
      view.show(view.range.from + by, view.range.to + by);
    }
    view.point(at);
    announce(mark ? `${readout(at)} Marked ${view.clock.span(mark.from, mark.to)}.` : readout(at));
  };
  const index = (at) => nearest(timesNow(), at);
  const here = () => index(view.cursor ?? (view.range.from + view.range.to) / 2);
  const inSight = () => Math.max(1, index(view.range.to) - index(view.range.from));
  const does = {
    ArrowLeft: (event) => to(here() - 1, event.shiftKey),
    ArrowRight: (event) => to(here() + 1, event.shiftKey),
    PageUp: (event) => to(here() - Math.ceil(inSight() / 10), event.shiftKey),
    PageDown: (event) => to(here() + Math.ceil(inSight() / 10), event.shiftKey),
    Home: (event) => to(index(view.range.from), event.shiftKey),
    End: (event) => to(index(view.range.to), event.shiftKey),
    "+": () => view.zoom(0.5, view.cursor ?? undefined),
    "=": () => view.zoom(0.5, view.cursor ?? undefined),
    "-": () => view.zoom(2, view.cursor ?? undefined),
    "0": () => view.reset(),
    z: () => mark && view.show(mark.from, mark.to),
    c: () => mark && view.select(mark.from, mark.to),
    f: () => {
      const span = mark ?? view.selection;
      if (!view.canCompare || !span) return;
      view.pin({ from: span.from, to: span.to });
      anchor = mark = null;
    },
    Enter: () => mark && (view.mode === "compare" ? view.select(mark.from, mark.to) : view.show(mark.from, mark.to)),
    Escape: () => {
      anchor = mark = null;
      view.point(null);
      if (view.selection === null && view.pinned !== null) view.pin(null);
      else view.deselect();
    },
  };
  holder.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(does, event.key)) return;
    event.preventDefault();
    does[event.key](event);
  });
  holder.addEventListener("blur", () => {
    anchor = mark = null;
    view.point(null);
  });
}
