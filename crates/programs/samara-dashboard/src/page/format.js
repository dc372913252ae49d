"use strict";
// Values for people. A missing value is "—" with a reason, never 0.

const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(value);

function none(reason) {
  return el("span", { class: "none", title: reason }, "—", el("span", { class: "vh" }, " " + reason));
}

function ms(value) {
  if (!isKnown(value)) return null;
  if (value === 0) return "0 ms";
  if (value < 1) return `${(value * 1000).toPrecision(3)} µs`;
  if (value < 10) return `${value.toFixed(2)} ms`;
  if (value < 100) return `${value.toFixed(1)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 120000) return `${(value / 1000).toPrecision(3)} s`;
  return span(value);
}

function span(value) {
  if (!isKnown(value)) return null;
  const s = Math.round(value / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  return `${Math.floor(s / 3600)} h ${String(Math.floor(s / 60) % 60).padStart(2, "0")} min`;
}

// A moment of the viewer's clock, with its date if that is another day.
function moment(unixMs) {
  if (!isKnown(unixMs)) return null;
  const at = new Date(unixMs);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

function count(value) {
  if (!isKnown(value)) return null;
  if (value >= 1e9) return `${(value / 1e9).toPrecision(3)} G`;
  if (value >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  return Math.round(value).toLocaleString("en");
}

function rate(value) {
  if (!isKnown(value)) return null;
  return value < 10 ? value.toPrecision(2) : count(value);
}

function bytes(value) {
  if (!isKnown(value)) return null;
  for (const [least, unit] of [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ]) {
    if (value >= least) return `${(value / least).toPrecision(3)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

const percent = (share) =>
  isKnown(share) ? `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %` : null;

const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

// Elements. Text is inserted as text, so that the content of a file never becomes markup.
function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}
