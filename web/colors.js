// Colours come from the style sheet, so that a theme changes them everywhere; a canvas has to ask for them.

export const slots = 8;

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A colour of the style sheet with another opacity; those are written as `#rrggbb`.
export function faded(name, alpha) {
  return `${color(name)}${Math.round(alpha * 255).toString(16).padStart(2, "0")}`;
}

const parse = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

// Colours between those named, evenly spaced, the first one first.
export function ramp(names, steps) {
  const stops = names.map((name) => parse(color(name)));
  return Array.from({ length: steps }, (_, i) => {
    const at = (i / (steps - 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    const mixed = stops[low].map((from, c) => Math.round(from + (stops[low + 1][c] - from) * (at - low)));
    return `rgb(${mixed.join(" ")})`;
  });
}
