// Many step curves over time, in panels. The curve of one thing can be followed through all panels.

/** Reads the curves of a panel: see the module `encode`. */
function decodeCurves(text, quantum) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  let position = 0;
  const take = () => {
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = bytes[position++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
      factor *= 128;
    }
  };
  const curves = [];
  while (position < bytes.length) {
    const [number, of, count] = [take(), take(), take()];
    const arrivals = new Float64Array(count);
    let at = 0;
    for (let index = 0; index < count; index += 1) {
      at += take();
      arrivals[index] = at * quantum;
    }
    if (of > 0) curves.push({ number, of, arrivals });
  }
  return curves;
}

/** How many arrivals are not later than `time`. */
function arrivedBy(curve, time) {
  let [low, high] = [0, curve.arrivals.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.arrivals[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** When a share is reached. */
function reaches(curve, share) {
  const needed = Math.max(1, Math.ceil(share * curve.of - 1e-9));
  return needed <= curve.arrivals.length ? curve.arrivals[needed - 1] : Infinity;
}

const LEVELS = 64;
const MARGIN = { left: 46, right: 10, top: 8, bottom: 36 };

class CurvesPanel {
  constructor(figure, data) {
    this.figure = figure;
    this.title = data.title;
    this.marks = data.marks;
    this.curves = decodeCurves(data.curves, figure.data.quantum_ms);
    this.byNumber = new Map(this.curves.map((curve) => [curve.number, curve]));
    this.latest = Math.max(0, ...this.curves.map((curve) => curve.arrivals.at(-1) ?? 0));
    this.curves.slice().sort((a, b) => reaches(a, 1) - reaches(b, 1)).forEach((curve, rank) => (curve.rank = rank));
    this.#cutAtLevels();
    this.#build(data.style);
  }

  /** When all curves reach a share, in order. */
  cut(share) {
    return Float64Array.from(this.curves, (curve) => reaches(curve, share)).sort();
  }

  #cutAtLevels() {
    this.envelope = [];
    for (let level = 1; level <= LEVELS && this.curves.length; level += 1) {
      const times = this.cut(level / LEVELS);
      const last = times.length - 1;
      this.envelope.push({ share: level / LEVELS, first: times[0], median: times[last >> 1], last: times[last] });
    }
  }

  #build(style) {
    const end = this.envelope.at(-1);
    const { item, y_label: label } = this.figure.data;
    const summary = end
      ? `${this.title}: ${label} over time, ${this.curves.length} curves. The median ${item} is complete after ` +
        `${millis(end.median)}, the last after ${millis(end.last)}.`
      : `${this.title}: no curves.`;
    this.base = element("canvas", { role: "img", "aria-label": summary });
    this.over = element("canvas", { class: "over", "aria-hidden": "true" });
    this.readout = element("div", { class: "readout" });
    const enlarge = element("button", { type: "button", text: "Enlarge", "aria-pressed": "false" });
    this.root = element(
      "div",
      { class: "panel" },
      element("header", {}, element("span", { text: this.title, title: this.title }), enlarge),
      element("div", { class: "plot" }, this.base, this.over),
      this.readout,
    );
    const sample = lineSample(`var(--c${style.colour})`, style.dashes);
    sample.setAttribute("class", "swatch");
    this.root.querySelector("header").prepend(sample);
    enlarge.addEventListener("click", () => {
      const wide = this.root.classList.toggle("wide");
      enlarge.setAttribute("aria-pressed", String(wide));
      enlarge.textContent = wide ? "Shrink" : "Enlarge";
    });
    this.over.addEventListener("pointermove", (event) => this.#point(event));
    this.over.addEventListener("pointerleave", () => {
      this.cutAt = undefined;
      hideTip();
      this.figure.hover(undefined);
    });
    this.over.addEventListener("click", (event) => this.figure.pin(this.#nearest(event)?.number));
    new ResizeObserver(() => this.draw()).observe(this.base);
  }

  /** The scale of time, from ms to pixels and back. */
  #scale() {
    const width = this.base.clientWidth - MARGIN.left - MARGIN.right;
    const height = this.base.clientHeight - MARGIN.top - MARGIN.bottom;
    const to = Math.max(1, this.figure.ownScale ? this.latest : this.figure.latest) * 1.02;
    return {
      to, width, height,
      x: (time) => MARGIN.left + (Math.min(time, to * 2) / to) * width,
      y: (share) => MARGIN.top + (1 - share) * height,
      time: (x) => ((x - MARGIN.left) / width) * to,
      share: (y) => 1 - (y - MARGIN.top) / height,
    };
  }

  #context(canvas) {
    const ratio = Math.max(devicePixelRatio || 1, document.documentElement.classList.contains("printing") ? 3 : 1);
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    return context;
  }

  draw() {
    if (this.base.clientWidth < 80) return;
    const context = this.#context(this.base);
    const scale = this.#scale();
    this.#axes(context, scale);
    if (this.latest === 0) {
      context.textAlign = "center";
      context.fillText("nothing arrived", scale.x(scale.to / 2), scale.y(0.5));
      return this.drawOver();
    }
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, MARGIN.top - 2, scale.width, scale.height + 3);
    context.clip();
    const opacity = Math.min(0.9, Math.max(0.16, 6 / Math.sqrt(this.curves.length)));
    context.globalAlpha = opacity;
    context.lineWidth = 1;
    for (const curve of this.curves) {
      context.strokeStyle = this.figure.shade(curve, this.curves.length);
      this.#trace(context, scale, curve);
    }
    context.globalAlpha = 1;
    this.#outlines(context, scale);
    this.#marks(context, scale);
    context.restore();
    this.drawOver();
  }

  #axes(context, scale) {
    const [soft, grid] = [css("soft"), css("grid")];
    context.fillStyle = soft;
    context.strokeStyle = grid;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const y = Math.round(scale.y(share)) + 0.5;
      context.beginPath();
      context.moveTo(MARGIN.left, y);
      context.lineTo(MARGIN.left + scale.width, y);
      context.stroke();
      context.fillText(`${share * 100} %`, MARGIN.left - 6, y);
    }
    const { divisor, unit } = axisUnit(this.figure.data.x.unit, scale.to);
    context.textAlign = "center";
    context.textBaseline = "top";
    context.strokeStyle = soft;
    for (const tick of evenTicks(scale.to / divisor, Math.max(3, scale.width / 80))) {
      const x = Math.round(scale.x(tick * divisor)) + 0.5;
      context.beginPath();
      context.moveTo(x, scale.y(0));
      context.lineTo(x, scale.y(0) + 4);
      context.stroke();
      context.fillText(tickName(tick), x, scale.y(0) + 6);
    }
    const label = unit ? `${this.figure.data.x.label}, ${unit}` : this.figure.data.x.label;
    context.fillText(label, MARGIN.left + scale.width / 2, scale.y(0) + 21);
  }

  #trace(context, scale, curve) {
    // Only from the first arrival to the last: before and after, all curves lie on each other.
    context.beginPath();
    let y = scale.y(0);
    curve.arrivals.forEach((at, index) => {
      const x = scale.x(at);
      context.lineTo(x, y);
      y = scale.y((index + 1) / curve.of);
      context.lineTo(x, y);
    });
    if (curve.arrivals.length < curve.of) context.lineTo(MARGIN.left + scale.width, y);
    context.stroke();
  }

  #outlines(context, scale) {
    const line = (which, width, colour, dashes) => {
      context.beginPath();
      let y = scale.y(0);
      for (const level of this.envelope) {
        if (!Number.isFinite(level[which])) break;
        const x = scale.x(level[which]);
        context.lineTo(x, y);
        y = scale.y(level.share);
        context.lineTo(x, y);
      }
      context.setLineDash(dashes);
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.stroke();
      context.setLineDash([]);
    };
    const [ink, ground] = [css("ink"), css("ground")];
    for (const which of ["first", "last"]) line(which, 1.2, ink, [4, 3]);
    context.globalAlpha = 0.75;
    line("median", 5.5, ground, []);
    context.globalAlpha = 1;
    line("median", 2.2, ink, []);
  }

  #marks(context, scale) {
    context.textBaseline = "bottom";
    for (const [label, at] of this.marks) {
      const x = scale.x(at);
      context.setLineDash([2, 3]);
      context.strokeStyle = css("ink");
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x, scale.y(1));
      context.lineTo(x, scale.y(0));
      context.stroke();
      context.setLineDash([]);
      const right = x > MARGIN.left + scale.width / 2;
      context.textAlign = right ? "right" : "left";
      context.lineWidth = 4;
      context.strokeStyle = css("ground");
      const place = [label, x + (right ? -5 : 5), scale.y(0) - 3];
      context.strokeText(...place);
      context.fillStyle = css("soft");
      context.fillText(...place);
    }
  }

  /** What is pointed at and what is chosen, over the curves. */
  drawOver() {
    const context = this.#context(this.over);
    const scale = this.#scale();
    context.beginPath();
    context.rect(MARGIN.left, 0, scale.width, scale.y(0) + 1);
    context.clip();
    const curve = this.byNumber.get(this.figure.shown());
    if (curve) {
      context.globalAlpha = 0.45;
      context.fillStyle = css("ground");
      context.fillRect(MARGIN.left, 0, scale.width, scale.y(0));
      context.globalAlpha = 1;
      context.lineWidth = 6;
      context.strokeStyle = css("ground");
      this.#trace(context, scale, curve);
      context.lineWidth = 2.5;
      context.strokeStyle = css("accent");
      this.#trace(context, scale, curve);
    }
    if (this.cutAt !== undefined) {
      context.strokeStyle = context.fillStyle = css("ink");
      context.setLineDash([1, 3]);
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(MARGIN.left, scale.y(this.cutAt));
      context.lineTo(MARGIN.left + scale.width, scale.y(this.cutAt));
      context.stroke();
      const times = this.cut(this.cutAt);
      for (const time of [times[0], times[(times.length - 1) >> 1], times.at(-1)]) {
        if (!Number.isFinite(time)) continue;
        context.beginPath();
        context.arc(scale.x(time), scale.y(this.cutAt), 3.2, 0, 7);
        context.fill();
      }
    }
    this.#read(curve);
  }

  #read(curve) {
    const { item } = this.figure.data;
    if (curve) {
      const done = reaches(curve, 1);
      const end = Number.isFinite(done) ? `complete at ${millis(done)}` : `${curve.arrivals.length} of ${curve.of}`;
      const half = `half at ${millis(reaches(curve, 0.5))}`;
      this.readout.replaceChildren(element("b", { text: `${item} ${curve.number}` }), `: ${half}, ${end}`);
      return;
    }
    const end = this.envelope.at(-1);
    if (!end || this.latest === 0) return this.readout.replaceChildren();
    const slowest = this.curves.reduce((a, b) => (b.rank > a.rank ? b : a));
    const complete = this.curves.filter((other) => Number.isFinite(reaches(other, 1))).length;
    const all = complete === this.curves.length ? "" : ` Complete: ${complete} of ${this.curves.length}.`;
    this.readout.replaceChildren(
      "Complete: median ", element("b", { text: millis(end.median) }),
      ", last ", element("b", { text: millis(end.last) }), ` (${item} ${slowest.number}).${all}`,
    );
  }

  #nearest(event) {
    const scale = this.#scale();
    const [time, share] = [scale.time(event.offsetX), scale.share(event.offsetY)];
    let [best, least] = [undefined, 30];
    for (const curve of this.curves) {
      const up = Math.abs(arrivedBy(curve, time) / curve.of - share) * scale.height;
      const aside = (Math.abs(reaches(curve, Math.min(1, Math.max(0, share))) - time) / scale.to) * scale.width;
      const distance = Math.min(up, aside);
      if (distance < least) [best, least] = [curve, distance];
    }
    return best;
  }

  #point(event) {
    if (this.latest === 0) return;
    const scale = this.#scale();
    const share = scale.share(event.offsetY);
    const isInside = share > 0 && share <= 1.02 && event.offsetX > MARGIN.left;
    this.cutAt = isInside ? Math.min(1, share) : undefined;
    const nearest = isInside ? this.#nearest(event) : undefined;
    this.figure.hover(nearest?.number);
    if (!isInside) return hideTip();
    const { item } = this.figure.data;
    const times = this.cut(this.cutAt);
    const [first, median, last] = [times[0], times[(times.length - 1) >> 1], times.at(-1)];
    const rows = [
      [null, `first to reach ${percent(this.cutAt)}`, millis(first)],
      [null, "median", millis(median)],
      [null, "last", millis(last)],
    ];
    if (Number.isFinite(last)) rows.push([null, "from first to last", millis(last - first)]);
    const own = nearest
      ? [element("b", { text: `${item} ${nearest.number}` }),
        ` 50 % at ${millis(reaches(nearest, 0.5))}, 100 % at ${millis(reaches(nearest, 1))}`]
      : [];
    showTip(event, element("div", {}, ...own), tipTable(rows));
  }
}

