// Connects to the server and keeps the page up to date.

const SECTIONS = [
  ["curves", "Deliveries over simulated time", curves],
  ["progress", "Progress", progress],
  ["rounds", "Rounds and phases", rounds],
  ["teams", "Around the team", teams],
  ["latency", "Slot latency", latency],
  ["links", "Links", links],
  ["throughput", "Throughput", flows],
  ["queues", "Queues", queues],
  ["errors", "Errors", errors],
  ["sources", "Sources", sources],
];
// Maximum time in ms without an event before the connection counts as lost. The server sends one
// every 5 s.
const SILENCE_MS = 12000;
const RUNS_INTERVAL_MS = 3000;

const page = {
  state: {},
  run: null,
  wanted: "",
  paused: false,
  source: null,
  lastEventAt: 0,
  dirty: true,
  scope: "all",
  drawn: {},
  has: false,
  // The number of runs, once the server has listed them.
  listed: null,
};
const byId = (id) => document.getElementById(id);

function setStatus(kind, text) {
  const link = byId("link");
  if (link.textContent !== text) link.textContent = text;
  link.className = `link ${kind}`;
}

function setLive() {
  const words = page.paused ? "paused" : page.isOver ? "finished" : "live";
  setStatus(page.paused ? "paused" : "live", words);
}

