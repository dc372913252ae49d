// Sections of nodes and their links.

function links(state) {
  const { rows, all } = state.links || { rows: [], all: 0 };
  if (!rows.length) return null;
  const body = rows.map((link) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, `${link.node} → ${link.peer}`),
      el(
        "td",
        { class: link.up ? "" : "missed" },
        link.up === true ? "up" : link.up === false ? "down" : "unknown: the node is silent",
      ),
      cell(ms(link.round_trip_ms), "not measured"),
      el("td", { class: "hide-s" }, spark(link.history_ms, "its latest round trips", "least")),
      cell(
        isKnown(link.up_bytes_per_s) ? bytes(link.up_bytes_per_s) + "/s" : null,
        isKnown(link.up_bytes) ? "a rate needs two counts" : "not counted",
      ),
      cell(
        isKnown(link.down_bytes_per_s) ? bytes(link.down_bytes_per_s) + "/s" : null,
        isKnown(link.down_bytes) ? "a rate needs two counts" : "not counted",
      ),
      cell(
        isKnown(link.queued_frames)
          ? count(link.queued_frames) + (isKnown(link.queued_bytes) ? ` (${bytes(link.queued_bytes)})` : "")
          : null,
        "not counted",
      ),
    ),
  );
  return [
    all > rows.length ? el("p", { class: "note" }, `The ${rows.length} slowest of ${all}.`) : null,
    table(
      "Links",
      [["Link"], ["State"], ["Round trip", "n"], ["", "hide-s"], ["Up", "n"], ["Down", "n"], ["Owed", "n"]],
      body,
    ),
  ];
}

function flows(state) {
  const rows = (state.throughput || []).map((row) =>
    el(
      "tr",
      {},
      el(
        "th",
        { scope: "row" },
        row.of,
        el("small", {}, ` ${count(row.sources)} source${row.sources === 1 ? "" : "s"}`),
      ),
      cell(isKnown(row.per_s) ? `${rate(row.per_s)} /s` : null, "a rate needs two counts"),
      cell(isKnown(row.bytes_per_s) ? `${bytes(row.bytes_per_s)}/s` : null, "bytes are not counted"),
      cell(count(row.total), "not counted"),
      el("td", {}, spark(row.history, "its latest rates")),
    ),
  );
  return rows.length
    ? [table("Throughput", [["Counted"], ["Rate", "n"], ["Bytes", "n"], ["Total", "n"], [""]], rows)]
    : null;
}

function queues(state) {
  const { rows, all } = state.queues || { rows: [], all: 0 };
  if (!rows.length) return null;
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, row.node, el("small", {}, ` ${row.queue}`)),
      cell(count(row.entries)),
      cell(bytes(row.bytes), "bytes are not counted"),
      cell(count(row.most)),
      el("td", {}, spark(row.history, "its latest depths")),
    ),
  );
  return [
    all > rows.length ? el("p", { class: "note" }, `The ${rows.length} longest of ${all}.`) : null,
    table("Queue depths", [["Queue"], ["Now", "n"], ["Bytes", "n"], ["Maximum", "n"], [""]], body),
  ];
}

function errors(state) {
  if (!state.errors && !(state.sources || []).length) return null;
  if (!state.errors)
    return [el("p", { class: "note" }, "No source counts errors, so there may be some.")];
  if (!state.errors.length) return [el("p", {}, "No counted errors.")];
  const rows = [...state.errors]
    .sort((a, b) => b.total - a.total)
    .slice(0, 100)
    .map((row) =>
      el(
        "tr",
        {},
        el("th", { scope: "row", class: "wide" }, row.cause),
        el("td", {}, row.node),
        cell(count(row.total)),
      ),
    );
  return [table("Errors by cause", [["Cause"], ["Node"], ["Times", "n"]], rows)];
}

// Nodes on other machines, and those of them that do not answer.
const nodesOf = (state) => (state.sources || []).filter((row) => row.address);
const isDown = (row) => isKnown(row.silent_since_unix_ms);

// The names of nodes, with a mark at those that do not answer.
function marked(state, names) {
  const down = new Set(nodesOf(state).filter(isDown).map((row) => row.name));
  return names.map((name) => (down.has(name) ? `${name} (no answer)` : name)).join(", ");
}

function sources(state) {
  const rows = (state.sources || []).map((row) => {
    const how = isDown(row)
      ? `no answer since ${moment(row.silent_since_unix_ms)}`
      : row.answered === false
      ? "no answer yet"
      : row.finished
      ? { ok: "finished", failed: "failed", interrupted: "interrupted" }[row.finished]
      : row.silent
        ? "silent"
        : "reporting";
    return el(
      "tr",
      {},
      el(
        "th",
        { scope: "row", class: "wide" },
        row.name,
        row.address && row.address !== row.name ? el("small", {}, ` ${row.address}`) : null,
      ),
      el("td", {}, row.role || none("its first line has not arrived")),
      el(
        "td",
        {},
        row.clock || none("its first line has not arrived"),
        isKnown(row.clock_off_ms)
          ? el("small", {}, ` ${row.clock_off_ms < 0 ? "−" : "+"}${count(Math.abs(row.clock_off_ms))} ± ${count(row.clock_within_ms)} ms`)
          : null,
      ),
      el(
        "td",
        { class: how === "failed" || how === "silent" || isDown(row) ? "missed wide" : "wide" },
        how,
        row.message || row.silent_because ? el("small", {}, ` ${row.silent_because || row.message}`) : null,
      ),
      cell(count(row.dropped)),
      cell(count(row.unreadable + (row.refused || 0))),
      cell(count(row.unknown)),
    );
  });
  return rows.length
    ? [
        table(
          "Sources",
          [["Source"], ["Role"], ["Clock"], ["State"], ["Lines missing", "n"], ["Unreadable", "n"], ["Unknown", "n"]],
          rows,
        ),
      ]
    : null;
}
