// The deliveries of all runs, and the selected node and item, which the address keeps.
let RUNS = null;
const decodedRuns = () => {
  const content = document.getElementById("run-data");
  if (!content) return null;
  const runs = JSON.parse(content.textContent), NEVER = 0xffff;
  const bytesOf = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  for (const panel of runs.panels) {
    const time = (raw) => (raw === NEVER ? Infinity : raw * panel.step_ms);
    panel.publishers = new Map(panel.publishers);
    // Records by node and item: the time, and the node that sent the first copy.
    panel.records = new Map();
    const view = bytesOf(panel.data);
    const lefts = new Map(), rights = new Map();
    const add = (map, key, value) => { if (!map.has(key)) map.set(key, []); map.get(key).push(value); };
    let at = 0;
    for (const [right, count, isExtra] of panel.counts) {
      for (let i = 0; i < count; i++, at += 6) {
        const left = view.getUint16(at, true), ms = time(view.getUint16(at + 2, true)), from = view.getUint16(at + 4, true);
        panel.records.set(right * 65536 + left, { ms, from: from === NEVER ? null : from, right, left });
        if (isExtra) continue;
        add(lefts, left, ms);
        add(rights, right, ms);
      }
    }
    // Sorted by the time of completion, which determines colours, keys and drawing order.
    const sorted = (map) => [...map].map(([key, times]) => ({ key, times: Float64Array.from(times).sort() }))
      .sort((a, b) => a.times[a.times.length - 1] - b.times[b.times.length - 1] || a.key - b.key);
    panel.curves = [sorted(lefts), sorted(rights)];
    // Every node: when it was complete, and the hops of the copy that completed it.
    const all = bytesOf(panel.done);
    panel.nodes = runs.nodes.map((node, i) => ({ node, ms: time(all.getUint16(3 * i, true)), hops: all.getUint8(3 * i + 2), region: runs.region[i] }));
    panel.name = panel.label;
  }
  return runs;
};
const timeOf = (ms) => (ms === Infinity ? "never" : ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(0)} ms`);
// What has a curve in the left panels, such as a column.
const ITEM = document.querySelector("[data-item]")?.dataset.item || "column";
// The selected item and node; null if none is.
const selection = (() => {
  const heard = [], state = { [ITEM]: null, node: null };
  const read = () => {
    const hash = new URLSearchParams(location.hash.slice(1));
    for (const key of Object.keys(state)) state[key] = /^\d+$/.test(hash.get(key) || "") ? Number(hash.get(key)) : null;
  };
  const tell = () => heard.forEach((hear) => hear(state));
  const set = (changes) => {
    Object.assign(state, changes);
    const parts = Object.entries(state).filter(([, value]) => value !== null).map(([key, value]) => `${key}=${value}`);
    // A page within another one, as in a notebook, has no address of its own.
    if (/^(file|https?):/.test(location.protocol)) history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : `${location.pathname}${location.search}`);
    tell();
  };
  read();
  addEventListener("hashchange", () => { if (Object.keys(state).some((key) => location.hash.startsWith(`#${key}=`))) { read(); tell(); } });
  return { state, set, onChange: (hear) => { heard.push(hear); hear(state); } };
})();
