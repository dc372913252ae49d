//! A report of made-up runs, to look at what reports look like: `cargo run --example demo -- DIRECTORY`.

use std::path::PathBuf;

use samara_report::model::{
    Axis, BarRow, Bars, Better, Block, Cdf, Cell, Colour, Column, CurvePanel, Curves, Distribution, Fact,
    Figure, FigureKind, Headline, HeatMap, Histogram, Lines, Mark, Note, Point, Report, Role, Row, Section,
    Series, StepCurve, Steps, Table, Tone,
};
use samara_report::style::Style;
use samara_report::{export, terminal};

const NODES: u32 = 999;
const COLUMNS: u32 = 128;
const CUSTODY: u32 = 16;

/// Name, ms that the publisher takes for a column, ms that a column takes to spread.
const RUNS: [(&str, f64, f64); 7] = [
    ("Sequential", 52.0, 170.0),
    ("Batch", 12.4, 420.0),
    ("Batch, shuffled", 11.8, 400.0),
    ("Batch, balanced", 9.8, 330.0),
    ("Staggered", 13.0, 300.0),
    ("Batch, feedback", 8.9, 310.0),
    ("Node-wide order", 7.0, 260.0),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "demo-report".to_owned()));
    std::fs::create_dir_all(&directory)?;
    let report = report();
    let page = export::write(&report, &directory)?;
    for table in report.tables() {
        println!("{}\n", terminal::draw(table, terminal::Terminal::PLAIN));
    }
    println!("{}", page.display());
    Ok(())
}

