// Draws the figures of a page as SVG, for a width in pixels: text keeps its size on any screen.
const TEXT = 12, NARROW = 560, LONG = 14;
const colourOf = (number) => `var(--c${number % HUES})`;
const dashOf = (number) => DASHES[Math.floor(number / HUES) % DASHES.length];
const text = (x, y, words, anchor = "start", more = "") => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" dy="0.35em" text-anchor="${anchor}" ${more}>${escaped(words)}</text>`;
const stroke = (x1, y1, x2, y2, more) => `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" ${more}/>`;
const box = (x, y, w, h, more) => `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${Math.max(w, 0).toFixed(1)}" height="${Math.max(h, 0).toFixed(1)}" ${more}/>`;
const circle = (x, y, r, more) => `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${r}" ${more}/>`;
const GRID = 'stroke="var(--line)"', SOFT = 'fill="var(--soft)"';
const pointsOf = (flat) => Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);

// Grid lines and labels of both axes around a chart.
const axes = (x, y, { left, right, top, bottom }) => {
  const parts = y.marks.map(([value, label]) => stroke(left, y.at(value), right, y.at(value), GRID) + text(left - 6, y.at(value), label, "end", SOFT));
  for (const [value, label] of x.marks) {
    const at = x.at(value), half = textWidth(label) / 2;
    parts.push(stroke(at, top, at, bottom, GRID));
    parts.push(at + half > right + 10 ? text(right + 8, bottom + 14, label, "end", SOFT) : text(Math.max(at, half), bottom + 14, label, "middle", SOFT));
  }
  if (x.name) parts.push(text(right, bottom + 32, x.name, "end", SOFT));
  return parts.join("");
};
const leftOf = (scale) => Math.max(34, ...scale.marks.map(([, label]) => textWidth(label) + 10));

const drawLines = (figure, width, hidden) => {
  const labels = figure.direct && width >= NARROW;
  const room = labels ? Math.min(Math.max(...figure.lines.map((line) => textWidth(line.label))), width < 800 ? 200 : 260) + 22 : 14;
  const height = width < NARROW ? 270 : 340, top = 10, bottom = height - (figure.x.name ? 44 : 26), right = width - room;
  const y = scaleOf(figure.y, bottom, top), left = leftOf(y);
  // Values that are no numbers have nothing between them: series stand side by side there.
  const slot = figure.apart ? (right - left) / Math.max((figure.x.ticks || []).length, 1) : 0;
  const x = scaleOf(figure.x, left + slot / 2, right - slot / 2);
  const parts = [axes(x, y, { left, right, top, bottom })];
  const seen = figure.lines.map((line, i) => [line, i]).filter(([, i]) => !hidden.has(i));
  const ends = [];
  seen.forEach(([line], turn) => {
    const isApart = figure.apart && line.style !== "bound";
    const aside = isApart ? (turn - (seen.length - 1) / 2) * Math.min(12, slot * 0.8 / seen.length) : 0;
    const colour = line.style === "bound" ? "var(--ink)" : line.ink || colourOf(line.colour);
    const dash = line.style === "bound" ? "5 4" : dashOf(line.colour);
    const points = pointsOf(line.points).filter(([px, py]) => py !== null && px !== null && px <= figure.x.ends[1] * (1 + 1e-9));
    if (!points.length) return;
    const path = points.map(([px, py]) => `${x.at(px).toFixed(1)},${y.at(py).toFixed(1)}`).join(" ");
    if (isApart && line.half) points.forEach(([px, py], i) => { if (line.half[i]) parts.push(stroke(x.at(px) + aside, y.at(Math.max(py - line.half[i], figure.y.ends[0])), x.at(px) + aside, y.at(py + line.half[i]), `stroke="${colour}" stroke-width="1.5" opacity="0.6"`)); });
    if (!isApart && line.half && points.length > 1) {
      const band = points.map(([px, py], i) => [x.at(px), y.at(py + line.half[i]), y.at(Math.max(py - line.half[i], figure.y.ends[0]))]);
      parts.push(`<polygon points="${band.map((p) => `${p[0].toFixed(1)},${p[1].toFixed(1)}`).join(" ")} ${band.reverse().map((p) => `${p[0].toFixed(1)},${p[2].toFixed(1)}`).join(" ")}" fill="${colour}" opacity="0.16"/>`);
    }
    if (line.style === "area") {
      const [first, last] = [points[0], points[points.length - 1]];
      parts.push(`<polygon points="${x.at(first[0]).toFixed(1)},${bottom} ${path} ${x.at(last[0]).toFixed(1)},${bottom}" fill="${colour}" opacity="0.16"/>`);
    }
    if (!isApart) parts.push(`<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="${line.style === "bound" ? 1.5 : 2}" stroke-linejoin="round" ${dash ? `stroke-dasharray="${dash}"` : ""} ${line.opacity ? `opacity="${line.opacity}"` : ""}/>`);
    if (line.style === "dots") for (const [px, py] of points) parts.push(`<g>${circle(x.at(px) + aside, y.at(py), 3.5, line.colour >= HUES && isApart ? `fill="var(--paper)" stroke="${colour}" stroke-width="2"` : `fill="${colour}"`)}<title>${escaped(`${line.label}: ${shown(py, figure.y.unit)}`)}</title></g>`);
    if (line.style === "shares") for (const share of [0.5, 0.99]) {
      const reached = points.find(([, py]) => py >= share);
      if (reached) parts.push(`<g>${circle(x.at(reached[0]), y.at(share), 3.5, `fill="${colour}"`)}<title>${escaped(`${line.label}: ${share * 100} % at ${shown(reached[0], figure.x.unit)}`)}</title></g>`);
    }
    const end = points[points.length - 1];
    ends.push({ line, colour, x: x.at(end[0]), y: y.at(end[1]) });
  });
  for (const [px, py] of pointsOf(figure.rings)) parts.push(circle(x.at(px), y.at(py), 7, 'fill="none" stroke="var(--ink)" stroke-width="2"'));
  if (labels) {
    ends.sort((a, b) => a.y - b.y);
    const places = ends.map((end) => end.y);
    for (let i = 1; i < places.length; i++) places[i] = Math.max(places[i], places[i - 1] + 16);
    for (let i = places.length - 1, below = bottom; i >= 0; i--, below = places[i + 1] - 16) places[i] = Math.min(places[i], below);
    ends.forEach((end, i) => {
      parts.push(`<polyline points="${end.x + 5},${end.y} ${right + 4},${end.y} ${right + 16},${places[i]}" fill="none" stroke="${end.colour}" opacity="0.6"/>`);
      parts.push(text(right + 19, places[i], clipped(end.line.label, room - 20), "start", 'fill="var(--ink)"'));
    });
  }
  return { svg: parts.join(""), height };
};

