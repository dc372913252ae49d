// What all figures share: elements, colours of the page, numbers for people, and the tip at the pointer.

/** Makes an element. `attributes` are set as they are, except `on…` (listeners) and `text`. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** A sample of a line for legends. */
function lineSample(colour, dashes, width = 2.5) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 28 12");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", "M0 6H28");
  path.style.stroke = colour;
  path.style.strokeWidth = width;
  path.setAttribute("stroke-dasharray", dashes.join(" "));
  svg.append(path);
  return svg;
}

/** A colour or length of the style sheet. */
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => darkScheme.matches && !document.documentElement.classList.contains("printing");

/** Figures that draw themselves again when the colours of the page change. */
const redrawn = [];
const redrawAll = () => redrawn.forEach((redraw) => redraw());
darkScheme.addEventListener("change", redrawAll);
// Paper is white whatever the screen is.
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  redrawAll();
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  redrawAll();
});

/** A number with commas between thousands. */
function fixed(value, digits) {
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A number with three digits that count. */
function short(value) {
  const size = Math.abs(value);
  const digits = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

function millis(value) {
  if (!Number.isFinite(value)) return "never";
  if (value < 9.95) return `${short(value)} ms`;
  return value < 9999.5 ? `${fixed(value, 0)} ms` : `${fixed(value / 1000, 1)} s`;
}

/** A value with the unit of its axis. */
function withUnit(value, unit) {
  if (unit === "ms") return millis(value);
  return unit ? `${short(value)} ${unit}` : short(value);
}

const percent = (share) => `${short(share * 100)} %`;

/** What milliseconds are divided by on an axis that ends here, and the unit then. */
function axisUnit(unit, to) {
  return unit === "ms" && to >= 3000 ? { divisor: 1000, unit: "s" } : { divisor: 1, unit };
}

/** About so many values of even distance from 0 on. */
function evenTicks(to, about) {
  const rough = to / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const ticks = [];
  for (let index = 0; index * step <= to * (1 + 1e-9); index += 1) ticks.push(index * step);
  return ticks;
}

const tickName = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 6 });

/** The one tip of the page. */
const tip = element("div", { class: "tip", role: "status", hidden: "" });

function showTip(event, ...content) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = event.clientX + 16 + width > innerWidth;
  const below = event.clientY + 16 + height < innerHeight;
  tip.style.left = `${Math.max(4, right ? event.clientX - width - 12 : event.clientX + 16)}px`;
  tip.style.top = `${Math.max(4, below ? event.clientY + 16 : event.clientY - height - 12)}px`;
}

const hideTip = () => {
  tip.hidden = true;
};

/** Rows of names and values for the tip. */
function tipTable(rows) {
  const table = element("table");
  for (const [sample, name, value, isStrong] of rows) {
    const row = element("tr", {}, element("td", {}, ...(sample ? [sample] : [])), element("td", { text: name }));
    row.append(element("td", {}, element(isStrong ? "b" : "span", { text: value })));
    table.append(row);
  }
  return table;
}
