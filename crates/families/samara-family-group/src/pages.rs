//! The report on broadcasts in a group.

use samara_engine::Shape;
use samara_engine::shape::{Transfer, rounds};
use samara_report::words::{fixed, listed, number, percent, percent_range, short_ms};
use samara_report::{
    Bar, Bars, Block, Boxes, Figure, Ink, Line, Lines, Map, MapLine, Maps, Mark, Scale, Section, Unit,
};

use super::metrics::GatewayFigures;
use super::outcome::GroupData;
use samara_lab::report::{self, Body, Bound, Column, Results, Runs, Shown, Value, of, spread};

type Report<'a> = Results<'a, GroupData>;
type Row = Runs<GroupData>;
type Figures = [(&'static str, Value<GroupData>)];

const CURVES_MAX: usize = 12;
/// The sweep axis over which the report draws latency against throughput; `ROOM` is the margin of
/// these axes.
const RATE: &str = "group.rate";
const ROOM: f64 = 1.25;
/// Maximum number of members and runs in maps of links, and of maps in a line. Larger groups have
/// too many links to distinguish.
const MEMBERS_MAX: usize = 12;
const RUNS_MAX: usize = 8;
const MAPS_MAX: usize = 4;
/// Maps of more members have twice the width.
const SMALL: usize = 6;
/// Maximum number of rounds and members in a drawn schedule. Up to `NUMBERS_MAX` rounds, boxes have
/// room for message numbers.
const ROUNDS_MAX: usize = 120;
const SCHEDULED_MAX: u32 = 16;
const NUMBERS_MAX: usize = 40;
/// Height of a member's line in pixels.
const LINE_PIXELS: u32 = 26;

const COLUMNS: [Column<GroupData>; 12] = [
    ("S", |row| row.metrics().senders.to_string()),
    ("MB/node/s", |row| fixed(row.mean(|m| m.throughput_mb_per_s), 2)),
    ("bound", |row| fixed(row.mean(|m| m.upper_bound_mb_per_s), 2)),
    ("share", |row| percent(row.mean(|m| m.share_of_bound), 1)),
    ("of shape", |row| percent(row.mean(|m| m.share_of_shape_bound), 1)),
    ("gain", |row| fixed(gain(row), 2)),
    ("p50", |row| short_ms(row.mean(|m| of(m.delivery_latency_ms, |s| s.p50)))),
    ("p99", |row| short_ms(row.mean(|m| of(m.delivery_latency_ms, |s| s.p99)))),
    ("gap", |row| short_ms(row.mean(|m| m.longest_gap_ms))),
    ("lost", |row| number(row.mean(|m| m.lost as f64))),
    ("wrong", |row| number(row.mean(|m| m.faults() as f64))),
    ("uplinks", |row| {
        percent_range(row.mean(|m| m.uplink_utilisation_min), row.mean(|m| m.uplinks.uplink_utilisation_max))
    }),
];

const LEGEND: &str = "MB/node/s: payload that a member delivers, including its own. Bound: maximum of any shape with S senders. Gain: over the first run \
with S senders.\np50, p99: from handing in a message until another member has it. Gap: the longest time without a delivery. Wrong: duplicates and \
violations of order or agreement.";

const BOUND: Bound<GroupData> = ("bound of all shapes", |m| m.upper_bound_mb_per_s);

const SHOWN: [Shown<GroupData>; 5] = [
    Shown {
        name: "throughput",
        title: "payload that a member delivers, in MB/s",
        unit: Unit::Number,
        caption: "Includes its own messages; from the first broadcast until the last delivery.",
        value: |m| m.throughput_mb_per_s,
    },
    Shown {
        name: "share",
        title: "throughput as a share of the bound of all shapes",
        unit: Unit::Share,
        caption: "The bound is for the same number of senders, on links whose packets have headers.",
        value: |m| m.share_of_bound,
    },
    Shown {
        name: "gain",
        title: "throughput over that of the first run",
        unit: Unit::Number,
        caption: "With the same values of the sweep. In theory a ring gains (N-1)/S over direct sending with S < N senders, and nothing with N.",
        value: |m| m.gain.unwrap_or(f64::NAN),
    },
    Shown {
        name: "latency",
        title: "median time until another member has a message",
        unit: Unit::Milliseconds,
        caption: "From handing it in. If members broadcast as fast as possible, messages mostly wait in windows.",
        value: |m| of(m.delivery_latency_ms, |s| s.p50),
    },
    Shown {
        name: "gap",
        title: "longest time without a delivery",
        unit: Unit::Milliseconds,
        caption: "At any member that stays, during the stream of messages.",
        value: |m| m.longest_gap_ms,
    },
];

/// Measures of latency that the report draws against throughput.
const PRICES: [(&str, &str, Value<GroupData>); 2] = [
    ("price", "median time until another member has a message", |m| of(m.delivery_latency_ms, |s| s.p50)),
    ("price-p99", "99th percentile of the time until another member has a message", |m| {
        of(m.delivery_latency_ms, |s| s.p99)
    }),
];

const BYTES: &Figures = &[
    ("Content", |m| m.bytes.content),
    ("Headers", |m| m.bytes.headers),
    ("Credit", |m| m.bytes.credit),
    ("Heartbeats", |m| m.bytes.heartbeats),
    ("Views, repair", |m| m.bytes.views),
    ("Transport", |m| m.bytes.transport),
    ("All", |m| m.bytes.total),
];

const COUNTERS: [Column<GroupData>; 16] = [
    ("Broadcast", |row| number(row.mean(|m| m.messages as f64))),
    ("Delivered", |row| number(row.mean(|m| m.deliveries as f64))),
    ("Lost", |row| number(row.mean(|m| m.lost as f64))),
    ("Duplicates", |row| number(row.mean(|m| m.duplicates as f64))),
    ("Out of order", |row| number(row.mean(|m| m.order_violations as f64))),
    ("Disagreements", |row| number(row.mean(|m| m.disagreements as f64))),
    ("Garbled", |row| number(row.mean(|m| m.garbled as f64))),
    ("Suspicions", |row| number(row.mean(|m| m.suspicions as f64))),
    ("False suspicions", |row| number(row.mean(|m| m.false_suspicions as f64))),
    ("Views", |row| number(row.mean(|m| m.views as f64))),
    ("Forwarded", |row| number(row.mean(|m| m.forwarded as f64))),
    ("Repaired", |row| number(row.mean(|m| m.repaired as f64))),
    ("Bytes/s when idle", |row| number(row.mean(|m| m.idle_bytes_per_s))),
    ("Retransmissions", |row| number(row.mean(|m| m.losses.retransmissions as f64))),
    ("Queue full", |row| number(row.mean(|m| m.queue_drops as f64))),
    ("Frozen, most", |row| short_ms(row.mean(|m| m.frozen_ms))),
];

pub(super) fn body(report: &Report<'_>) -> Body {
    let table = report.table(&COLUMNS);
    let figures = if report.is_sweep() { over_sweep(report) } else { side_by_side(report) };
    let mut figures = Section::new(report.figures_heading(), "", figures);
    figures.parts.extend(report.pivots(&SHOWN[0]));
    let throughput = Section::new("Throughput and its bounds", LEGEND, table.clone());
    let mut sections = if report.is_sweep() { vec![figures, throughput] } else { vec![throughput, figures] };
    sections.extend(gateways(report).into_iter().chain(schedule_rounds(report)));
    let text = "Bytes that a member received, for each message of another one that it delivered. Transport: headers of packets, \
                acknowledgements, and retransmissions.";
    let bytes = report.means(BYTES, |bytes| fixed(bytes, 1));
    let spread = spread::section(report, "message", |data| (&data.spread, &data.regions));
    let mut details: Vec<Section> = spread.into_iter().collect();
    details.extend([Section::new("Bytes by purpose", text, bytes), counters(report)]);
    details.extend(report.causes("Ignored frames", &[("ignored", |m| &m.ignored)]));
    Body::new(findings(report), (LEGEND, table), sections, details)
}

fn gain(row: &Row) -> f64 {
    row.mean(|m| m.gain.unwrap_or(f64::NAN))
}

fn gateways(report: &Report<'_>) -> Option<Section> {
    if report.rows.iter().all(|row| row.metrics().gateways.is_none()) {
        return None;
    }
    fn mean(row: &Row, value: fn(&GatewayFigures) -> f64) -> f64 {
        row.mean(|m| m.gateways.as_ref().map_or(f64::NAN, value))
    }
    let table = report.table(&[
        ("Copies", |row| fixed(mean(row, |gateways| gateways.copies), 2)),
        ("Busy", |row| percent(mean(row, |gateways| gateways.utilisation_max), 1)),
        ("Dropped", |row| number(mean(row, |gateways| gateways.drops as f64))),
        ("Wait", |row| short_ms(mean(row, |gateways| gateways.wait_ms_max))),
    ]);
    let text = "Copies: how often a message left a region, in bytes with all headers; the minimum is one for each of the other \
                regions. Busy: share of the time from the first message to the end of the run in which the busiest direction of \
                any gateway was busy. Dropped: packets, which TCP retransmits. Wait: the longest wait of a packet in a gateway.";
    Some(Section::new("Between regions", text, table))
}

fn schedule_rounds(report: &Report<'_>) -> Option<Section> {
    if report.rows.iter().all(|row| row.metrics().rounds.is_none()) {
        return None;
    }
    let figures: [(&str, Value<GroupData>); 2] = [
        ("Rounds", |m| m.rounds.unwrap_or(f64::NAN)),
        ("Of the schedule", |m| m.rounds_of_schedule.map_or(f64::NAN, |rounds| rounds as f64)),
    ];
    let text = "With one sender: the time until every member had everything, in times of a message or chunk on a link; and the \
                rounds of the schedule, in which a member sends one unit and receives one at a time.";
    Some(Section::new("Rounds", text, report.means(&figures, number)))
}

fn counters(report: &Report<'_>) -> Section {
    let text = "Lost: pairs of a message from a member that stays or leaves and a staying member that lacks it. Disagreements: \
                messages of failed members that some staying members have and others lack.";
    Section::new("Counters", text, report.table(&COUNTERS))
}

fn side_by_side(report: &Report<'_>) -> Vec<Figure> {
    let rows = &report.rows;
    let mut figures = vec![
        Figure::new(
            "throughput",
            "The payload that a member delivers, including its own, and the bound of all shapes with as many senders.",
            throughput(report),
        ),
        Figure::new(
            "uplinks",
            "Utilisation of each member's uplink: high for a direct sender, even on the ring.",
            uplinks(rows),
        ),
    ];
    if rows.len() <= CURVES_MAX {
        let caption =
            "The share of deliveries over the time from handing in a message until another member had it";
        figures.push(report.distribution(caption, "after it was handed in", |data| &data.latency));
    }
    figures.extend(links(rows));
    figures.extend(schedules(rows));
    figures
}

fn throughput(report: &Report<'_>) -> Bars {
    let row = |row: &Row| {
        let ours = row.mean(|m| m.throughput_mb_per_s);
        Bar {
            name: row.label.clone(),
            parts: vec![(0.0, ours, 1)],
            bounds: vec![row.mean(|m| m.upper_bound_mb_per_s)],
            rings: report.published(row, "throughput_mb_per_s"),
            text: fixed(ours, 1),
            ..Bar::default()
        }
    };
    let rows: Vec<Bar> = report.rows.iter().map(row).collect();
    let ends =
        rows.iter().flat_map(|row| row.rings.iter().chain(&row.bounds).copied().chain([row.parts[0].1]));
    let most = ends.fold(1e-3, f64::max);
    let mut key = vec![
        (Mark::Bar(Ink::of(1)), "this run".to_owned()),
        (Mark::Dashes(Ink::BLACK), "bound of all shapes".to_owned()),
    ];
    if rows.iter().any(|row| !row.rings.is_empty()) {
        key.push((Mark::Ring(Ink::BLACK), "published or measured by others".to_owned()));
    }
    // Leave room for the numbers behind bars and bounds.
    let scale = Scale::linear("", 0.0..most * 1.14, Unit::Number);
    Bars { title: SHOWN[0].title.to_owned(), scale, rows, key }
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|member| member.to_string()).collect()
}

fn uplinks(rows: &[Row]) -> Maps {
    let most = rows.iter().map(|row| row.first().members.len()).max().unwrap_or(1);
    let fields =
        |row: &Row| row.first().members.iter().map(|member| Some(member.uplink_utilisation)).collect();
    // The first run is at the top.
    let map = Map { heading: String::new(), fields: rows.iter().rev().map(fields).collect() };
    Maps {
        title: "utilisation of uplinks".to_owned(),
        across: ("member".to_owned(), numbers(most)),
        upright: (String::new(), rows.iter().rev().map(|row| row.label.clone()).collect()),
        lines: vec![MapLine { heading: String::new(), maps: vec![map] }],
        is_share: true,
    }
}

/// Draws a map for each run: a line for each sender of frames, a column for each receiver.
fn links(rows: &[Row]) -> Option<Figure> {
    let is_small = |row: &&Row| row.first().members.len() <= MEMBERS_MAX;
    let shown: Vec<&Row> = rows.iter().filter(is_small).take(RUNS_MAX).collect();
    let most = shown.iter().map(|row| row.first().members.len()).max()?;
    let columns = if most > SMALL { MAPS_MAX / 2 } else { MAPS_MAX };
    let map = |row: &&Row| {
        let mut fields = shares(row);
        // Member 0 is at the top.
        fields.resize(most, Vec::new());
        fields.reverse();
        Map { heading: row.label.clone(), fields }
    };
    let line = |rows: &[&Row]| MapLine { heading: String::new(), maps: rows.iter().map(map).collect() };
    let maps = Maps {
        title: "utilisation of links".to_owned(),
        across: ("to member".to_owned(), numbers(most)),
        upright: ("from".to_owned(), numbers(most).into_iter().rev().collect()),
        lines: shown.chunks(columns).map(line).collect(),
        is_share: true,
    };
    let caption = "The traffic of each link, as a share of its sender's uplink. Lines are senders, columns are receivers: direct \
                   sending fills the lines of the senders, the ring a diagonal.";
    Some(Figure::new("links", caption, maps))
}

/// Returns the share of time that the frames of each link take on the uplink of their sender.
fn shares(row: &Row) -> Vec<Vec<Option<f64>>> {
    let busy = row.first().members.iter().map(|member| member.uplink_utilisation);
    // Assume that links share the packets of a member in proportion to the bytes of their frames.
    let of_sender = |(bytes, busy): (&Vec<u64>, f64)| {
        let all = bytes.iter().sum::<u64>().max(1) as f64;
        bytes.iter().map(|bytes| Some(*bytes as f64 / all * busy)).collect()
    };
    row.first().links.iter().zip(busy).map(of_sender).collect()
}

/// Draws the schedule of each shape that one sender used: the message, receiver and round of each
/// transfer.
fn schedules(rows: &[Row]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for metrics in rows.iter().map(Runs::metrics) {
        let (Some(count), Some(shape)) = (metrics.rounds_of_schedule, Shape::from_name(metrics.shape)) else {
            continue;
        };
        let name = format!("schedule-{}", shape.name());
        let is_small = count as usize <= ROUNDS_MAX && metrics.members <= SCHEDULED_MAX;
        if !is_small || figures.iter().any(|other| other.name == name) {
            continue;
        }
        let caption = format!(
            "The schedule of the shape {}: {} messages from member 0 to {} others in {count} rounds. A cell is a message that a member receives.",
            shape.name(),
            metrics.messages,
            metrics.members - 1
        );
        let played = rounds(shape, metrics.messages, metrics.members as u16);
        // Messages in several chunks take too many rounds to distinguish.
        if played.len() as u64 == count {
            figures.push(Figure::new(name, caption, schedule(shape, &played, metrics.members)));
        }
    }
    figures
}

fn schedule(shape: Shape, played: &[Vec<Transfer>], members: u32) -> Boxes {
    let all = f64::from(members);
    let lines =
        (0..members).rev().map(|member| (all - f64::from(member) - 0.5, member.to_string())).collect();
    let mut boxes = Vec::new();
    for (round, transfers) in played.iter().enumerate() {
        for transfer in transfers {
            let (left, low) = (round as f64, all - f64::from(transfer.to) - 1.0);
            let corners = [(left, low + 0.05), (left + 0.95, low + 0.95)];
            let text = if played.len() <= NUMBERS_MAX { transfer.unit.to_string() } else { String::new() };
            boxes.push(Block { corners, ink: Ink::of(transfer.unit as usize), text });
        }
    }
    Boxes {
        title: format!("{}: {} rounds", shape.name(), played.len()),
        scales: (
            Scale::linear("round", 0.0..played.len() as f64, Unit::Count),
            Scale::at("member", 0.0..all, lines),
        ),
        height: LINE_PIXELS * members,
        boxes,
        lines: Vec::new(),
        key: Vec::new(),
    }
}

/// Draws lines over the last axis. If the rate varies, latency against throughput comes first.
fn over_sweep(report: &Report<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    if report.axes.last().is_some_and(|(key, _)| key == RATE) {
        for (place, suffix, rows) in report.panels() {
            figures.extend(PRICES.iter().map(|(name, title, value)| {
                let caption = "Each dot is a rate at which members hand in messages. Below the capacity of a shape, throughput is the \
                               rate and latency is that of its hops; above it, messages wait for room.";
                Figure::new(format!("{name}{suffix}"), caption, price(&rows, format!("{title}{place}"), *value))
            }));
        }
    }
    figures.extend(report.over_sweep(&SHOWN, Some(BOUND)));
    figures
}

/// Draws latency against throughput: a line for each run through its rates.
fn price(rows: &[&Row], title: String, value: Value<GroupData>) -> Lines {
    let line = |(_, rows): (&String, Vec<&&Row>)| {
        let points = rows.iter().map(|row| (row.mean(|m| m.throughput_mb_per_s), row.mean(value)));
        Line {
            label: rows[0].label.clone(),
            points: points.filter(|(x, y)| *x > 0.0 && *y > 0.0).collect(),
            ..Line::default()
        }
    };
    let lines: Vec<Line> = report::grouped(rows, |row| &row.run).into_iter().map(line).collect();
    let range = |of: fn(&(f64, f64)) -> f64| {
        let all = || lines.iter().flat_map(|line| &line.points).map(of);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(1e-3, f64::max));
        low.min(high) / ROOM..high * ROOM
    };
    let x = Scale::powers(SHOWN[0].title, range(|point| point.0), Unit::Number);
    let y = Scale::powers("", range(|point| point.1), Unit::Milliseconds);
    Lines::new(title, (x, y), lines)
}

