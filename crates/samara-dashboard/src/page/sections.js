// The sections of the page. Each takes the state and gives elements, or a reason why there is nothing to show.

function tile(name, value, reason, more, cls) {
  const shown = value === null || value === undefined ? none(reason) : value;
  const small = value === null || value === undefined ? reason : more;
  return el("div", { class: `tile ${cls || ""}` }, el("dt", {}, name), el("dd", {}, shown, small ? el("small", {}, small) : null));
}

function table(caption, heads, rows) {
  const head = heads.map(([text, cls]) => el("th", { scope: "col", class: cls }, text));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "vh" }, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
}

const cell = (value, reason, cls) => el("td", { class: cls || "n" }, value === null || value === undefined ? none(reason) : value);

function tiles(state) {
  const { outcomes, latency, pings, errors, overall, throughput, jobs } = state;
  const found = [];
  if (overall) {
    const running = (jobs || []).map((id) => state[id]).filter((job) => job && job.state === "running");
    const left = running.length && overall.waiting === 0 ? Math.max(...running.map((job) => job.left_ms ?? NaN)) : NaN;
    const rest = Number.isFinite(left) ? `about ${span(left)} left` : `${overall.done} of ${overall.runs} runs done`;
    found.push(tile("Done", percent(overall.share), "a run does not say how far it is", rest, overall.failed ? "wrong" : ""));
  }
  if (outcomes) {
    const over = isKnown(outcomes.completed) ? `${count(outcomes.realtime)} with payloads on their way` : null;
    found.push(tile("Rounds completed", count(outcomes.completed), "no scheduler tells of rounds", over));
    found.push(tile("Rounds failed", count(outcomes.failed), "no scheduler tells of rounds", null, outcomes.failed > 0 ? "wrong" : ""));
    const slots = outcomes.payloads_per_s;
    found.push(tile("Payloads", isKnown(slots) ? `${rate(slots)} /s` : null, "two rounds have to be through first", "through teams, last rounds"));
    const team = latency.team || latency.senders;
    found.push(tile("Slot latency", team ? ms(team.p50_ms) : null, "no slot has come out yet", team ? `p99 ${ms(team.p99_ms)}, mean ${ms(team.mean_ms)}` : null));
  }
  const loop = (pings || [])[0];
  if (loop) found.push(tile("Ping around the team", ms(loop.loop_ms), "none has come back yet", `${loop.members.length} nodes, ${loop.back} back, ${loop.lost} lost`, loop.lost > 0 ? "" : ""));
  for (const row of (throughput || []).slice(0, 2)) {
    const per = isKnown(row.per_s) ? `${rate(row.per_s)} /s` : null;
    found.push(tile(row.of, per, "two counts are needed for a rate", `${count(row.total)} in all`));
  }
  const all = errors ? errors.reduce((sum, row) => sum + row.total, 0) : null;
  if (found.length) found.push(tile("Errors", count(all), "no source counts errors", all > 0 ? "see below" : "of those that are counted", all > 0 ? "wrong" : ""));
  return found.length ? [el("dl", { class: "tiles" }, found)] : null;
}

function progress(state) {
  const jobs = (state.jobs || []).map((id) => state[id]).filter(Boolean);
  if (!jobs.length) return null;
  const order = { running: 0, failed: 1, waiting: 2, done: 3 };
  jobs.sort((a, b) => order[a.state] - order[b.state] || a.run.localeCompare(b.run));
  const rows = jobs.slice(0, 60).map((job) => {
    const share = job.state === "done" ? 1 : job.state === "waiting" ? 0 : job.share;
    const bar = el("span", { class: `bar ${job.state}`, role: "progressbar", "aria-label": `progress of ${job.run}`, "aria-valuemin": 0, "aria-valuemax": 100 }, el("b", {}));
    if (isKnown(share)) { bar.setAttribute("aria-valuenow", Math.round(share * 100)); bar.firstChild.style.width = `${share * 100}%`; }
    const expected = isKnown(job.deliveries_expected) ? ` of ${count(job.deliveries_expected)}` : "";
    const waits = job.state === "waiting" ? "its turn has not come" : null;
    return el("tr", {}, el("th", { scope: "row", class: "wide" }, job.run, job.doing ? el("small", {}, ` ${job.doing}`) : null), el("td", {}, job.state),
      el("td", {}, bar), cell(percent(share), waits || "the run does not say"),
      cell(isKnown(job.deliveries) ? count(job.deliveries) + expected : null, waits || "this kind of run does not count deliveries"),
      cell(ms(job.virtual_ms), waits || "real time, or nothing simulated yet"), cell(count(job.steps), waits || "no simulator"), cell(span(job.wall_ms), waits || "not told"),
      cell(job.state === "running" ? span(job.left_ms) : null, job.state === "running" ? "too early to judge" : "not running"));
  });
  const note = jobs.length > 60 ? el("p", { class: "note" }, `The first 60 of ${jobs.length} runs; those that run come first.`) : null;
  return [note, table("Runs of the scenario", [["Run"], ["State"], ["Progress"], ["", "n"], ["Delivered", "n"], ["Simulated", "n"], ["Steps", "n"], ["For", "n"], ["Left", "n"]], rows)];
}

