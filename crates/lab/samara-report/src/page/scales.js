"use strict";
// Scales of axes, labels of numbers, and small helpers of all figures.
const HUES = 6;
const DASHES = ["", "9 4", "2 3"];
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
// Width of a text in pixels, in a wide font so that other fonts fit as well.
const textWidth = (text, size = 12) => String(text).length * size * 0.6;
const clipped = (text, pixels, size = 12) => {
  const room = Math.max(Math.floor(pixels / (size * 0.6)), 2);
  return text.length <= room ? text : `${text.slice(0, room - 1).trimEnd()}…`;
};
const wrapped = (text, pixels, lines) => {
  const rows = [];
  for (const word of text.split(" ")) {
    const last = rows.length - 1;
    if (rows.length && (rows.length === lines || textWidth(`${rows[last]} ${word}`) <= pixels)) rows[last] += ` ${word}`;
    else rows.push(word);
  }
  return rows.map((row) => clipped(row, pixels));
};
const grouped = (value) => {
  const [whole, part] = String(value).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
};
const UNITS = {
  number: [[1e9, " G"], [1e6, " M"], [1, ""]],
  count: [[1e9, " G"], [1e6, " M"], [1, ""]],
  ms: [[1e3, " s"], [1, " ms"], [1e-3, " µs"]],
  bytes: [[1e9, " GB"], [1e6, " MB"], [1e3, " kB"], [1, " B"]],
};
// A share with this number of decimals. One below 1 that would read as 100 % has more, as in words.rs.
const percentOf = (value, decimals) => {
  const written = (decimals) => +(value * 100).toFixed(decimals);
  while (value < 1 && written(decimals) === 100 && decimals < 7) decimals++;
  return `${written(decimals)} %`;
};
const labelled = (value, unit) => {
  if (unit === "share") return percentOf(value, 4);
  if (value === 0) return "0";
  const parts = UNITS[unit] || UNITS.number;
  const [factor, name] = parts.find(([factor]) => Math.abs(value) >= factor * 0.999999) || parts[parts.length - 1];
  return grouped(+(value / factor).toFixed(6)) + name;
};
// The value with three digits, for readers.
const shown = (value, unit) => {
  if (value === null || !isFinite(value)) return "–";
  const brief = +value.toPrecision(3);
  return labelled(unit === "share" && value < 1 && brief === 1 ? value : brief, unit);
};
// Returns a scale between two positions in pixels, with the labels that have room.
const scaleOf = ({ name, ends, log, ticks, unit }, from, to) => {
  const place = (value) => (log ? Math.log(Math.max(value, 1e-300)) : value);
  const [low, high] = ends.map(place);
  const at = (value) => from + (to - from) * (place(Math.min(Math.max(value, ends[0]), ends[1])) - low) / (high - low || 1);
  const isAcross = to > from;
  const half = (label) => (isAcross ? (textWidth(label) + 14) / 2 : 13);
  const fit = (all) => all.every(([value, label], i) => !i || Math.abs(at(value) - at(all[i - 1][0])) >= half(label) + half(all[i - 1][1]));
  const thinned = (all) => {
    const kept = [];
    for (const tick of all) if (!kept.length || fit([kept[kept.length - 1], tick])) kept.push(tick);
    return kept;
  };
  const inside = (values) => values.filter((value) => value >= ends[0] * (1 - 1e-6) && value <= ends[1] * (1 + 1e-6)).map((value) => [value, labelled(+value.toPrecision(10), unit)]);
  const linear = () => {
    const span = ends[1] - ends[0];
    let power = 10 ** Math.floor(Math.log10(span / 10));
    for (let i = 0; i < 15; i++, power *= i % 3 ? 1 : 10) {
      const step = [1, 2, 5][i % 3] * power;
      if (unit === "count" && step < 1) continue;
      const first = Math.ceil(ends[0] / step - 1e-9), last = Math.floor(ends[1] / step + 1e-9);
      if (last - first > 9) continue;
      const found = Array.from({ length: last - first + 1 }, (_, k) => [(first + k) * step, labelled(+((first + k) * step).toPrecision(10), unit)]);
      if (fit(found)) return found;
    }
    return [[ends[0], labelled(ends[0], unit)]];
  };
  const powers = () => {
    const decades = [];
    for (let p = Math.floor(Math.log10(ends[0])); p <= Math.ceil(Math.log10(ends[1])); p++) decades.push(p);
    const all = inside(decades.flatMap((p) => [1, 2, 5].map((m) => m * 10 ** p)));
    if (all.length < 3) return linear();
    if (fit(all)) return all;
    for (let every = 1; every < 9; every++) {
      const some = inside(decades.filter((p) => p % every === 0).map((p) => 10 ** p));
      if (some.length >= 2 && fit(some)) return some;
    }
    return thinned(all);
  };
  return { at, name, unit, marks: ticks ? thinned(ticks) : log ? powers() : linear() };
};
