// Statistics of series. Missing values are null, and are left out.

export const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(value);

// The first index whose time is not before `at`; times ascend.
export function lowerBound(times, at) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The index of the time nearest to `at`, or -1 if there is none.
export function nearest(times, at) {
  if (times.length === 0) return -1;
  const next = lowerBound(times, at);
  if (next === 0) return 0;
  if (next === times.length) return next - 1;
  return at - times[next - 1] <= times[next] - at ? next - 1 : next;
}

// The known values from `from` to `to`, both included.
export function within(times, values, from, to) {
  const end = lowerBound(times, to);
  const last = times[end] === to ? end + 1 : end;
  return values.slice(lowerBound(times, from), last).filter(isKnown);
}

export function median(values) {
  if (values.length === 0) return null;
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export function mean(values) {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

// The median distance from the median, scaled to the standard deviation of a normal distribution.
export function spread(values) {
  const middle = median(values);
  return middle === null ? null : 1.4826 * median(values.map((value) => Math.abs(value - middle)));
}