function roundsOf(state) {
  return (state.rounds || []).map((id) => state[id]).filter(Boolean);
}

function membersOf(state, round) {
  const team = (state.teams || []).find((team) => team.clock === round.clock && team.team === round.team);
  return team ? team.members : null;
}

function rounds(state, width, view) {
  const all = roundsOf(state);
  if (!all.length) return null;
  const clock = all[all.length - 1].clock;
  const shown = all.filter((round) => round.clock === clock);
  const figure = timeline(shown, membersOf(state, shown[shown.length - 1]), width, view.scope);
  const rows = [...shown].reverse().map((round) => el("tr", {}, el("th", { scope: "row" }, String(round.round)), cell(count(round.team), "not told"),
    el("td", {}, round.state || none("no scheduler tells of rounds"), round.cause ? el("small", {}, ` ${round.cause}`) : null), cell(count(round.slots), "not told"),
    cell(isKnown(round.left_ms) ? ms(round.left_ms - round.entered_ms) : null, "its slots are not out"),
    cell(ms(round.latency_mean_ms), "its slots are not out"), cell(ms(round.latency_max_ms), "its slots are not out")));
  const chooser = el("p", { class: "controls" }, ["all", "realtime"].map((scope) => {
    const button = el("button", { type: "button", "aria-pressed": String(view.scope === scope), "data-scope": scope }, scope === "all" ? "Whole rounds" : "Real time only");
    button.addEventListener("click", () => view.choose(scope));
    return button;
  }));
  const lanes = membersOf(state, shown[shown.length - 1]);
  return [el("p", { class: "note" }, `A row for each round, a lane for each node${lanes ? ` (from the top: ${lanes.join(", ")})` : ""}. Rounds overlap where they are pipelined.`),
    chooser, timelineKey(shown.map((round) => visible(round, view.scope))),
    figure || el("p", { class: "empty" }, view.scope === "all" ? "No node has told of a phase yet." : "No round is in real time yet."),
    el("details", {}, el("summary", {}, "Rounds as a table"), table("Rounds", [["Round"], ["Team", "n"], ["State"], ["Slots", "n"], ["In to out", "n"], ["Slot mean", "n"], ["Slowest", "n"]], rows))];
}

function teams(state) {
  const pings = state.pings || [], known = state.teams || [];
  if (!pings.length && !known.length) return null;
  const found = pings.slice(0, 4).map((loop) => {
    const hops = loop.links.map((link) => [el("li", {}, el("span", { class: "member" }, link.from)),
      el("li", {}, el("span", { class: "hop" }, isKnown(link.round_trip_ms) ? [`${ms(link.round_trip_ms)}`, el("span", { class: "vh" }, " round trip to")] : none("the round trip of this link was not measured")))]);
    const halves = loop.links.every((link) => isKnown(link.round_trip_ms)) ? loop.links.reduce((sum, link) => sum + link.round_trip_ms / 2, 0) : null;
    return el("div", {}, el("ol", { class: "ring", "aria-label": "the way around the team, with round trips of the links" }, hops, el("li", {}, el("span", { class: "member" }, loop.members[0]))),
      el("p", {}, el("strong", {}, "Whole loop: ", ms(loop.loop_ms) || none("none has come back yet")),
        halves ? `; half the round trips of its links add up to ${ms(halves)}. ` : "; not all of its links were measured. ",
        loop.lost ? el("span", { class: "missed" }, `${loop.lost} of ${loop.lost + loop.back} pings were lost. `) : null,
        spark(loop.history_ms, "the last pings around the team")));
  });
  const drawn = known.filter((team) => !pings.some((loop) => loop.members.join() === team.members.join())).map((team) =>
    el("p", {}, `Team ${team.team}: `, team.members.length ? team.members.join(" → ") : "there are too few nodes to draw it", team.members.length ? el("small", { class: "none" }, " · no ping around it yet") : null));
  return [el("p", { class: "note" }, "A ping goes from node to node around the team, and the first one stops the clock: the sum of the one-way latencies. Between nodes: the round trip of the link."), found, drawn];
}