class CurvesFigure {
  constructor(root, data) {
    this.data = data;
    this.ownScale = data.own_scale;
    this.panels = data.panels.map((panel) => new CurvesPanel(this, panel));
    this.latest = Math.max(0, ...this.panels.map((panel) => panel.latest));
    const numbers = this.panels.flatMap((panel) => panel.curves.map((curve) => curve.number));
    this.numbers = [...new Set(numbers)].sort((a, b) => a - b);
    const few = this.panels.length === 2 || this.panels.length === 4;
    const grid = element("div", { class: few ? "panels two" : "panels" }, ...this.panels.map((panel) => panel.root));
    root.append(this.#tools(), grid);
    if (this.panels.length === 1) this.panels[0].root.classList.add("wide");
    redrawn.push(() => this.#redraw());
    this.#redraw();
  }

  /** The number that is chosen, or else pointed at. */
  shown() {
    return this.hovered ?? this.pinned;
  }

  hover(number) {
    this.hovered = number;
    this.panels.forEach((panel) => panel.drawOver());
  }

  pin(number) {
    this.pinned = number === this.pinned ? undefined : number;
    this.#choose();
  }

  #choose() {
    const index = this.numbers.indexOf(this.pinned);
    if (index >= 0) this.slider.value = index;
    this.search.value = this.pinned ?? "";
    this.clear.disabled = this.pinned === undefined;
    this.panels.forEach((panel) => panel.drawOver());
  }

  /** The colour of a curve. */
  shade(curve, count) {
    const last = this.numbers.at(-1) || 1;
    return this.#mapped(this.data.by_rank ? curve.rank / Math.max(1, count - 1) : curve.number / last);
  }

  #mapped(value) {
    const [from, to] = isDark() ? this.data.map_dark : this.data.map_light;
    const at = (from + value * (to - from)) * (this.data.map.length - 1);
    const below = Math.min(Math.floor(at), this.data.map.length - 2);
    const mix = (channel) => {
      const [a, b] = [this.data.map[below][channel], this.data.map[below + 1][channel]];
      return Math.round(a + (b - a) * (at - below));
    };
    return `rgb(${mix(0)} ${mix(1)} ${mix(2)})`;
  }

