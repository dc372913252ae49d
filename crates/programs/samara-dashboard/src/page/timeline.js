// Rounds and their phases: one row per round, with one lane per node.

// In the order of a round. Letters tell the phases apart without colours.
const PHASES = [
  ["share", "share", "K", "key of the team"],
  ["precompute_decrypt", "pd", "D", "precomputation: decrypt"],
  ["precompute_permute", "pp", "P", "precomputation: permute"],
  ["reveal", "rv", "R", "precomputation: reveal"],
  ["decrypt", "rd", "d", "real time: decrypt"],
  ["permute", "rp", "p", "real time: permute"],
  ["result", "rs", "r", "real time: result"],
];

function phaseOf(name) {
  return PHASES.find(([key]) => key === name) || [name, "other", "?", name];
}

function timelineKey(rounds) {
  const used = new Set(rounds.flatMap((round) => round.spans.map((s) => s[1])));
  const known = PHASES.filter(([key]) => used.has(key));
  const others = [...used].filter((name) => phaseOf(name)[1] === "other").map(phaseOf);
  return el(
    "ul",
    { class: "key" },
    [...known, ...others].map(([, cls, letter, words]) =>
      el("li", {}, el("i", { class: `ph-${cls}`, "aria-hidden": "true" }, letter), words),
    ),
  );
}

// Time of the first and the last known event of a round.
function extent(round) {
  const times = [
    ...round.states.map((s) => s[1]),
    ...round.spans.flatMap((s) => [s[2], s[3]]),
    round.entered_ms,
    round.left_ms,
  ];
  const known = times.filter(isKnown);
  return known.length ? [Math.min(...known), Math.max(...known)] : null;
}

// `scope`: "all" for whole rounds, "realtime" for their part in real time.
function visible(round, scope) {
  if (scope === "all") return round;
  const isRealtime = (name) => ["decrypt", "permute", "result"].includes(name);
  const states = round.states.filter(([name]) => ["realtime", "completed", "failed"].includes(name));
  return { ...round, spans: round.spans.filter((s) => isRealtime(s[1])), states };
}

function timeline(rounds, members, width, scope) {
  const rows = rounds
    .map((round) => visible(round, scope))
    .filter(extent)
    .slice(-8);
  if (!rows.length) return null;
  const left = width < 520 ? 62 : 150,
    right = 12,
    top = 22;
  const from = Math.min(...rows.map((r) => extent(r)[0])),
    to = Math.max(...rows.map((r) => extent(r)[1]));
  const x = (at) => left + ((at - from) / (to - from || 1)) * (width - left - right);
  const parts = [];
  let y = top;
  for (const round of rows) {
    const names = lanes(round, members);
    const lane = names.length > 8 ? 6 : width < 520 ? 8 : 10;
    const height = Math.max(24, names.length * lane + 4);
    parts.push(rowLabel(round, y, height, left, width));
    names.forEach((name, i) => {
      const at = y + 2 + i * lane;
      parts.push(
        svg("rect", { class: "lane", x: left, y: at, width: width - left - right, height: lane - 1.5 }),
      );
      for (const s of round.spans.filter((s) => s[0] === name))
        parts.push(spanBox(s, round, at, lane - 1.5, x, to));
    });
    const failed = round.states.find(([state]) => state === "failed");
    if (failed)
      parts.push(
        svg(
          "rect",
          { class: "failed", x: x(failed[1]) - 1.5, y, width: 3, height },
          svg("title", {}, `failed: ${round.cause || "no reported cause"}`),
        ),
      );
    y += height + 8;
  }
  const axis = ticks(0, to - from, (width - left) / 130).map((at) => [
    svg("line", { class: "grid", x1: x(from + at), x2: x(from + at), y1: top - 6, y2: y }),
    svg(
      "text",
      { x: x(from + at), y: top - 10, "text-anchor": at === 0 ? "start" : "middle" },
      at === 0 ? "0" : ms(at),
    ),
  ]);
  const words = `The last ${rows.length} rounds over ${ms(to - from)}; the table below lists all of them`;
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${y}`, height: y, role: "img", "aria-label": words },
    axis,
    parts,
  );
}

function lanes(round, members) {
  const used = [...new Set(round.spans.map((s) => s[0]))];
  const ordered = (members || []).filter((name) => used.includes(name));
  return [...ordered, ...used.filter((name) => !ordered.includes(name)).sort()];
}

function rowLabel(round, y, height, left, width) {
  const state = round.state || "state not reported";
  const short = width < 520;
  return svg(
    "g",
    {},
    svg("text", { class: "label", x: 0, y: y + 13 }, short ? `#${round.round}` : `round ${round.round}`),
    svg("text", { x: 0, y: y + 28 }, clip(state, short ? 9 : 22)),
    !short && isKnown(round.latency_mean_ms) && height > 40
      ? svg("text", { x: 0, y: y + 43 }, `slots ${ms(round.latency_mean_ms)}`)
      : null,
  );
}

function spanBox([node, phase, begin, end], round, y, height, x, to) {
  if (!isKnown(begin)) return null;
  const [, cls, letter, words] = phaseOf(phase);
  const over = round.state === "failed" || round.state === "completed";
  const until = isKnown(end) ? end : over ? begin : to;
  const width = Math.max(2, x(until) - x(begin));
  const duration = isKnown(end) ? ms(end - begin) : "not ended";
  return svg(
    "g",
    {},
    svg(
      "rect",
      {
        class: `ph-${cls}${isKnown(end) ? "" : " open"}`,
        x: x(begin).toFixed(1),
        y: y.toFixed(1),
        width: width.toFixed(1),
        height,
        rx: 1.5,
      },
      svg("title", {}, `${node}: ${words}, ${duration}`),
    ),
    width > 16 && height > 8
      ? svg(
          "text",
          {
            x: x(begin) + width / 2,
            y: y + height - 1,
            "text-anchor": "middle",
            class: `letter l-${cls}`,
          },
          letter,
        )
      : null,
  );
}