const drawBars = (figure, width) => {
  // Names are above their bars on narrow screens, else left of them.
  const isNarrow = width < NARROW;
  const widest = Math.max(40, ...figure.rows.map((row) => textWidth(row.name)));
  const left = isNarrow ? 4 : Math.min(widest, width * 0.32) + 18;
  const isLong = figure.rows.length > LONG;
  const pitch = isNarrow ? 44 : isLong ? 26 : 32, top = isNarrow ? 2 : 6, bottom = top + pitch * figure.rows.length, right = width - (isNarrow ? 34 : 16);
  const x = scaleOf(figure.x, left, right);
  const parts = x.marks.map(([value, label]) => {
    const at = x.at(value), half = textWidth(label) / 2;
    return stroke(at, top, at, bottom, GRID) + text(Math.min(Math.max(at, half), width - half), bottom + 14, label, "middle", SOFT);
  });
  // The axis of a long figure also stands above it, where it stays while the figure scrolls.
  const head = isLong ? x.marks.map(([value, label]) => text(Math.min(Math.max(x.at(value), textWidth(label) / 2), width - textWidth(label) / 2), 12, label, "middle", SOFT)).join("") : "";
  if (figure.x.ends[0] < 0) parts.push(stroke(x.at(0), top, x.at(0), bottom, 'stroke="var(--ink)"'));
  figure.rows.forEach((row, i) => {
    const from = top + pitch * i, middle = isNarrow ? from + 30 : from + pitch / 2, half = isNarrow ? 8 : 9;
    if (isNarrow) parts.push(text(left, from + 12, clipped(row.name, width - 10), "start", 'fill="var(--ink)"'));
    else {
      const lines = wrapped(row.name, left - 16, 2);
      lines.forEach((line, k) => parts.push(text(left - 8, middle + (k - (lines.length - 1) / 2) * 13, line, "end", 'fill="var(--ink)"')));
    }
    for (const [start, end, colour] of row.parts) if (start !== null && end !== null) parts.push(box(x.at(start), middle - half, x.at(end) - x.at(start), 2 * half, `fill="var(--c${colour % 9})"`));
    for (const bound of row.bounds) if (bound !== null) {
      const ends = [x.at(bound), middle - half - 4, x.at(bound), middle + half + 4];
      parts.push(stroke(...ends, 'stroke="var(--paper)" stroke-width="5"'), stroke(...ends, 'stroke="var(--ink)" stroke-width="2"'));
    }
    for (const value of row.values) if (value !== null) parts.push(circle(x.at(value), middle, 3, `fill="var(--c${row.colour % 9})" opacity="0.35"`));
    if (row.interval) {
      const [low, high] = row.interval.map(x.at), ink = `stroke="var(--c${row.colour % 9})" stroke-width="2"`;
      parts.push(stroke(low, middle, high, middle, ink), stroke(low, middle - 5, low, middle + 5, ink), stroke(high, middle - 5, high, middle + 5, ink));
    }
    if (row.dot !== null) parts.push(circle(x.at(row.dot), middle, 5, `fill="var(--c${row.colour % 9})"`));
    for (const ring of row.rings) if (ring !== null) parts.push(circle(x.at(ring), middle, 6.5, 'fill="none" stroke="var(--ink)" stroke-width="2"'));
    if (row.text) {
      // The value follows its bar, or ends in it if a bound is so close that the value would be read as
      // that of the bound.
      const end = row.parts.length ? row.parts[row.parts.length - 1] : null, size = textWidth(row.text);
      const isClose = end && row.bounds.some((bound) => bound !== null && x.at(bound) >= x.at(end[1]) - 2 && x.at(bound) < x.at(end[1]) + size + 16);
      const inside = isClose && row.parts.length === 1 && x.at(end[1]) - x.at(end[0]) > size + 14 && !row.rings.some((ring) => ring !== null && Math.abs(x.at(ring) - x.at(end[1]) + size / 2) < size / 2 + 10);
      const marks = [...row.rings, ...row.bounds, row.dot].filter((value) => value !== null);
      const clear = (at) => marks.every((mark) => x.at(mark) < at - 8 || x.at(mark) > at + size + 4);
      let at = (end ? x.at(end[1]) : row.dot === null ? left : x.at(row.dot)) + 8;
      if (inside) parts.push(text(x.at(end[1]) - 6, middle, row.text, "end", 'fill="var(--on)" font-weight="600"'));
      else {
        for (const mark of marks.map((mark) => x.at(mark)).sort((a, b) => a - b)) if (!clear(at) && mark + 10 > at) at = mark + 10;
        const isOut = at + size > width;
        parts.push(text(isOut ? Math.max((end ? x.at(end[1]) : row.dot === null ? at : x.at(row.dot)) - 9, size) : at, middle, row.text, isOut ? "end" : "start", 'fill="var(--ink)" class="value"'));
      }
    }
  });
  return { svg: parts.join(""), height: bottom + 26, head };
};

