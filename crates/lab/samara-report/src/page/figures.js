// Places the figures of the page, redraws them for each width, and offers them as files.
// The menu has several lines in a narrow window; what sticks below it needs its height.
const menu = document.querySelector("nav");
if (menu) new ResizeObserver(() => document.documentElement.style.setProperty("--nav", `${menu.offsetHeight}px`)).observe(menu);
const saved = (name, type, content) => {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
// An SVG file of a figure: 900 pixels wide, with the colours of paper in place of variables.
const PAPER = {};
const coloursOfPaper = () => {
  if (!PAPER.ink) for (const rule of document.styleSheets[0].cssRules) {
    if (rule.selectorText !== ":root") continue;
    for (const name of rule.style) if (name.startsWith("--")) PAPER[name.slice(2)] = rule.style.getPropertyValue(name).trim();
    break;
  }
  return PAPER;
};
const fileOf = (svg, width, height, title) => {
  const all = coloursOfPaper(), body = svg.replace(/var\(--([\w-]+)\)/g, (_, name) => all[name] || "#000");
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height + 34}" font-family="system-ui, sans-serif" font-size="${TEXT}"><rect width="100%" height="100%" fill="#fff"/><text x="10" y="22" font-size="16" font-weight="600" fill="#1b1f24">${escaped(title)}</text><g transform="translate(0,34)">${body}</g></svg>`;
};
const pngOf = (file, width, height, done) => {
  const image = new Image(), canvas = document.createElement("canvas");
  image.onload = () => {
    canvas.width = width * 3; canvas.height = height * 3;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(done);
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(file)}`;
};
// A legend entry for each line, which switches it, and one for each mark.
const MARKS = {
  line: (ink) => `<svg width="24" height="10"><line x1="1" y1="5" x2="23" y2="5" stroke="${ink}" stroke-width="3"/></svg>`,
  dashes: () => '<svg width="14" height="16"><line x1="7" y1="0" x2="7" y2="16" stroke="var(--ink)" stroke-width="2"/></svg>',
  bar: (ink) => `<svg width="14" height="14"><rect width="14" height="14" rx="2" fill="${ink}"/></svg>`,
  dot: (ink) => `<svg width="12" height="12"><circle cx="6" cy="6" r="5" fill="${ink}"/></svg>`,
  ring: (ink) => `<svg width="16" height="16"><circle cx="8" cy="8" r="6" fill="none" stroke="${ink}" stroke-width="2"/></svg>`,
};
const lineMark = (line, isApart) => {
  if (isApart && line.style !== "bound") return `<svg width="14" height="12"><circle cx="7" cy="6" r="4" ${line.colour < HUES ? `fill="${colourOf(line.colour)}"` : `fill="none" stroke="${colourOf(line.colour)}" stroke-width="2"`}/></svg>`;
  const [ink, dash] = line.style === "bound" ? ["var(--ink)", "5 4"] : [line.ink || colourOf(line.colour), dashOf(line.colour)];
  return `<svg width="26" height="10"><line x1="1" y1="5" x2="25" y2="5" stroke="${ink}" stroke-width="2.5" ${dash ? `stroke-dasharray="${dash}"` : ""}/></svg>`;
};
const placeFigure = (element, figure) => {
  const plot = element.querySelector(".plot"), legend = element.querySelector(".legend");
  const title = element.querySelector(".title") ? element.querySelector(".title").textContent : "", hidden = new Set();
  let drawnWidth = 0;
  const draw = () => {
    const width = Math.floor(plot.clientWidth);
    if (!width) return;
    drawnWidth = width;
    const { svg, height, head } = DRAW[figure.kind](figure, width, hidden);
    plot.innerHTML = `${head ? `<svg class="head" width="${width}" height="24" font-size="${TEXT}" aria-hidden="true">${head}</svg>` : ""}<svg width="${width}" height="${height}" font-size="${TEXT}" aria-hidden="true">${svg}</svg>`;
    plot.style.minHeight = `${height}px`;
    if (legend) legend.hidden = figure.direct && width >= NARROW;
  };
  if (legend && figure.kind === "lines") {
    figure.lines.forEach((line, i) => {
      const button = document.createElement("button");
      button.type = "button"; button.setAttribute("aria-pressed", "true");
      button.innerHTML = lineMark(line, figure.apart) + escaped(line.label);
      button.addEventListener("click", () => {
        if (!hidden.delete(i)) hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        draw();
      });
      legend.append(button);
    });
  }
  const marks = [...(figure.marks || []), ...(figure.rings && figure.rings.length && figure.ring ? [["ring", "var(--ink)", figure.ring]] : [])];
  if (legend) for (const [kind, ink, label] of marks) legend.insertAdjacentHTML("beforeend", `<span>${MARKS[kind](ink)}${escaped(label)}</span>`);
  const file = (use) => {
    const { svg, height } = DRAW[figure.kind]({ ...figure, direct: figure.kind === "lines" && figure.lines.length > 1 }, 900, hidden);
    return use(fileOf(svg, 900, height, title), height + 34);
  };
  element.addEventListener("click", (event) => {
    const kind = event.target.dataset.save;
    if (kind === "svg") file((svg) => saved(`${figure.name}.svg`, "image/svg+xml", svg));
    if (kind === "png") file((svg, height) => pngOf(svg, 900, height, (blob) => saved(`${figure.name}.png`, "image/png", blob)));
    if (kind === "csv") saved(`${figure.name}.csv`, "text/csv", csvOf(figure));
  });
  return { draw, isStale: () => plot.clientWidth !== drawnWidth };
};
(() => {
  const data = document.getElementById("figure-data");
  if (!data) return;
  const all = JSON.parse(data.textContent), placed = new Map();
  const elements = [...document.querySelectorAll("figure[data-figure]")];
  for (const element of elements) placed.set(element, placeFigure(element, all[element.dataset.figure]));
  // Figures are drawn when they come near the window, which keeps long pages fast.
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting && placed.get(target).isStale()) placed.get(target).draw();
  }, { rootMargin: "800px" });
  const watched = new ResizeObserver((entries) => {
    for (const { target } of entries) { seen.unobserve(target); seen.observe(target); }
  });
  for (const element of elements) watched.observe(element);
  const drawAll = () => placed.forEach((figure) => { if (figure.isStale()) figure.draw(); });
  addEventListener("beforeprint", drawAll);
  document.addEventListener("toggle", drawAll, true);
})();
