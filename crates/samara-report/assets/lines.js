// Lines through measured points, and distributions.

class LinesFigure {
  constructor(root, data) {
    this.data = data;
    this.visible = data.series.map(() => true);
    this.chart = element("div", { class: "chart", tabindex: "0", role: "group", "aria-label": this.#summary() });
    this.status = element("div", { class: "readout short", "aria-live": "polite" });
    root.append(this.#legend(), this.chart, this.status);
    this.chart.addEventListener("keydown", (event) => this.#step(event));
    this.chart.addEventListener("pointerleave", hideTip);
    this.chart.addEventListener("pointermove", (event) => this.#point(event));
    redrawn.push(() => this.#make());
    new ResizeObserver(() => this.#fit()).observe(this.chart);
    this.#make();
  }

  #summary() {
    const names = this.data.series.map((series) => series.name).join(", ");
    return `${this.data.y.label} against ${this.data.x.label}: ${names}. Arrow keys read the values.`;
  }

  #legend() {
    const buttons = this.data.series.map((series, index) => {
      const sample = series.bound
        ? lineSample("var(--ink)", [4, 4], 1.6)
        : lineSample(`var(--c${series.style.colour})`, series.style.dashes);
      return element("button", {
        type: "button", "aria-pressed": "true", title: "Show or hide",
        onclick: (event) => {
          this.visible[index] = !this.visible[index];
          event.currentTarget.setAttribute("aria-pressed", String(this.visible[index]));
          this.plot?.setSeries(index + 1, { show: this.visible[index] });
        },
      }, sample, series.name);
    });
    return element("div", { class: "legend" }, ...buttons);
  }

  #fit() {
    if (this.plot && this.chart.clientWidth > 0 && this.chart.clientWidth !== this.plot.width) {
      this.plot.setSize({ width: this.chart.clientWidth, height: this.chart.clientHeight });
    }
  }

  /** Values of the series that are shown, with the ends of their intervals. */
  #shownValues() {
    const shown = this.data.series.filter((_, index) => this.visible[index]);
    return shown.flatMap((series) => [...series.ys, ...(series.high ?? [])]).filter((value) => value !== null);
  }

  #make() {
    this.plot?.destroy();
    const { data } = this;
    const none = data.xs.length === 0;
    const topY = () => (data.shares ? 1 : Math.max(0, ...this.#shownValues()) * 1.06 || 1);
    const options = {
      width: Math.max(200, this.chart.clientWidth),
      height: this.chart.clientHeight,
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false }, points: { size: 8 } },
      scales: {
        x: data.x.log ? { time: false, distr: 3, log: 10, range: (_, from, to) => [from / 1.06, to * 1.06] }
          : { time: false, range: data.dots ? (_, from, to) => [Math.min(0, from), to * 1.03] : undefined },
        y: data.y.log ? { distr: 3, log: 10, range: (_, from, to) => [from / 1.15, to * 1.15] } : { range: () => [0, topY()] },
      },
      axes: [this.#axis(data.x, data.xs, true), this.#axis(data.y, this.#shownValues(), false)],
      series: [{}, ...data.series.map((series, index) => this.#series(series, index))],
      hooks: { draw: [(plot) => this.#intervals(plot)] },
    };
    const values = none ? [[0, 1], ...data.series.map(() => [null, null])] : [data.xs, ...data.series.map((s) => s.ys)];
    this.plot = new uPlot(options, values, this.chart);
  }

  #axis(axis, values, isX) {
    const { divisor, unit } = axisUnit(axis.unit, Math.max(0, ...values));
    const name = (value) => (this.data.shares && !isX ? percent(value) : tickName(value / divisor));
    return {
      stroke: css("soft"),
      grid: { stroke: css("grid"), width: 1, show: !isX },
      ticks: { stroke: css("edge"), width: 1, show: isX },
      font: `12px ${getComputedStyle(document.body).fontFamily}`,
      labelFont: `12px ${getComputedStyle(document.body).fontFamily}`,
      label: unit ? `${axis.label}, ${unit}` : axis.label,
      labelSize: 24,
      size: isX ? 34 : 58,
      space: isX ? 60 : 44,
      values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : name(tick))),
      ...(axis.ticks.length || axis.log ? { splits: (...args) => this.#splits(axis, args[2], args[3]), filter: (_, ticks) => ticks } : {}),
    };
  }

  /** The values that are named on a logarithmic axis, or one that says which. */
  #splits(axis, from, to) {
    if (axis.ticks.length) return axis.ticks.filter((tick) => tick >= from && tick <= to);
    const ticks = [];
    for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power += 1) {
      for (const factor of to / from > 2000 ? [1] : [1, 2, 5]) ticks.push(factor * 10 ** power);
    }
    return ticks.filter((tick) => tick >= from && tick <= to);
  }

  #series(series, index) {
    const colour = series.bound ? css("ink") : css(`c${series.style.colour}`);
    return {
      label: series.name,
      show: this.visible[index],
      stroke: colour,
      width: series.bound ? 1.6 : 2.4,
      dash: series.bound ? [4, 4] : series.style.dashes,
      spanGaps: true,
      points: { show: this.data.dots && !series.bound, size: 7, fill: colour },
    };
  }

  #intervals(plot) {
    const context = plot.ctx;
    context.save();
    context.lineWidth = 1.5 * devicePixelRatio;
    context.setLineDash([]);
    this.data.series.forEach((series, index) => {
      if (!series.low || !this.visible[index]) return;
      context.strokeStyle = css(`c${series.style.colour}`);
      const cap = 4 * devicePixelRatio;
      this.data.xs.forEach((value, at) => {
        const [low, high] = [series.low[at], series.high[at]];
        if (low === null || high === null || !(high > low)) return;
        const x = plot.valToPos(value, "x", true);
        const [y1, y2] = [plot.valToPos(low, "y", true), plot.valToPos(high, "y", true)];
        context.beginPath();
        context.moveTo(x, y1);
        context.lineTo(x, y2);
        for (const y of [y1, y2]) {
          context.moveTo(x - cap, y);
          context.lineTo(x + cap, y);
        }
        context.stroke();
      });
    });
    context.restore();
  }

  /** What the series have at an x: rows of sample, name and value. */
  #rows(at) {
    const { data } = this;
    const rows = [];
    data.series.forEach((series, index) => {
      const value = series.ys[at];
      if (!this.visible[index] || value === null) return;
      const half = series.low && series.high[at] > series.low[at] ? (series.high[at] - series.low[at]) / 2 : 0;
      const text = data.shares ? percent(value) : withUnit(value, data.y.unit);
      const sample = series.bound
        ? lineSample("var(--ink)", [4, 4], 1.6)
        : lineSample(`var(--c${series.style.colour})`, series.style.dashes);
      sample.setAttribute("class", "swatch");
      rows.push([sample, series.name, half ? `${text} ± ${withUnit(half, data.y.unit)}` : text, true]);
    });
    return rows;
  }

  #point(event) {
    const at = this.plot?.cursor.idx;
    if (at === null || at === undefined || this.data.xs.length === 0) return hideTip();
    const { x } = this.data;
    const head = element("b", { text: `${x.label}: ${withUnit(this.data.xs[at], x.unit)}` });
    showTip(event, head, tipTable(this.#rows(at)));
  }

  #step(event) {
    const { xs, x } = this.data;
    if (!["ArrowLeft", "ArrowRight", "Escape"].includes(event.key) || xs.length === 0) return;
    event.preventDefault();
    if (event.key === "Escape") {
      this.plot.setCursor({ left: -10, top: -10 });
      this.status.textContent = "";
      return;
    }
    const stride = xs.length > 100 ? Math.round(xs.length / 50) : 1;
    const from = this.plot.cursor.idx ?? (event.key === "ArrowRight" ? -stride : xs.length);
    const at = Math.min(xs.length - 1, Math.max(0, from + (event.key === "ArrowRight" ? stride : -stride)));
    this.plot.setCursor({ left: this.plot.valToPos(xs[at], "x"), top: 10 });
    const values = this.#rows(at).map(([, name, value]) => `${name} ${value}`).join("; ");
    this.status.textContent = `${withUnit(xs[at], x.unit)}: ${values}`;
  }
}