const drawBoxes = (figure, width) => {
  const top = 8, bottom = top + figure.height, height = bottom + (figure.x.name ? 44 : 26), right = width - 14;
  const y = scaleOf(figure.y, bottom, top), left = leftOf(y), x = scaleOf(figure.x, left, right);
  const parts = [axes(x, y, { left, right, top, bottom })];
  for (const [l, b, r, t, ink, words] of figure.boxes) {
    const at = x.at(l), w = x.at(r) - at;
    parts.push(box(at, y.at(t), Math.max(w, 0.5), y.at(b) - y.at(t), `fill="${ink}" ${words ? 'opacity="0.8"' : ""}`));
    if (words && w > textWidth(words, 11)) parts.push(text(at + w / 2, (y.at(t) + y.at(b)) / 2, words, "middle", 'fill="var(--on)" font-size="11"'));
  }
  for (const [[x1, y1, x2, y2], colour] of figure.lines) parts.push(stroke(x.at(x1), y.at(y1), x.at(x2), y.at(y2), `stroke="var(--c${colour % 9})"`));
  return { svg: parts.join(""), height };
};

const drawMaps = (figure, width) => {
  const names = figure.upright[1], columns = figure.across[1].length;
  const left = Math.min(Math.max(...[...names, figure.upright[0]].map((name) => textWidth(name))), width * 0.36) + 14;
  const most = Math.max(...figure.lines.map((line) => line.maps.length));
  // As many maps side by side as have room for their numbers.
  const across = Math.max(1, Math.min(most, Math.floor((width - left) / (columns * 40 + 20))));
  const cell = Math.min(58, (width - left - (across - 1) * 20 - 4) / (across * columns)), row = 28;
  const [low, high] = figure.range, parts = [];
  const shareOf = (value) => Math.min(Math.max(figure.share ? value : high > low ? Math.log(value / low) / Math.log(high / low) : 0, 0), 1);
  const field = (x, y, value) => {
    const share = shareOf(value), words = figure.share ? (value < 0.005 ? "" : percentOf(value, 0)) : String(+value.toPrecision(3));
    const shown = textWidth(words, 11.5) <= cell ? words : figure.share ? words.replace(" %", "") : "";
    return `<g>${box(x + 1, y + 1, cell - 2, row - 2, `fill="var(--c1)" opacity="${(0.07 + 0.93 * share).toFixed(2)}"`)}${textWidth(shown, 11) <= cell ? text(x + cell / 2, y + row / 2, shown, "middle", `font-size="11.5" fill="${share > 0.45 ? "var(--on)" : "var(--ink)"}"`) : ""}<title>${escaped(words)}</title></g>`;
  };
  let y = 4;
  for (const line of figure.lines) {
    if (line.heading) { parts.push(text(left, y + 10, line.heading, "start", 'fill="var(--ink)" font-weight="600"')); y += 22; }
    for (let start = 0; start < line.maps.length; start += across) {
      const maps = line.maps.slice(start, start + across);
      if (maps.some((map) => map.heading)) {
        maps.forEach((map, k) => parts.push(text(left + k * (cell * columns + 20), y + 10, clipped(map.heading, cell * columns + 10), "start", 'fill="var(--ink)"')));
        y += 22;
      }
      const rows = names.length;
      names.forEach((name, i) => {
        const lines = wrapped(name, left - 12, 2), middle = y + row * (rows - 1 - i) + row / 2;
        lines.forEach((words, k) => parts.push(text(left - 8, middle + (k - (lines.length - 1) / 2) * 13, words, "end", 'fill="var(--ink)"')));
      });
      maps.forEach((map, k) => {
        const from = left + k * (cell * columns + 20);
        map.fields.forEach((fields, i) => fields.forEach((value, c) => { if (value !== null) parts.push(field(from + c * cell, y + row * (rows - 1 - i), value)); }));
        figure.across[1].forEach((name, c) => parts.push(text(from + c * cell + cell / 2, y + row * rows + 12, clipped(name, cell), "middle", SOFT)));
        parts.push(text(from + cell * columns / 2, y + row * rows + 28, figure.across[0], "middle", SOFT));
      });
      parts.push(text(left - 8, y + row * rows + 12, figure.upright[0], "end", SOFT));
      y += row * rows + 44;
    }
  }
  return { svg: parts.join(""), height: y };
};

