// Small figures. Each has a text for screen readers.

// `floor`: the start of the axis. "least" starts at the lowest value, anything else at 0.
function spark(values, what, floor) {
  const known = values.filter(isKnown);
  if (known.length < 2) return null;
  const [width, height] = [110, 26];
  const top = Math.max(...known),
    bottom = floor === "least" ? Math.min(...known) : Math.min(...known, 0);
  // The axis spans at least a tenth of the value, so that noise does not look like a change.
  const room = Math.max(top * 0.1 - (top - bottom), 0) / 2;
  const [most, least] = [top + room, bottom - room];
  const x = (i) => (i / (values.length - 1)) * (width - 6) + 2;
  const y = (value) => height - 3 - ((value - least) / (most - least || 1)) * (height - 6);
  let path = "",
    pen = "M";
  values.forEach((value, i) => {
    if (!isKnown(value)) {
      pen = "M";
      return;
    }
    path += `${pen}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  const last = values[values.length - 1];
  const figure = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": what },
    svg("path", { d: path, class: "spark" }),
    isKnown(last) ? svg("circle", { cx: x(values.length - 1), cy: y(last), r: 2.4, class: "dot" }) : null,
  );
  return el("span", { class: "spark-box" }, figure);
}

// Steps of an axis: 1, 2 or 5 times a power of ten.
function ticks(least, most, about) {
  const raw = (most - least) / Math.max(about, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(least / step - 1e-9) * step; at <= most + step * 1e-9; at += step) found.push(at);
  return found;
}

// A histogram of slots by latency. Neighbouring buckets are joined into bars that a screen can
// resolve.
function histogram(parts, width) {
  const height = 190,
    left = 8,
    right = 8,
    base = height - 26,
    top = 26;
  const { buckets, p50_ms, p99_ms } = parts;
  const least = Math.min(buckets[0][0], parts.min_ms),
    most = parts.max_ms;
  const pad = (most - least) * 0.04 || Math.max(most * 0.05, 0.001);
  const [from, to] = [Math.max(0, least - pad), most + pad];
  const bins = new Array(Math.max(12, Math.min(60, Math.floor(width / 14)))).fill(0);
  for (const [value, slots] of buckets) {
    const bin = Math.floor(((Math.min(value, to) - from) / (to - from)) * bins.length);
    bins[Math.min(bins.length - 1, Math.max(0, bin))] += slots;
  }
  const peak = Math.max(...bins);
  const x = (value) => left + ((value - from) / (to - from)) * (width - left - right);
  const each = (width - left - right) / bins.length;
  const bars = bins.map((slots, i) =>
    slots > 0
      ? svg(
          "rect",
          {
            class: "hist",
            x: (left + i * each + 0.5).toFixed(1),
            width: Math.max(1, each - 1).toFixed(1),
            y: (base - Math.max(1.5, (slots / peak) * (base - top))).toFixed(1),
            height: Math.max(1.5, (slots / peak) * (base - top)).toFixed(1),
          },
          svg(
            "title",
            {},
            `${count(slots)} slots at about ${ms(from + ((i + 0.5) / bins.length) * (to - from))}`,
          ),
        )
      : null,
  );
  const axis = ticks(from, to, width / 110).map((at) => [
    svg("line", { class: "grid", x1: x(at), x2: x(at), y1: base, y2: base + 4 }),
    svg("text", { x: x(at), y: base + 18, "text-anchor": "middle" }, ms(at)),
  ]);
  const cut = (value, name, anchor, dy) =>
    svg(
      "g",
      {},
      svg("line", { class: "cut", x1: x(value), x2: x(value), y1: top - 8 + dy, y2: base }),
      svg(
        "text",
        { x: x(value) + (anchor === "end" ? -5 : 5), y: top - 2 + dy, "text-anchor": anchor, class: "label" },
        `${name} ${ms(value)}`,
      ),
    );
  const words = `Slots by latency: half within ${ms(p50_ms)}, 99 % within ${ms(p99_ms)}, the slowest ${ms(most)}`;
  const middle = (value) => (x(value) > width * 0.62 ? "end" : "start");
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": words },
    svg("line", { class: "grid", x1: left, x2: width - right, y1: base, y2: base }),
    bars,
    axis,
    cut(p50_ms, "p50", middle(p50_ms), -10),
    p99_ms > p50_ms ? cut(p99_ms, "p99", middle(p99_ms), 6) : null,
  );
}
