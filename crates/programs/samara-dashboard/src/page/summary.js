// Sections of all runs, and building blocks of sections. Each section takes the state, and returns
// elements, or null without content.

function tile(name, value, reason, more, cls) {
  const shown = value === null || value === undefined ? none(reason) : value;
  const small = value === null || value === undefined ? reason : more;
  return el(
    "div",
    { class: `tile ${cls || ""}` },
    el("dt", {}, name),
    el("dd", {}, shown, small ? el("small", {}, small) : null),
  );
}

function table(caption, heads, rows) {
  const head = heads.map(([text, cls]) => el("th", { scope: "col", class: cls }, text));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "vh" }, caption),
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, rows),
    ),
  );
}

// Whether all runs have ended, and the link to the report.
function finished(state, width, view) {
  const { overall } = state;
  if (!overall || overall.waiting + overall.running > 0) return null;
  const isWrong = overall.failed + overall.stopped > 0;
  const words = isWrong
    ? `Ended: ${overall.done} of ${overall.runs} runs are done, ${overall.failed} failed, ${overall.stopped} were stopped.`
    : `Finished: ${overall.runs === 1 ? "the run is" : `all ${overall.runs} runs are`} done.`;
  const link = view.report ? el("a", { href: view.report }, "Open the report") : null;
  return [el("p", { class: `ended ${isWrong ? "wrong" : ""}`, role: "status" }, words, " ", link)];
}

// The share of deliveries over virtual time, a curve for each run.
function curves(state, width) {
  const jobs = (state.jobs || []).map((id) => state[id]).filter((job) => job && (job.curve || []).length > 1);
  if (!jobs.length) return null;
  const height = 220,
    left = 44,
    right = 12,
    base = height - 26,
    top = 8;
  const until = Math.max(...jobs.map((job) => job.curve[job.curve.length - 1][0])) || 1;
  const x = (at) => left + (at / until) * (width - left - right);
  const y = (share) => base - share * (base - top);
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => [
    svg("line", { class: "grid", x1: left, x2: width - right, y1: y(share), y2: y(share) }),
    svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, `${share * 100} %`),
  ]);
  const axis = ticks(0, until, width / 110).map((at) =>
    svg("text", { x: x(at), y: base + 18, "text-anchor": at === 0 ? "start" : x(at) > width - 40 ? "end" : "middle" }, at === 0 ? "0" : ms(at)),
  );
  const hue = (i) => `var(--c${i % 6})`;
  const dash = (i) => (i < 6 ? null : i < 12 ? "9 4" : "2 3");
  const lines = jobs.map((job, i) => {
    const points = job.curve.map(([at, share]) => `${x(at).toFixed(1)},${y(share).toFixed(1)}`).join(" ");
    return svg("polyline", { class: "curve", points, stroke: hue(i), "stroke-dasharray": dash(i) }, svg("title", {}, job.run));
  });
  const words = `Share of deliveries over simulated time: ${jobs.map((job) => `${job.run} ${percent(job.curve[job.curve.length - 1][1])}`).join(", ")}`;
  const key = jobs.map((job, i) =>
    el("li", {}, svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, svg("line", { x1: 1, x2: 25, y1: 5, y2: 5, stroke: hue(i), "stroke-width": 3, "stroke-dasharray": dash(i) })), job.run),
  );
  return [
    svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": words }, grid, axis, lines),
    el("ul", { class: "key" }, key),
  ];
}

const cell = (value, reason, cls) =>
  el("td", { class: cls || "n" }, value === null || value === undefined ? none(reason) : value);

