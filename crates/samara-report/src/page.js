"use strict";
(() => {
  const panels = JSON.parse(document.getElementById("panels").textContent);
  if (!panels.length) return;
  const NEVER = 0xffffff;
  for (const panel of panels) {
    const bytes = Uint8Array.from(atob(panel.data), (c) => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const columns = new Map(), nodes = new Map();
    const add = (map, key, time) => { if (!map.has(key)) map.set(key, []); map.get(key).push(time); };
    let at = 0;
    for (const [node, count] of panel.node) {
      for (let i = 0; i < count; i++, at += 5) {
        const column = view.getUint16(at, true), raw = view.getUint16(at + 2, true) + view.getUint8(at + 4) * 65536;
        const time = raw === NEVER ? Infinity : raw / 4;
        add(columns, column, time);
        add(nodes, node, time);
      }
    }
    const sorted = (map) => [...map].sort((a, b) => a[0] - b[0]).map(([key, times]) => ({ key, times: Float64Array.from(times).sort() }));
    panel.curves = { columns: sorted(columns), nodes: sorted(nodes) };
  }
  const shared = Math.max(...panels.map((panel) => panel.last_ms), 1);
  const state = { same: true, kept: { columns: null, nodes: null }, over: null };
  const told = document.getElementById("told");
  const canvases = [...document.querySelectorAll("canvas")].map((canvas) => {
    const panel = panels[canvas.dataset.panel], kind = canvas.dataset.kind;
    return { canvas, panel, kind, curves: panel.curves[kind], background: null };
  });
  // Viridis, sampled.
  const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [190, 190, 30]];
  const colour = (share, alpha) => {
    const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(place), stops.length - 2), part = place - i;
    const mix = (c) => Math.round(stops[i][c] + (stops[i + 1][c] - stops[i][c]) * part);
    return `rgba(${mix(0)},${mix(1)},${mix(2)},${alpha})`;
  };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const box = { left: 46, right: 10, top: 10, bottom: 34 };
  const niceStep = (span, count) => {
    const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
  };
  const scales = (item) => {
    const w = item.canvas.clientWidth, h = item.canvas.clientHeight;
    const last = (state.same ? shared : Math.max(item.panel.last_ms, 1)) * 1.03;
    return { w, h, last, x: (ms) => box.left + (w - box.left - box.right) * ms / last, y: (share) => h - box.bottom - (h - box.top - box.bottom) * share };
  };
  const trace = (ctx, times, s) => {
    const n = times.length;
    ctx.beginPath();
    ctx.moveTo(s.x(0), s.y(0));
    for (let i = 0; i < n && times[i] < Infinity; i++) {
      ctx.lineTo(s.x(times[i]), s.y(i / n));
      ctx.lineTo(s.x(times[i]), s.y((i + 1) / n));
    }
    ctx.stroke();
  };
  const quantile = (curves, share) => {
    // For each level of the curves, the time by which this share of them has reached it.
    const levels = 16, points = [];
    for (let level = 1; level <= levels; level++) {
      const times = curves.map(({ times }) => times[Math.ceil(times.length * level / levels) - 1]).sort((a, b) => a - b);
      points.push([times[Math.min(Math.floor(share * times.length), times.length - 1)], level / levels]);
    }
    return points;
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
    const alpha = item.curves.length > 300 ? 0.16 : 0.45;
    ctx.lineWidth = 1;
    item.curves.forEach(({ times }, i) => { ctx.strokeStyle = colour(i / item.curves.length, alpha); trace(ctx, times, s); });
    // The middle, and the range in which nine of ten curves lie.
    ctx.strokeStyle = style("--ink");
    for (const [share, dash, width] of [[0.05, [3, 3], 1], [0.5, [], 2], [0.95, [3, 3], 1]]) {
      ctx.setLineDash(dash); ctx.lineWidth = width; ctx.beginPath();
      quantile(item.curves, share).forEach(([ms, level], i) => { if (ms < Infinity) ctx[i ? "lineTo" : "moveTo"](s.x(ms), s.y(level)); });
      ctx.stroke();
    }
    ctx.setLineDash([]);
    item.background = layer; item.scales = s;
  };
  const strong = (ctx, curve, s, colour) => { ctx.lineWidth = 4; ctx.strokeStyle = style("--paper"); trace(ctx, curve.times, s); ctx.lineWidth = 2.2; ctx.strokeStyle = colour; trace(ctx, curve.times, s); };
  const paint = (item) => {
    // A panel that has not been laid out yet cannot be drawn; the resize that follows does it.
    if (!item.canvas.clientWidth || !item.canvas.clientHeight) return;
    if (!item.background) drawBackground(item);
    const ratio = devicePixelRatio || 1, s = item.scales, canvas = item.canvas;
    if (canvas.width !== item.background.width || canvas.height !== item.background.height) { canvas.width = item.background.width; canvas.height = item.background.height; }
    const ctx = canvas.getContext("2d");
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, canvas.width, canvas.height);
    ctx.drawImage(item.background, 0, 0);
    ctx.scale(ratio, ratio);
    const kept = state.kept[item.kind], over = state.over && state.over.kind === item.kind ? state.over.key : null;
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
      const n = curve.times.length, level = Math.min(Math.max(Math.ceil(share * n), 1), n);
      const d = Math.abs(s.x(curve.times[level - 1]) - px);
      if (d < distance) { distance = d; best = curve; }
    }
    return ms >= 0 && share >= -0.02 && share <= 1.05 ? best : null;
  };
  const format = (ms) => ms === Infinity ? "never" : ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(0)} ms`;
  const describe = (item, curve) => {
    const n = curve.times.length, what = item.kind === "columns" ? `column ${curve.key}` : `node ${curve.key}`;
    return `${item.panel.label}, ${what}: first ${format(curve.times[0])}, half ${format(curve.times[Math.ceil(n / 2) - 1])}, all ${format(curve.times[n - 1])}`;
  };
  for (const item of canvases) {
    item.canvas.addEventListener("mousemove", (event) => {
      const curve = nearest(item, event.offsetX, event.offsetY);
      const over = curve ? { kind: item.kind, key: curve.key } : null;
      if (JSON.stringify(over) === JSON.stringify(state.over)) return;
      state.over = over;
      told.textContent = curve ? describe(item, curve) : "";
      repaint();
    });
    item.canvas.addEventListener("mouseleave", () => { state.over = null; told.textContent = ""; repaint(); });
    item.canvas.addEventListener("click", (event) => {
      const curve = nearest(item, event.offsetX, event.offsetY);
      state.kept[item.kind] = curve ? curve.key : null;
      document.getElementById(item.kind === "columns" ? "column" : "node").value = curve ? curve.key : "";
      repaint();
    });
  }
  for (const [id, kind] of [["column", "columns"], ["node", "nodes"]]) {
    document.getElementById(id).addEventListener("input", (event) => {
      state.kept[kind] = event.target.value === "" ? null : Number(event.target.value);
      const item = canvases.find((item) => item.kind === kind), curve = item && item.curves.find((curve) => curve.key === state.kept[kind]);
      told.textContent = curve ? describe(item, curve) : event.target.value === "" ? "" : "there is no such curve";
      repaint();
    });
  }
  document.getElementById("same").addEventListener("change", (event) => { state.same = event.target.checked; redraw(); });
  document.getElementById("clear").addEventListener("click", () => {
    state.kept = { columns: null, nodes: null };
    for (const id of ["column", "node"]) document.getElementById(id).value = "";
    told.textContent = "";
    repaint();
  });
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  redraw();
})();