/// A number in `0..1` that looks random: a multiplicative hash.
fn noise(a: u32, b: u32, c: u32) -> f64 {
    let mut x = u64::from(a) << 40 ^ u64::from(b) << 20 ^ u64::from(c);
    for _ in 0..3 {
        x = (x ^ x >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (x >> 11) as f64 / (1u64 << 53) as f64
}

struct Arrival {
    node: u32,
    column: u32,
    at_ms: f64,
}

fn arrivals(run: u32, per_column: f64, spread: f64) -> Vec<Arrival> {
    let mut all = Vec::new();
    for node in 1..=NODES {
        let mut column = (noise(node, 7, 0) * f64::from(COLUMNS)) as u32;
        for index in 0..CUSTODY {
            let left = per_column * (f64::from(column) + 1.0);
            let hops = (noise(run, node, column) * 3.0).floor();
            let late = noise(column, node, run + 9);
            let at_ms = left + 50.0 + hops * 55.0 + spread * (0.25 + 0.5 * late + 0.8 * late.powi(12));
            all.push(Arrival { node, column, at_ms });
            column = (column + 1 + (noise(node, index, 3) * 13.0) as u32) % COLUMNS;
        }
    }
    all
}

fn curves(arrivals: &[Arrival], by: fn(&Arrival) -> u32) -> Vec<StepCurve> {
    let mut curves: Vec<StepCurve> = Vec::new();
    let mut sorted: Vec<&Arrival> = arrivals.iter().collect();
    sorted.sort_by_key(|arrival| by(arrival));
    for group in sorted.chunk_by(|a, b| by(a) == by(b)) {
        let arrivals_ms = group.iter().map(|arrival| arrival.at_ms).collect();
        curves.push(StepCurve { number: by(group[0]), of: group.len() as u32, arrivals_ms });
    }
    curves
}

fn done(arrivals: &[Arrival]) -> Vec<f64> {
    curves(arrivals, |arrival| arrival.node)
        .iter()
        .filter_map(|curve| curve.sorted().last().copied())
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn report() -> Report {
    let runs: Vec<Vec<Arrival>> =
        RUNS.iter().enumerate().map(|(index, run)| arrivals(index as u32, run.1, run.2)).collect();
    Report {
        title: "A PeerDAS block over GossipSub: the order of copies, compared".to_owned(),
        subtitle: "Made-up figures, to look at the layout. 128 columns of 16 KiB go to 999 nodes that subscribe to 16 of \
                   them each."
            .to_owned(),
        headline: vec![
            Headline { value: "4.9 ×".to_owned(), text: "faster than `sequential` with one order over all links".to_owned() },
            Headline { value: "1.34 ×".to_owned(), text: "the lower bound, on cold connections".to_owned() },
            Headline { value: "6.1 copies".to_owned(), text: "of each column received by a node".to_owned() },
        ],
        facts: vec![
            Fact::new("Scenario", "peerdas"),
            Fact::new("Seed", "1"),
            Fact::literal("Again", "samara run peerdas --seed 1"),
            Fact::literal("Digest", "a1b2c3d4e5f60718"),
        ],
        sections: vec![overview(&runs), diffusion(&runs), sweeps()],
    }
}

fn overview(runs: &[Vec<Arrival>]) -> Section {
    let bound = 978.0;
    let quantile = |sorted: &[f64], share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    let columns = vec![
        Column::text("Run"),
        Column::number("mean", "ms", 0).better(Better::Lower).help("Mean time to custody"),
        Column::number("p50", "ms", 0).better(Better::Lower),
        Column::number("p95", "ms", 0).better(Better::Lower),
        Column::number("p99", "ms", 0).better(Better::Lower),
        Column::number("max", "ms", 0).better(Better::Lower),
        Column::number("over bound", "×", 2).better(Better::Lower).bar_from(1.0),
        Column::number("copies", "", 2).better(Better::Lower),
    ];
    let style = |index: usize| Style::nth(index);
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    let mut distributions = Vec::new();
    for (index, ((name, ..), run)) in RUNS.iter().zip(runs).enumerate() {
        let mut times = done(run);
        times.sort_by(f64::total_cmp);
        let average = mean(&times);
        let mut cells: Vec<Cell> = vec![(*name).into(), Cell::Interval(average, 14.0)];
        cells.extend([0.5, 0.95, 0.99, 1.0].map(|share| Cell::Number(quantile(&times, share))));
        cells.extend([Cell::Number(average / bound), Cell::Number(7.2 - 0.2 * index as f64)]);
        let note = if index == 1 { "The first copy of every column, then the second copies." } else { "" };
        rows.push(Row { style: Some(style(index)), note: note.to_owned(), cells, ..Row::default() });
        bars.push(BarRow {
            label: (*name).to_owned(),
            style: style(index),
            values: vec![average],
            spread: Some((average - 80.0, average + 80.0)),
            bound: Some(bound),
            note: format!("{:.2} × bound", average / bound),
        });
        distributions.push(Distribution {
            name: (*name).to_owned(),
            style: style(index),
            of: times.len(),
            values: times,
        });
    }
    let cdf = Cdf {
        x: Axis::linear("Time to custody", "ms"),
        y_label: "Share of nodes".to_owned(),
        series: distributions.clone(),
    };
    let histogram = Histogram {
        x: Axis::linear("Time to custody", "ms"),
        y_label: "Nodes".to_owned(),
        classes: 60,
        series: distributions[1..4].to_vec(),
    };
    let stacked = Bars {
        x: Axis::linear("Bytes sent per node", "MB"),
        parts: vec!["first copies".to_owned(), "duplicates".to_owned(), "control".to_owned()],
        bound_label: "one copy of everything".to_owned(),
        rows: RUNS.iter().enumerate().map(|(index, (name, ..))| bytes(name, index)).collect(),
    };
    Section {
        title: "The runs side by side".to_owned(),
        text: vec!["Time to custody is when a node has all its columns. **Lower is better.**".to_owned()],
        blocks: vec![
            Block::Table(Table { caption: "Time to custody".to_owned(), columns, rows }),
            figure(
                "comparison",
                "Mean time to custody",
                FigureKind::Bars(Bars {
                    x: Axis::linear("Mean time to custody", "ms"),
                    parts: vec!["mean".to_owned()],
                    bound_label: "lower bound".to_owned(),
                    rows: bars,
                }),
            ),
            Block::Note(Note {
                tone: Tone::Plain,
                title: "Did TCP slow start shape the numbers?".to_owned(),
                text: "Yes: on warm connections the mean is 14 % lower.".to_owned(),
            }),
            Block::Note(Note {
                tone: Tone::Bad,
                title: "Missed:".to_owned(),
                text: "`time_to_custody_ms.p95 < 4 s` (found 6,540 ms)".to_owned(),
            }),
            figure("distribution", "Distribution over nodes", FigureKind::Cdf(cdf)),
            figure("histogram", "How the nodes are spread", FigureKind::Histogram(histogram)),
            figure("bytes", "What was sent", FigureKind::Bars(stacked)),
        ],
    }
}

fn bytes(name: &str, index: usize) -> BarRow {
    BarRow {
        label: name.to_owned(),
        style: Style::default(),
        values: vec![0.27, 1.6 - 0.12 * index as f64, 0.008],
        spread: None,
        bound: Some(0.27),
        note: String::new(),
    }
}

fn diffusion(runs: &[Vec<Arrival>]) -> Section {
    let panels = |by: fn(&Arrival) -> u32, marked: bool| -> Vec<CurvePanel> {
        let panel = |(index, (name, ..)): (usize, &(&str, f64, f64))| {
            let at = mean(&done(&runs[index]));
            CurvePanel {
                title: (*name).to_owned(),
                style: Style::nth(index),
                curves: curves(&runs[index], by),
                marks: if marked { vec![Mark { label: "mean".to_owned(), at }] } else { Vec::new() },
            }
        };
        RUNS.iter().enumerate().map(panel).collect()
    };
    let kind = |item: &str, y_label: &str, colour, panels| {
        let x = Axis::linear("Time since the publication", "ms");
        let (y_label, item) = (y_label.to_owned(), item.to_owned());
        FigureKind::Curves(Curves { x, y_label, item, colour, steps: Steps::Shared, panels })
    };
    let messages =
        kind("column", "Subscribers reached", Colour::ByNumber, panels(|arrival| arrival.column, false));
    let nodes = kind("node", "Columns arrived", Colour::ByRank, panels(|arrival| arrival.node, true));
    Section {
        title: "How the columns spread".to_owned(),
        text: Vec::new(),
        blocks: vec![
            figure("propagation", "Each column on its way through the network", messages),
            figure("custody", "Each node on its way to custody", nodes),
        ],
    }
}

fn sweeps() -> Section {
    let bandwidths = [10.0, 20.0, 30.0, 40.0, 50.0, 75.0, 100.0];
    let line = |name: &str, index: usize, size: f64| Series {
        name: name.to_owned(),
        style: Style::nth(index),
        role: if name == "Lower bound" { Role::Bound } else { Role::Measured },
        points: bandwidths
            .iter()
            .enumerate()
            .map(|(at, x)| {
                let y = size / x + 90.0 + 20.0 * index as f64;
                let half =
                    if name == "Lower bound" { 0.0 } else { y * 0.06 * noise(index as u32, at as u32, 1) };
                Point { x: *x, y, low: y - half, high: y + half }
            })
            .collect(),
    };
    let series = vec![
        line("Sequential", 0, 134_000.0),
        line("Batch", 1, 42_000.0),
        line("Node-wide order", 6, 24_500.0),
        line("Lower bound", 7, 17_600.0),
    ];
    let lines = Lines {
        x: Axis::log("Bandwidth", "Mbit/s").ticks(bandwidths.to_vec()),
        y: Axis::log("Mean time to custody", "ms"),
        series: series.clone(),
    };
    let linear = Lines {
        x: Axis::linear("Bandwidth", "Mbit/s"),
        y: Axis::linear("Mean time to custody", "ms"),
        series,
    };
    let blobs = [3, 6, 9, 16, 32, 64];
    let heat = HeatMap {
        x_label: "Bandwidth, Mbit/s".to_owned(),
        columns: bandwidths.iter().map(f64::to_string).collect(),
        y_label: "Blobs".to_owned(),
        rows: blobs.iter().map(u32::to_string).collect(),
        value: Axis::linear("Mean time to custody", "ms"),
        values: blobs
            .iter()
            .map(|blobs| bandwidths.iter().map(|mbit| 100.0 + 5_200.0 * f64::from(*blobs) / mbit).collect())
            .collect(),
        limit: Some(4000.0),
    };
    Section {
        title: "Sweeps".to_owned(),
        text: Vec::new(),
        blocks: vec![
            figure("bandwidth", "Time to custody against bandwidth", FigureKind::Lines(linear)),
            figure("bandwidth-log", "The same, logarithmic", FigureKind::Lines(lines)),
            figure("blobs", "Blobs by bandwidth", FigureKind::Heat(heat)),
        ],
    }
}

fn figure(id: &str, title: &str, kind: FigureKind) -> Block {
    let caption =
        "Made-up figures. Whiskers are 95 % confidence intervals; dashed is what no schedule can fall below.";
    Block::Figure(Figure { id: id.to_owned(), title: title.to_owned(), caption: caption.to_owned(), kind })
}