const DRAW = { lines: drawLines, bars: drawBars, boxes: drawBoxes, maps: drawMaps };

// The numbers of a figure as comma-separated values.
const csvOf = (figure) => {
  const quoted = (value) => (value === null || value === undefined ? "" : /[",\n]/.test(value) ? `"${String(value).replace(/"/g, '""')}"` : value);
  const rows = [];
  if (figure.kind === "lines") {
    rows.push(["series", figure.x.name || "x", figure.y.name || "y", "confidence_95"]);
    for (const line of figure.lines) pointsOf(line.points).forEach(([x, y], i) => rows.push([line.label, x, y, line.half ? line.half[i] : null]));
  } else if (figure.kind === "bars") {
    const names = figure.marks.filter(([kind]) => kind === "bar").map(([, , label]) => label);
    const most = Math.max(...figure.rows.map((row) => row.parts.length), 0);
    rows.push(["name", ...Array.from({ length: most }, (_, i) => names[i] || `part ${i + 1}`), "value", "low", "high", "bound", "others"]);
    for (const row of figure.rows) rows.push([row.name, ...Array.from({ length: most }, (_, i) => (row.parts[i] ? +(row.parts[i][1] - row.parts[i][0]).toPrecision(5) : null)), row.dot, ...(row.interval || [null, null]), row.bounds[0], row.rings.join(" ")]);
  } else if (figure.kind === "boxes") {
    rows.push(["left", "bottom", "right", "top", "text"]);
    for (const [l, b, r, t, , words] of figure.boxes) rows.push([l, b, r, t, words]);
  } else {
    rows.push(["map", figure.upright[0] || "row", figure.across[0] || "column", "value"]);
    for (const line of figure.lines) for (const map of line.maps) map.fields.forEach((fields, i) => fields.forEach((value, c) => rows.push([[line.heading, map.heading].filter(Boolean).join(", "), figure.upright[1][i], figure.across[1][c], value])));
  }
  return `${rows.map((row) => row.map(quoted).join(",")).join("\n")}\n`;
};
