// Sections of mixes: rounds, teams and the latency of slots.

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
  const rows = [...shown]
    .reverse()
    .map((round) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, String(round.round)),
        cell(count(round.team), "not reported"),
        el(
          "td",
          {},
          round.state || none("no scheduler reports rounds"),
          round.cause ? el("small", {}, ` ${round.cause}`) : null,
        ),
        cell(count(round.slots), "not reported"),
        cell(isKnown(round.left_ms) ? ms(round.left_ms - round.entered_ms) : null, "its slots have not left yet"),
        cell(ms(round.latency_mean_ms), "its slots have not left yet"),
        cell(ms(round.latency_max_ms), "its slots have not left yet"),
      ),
    );
  const chooser = el(
    "p",
    { class: "controls" },
    ["all", "realtime"].map((scope) => {
      const button = el(
        "button",
        { type: "button", "aria-pressed": String(view.scope === scope), "data-scope": scope },
        scope === "all" ? "Whole rounds" : "Real time only",
      );
      button.addEventListener("click", () => view.choose(scope));
      return button;
    }),
  );
  const lanes = membersOf(state, shown[shown.length - 1]);
  return [
    el(
      "p",
      { class: "note" },
      `One row per round, one lane per node${lanes ? ` (from the top: ${marked(state, lanes)})` : ""}. Rounds overlap where they are pipelined.`,
    ),
    chooser,
    timelineKey(shown.map((round) => visible(round, view.scope))),
    figure ||
      el(
        "p",
        { class: "empty" },
        view.scope === "all" ? "No node has reported a phase yet." : "No round is in real time yet.",
      ),
    el(
      "details",
      {},
      el("summary", {}, "Rounds as a table"),
      table(
        "Rounds",
        [
          ["Round"],
          ["Team", "n"],
          ["State"],
          ["Slots", "n"],
          ["Entry to exit", "n"],
          ["Slot mean", "n"],
          ["Slowest", "n"],
        ],
        rows,
      ),
    ),
  ];
}

function teams(state) {
  const pings = state.pings || [],
    known = state.teams || [];
  if (!pings.length && !known.length) return null;
  const found = pings.slice(0, 4).map((loop) => {
    const hops = loop.links.map((link) => [
      el("li", {}, el("span", { class: "member" }, link.from)),
      el(
        "li",
        {},
        el(
          "span",
          { class: "hop" },
          isKnown(link.round_trip_ms)
            ? [`${ms(link.round_trip_ms)}`, el("span", { class: "vh" }, " round trip to")]
            : none("no measured round trip of this link"),
        ),
      ),
    ]);
    const halves = loop.links.every((link) => isKnown(link.round_trip_ms))
      ? loop.links.reduce((sum, link) => sum + link.round_trip_ms / 2, 0)
      : null;
    return el(
      "div",
      {},
      el(
        "ol",
        { class: "ring", "aria-label": "the path around the team, with round trips of the links" },
        hops,
        el("li", {}, el("span", { class: "member" }, loop.members[0])),
      ),
      el(
        "p",
        {},
        el("strong", {}, "Whole loop: ", ms(loop.loop_ms) || none("no ping has returned yet")),
        halves
          ? `; half the round trips of its links add up to ${ms(halves)}. `
          : "; not all of its links have measurements. ",
        loop.lost
          ? el("span", { class: "missed" }, `${loop.lost} of ${loop.lost + loop.back} pings were lost. `)
          : null,
        spark(loop.history_ms, "the latest pings around the team", "least"),
      ),
    );
  });
  const drawn = known
    .filter((team) => !pings.some((loop) => loop.members.join() === team.members.join()))
    .map((team) =>
      el(
        "p",
        {},
        `Team ${team.team}: `,
        team.members.length ? team.members.join(" → ") : "too few nodes to form it",
        team.members.length ? el("small", { class: "none" }, " · no ping around it yet") : null,
      ),
    );
  return [
    el(
      "p",
      { class: "note" },
      "A ping goes from node to node around the team and back to the first one, which measures its time: the sum of the one-way latencies. Between two nodes: the round trip of their link.",
    ),
    found,
    drawn,
  ];
}

function latency(state, width) {
  const { team, senders, across_clocks } = state.latency || {};
  if (!roundsOf(state).length && !team && !senders) return null;
  const one = (parts, title, note) => [
    el("h3", {}, title),
    el("p", { class: "note" }, note),
    histogram(parts, width),
    el(
      "p",
      {},
      `${count(parts.slots)} slots of ${count(parts.rounds)} rounds: mean ${ms(parts.mean_ms)}, p50 ${ms(parts.p50_ms)}, p95 ${ms(parts.p95_ms)}, p99 ${ms(parts.p99_ms)}, slowest ${ms(parts.max_ms)}.`,
    ),
  ];
  const clocks = across_clocks ? " Some entries and exits were measured by different clocks." : "";
  return [
    team
      ? one(
          team,
          "Through the team",
          "Time from the arrival of a payload at the first node to its exit from the team, measured per round, so that overlapping rounds are kept apart." +
            clocks,
        )
      : null,
    senders ? one(senders, "As measured by senders", "Each sender follows the slots that it sealed.") : null,
    team || senders
      ? null
      : el(
          "p",
          { class: "empty" },
          "No slot has come out yet: latencies appear when the first round has left the team.",
        ),
  ];
}