function connect() {
  if (page.source) page.source.close();
  const query = page.wanted ? `?run=${encodeURIComponent(page.wanted)}` : "";
  const source = new EventSource(`/v1/events${query}`);
  page.source = source;
  page.lastEventAt = Date.now();
  const onEvent = () => {
    page.lastEventAt = Date.now();
    setLive();
  };
  source.addEventListener("hello", (event) => {
    const hello = JSON.parse(event.data);
    if (page.run !== hello.run) {
      page.run = hello.run;
      page.state = {};
      page.drawn = {};
      page.dirty = true;
    }
    byId("version").textContent = hello.version;
    onEvent();
  });
  source.addEventListener("alive", onEvent);
  source.addEventListener("snapshot", (event) => {
    page.state = JSON.parse(event.data);
    page.has = true;
    page.dirty = true;
    onEvent();
  });
  source.addEventListener("delta", (event) => {
    for (const [name, value] of Object.entries(JSON.parse(event.data))) {
      if (value === null && /^(job|round)\//.test(name)) delete page.state[name];
      else page.state[name] = value;
    }
    page.dirty = true;
    onEvent();
  });
  source.onerror = () => {
    setStatus(page.has ? "lost" : "waiting", page.has ? "connection lost, retrying" : "waiting for a run");
    // A refusal closes the source for good. After other errors the browser reconnects with the last
    // id.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => page.source === source && connect(), 1000);
  };
}

async function listRuns() {
  try {
    const answer = await fetch("/v1/runs", { cache: "no-store" });
    if (answer.status === 401) {
      location.href = "/login";
      return;
    }
    const { directory, runs } = await answer.json();
    const select = byId("run");
    const names = runs.map((run) => run.name);
    const key = names.join("\n");
    if (select.dataset.key !== key && document.activeElement !== select) {
      select.dataset.key = key;
      select.replaceChildren(
        el("option", { value: "" }, names.length ? `newest (${clip(names[0], 30)})` : "newest"),
        ...runs.map((run) => el("option", { value: run.name }, clip(run.name, 60))),
      );
      select.value = page.wanted;
    }
    // Switches to a newer run that has started.
    if (!page.wanted && names.length && page.run && names[0] !== page.run) connect();
    if (!names.length && !page.has) byId("main").dataset.directory = directory;
    if (page.listed !== names.length) page.dirty = true;
    page.listed = names.length;
  } catch {
    /* The connection status reports the loss. */
  }
}

function draw() {
  if (!page.dirty || page.paused) return;
  page.dirty = false;
  byId("title").textContent = page.run || (page.listed === 0 ? "No run yet" : "Loading…");
  document.title = page.run ? `${page.run} · Samara dashboard` : "Samara dashboard";
  byId("json").href = page.run ? `/v1/snapshot?run=${encodeURIComponent(page.run)}` : "/v1/snapshot";
  const main = byId("main");
  const width = Math.max(280, main.clientWidth - parseFloat(getComputedStyle(main).paddingLeft) * 2);
  const view = {
    scope: page.scope,
    choose: (scope) => {
      page.scope = scope;
      page.dirty = true;
      draw();
    },
  };
  view.report = page.run ? `/report?run=${encodeURIComponent(page.run)}` : null;
  const end = finished(page.state, width, view);
  page.isOver = Boolean(end);
  if (byId("link").textContent === "live" || byId("link").textContent === "finished") setLive();
  put("finished", null, end);
  put("tiles", null, tiles(page.state));
  for (const [id, title, make] of SECTIONS) put(id, title, make(page.state, width, view));
  const shown = SECTIONS.filter(([id]) => byId(`s-${id}`));
  const key = shown.map(([id]) => id).join();
  if (page.nav !== key) {
    page.nav = key;
    byId("nav").replaceChildren(
      el(
        "ul",
        {},
        shown.map(([id, title]) => el("li", {}, el("a", { href: `#s-${id}` }, title))),
      ),
    );
  }
  empty(shown.length === 0);
}

// Replaces a section if it has changed. Keeps the focus, open details and scroll positions.
function put(id, title, parts) {
  const old = byId(`s-${id}`);
  if (!parts) {
    if (old) old.remove();
    return;
  }
  const section = el(
    "section",
    { id: `s-${id}`, "aria-labelledby": title ? `h-${id}` : null, "aria-label": title ? null : "Summary" },
    title ? el("h2", { id: `h-${id}` }, title) : null,
    parts,
  );
  if (!old) {
    insert(section, id);
    return;
  }
  const open = [...old.querySelectorAll("details")].map((d) => d.open);
  section.querySelectorAll("details").forEach((d, i) => {
    d.open = open[i] || false;
  });
  if (old.isEqualNode(section)) return;
  const scrolled = [...old.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
  const focused = old.contains(document.activeElement) ? focusable(old).indexOf(document.activeElement) : -1;
  old.replaceWith(section);
  section.querySelectorAll(".scroll").forEach((s, i) => {
    s.scrollLeft = scrolled[i] || 0;
  });
  if (focused >= 0) focusable(section)[focused]?.focus({ preventScroll: true });
}

const focusable = (root) => [...root.querySelectorAll("button, summary, a, [tabindex]")];

function insert(section, id) {
  const order = ["finished", "tiles", ...SECTIONS.map(([name]) => name)];
  const after = order
    .slice(order.indexOf(id) + 1)
    .map((name) => byId(`s-${name}`))
    .find(Boolean);
  byId("main").insertBefore(section, after || null);
}

function empty(isEmpty) {
  const old = byId("empty");
  if (!isEmpty) {
    old?.remove();
    return;
  }
  const where = byId("main").dataset.directory;
  // Nothing is known before the first answer.
  const text = page.has
    ? "This run has reported nothing yet."
    : page.listed !== 0
    ? "Loading…"
    : `There is no run yet${where ? ` in ${where}` : ""}: no directory with live files. Start one, for example samara run peerdas-small --out ${where || "results"}/first, and it appears here.`;
  if (old) old.textContent = text;
  else byId("main").append(el("p", { id: "empty", class: "empty" }, text));
}

byId("run").addEventListener("change", (event) => {
  page.wanted = event.target.value;
  connect();
});
byId("pause").addEventListener("click", (event) => {
  page.paused = !page.paused;
  event.target.setAttribute("aria-pressed", String(page.paused));
  event.target.textContent = page.paused ? "Continue" : "Pause";
  setLive();
  page.dirty = true;
});
new ResizeObserver(() => {
  page.dirty = true;
}).observe(byId("main"));
setInterval(draw, 250);
setInterval(listRuns, RUNS_INTERVAL_MS);
setInterval(() => {
  if (Date.now() - page.lastEventAt < SILENCE_MS) return;
  if (page.has) setStatus("lost", "connection lost, retrying");
  connect();
}, 2000);
empty(true);
listRuns();
connect();