function latency(state, width) {
  const { team, senders, across_clocks } = state.latency || {};
  if (!roundsOf(state).length && !team && !senders) return null;
  const one = (parts, title, note) => [el("h3", {}, title), el("p", { class: "note" }, note), histogram(parts, width),
    el("p", {}, `${count(parts.slots)} slots of ${count(parts.rounds)} rounds: mean ${ms(parts.mean_ms)}, p50 ${ms(parts.p50_ms)}, p95 ${ms(parts.p95_ms)}, p99 ${ms(parts.p99_ms)}, slowest ${ms(parts.max_ms)}.`)];
  const clocks = across_clocks ? " Some entries and exits were seen by different clocks." : "";
  return [team ? one(team, "Through the team", "From when a payload is handed to the first node to when it is out, round by round: overlapping rounds are never mixed up." + clocks) : null,
    senders ? one(senders, "As senders see it", "Followed one by one by those who sealed them.") : null,
    team || senders ? null : el("p", { class: "empty" }, "No slot has come out yet: latencies appear with the first round that is through.")];
}

function links(state) {
  const { rows, all } = state.links || { rows: [], all: 0 };
  if (!rows.length) return null;
  const body = rows.map((link) => el("tr", {}, el("th", { scope: "row" }, `${link.node} → ${link.peer}`), el("td", { class: link.up ? "" : "missed" }, link.up ? "up" : "down"),
    cell(ms(link.round_trip_ms), "not measured"), el("td", { class: "hide-s" }, spark(link.history_ms, "its last round trips")),
    cell(isKnown(link.up_bytes_per_s) ? bytes(link.up_bytes_per_s) + "/s" : null, isKnown(link.up_bytes) ? "one count is no rate yet" : "not counted"),
    cell(isKnown(link.down_bytes_per_s) ? bytes(link.down_bytes_per_s) + "/s" : null, isKnown(link.down_bytes) ? "one count is no rate yet" : "not counted"),
    cell(isKnown(link.queued_frames) ? count(link.queued_frames) + (isKnown(link.queued_bytes) ? ` (${bytes(link.queued_bytes)})` : "") : null, "not counted")));
  return [all > rows.length ? el("p", { class: "note" }, `The ${rows.length} slowest of ${all}.`) : null,
    table("Links", [["Link"], ["State"], ["Round trip", "n"], ["", "hide-s"], ["Up", "n"], ["Down", "n"], ["Owed", "n"]], body)];
}

function flows(state) {
  const rows = (state.throughput || []).map((row) => el("tr", {}, el("th", { scope: "row" }, row.of, el("small", {}, ` ${count(row.sources)} source${row.sources === 1 ? "" : "s"}`)),
    cell(isKnown(row.per_s) ? `${rate(row.per_s)} /s` : null, "two counts are needed for a rate"), cell(isKnown(row.bytes_per_s) ? `${bytes(row.bytes_per_s)}/s` : null, "bytes are not counted"),
    cell(count(row.total), "not counted"), el("td", {}, spark(row.history, "its last rates"))));
  return rows.length ? [table("Throughput", [["Counted"], ["Rate", "n"], ["Bytes", "n"], ["In all", "n"], [""]], rows)] : null;
}

function queues(state) {
  const { rows, all } = state.queues || { rows: [], all: 0 };
  if (!rows.length) return null;
  const body = rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.node, el("small", {}, ` ${row.queue}`)), cell(count(row.entries)), cell(bytes(row.bytes), "bytes are not counted"),
    cell(count(row.most)), el("td", {}, spark(row.history, "its last depths"))));
  return [all > rows.length ? el("p", { class: "note" }, `The ${rows.length} longest of ${all}.`) : null, table("Queue depths", [["Queue"], ["Now", "n"], ["Bytes", "n"], ["Most", "n"], [""]], body)];
}

function errors(state) {
  if (!state.errors && !(state.sources || []).length) return null;
  if (!state.errors) return [el("p", { class: "note" }, "No source counts errors: that is not the same as none.")];
  if (!state.errors.length) return [el("p", {}, "None of those that are counted.")];
  const rows = [...state.errors].sort((a, b) => b.total - a.total).slice(0, 100).map((row) => el("tr", {}, el("th", { scope: "row", class: "wide" }, row.cause), el("td", {}, row.node), cell(count(row.total))));
  return [table("Errors by cause", [["Cause"], ["Node"], ["Times", "n"]], rows)];
}

function sources(state) {
  const rows = (state.sources || []).map((row) => {
    const how = row.finished ? { ok: "finished", failed: "failed", interrupted: "interrupted" }[row.finished] : row.silent ? "silent" : "speaks";
    return el("tr", {}, el("th", { scope: "row", class: "wide" }, row.name), el("td", {}, row.role || none("its first line has not come")), el("td", {}, row.clock || none("its first line has not come")),
      el("td", { class: how === "failed" || how === "silent" ? "missed wide" : "wide" }, how, row.message ? el("small", {}, ` ${row.message}`) : null), cell(count(row.dropped)), cell(count(row.unreadable)));
  });
  return rows.length ? [table("Sources", [["Source"], ["Role"], ["Clock"], ["State"], ["Lines missing", "n"], ["Unreadable", "n"]], rows)] : null;
}