function tiles(state) {
  const { outcomes, latency, pings, errors, overall, throughput, jobs } = state;
  const found = [];
  const nodes = nodesOf(state);
  if (nodes.length) {
    const down = nodes.filter(isDown).map((row) => row.name);
    const waiting = nodes.filter((row) => !isDown(row) && !row.answered).length;
    const words = down.length
      ? `no answer from ${down.slice(0, 4).join(", ")}${down.length > 4 ? `, and ${down.length - 4} others` : ""}`
      : waiting
      ? `no answer yet from ${waiting}`
      : "all answer";
    const answering = `${nodes.length - down.length - waiting} of ${nodes.length}`;
    found.push(tile("Nodes", answering, "", words, down.length ? "wrong" : ""));
  }
  if (overall) {
    const running = (jobs || []).map((id) => state[id]).filter((job) => job && job.state === "running");
    const left =
      running.length && overall.waiting === 0 ? Math.max(...running.map((job) => job.left_ms ?? NaN)) : NaN;
    const rest = Number.isFinite(left)
      ? `about ${span(left)} left at the present rate`
      : `${overall.done} of ${overall.runs} runs done`;
    found.push(
      tile(
        "Done",
        percent(overall.share),
        "a run does not report its progress",
        rest,
        overall.failed ? "wrong" : "",
      ),
    );
    const counting = (jobs || []).map((id) => state[id]).filter((job) => job && isKnown(job.deliveries));
    const sum = (key) => counting.reduce((all, job) => all + (job[key] ?? NaN), 0);
    const expected = counting.length === overall.runs ? count(sum("deliveries_expected")) : null;
    found.push(
      tile(
        "Messages delivered",
        counting.length ? count(sum("deliveries")) : null,
        "nothing delivered yet, or deliveries are not counted",
        expected ? `of ${expected}, over all runs` : `in ${counting.length} of ${overall.runs} runs`,
      ),
    );
  }
  if (outcomes) {
    const over = isKnown(outcomes.completed)
      ? `${count(outcomes.realtime)} in real time`
      : null;
    found.push(tile("Rounds completed", count(outcomes.completed), "no scheduler reports rounds", over));
    found.push(
      tile(
        "Rounds failed",
        count(outcomes.failed),
        "no scheduler reports rounds",
        null,
        outcomes.failed > 0 ? "wrong" : "",
      ),
    );
    const slots = outcomes.payloads_per_s;
    found.push(
      tile(
        "Payloads",
        isKnown(slots) ? `${rate(slots)} /s` : null,
        "a rate needs two completed rounds",
        "through teams, latest rounds",
      ),
    );
    const team = latency.team || latency.senders;
    found.push(
      tile(
        "Slot latency",
        team ? ms(team.p50_ms) : null,
        "no slot has come out yet",
        team ? `p99 ${ms(team.p99_ms)}, mean ${ms(team.mean_ms)}` : null,
      ),
    );
  }
  const loop = (pings || [])[0];
  if (loop)
    found.push(
      tile(
        "Ping around the team",
        ms(loop.loop_ms),
        "no ping has returned yet",
        `${loop.members.length} nodes, ${loop.back} returned, ${loop.lost} lost`,
        loop.lost > 0 ? "" : "",
      ),
    );
  for (const row of (throughput || []).slice(0, 2)) {
    const per = isKnown(row.per_s) ? `${rate(row.per_s)} /s` : null;
    found.push(tile(row.of, per, "a rate needs two counts", `${count(row.total)} in total`));
  }
  const all = errors ? errors.reduce((sum, row) => sum + row.total, 0) : null;
  if (found.length)
    found.push(
      tile(
        "Errors",
        count(all),
        "no source counts errors",
        all > 0 ? "see below" : "no counted errors",
        all > 0 ? "wrong" : "",
      ),
    );
  return found.length ? [el("dl", { class: "tiles" }, found)] : null;
}

function progress(state) {
  const jobs = (state.jobs || []).map((id) => state[id]).filter(Boolean);
  if (!jobs.length) return null;
  const order = { running: 0, failed: 1, stopped: 2, waiting: 3, done: 4 };
  jobs.sort((a, b) => order[a.state] - order[b.state] || a.run.localeCompare(b.run));
  const rows = jobs.slice(0, 60).map((job) => {
    const share = job.state === "done" ? 1 : job.state === "waiting" ? 0 : job.share;
    const bar = el(
      "span",
      {
        class: `bar ${job.state}`,
        role: "progressbar",
        "aria-label": `progress of ${job.run}`,
        "aria-valuemin": 0,
        "aria-valuemax": 100,
      },
      el("b", {}),
    );
    if (isKnown(share)) {
      bar.setAttribute("aria-valuenow", Math.round(share * 100));
      bar.firstChild.style.width = `${share * 100}%`;
    }
    const expected = isKnown(job.deliveries_expected) ? ` of ${count(job.deliveries_expected)}` : "";
    const waits =
      job.state === "waiting" ? "it has not started yet" : job.state === "stopped" ? "it was stopped" : null;
    return el(
      "tr",
      {},
      el("th", { scope: "row", class: "wide" }, job.run, job.doing ? el("small", {}, ` ${job.doing}`) : null),
      el("td", {}, job.state),
      el("td", {}, bar),
      cell(percent(share), waits || "the run does not report its progress"),
      cell(
        isKnown(job.deliveries) ? count(job.deliveries) + expected : null,
        waits || "this kind of run does not count deliveries",
      ),
      cell(
        isKnown(job.virtual_ms)
          ? [
              ms(job.virtual_ms),
              job.wall_ms > 500
                ? el("small", {}, ` ×${(job.virtual_ms / job.wall_ms).toPrecision(2)}`)
                : null,
            ]
          : null,
        waits || "real time, or nothing simulated yet",
      ),
      cell(count(job.steps), waits || "no simulator"),
      cell(span(job.wall_ms), waits || "not reported"),
      cell(
        job.state === "running" ? span(job.left_ms) : null,
        job.state === "running" ? "too early, or the rate changes too much" : "not running",
      ),
    );
  });
  const note =
    jobs.length > 60
      ? el("p", { class: "note" }, `The first 60 of ${jobs.length} runs; running ones come first.`)
      : null;
  return [
    note,
    table(
      "Runs of the scenario",
      [
        ["Run"],
        ["State"],
        ["Progress"],
        ["", "n"],
        ["Delivered", "n"],
        ["Simulated", "n"],
        ["Steps", "n"],
        ["Elapsed", "n"],
        ["Left", "n"],
      ],
      rows,
    ),
  ];
}
