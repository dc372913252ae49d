//! Drawings of the page that no declaration expresses: links, schedules, and latency against
//! throughput.

use samara_engine::Shape;
use samara_engine::shape::{Transfer, rounds};
use samara_lab::page::Swept;
use samara_lab::report::{self, Results, Runs};
use samara_report::{Block, Boxes, Figure, Ink, Line, Lines, Map, MapLine, Maps, Scale, Unit};

use super::outcome::{GroupData, MemberRow};
use super::pages::DELIVERED;

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

/// Measures of latency that the page draws against throughput.
const PRICES: [Swept; 2] = [
    Swept::new("price", "delivery_latency_ms.p50", "median time until another member has a message"),
    Swept::new(
        "price-p99",
        "delivery_latency_ms.p99",
        "99th percentile of the time until another member has a message",
    ),
];

fn members<'a>(row: &Runs<'a>) -> &'a [MemberRow] {
    &row.data::<GroupData>().members
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|member| member.to_string()).collect()
}

pub(super) fn uplinks(rows: &[Runs<'_>]) -> Figure {
    let most = rows.iter().map(|row| members(row).len()).max().unwrap_or(1);
    let fields = |row: &Runs<'_>| members(row).iter().map(|member| Some(member.uplink_utilisation)).collect();
    // The first run is at the top.
    let map = Map { heading: String::new(), fields: rows.iter().rev().map(fields).collect() };
    let drawn = Maps {
        title: "utilisation of uplinks".to_owned(),
        across: ("member".to_owned(), numbers(most)),
        upright: (String::new(), rows.iter().rev().map(|row| row.label.clone()).collect()),
        lines: vec![MapLine { heading: String::new(), maps: vec![map] }],
        is_share: true,
    };
    let caption = "Utilisation of each member's uplink: high for a direct sender, even on the ring.";
    Figure::new("uplinks", caption, drawn)
}

/// Draws a map for each run: a line for each sender of frames, a column for each receiver.
pub(super) fn links(rows: &[Runs<'_>]) -> Option<Figure> {
    let is_small = |row: &&Runs<'_>| members(row).len() <= MEMBERS_MAX;
    let shown: Vec<&Runs<'_>> = rows.iter().filter(is_small).take(RUNS_MAX).collect();
    let most = shown.iter().map(|row| members(row).len()).max()?;
    let columns = if most > SMALL { MAPS_MAX / 2 } else { MAPS_MAX };
    let map = |row: &&Runs<'_>| {
        let mut fields = shares(row);
        // Member 0 is at the top.
        fields.resize(most, Vec::new());
        fields.reverse();
        Map { heading: row.label.clone(), fields }
    };
    let line = |rows: &[&Runs<'_>]| MapLine { heading: String::new(), maps: rows.iter().map(map).collect() };
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
fn shares(row: &Runs<'_>) -> Vec<Vec<Option<f64>>> {
    let busy = members(row).iter().map(|member| member.uplink_utilisation);
    // Assume that links share the packets of a member in proportion to the bytes of their frames.
    let of_sender = |(bytes, busy): (&Vec<u64>, f64)| {
        let all = bytes.iter().sum::<u64>().max(1) as f64;
        bytes.iter().map(|bytes| Some(*bytes as f64 / all * busy)).collect()
    };
    row.data::<GroupData>().links.iter().zip(busy).map(of_sender).collect()
}

/// Draws the schedule of each shape that one sender used: the message, receiver and round of each
/// transfer.
pub(super) fn schedules(rows: &[Runs<'_>]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for metrics in rows.iter().map(|row| &row.data::<GroupData>().metrics) {
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

/// Draws latency against throughput if the rate varies: a line for each run through its rates.
pub(super) fn prices(results: &Results<'_>) -> Vec<Figure> {
    if results.axes.last().is_none_or(|(key, _)| key != RATE) {
        return Vec::new();
    }
    let caption = "Each dot is a rate at which members hand in messages. Below the capacity of a shape, throughput is the \
                   rate and latency is that of its hops; above it, messages wait for room.";
    let panels = results.panels().into_iter();
    let figures = panels.flat_map(|(place, suffix, rows)| {
        PRICES.map(|Swept { name, title, metric, .. }| {
            let drawn = price(&rows, format!("{title}{place}"), metric);
            Figure::new(format!("{name}{suffix}"), caption, drawn)
        })
    });
    figures.collect()
}

fn price(rows: &[&Runs<'_>], title: String, metric: &str) -> Lines {
    let line = |(_, rows): (&String, Vec<&&Runs<'_>>)| {
        let points = rows.iter().map(|row| (row.mean(DELIVERED.metric), row.mean(metric)));
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
    let x = Scale::powers(DELIVERED.title, range(|point| point.0), Unit::Number);
    let y = Scale::powers("", range(|point| point.1), Unit::Milliseconds);
    Lines::new(title, (x, y), lines)
}
