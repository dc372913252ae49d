const startExplorer = () => {
  if (!RUNS || !RUNS.panels.length) return;
  const { axis, each, panels, deadline, bounds } = RUNS;
  const shared = Math.max(...panels.map((panel) => panel.last_ms), 1, deadline ? deadline[0] : 0);
  // The comparison has one curve per run: the share of complete right curves over time.
  const done = panels.map((panel, i) => ({ key: i, label: panel.label, colour: panel.colour, times: Float64Array.from(panel.curves[1], ({ times }) => times[times.length - 1]) }));
  const state = { same: false, kept: {}, over: null, hidden: new Set() };
  // The names of the selected items of the left and the right panels.
  const NAMES = [ITEM, "node"];
  const description = document.getElementById("description");
  const canvases = [...document.querySelectorAll("canvas[data-kind]")].map((canvas) => {
    const panel = panels[canvas.dataset.panel], kind = canvas.dataset.kind;
    return { canvas, panel, kind, curves: panel ? panel.curves[kind] : done, background: null };
  });
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const inkOf = (curve) => style(`--c${curve.colour % HUES}`);
  // Returns the colour for a position from 0 to 1 in the page's colour map, which is viridis on
  // white.
  const ramp = () => {
    const stops = style("--ramp").split(",").map((hex) => [1, 3, 5].map((at) => parseInt(hex.trim().slice(at, at + 2), 16)));
    return (share, alpha) => {
      const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(place), stops.length - 2), part = place - i;
      const mix = (c) => Math.round(stops[i][c] + (stops[i + 1][c] - stops[i][c]) * part);
      return `rgba(${mix(0)},${mix(1)},${mix(2)},${alpha})`;
    };
  };
  const box = { left: 46, right: 12, top: 10, bottom: 46 };
  const niceStep = (span, count) => {
    const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
  };
  const scales = (item) => {
    const w = item.canvas.clientWidth, h = item.canvas.clientHeight;
    const last = (state.same || !item.panel ? shared : Math.max(item.panel.last_ms, 1)) * 1.03;
    return { w, h, last, x: (ms) => box.left + (w - box.left - box.right) * ms / last, y: (share) => h - box.bottom - (h - box.top - box.bottom) * share };
  };
  // Draws steps from the first arrival on. An incomplete curve continues to the edge at the level
  // it has reached.
  const trace = (ctx, times, s) => {
    const n = times.length;
    let i = 0;
    ctx.beginPath();
    ctx.moveTo(s.x(times[0] < Infinity ? times[0] : 0), s.y(0));
    for (; i < n && times[i] < Infinity; i++) {
      ctx.lineTo(s.x(times[i]), s.y(i / n));
      ctx.lineTo(s.x(times[i]), s.y((i + 1) / n));
    }
    if (i < n) ctx.lineTo(s.x(s.last), s.y(i / n));
    ctx.stroke();
  };
  // For each level, the time by which this share of the curves has reached it.
  const quantile = (curves, share) => {
    const levels = Math.min(Math.max(...curves.map(({ times }) => times.length)), 64);
    return Float64Array.from({ length: levels }, (_, level) => {
      const times = curves.map(({ times }) => times[Math.ceil(times.length * (level + 1) / levels) - 1]).sort((a, b) => a - b);
      return times[Math.min(Math.floor(share * times.length), times.length - 1)];
    });
  };
  const drawBackground = (item) => {
    const s = scales(item), ratio = devicePixelRatio || 1;
    const layer = document.createElement("canvas");
    layer.width = s.w * ratio; layer.height = s.h * ratio;
    const ctx = layer.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = "12px system-ui, sans-serif";
    ctx.fillStyle = style("--soft"); ctx.strokeStyle = style("--line"); ctx.lineWidth = 1;
    ctx.textAlign = "right"; ctx.textBaseline = "middle";
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const y = Math.round(s.y(share)) + 0.5;
      ctx.beginPath(); ctx.moveTo(box.left, y); ctx.lineTo(s.w - box.right, y); ctx.stroke();
      ctx.fillText(`${share * 100} %`, box.left - 6, y);
    }
    ctx.textAlign = "center"; ctx.textBaseline = "top";
    const step = niceStep(s.last, 7);
    for (let ms = 0; ms <= s.last; ms += step) ctx.fillText(ms >= 1000 ? `${+(ms / 1000).toFixed(2)} s` : `${ms} ms`, s.x(ms), s.h - box.bottom + 6);
    ctx.textAlign = "right";
    ctx.fillText(axis, s.w - box.right, s.h - box.bottom + 24);
    if (item.panel) {
      const alpha = item.curves.length > 300 ? 0.16 : 0.45, colour = ramp();
      item.curves.forEach(({ times }, i) => { ctx.strokeStyle = colour(i / item.curves.length, alpha); trace(ctx, times, s); });
      // The median, and the range of nine in ten curves.
      ctx.strokeStyle = style("--ink");
      for (const [share, dash, width] of [[0.05, [3, 3], 1], [0.5, [], 2], [0.95, [3, 3], 1]]) {
        ctx.setLineDash(dash); ctx.lineWidth = width;
        trace(ctx, quantile(item.curves, share), s);
      }
    } else {
      ctx.lineWidth = 2;
      for (const curve of item.curves) {
        if (state.hidden.has(curve.key)) continue;
        ctx.strokeStyle = inkOf(curve);
        ctx.setLineDash(curve.colour < HUES ? [] : [9, 4]);
        trace(ctx, curve.times, s);
      }
      ctx.strokeStyle = style("--ink"); ctx.lineWidth = 1.5; ctx.setLineDash([5, 4]);
      for (const times of bounds) trace(ctx, times, s);
      ctx.setLineDash([]);
    }
    if (deadline && deadline[0] <= s.last) {
      const x = Math.round(s.x(deadline[0])) + 0.5, isRight = x > s.w / 2;
      ctx.strokeStyle = ctx.fillStyle = style("--wrong"); ctx.lineWidth = 1; ctx.setLineDash([6, 4]);
      ctx.beginPath(); ctx.moveTo(x, box.top); ctx.lineTo(x, s.h - box.bottom); ctx.stroke();
      ctx.textAlign = isRight ? "right" : "left"; ctx.textBaseline = "bottom";
      ctx.fillText(deadline[1], isRight ? x - 6 : x + 6, s.h - box.bottom - 4);
    }
    ctx.setLineDash([]);
    item.background = layer; item.scales = s;
  };
  const strong = (ctx, curve, s, colour) => { ctx.lineWidth = 6; ctx.strokeStyle = style("--paper"); trace(ctx, curve.times, s); ctx.lineWidth = 3; ctx.strokeStyle = curve.colour === undefined ? colour : inkOf(curve); trace(ctx, curve.times, s); };
  const paint = (item) => {
    // A panel far from the window is drawn when it comes near, and one without layout by the resize
    // that follows.
    if (!item.isNear || !item.canvas.clientWidth || !item.canvas.clientHeight) return;
    if (!item.background) drawBackground(item);
    const ratio = devicePixelRatio || 1, s = item.scales, canvas = item.canvas;
    if (canvas.width !== item.background.width || canvas.height !== item.background.height) { canvas.width = item.background.width; canvas.height = item.background.height; }
    const ctx = canvas.getContext("2d");
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, canvas.width, canvas.height);
    ctx.drawImage(item.background, 0, 0);
    ctx.scale(ratio, ratio);
    const kept = state.kept[item.kind] ?? null, over = state.over && state.over.kind === item.kind ? state.over.key : null;
    for (const [key, paintColour] of [[kept, style("--bound")], [over, style("--mark")]]) {
      const curve = key === null ? null : item.curves.find((curve) => curve.key === key);
      if (curve) strong(ctx, curve, s, paintColour);
    }
  };
  const repaint = () => canvases.forEach(paint);
  const redraw = () => { canvases.forEach((item) => { item.background = null; }); repaint(); };
  const nearest = (item, px, py) => {
    const s = item.scales, ms = (px - box.left) / (s.w - box.left - box.right) * s.last, share = (s.h - box.bottom - py) / (s.h - box.top - box.bottom);
    let best = null, distance = 14;
    for (const curve of item.curves) {
      if (!item.panel && state.hidden.has(curve.key)) continue;
      const n = curve.times.length, level = Math.min(Math.max(Math.ceil(share * n), 1), n);
      const d = Math.abs(s.x(curve.times[level - 1]) - px);
      if (d < distance) { distance = d; best = curve; }
    }
    return ms >= 0 && share >= -0.02 && share <= 1.05 ? best : null;
  };
  const format = timeOf;
  const describe = (item, curve) => {
    const n = curve.times.length, what = `${each[item.kind]} ${curve.key}`;
    return `${item.panel ? `${item.panel.label}, ${what}` : curve.label}: first ${format(curve.times[0])}, half ${format(curve.times[Math.ceil(n / 2) - 1])}, all ${format(curve.times[n - 1])}`;
  };
  const keep = (item, curve) => {
    if (item.panel) selection.set({ [NAMES[item.kind]]: curve ? curve.key : null });
    else { state.kept[item.kind] = curve ? curve.key : null; repaint(); }
  };
  const point = (item, curve) => {
    const over = curve ? { kind: item.kind, key: curve.key } : null;
    if (JSON.stringify(over) === JSON.stringify(state.over)) return;
    state.over = over;
    description.textContent = curve ? describe(item, curve) : "";
    repaint();
  };
  for (const item of canvases) {
    item.canvas.addEventListener("mousemove", (event) => point(item, nearest(item, event.offsetX, event.offsetY)));
    item.canvas.addEventListener("mouseleave", () => point(item, null));
    item.canvas.addEventListener("blur", () => point(item, null));
    item.canvas.addEventListener("click", (event) => keep(item, nearest(item, event.offsetX, event.offsetY)));
    item.canvas.addEventListener("keydown", (event) => {
      const pointed = state.over && state.over.kind === item.kind ? item.curves.findIndex((curve) => curve.key === state.over.key) : -1;
      const last = item.curves.length - 1;
      const go = { ArrowRight: Math.min(pointed + 1, last), ArrowLeft: pointed < 0 ? last : Math.max(pointed - 1, 0), Home: 0, End: last }[event.key];
      if (go !== undefined) point(item, item.curves[go]);
      else if (event.key === "Enter" || event.key === " ") keep(item, item.curves[pointed] || null);
      else if (event.key === "Escape") { keep(item, null); point(item, null); }
      else return;
      event.preventDefault();
    });
  }
  NAMES.forEach((name, kind) => {
    document.getElementById(`key${kind}`).addEventListener("input", (event) => selection.set({ [name]: event.target.value === "" ? null : Number(event.target.value) }));
  });
  selection.onChange((selected) => {
    NAMES.forEach((name, kind) => {
      state.kept[kind] = selected[name];
      const field = document.getElementById(`key${kind}`), value = selected[name] === null ? "" : String(selected[name]);
      if (field.value !== value) field.value = value;
    });
    repaint();
  });
  document.getElementById("same").addEventListener("change", (event) => { state.same = event.target.checked; redraw(); });
  document.getElementById("clear").addEventListener("click", () => {
    state.kept = {};
    description.textContent = "";
    selection.set({ node: null, [ITEM]: null });
  });
  for (const button of document.querySelectorAll("[data-run]")) {
    button.addEventListener("click", () => {
      const run = Number(button.dataset.run);
      if (!state.hidden.delete(run)) state.hidden.add(run);
      button.setAttribute("aria-pressed", String(!state.hidden.has(run)));
      redraw();
    });
  }
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const item = canvases.find(({ canvas }) => canvas === target);
      item.isNear = isIntersecting;
      paint(item);
    }
  }, { rootMargin: "400px" });
  canvases.forEach(({ canvas }) => seen.observe(canvas));
  addEventListener("beforeprint", () => { canvases.forEach((item) => { item.isNear = true; }); repaint(); });
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  redraw();
};