  #tools() {
    const { item } = this.data;
    const scales = [["Same scale", false], ["Own scales", true]].map(([text, own]) =>
      element("button", {
        type: "button", text, "aria-pressed": String(own === this.ownScale),
        onclick: (event) => {
          this.ownScale = own;
          for (const button of event.target.parentNode.children) {
            button.setAttribute("aria-pressed", String(button === event.target));
          }
          this.#redraw();
        },
      }));
    this.slider = element("input", {
      type: "range", min: 0, max: Math.max(0, this.numbers.length - 1), value: 0, "aria-label": `Choose a ${item}`,
      oninput: () => {
        this.pinned = this.numbers[this.slider.value];
        this.#choose();
      },
    });
    this.search = element("input", {
      type: "number", min: this.numbers[0] ?? 0, max: this.numbers.at(-1) ?? 0, "aria-label": `Number of a ${item}`,
      onchange: () => {
        const number = Number(this.search.value);
        this.pinned = this.search.value !== "" && this.numbers.includes(number) ? number : undefined;
        this.#choose();
      },
    });
    this.clear = element("button", {
      type: "button", text: "Clear", disabled: "",
      onclick: () => {
        this.pinned = undefined;
        this.#choose();
      },
    });
    this.mapKey = element("canvas", { class: "map", "aria-hidden": "true" });
    const [first, last] = this.data.by_rank
      ? ["first complete", "last"]
      : [`${item} ${this.numbers[0] ?? ""}`, `${this.numbers.at(-1) ?? ""}`];
    const key = (name, width, dashes) =>
      element("span", { class: "key" }, lineSample("var(--ink)", dashes, width), element("span", { class: "soft", text: name }));
    const tools = element("div", { class: "tools" });
    if (this.panels.length > 1) {
      tools.append(element("div", { class: "switch", role: "group", "aria-label": "Scale of time" }, ...scales));
    }
    tools.append(
      element("div", { class: "group pick" }, element("span", { text: `Follow a ${item}` }), this.slider, this.search, this.clear),
      element("div", { class: "group soft" }, first, this.mapKey, last),
      element("div", { class: "group" }, key("median", 2.2, []), key("first and last", 1.4, [4, 3])),
    );
    tools.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.clear.click();
    });
    return tools;
  }

  #redraw() {
    const context = this.mapKey.getContext("2d");
    this.mapKey.width = 130;
    this.mapKey.height = 10;
    for (let x = 0; x < 130; x += 1) {
      context.fillStyle = this.#mapped(x / 129);
      context.fillRect(x, 0, 1, 10);
    }
    this.panels.forEach((panel) => panel.draw());
  }
}
