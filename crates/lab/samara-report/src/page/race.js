// The race: the nodes of every run as dots, which light up as they complete, under one clock.
const startRace = () => {
  const place = document.getElementById("race");
  if (!RUNS || !place) return;
  const { panels } = RUNS, SECONDS = 8, MOMENTS = 6;
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)");
  const until = Math.max(...panels.flatMap((panel) => panel.nodes.map(({ ms }) => (ms < Infinity ? ms : 0))), 1) * 1.02;
  const [play, range, clock, order, groups, saveOne, saveAll] = ["play", "clock", "now", "order", "groups", "save-one", "save-all"].map((name) => place.querySelector(`[data-race=${name}]`));
  let now = until, isPlaying = false, before = 0;
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const items = [...place.querySelectorAll("canvas")].map((canvas, i) => {
    const panel = panels[i];
    const byTime = [...panel.nodes].sort((a, b) => a.ms - b.ms || a.node - b.node);
    return { canvas, panel, byTime, count: canvas.parentElement.querySelector("output"), lit: 0, spots: null };
  });
  // Positions of the dots, and their size, in a box of this width and height.
  const arranged = (item, width, height) => {
    const all = item.byTime, spots = new Map();
    const rowsOf = () => {
      if (order.value === "hop") {
        const most = Math.max(...all.map(({ hops }) => hops), 1);
        return Array.from({ length: most + 1 }, (_, hop) => all.filter((one) => one.hops === hop)).filter((row) => row.length);
      }
      if (order.value === "region") return RUNS.regions.map((_, region) => all.filter((one) => one.region === region)).filter((row) => row.length);
      return [order.value === "node" ? [...all].sort((a, b) => a.node - b.node) : all];
    };
    const rows = rowsOf(), gap = 6;
    let size = Math.max(Math.floor(Math.sqrt(width * height / Math.max(all.length, 1))), 1), needed;
    const lines = (row) => Math.ceil(row.length / Math.max(Math.floor(width / size), 1));
    do { needed = rows.reduce((sum, row) => sum + lines(row) * size, gap * (rows.length - 1)); } while (needed > height && size > 1 && size--);
    let y = 0;
    for (const row of rows) {
      const across = Math.max(Math.floor(width / size), 1);
      row.forEach((one, k) => spots.set(one.node, [(k % across) * size, y + Math.floor(k / across) * size]));
      y += lines(row) * size + gap;
    }
    return { spots, size };
  };
  const dot = (size) => (size > 3 ? size - 1 : size);
  const paint = (item, isFull) => {
    const { canvas } = item, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (!item.spots || canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
      Object.assign(item, arranged(item, width, height));
      isFull = true;
    }
    let lit = 0;
    for (let low = 0, high = item.byTime.length; low < high;) {
      const middle = (low + high) >> 1;
      if (item.byTime[middle].ms <= now) low = lit = middle + 1; else high = middle;
    }
    const ctx = canvas.getContext("2d"), side = dot(item.size);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    // Forwards only the dots that have changed are drawn.
    const from = isFull || lit < item.lit ? 0 : item.lit;
    if (!from) {
      ctx.clearRect(0, 0, width, height);
      ctx.fillStyle = style("--pale");
      for (const { node } of item.byTime) { const [x, y] = item.spots.get(node); ctx.fillRect(x, y, side, side); }
    }
    ctx.fillStyle = style(`--c${item.panel.colour % HUES}`);
    for (let i = from; i < lit; i++) { const [x, y] = item.spots.get(item.byTime[i].node); ctx.fillRect(x, y, side, side); }
    item.lit = lit;
    item.count.textContent = `${grouped(lit)} of ${grouped(item.byTime.length)}`;
    const { node } = selection.state;
    if (node !== null && item.spots.has(node)) {
      const [x, y] = item.spots.get(node);
      ctx.strokeStyle = style("--ink"); ctx.lineWidth = 2; ctx.strokeRect(x - 1, y - 1, side + 2, side + 2);
    }
  };
  const paintAll = (isFull) => {
    for (const item of items) paint(item, isFull);
    clock.textContent = timeOf(now);
    range.value = String(Math.round(now / until * 1000));
  };
  const stop = () => { isPlaying = false; play.textContent = "Play"; };
  const frame = (at) => {
    if (!isPlaying) return;
    now = Math.min(now + (before ? (at - before) / 1000 / SECONDS * until : 0), until);
    before = at;
    paintAll(false);
    if (now >= until) stop(); else requestAnimationFrame(frame);
  };
  // Readers who want little motion see one step a second.
  const step = () => {
    if (!isPlaying) return;
    now = Math.min(now + until / 12, until);
    paintAll(false);
    if (now >= until) stop(); else setTimeout(step, 1000);
  };
  play.addEventListener("click", () => {
    if (isPlaying) { stop(); return; }
    if (now >= until) now = 0;
    isPlaying = true; before = 0; play.textContent = "Pause";
    paintAll(true);
    if (isCalm.matches) setTimeout(step, 1000); else requestAnimationFrame(frame);
  });
  range.addEventListener("input", () => { stop(); now = Number(range.value) / 1000 * until; paintAll(false); });
  const describe = () => {
    const most = Math.max(...panels.flatMap((panel) => panel.nodes.map(({ hops }) => hops)), 1);
    groups.textContent = { hop: `Groups from the top: 1 to ${most} hops from the publisher.`, region: `Groups from the top: ${RUNS.regions.join(", ")}.` }[order.value] || "";
  };
  order.addEventListener("change", () => { describe(); items.forEach((item) => { item.spots = null; }); paintAll(true); });
  for (const item of items) {
    item.canvas.addEventListener("click", (event) => {
      const near = [...item.spots].find(([, [x, y]]) => event.offsetX >= x && event.offsetX < x + item.size && event.offsetY >= y && event.offsetY < y + item.size);
      if (near) selection.set({ node: near[0], [ITEM]: null });
    });
  }
  // A row for each moment, a column for each run.
  const svgOf = (moments) => {
    const side = 220, room = 14, top = 34, colours = PAPER.ink ? PAPER : coloursOfPaper();
    const cell = (item, moment, x, y) => {
      const { spots, size } = arranged(item, side, side), s = dot(size);
      const path = (all) => all.map(({ node }) => { const [px, py] = spots.get(node); return `M${px} ${py}h${s}v${s}h-${s}z`; }).join("");
      const lit = item.byTime.filter(({ ms }) => ms <= moment), dark = item.byTime.filter(({ ms }) => ms > moment);
      return `<g transform="translate(${x},${y})"><path d="${path(dark)}" fill="${colours.pale}"/><path d="${path(lit)}" fill="${colours[`c${item.panel.colour % HUES}`]}"/>${text(0, side + 10, `${timeOf(moment)}: ${grouped(lit.length)} of ${grouped(item.byTime.length)}`, "start", 'fill="#333"')}</g>`;
    };
    const width = items.length * (side + room) + room, height = top + moments.length * (side + 34);
    const heads = items.map((item, i) => text(room + i * (side + room), 18, clipped(item.panel.label, side), "start", 'fill="#111" font-weight="600"'));
    const cells = moments.flatMap((moment, row) => items.map((item, i) => cell(item, moment, room + i * (side + room), top + row * (side + 34))));
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="${TEXT}"><rect width="100%" height="100%" fill="#fff"/>${heads.join("")}${cells.join("")}</svg>`;
  };
  saveOne.addEventListener("click", () => saved("race.svg", "image/svg+xml", svgOf([now])));
  saveAll.addEventListener("click", () => saved("race-frames.svg", "image/svg+xml", svgOf(Array.from({ length: MOMENTS }, (_, i) => until * (i + 1) / MOMENTS))));
  selection.onChange(() => paintAll(true));
  addEventListener("resize", () => paintAll(true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paintAll(true));
};
// The deliveries are decoded after the first paint, which needs none of them.
requestAnimationFrame(() => setTimeout(() => {
  RUNS = decodedRuns();
  startExplorer();
  startPath();
  startRace();
}));
