// The path of an item to a node in every run, hop by hop, as timelines.
const startPath = () => {
  const place = document.getElementById("path");
  if (!RUNS || !place) return;
  const { panels } = RUNS;
  const named = (item) => item[0].toUpperCase() + item.slice(1);
  // The item that completed a node, or the last of its known ones.
  const last = (panel, node) => {
    let found = null;
    for (const record of panel.records.values()) if (record.right === node && (!found || record.ms > found.ms)) found = record;
    return found;
  };
  const pathOf = (panel, node, item) => {
    const end = item === null ? last(panel, node) : panel.records.get(node * 65536 + item);
    if (!end || end.ms === Infinity) return { end, hops: [] };
    const publisher = panel.publishers.get(end.left);
    const hops = [];
    for (let record = end; record && hops.length < 64; record = panel.records.get(record.from * 65536 + end.left)) {
      hops.unshift(record);
      if (record.from === null || record.from === publisher) break;
    }
    return { end, hops, publisher };
  };
  const timeline = (paths, width) => {
    const until = Math.max(...paths.flatMap(({ hops }) => hops.map((hop) => hop.ms)), 1);
    const isNarrow = width < NARROW, left = isNarrow ? 4 : Math.min(Math.max(...paths.map(({ panel }) => textWidth(panel.label))), width * 0.3) + 12;
    const pitch = isNarrow ? 50 : 34, top = 4, bottom = top + pitch * paths.length;
    const x = scaleOf({ ends: [0, until * 1.04], unit: "ms" }, left, width - 16);
    const parts = x.marks.map(([value, label]) => stroke(x.at(value), top, x.at(value), bottom, GRID) + text(Math.min(Math.max(x.at(value), textWidth(label) / 2), width - textWidth(label) / 2), bottom + 14, label, "middle", SOFT));
    paths.forEach(({ panel, hops, sent, publisher }, i) => {
      const y = top + pitch * i, middle = isNarrow ? y + 30 : y + 15;
      parts.push(isNarrow ? text(left, y + 12, clipped(panel.label, width - 10), "start", 'fill="var(--ink)"') : text(left - 8, middle, clipped(panel.label, left - 12), "end", 'fill="var(--ink)"'));
      let before = 0;
      hops.forEach((hop, k) => {
        const [from, to] = [x.at(before), x.at(hop.ms)], label = String(hop.right);
        parts.push(`<g data-node="${hop.right}">${box(from, middle - 8, Math.max(to - from, 1), 16, `fill="var(--c${k % HUES})"`)}${textWidth(label) + 6 < to - from ? text((from + to) / 2, middle, label, "middle", 'fill="var(--on)" font-size="11"') : ""}<title>${escaped(`hop ${k + 1}: ${hop.from === null ? "unknown" : hop.from === publisher ? "publisher" : `node ${hop.from}`} to node ${hop.right}, ${timeOf(before)} to ${timeOf(hop.ms)}`)}</title></g>`);
        before = hop.ms;
      });
      for (const ms of sent) if (ms <= until * 1.04) parts.push(stroke(x.at(ms), middle + 10, x.at(ms), middle + 15, 'stroke="var(--ink)" opacity="0.55"'));
    });
    return `<svg width="${width}" height="${bottom + 24}" font-size="${TEXT}" aria-hidden="true">${parts.join("")}</svg>`;
  };
  const show = ({ node, [ITEM]: item }) => {
    place.hidden = node === null;
    if (node === null) return;
    const paths = panels.map((panel) => {
      const sent = [];
      for (const record of panel.records.values()) if (record.from === node && record.ms < Infinity) sent.push(record.ms);
      return { panel, sent, ...pathOf(panel, node, item) };
    });
    const isKnown = paths.some(({ end }) => end);
    const words = item === null ? `The ${ITEM} that completed node ${node}` : `${named(ITEM)} ${item} to node ${node}`;
    const cell = ({ panel, end, hops, sent, publisher }) => {
      const way = hops.map((hop) => `<button type="button" data-node="${hop.right}">${hop.right}</button> ${timeOf(hop.ms)}`).join(" → ");
      const start = hops.length && hops[0].from === publisher ? "publisher → " : hops.length ? "… → " : "";
      return `<tr><th scope="row">${escaped(panel.label)}</th><td class="n">${end ? end.left : "–"}</td><td class="n">${end ? timeOf(end.ms) : "–"}</td><td class="n">${hops.length || "–"}</td><td>${start}${way || "not known"}</td><td class="n">${grouped(sent.length)}</td></tr>`;
    };
    place.innerHTML = `<h3>${words}, hop by hop</h3>${isKnown ? "" : "<p>The page has no such delivery: it follows some ${ITEM}s, and in large networks some of the nodes.</p>"}
      <div class="plot" role="img" aria-label="${words}: a timeline for each run">${isKnown ? timeline(paths, Math.floor(place.clientWidth - 2 * parseFloat(getComputedStyle(place).paddingLeft))) : ""}</div>
      <p class="note">A colour for each hop, with the number of its receiver: click it to follow that node. Ticks below: first copies that node ${node} handed to others.</p>
      <div class="scroll"><table><thead><tr><th scope="col">Run</th><th scope="col" class="n">${named(ITEM)}</th><th scope="col" class="n">Arrived</th><th scope="col" class="n">Hops</th><th scope="col">Path: node and time</th><th scope="col" class="n">First copies sent</th></tr></thead><tbody>${paths.map(cell).join("")}</tbody></table></div>`;
  };
  place.addEventListener("click", (event) => {
    const target = event.target.closest("[data-node]");
    if (target) selection.set({ node: Number(target.dataset.node) });
  });
  selection.onChange(show);
  let width = 0;
  new ResizeObserver(() => { if (place.clientWidth && place.clientWidth !== width) { width = place.clientWidth; show(selection.state); } }).observe(place);
};
