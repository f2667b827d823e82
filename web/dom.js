// Builds elements. Names in the documents were chosen by others: all text goes through `visible` into text nodes, and nothing
// is ever parsed as HTML.

// Characters that move the cursor, reorder text or are invisible; the same as `is_deceptive` in crates/show/src/escape.rs.
const deceptive =
  /[\p{Cc}\u00ad\u061c\u180e\ufeff\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

// Text in which deceptive characters are written as `\n`, `\x1b` or `\u{202e}`.
export function visible(text) {
  return String(text).replace(deceptive, (c) => {
    const code = c.codePointAt(0);
    if (c in short) return short[c];
    return code < 0x80 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

// An element with properties and children: strings become text, and null is left out. `on` holds listeners, `style` holds
// style properties, `attributes` holds attributes; everything else is a DOM property.
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  const { on = {}, style = {}, attributes = {}, ...rest } = properties;
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, visible(value));
  }
  for (const [name, value] of Object.entries(style)) made.style.setProperty(name, value);
  for (const [name, listener] of Object.entries(on)) made.addEventListener(name, listener);
  for (const [name, value] of Object.entries(rest)) made[name] = typeof value === "string" ? visible(value) : value;
  append(made, children);
  return made;
}

// A link within the page.
export function link(id, properties, ...children) {
  const made = element("a", properties, ...children);
  made.href = `#${encodeURIComponent(id)}`;
  return made;
}

export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

// Replaces what an element contains.
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

const SVG = "http://www.w3.org/2000/svg";

// An SVG element; attributes are numbers and names of ours, never text of the documents.
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Says something to screen readers.
export function announce(text) {
  document.getElementById("announcer").textContent = visible(text);
}

export function button(label, properties, onClick) {
  return element("button", { type: "button", ...properties, on: { click: onClick, ...properties.on } }, label);
}

// Collects calls into one before the next frame.
export function oncePerFrame(call) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      call();
    });
  };
}