/// Returns a sentence on the times without a delivery, if there are faults.
fn gaps(report: &Report<'_>) -> Option<String> {
    let has_faults = report.all().any(|result| !result.point.scenario.faults.is_empty());
    let gap = |row: &&Row| row.mean(|m| m.longest_gap_ms);
    let worst = report.rows.iter().filter(|_| has_faults).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    // The other runs, each at its worst place.
    let others = report.rows.iter().filter(|row| row.run != worst.run);
    let others = report::grouped(others, |row| row.run.as_str());
    let most = |rows: &Vec<&Row>| rows.iter().map(gap).fold(0.0, f64::max);
    let best = others.iter().min_by(|a, b| most(&a.1).total_cmp(&most(&b.1)))?;
    let [worst_gap, best_gap] = [gap(&worst), most(&best.1)].map(short_ms);
    Some(format!(
        "The longest times without a delivery range from {best_gap} (\"{}\") to {worst_gap} (\"{}\").",
        best.1[0].label, worst.label
    ))
}

fn findings(report: &Report<'_>) -> Vec<String> {
    let rows = &report.rows;
    let is_wrong = |row: &&Row| row.mean(|m| (m.lost + m.faults()) as f64) > 0.0;
    let mut wrong: Vec<&str> = rows.iter().filter(is_wrong).map(|row| row.label.as_str()).collect();
    wrong.dedup();
    let mut sentences = vec![if wrong.is_empty() {
        let deliveries = number(rows.iter().map(|row| row.mean(|m| m.deliveries as f64)).sum());
        let runs = rows.len();
        format!(
            "{deliveries} deliveries in {runs} runs: no losses, no duplicates, and no violations of order."
        )
    } else {
        let names: Vec<String> = wrong.iter().map(|name| format!("\"{name}\"")).collect();
        format!("Messages were lost, duplicated or out of order in {}.", listed(&names))
    }];
    let unfinished: f64 = rows.iter().map(|row| row.mean(|m| m.unfinished_leaves as f64)).sum();
    if unfinished > 0.0 {
        sentences
            .push("Members had not left when they were to start again: they count as failed.".to_owned());
    }
    sentences.extend(gaps(report));
    let gains = rows.iter().filter(|row| gain(row) > 1.05);
    if let Some(best) = gains.max_by(|a, b| gain(a).total_cmp(&gain(b))) {
        // The result of the runs comes first, unless something is wrong.
        let place = if wrong.is_empty() { 0 } else { sentences.len() };
        sentences.insert(place, format!(
            "{} delivers {:.2} MB/node/s with {} of {} members sending, {:.2} times as much as the first run with the same number of senders, \
             and {:.1} % of the bound of all shapes.",
            best.label,
            best.mean(|m| m.throughput_mb_per_s),
            best.metrics().senders,
            best.metrics().members,
            gain(best),
            best.mean(|m| m.share_of_bound) * 100.0
        ));
    }
    sentences
}
