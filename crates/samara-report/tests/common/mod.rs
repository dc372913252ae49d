//! Reports to try things on.

#![allow(dead_code, reason = "not every test uses everything")]

use samara_report::model::{
    Axis, BarRow, Bars, Better, Block, Cdf, Cell, Colour, Column, CurvePanel, Curves, Distribution, Fact,
    Figure, FigureKind, Headline, HeatMap, Histogram, Lines, Mark, Note, Point, Report, Role, Row, Section,
    Series, StepCurve, Steps, Table, Tone,
};
use samara_report::style::Style;

/// A name that breaks out of everything that is not careful.
pub(crate) const HOSTILE: &str =
    "</script><script>alert(1)</script> \"quoted\" 'single' & <!-- <b onclick=x> ]]> \u{0} `code` **x";

pub(crate) fn curve(number: u32, of: u32, arrivals_ms: &[f64]) -> StepCurve {
    StepCurve { number, of, arrivals_ms: arrivals_ms.to_vec() }
}

pub(crate) fn curves(panels: Vec<CurvePanel>) -> FigureKind {
    FigureKind::Curves(Curves {
        x: Axis::linear("Time", "ms"),
        y_label: "Subscribers reached".to_owned(),
        item: "column".to_owned(),
        colour: Colour::ByNumber,
        steps: Steps::Shared,
        panels,
    })
}

pub(crate) fn panel(title: &str, curves: Vec<StepCurve>) -> CurvePanel {
    let marks = vec![Mark { label: format!("mean of {title}"), at: 150.0 }];
    CurvePanel { title: title.to_owned(), style: Style::nth(1), curves, marks }
}

pub(crate) fn series(name: &str, role: Role, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), style: Style::nth(2), role, points }
}

pub(crate) fn distribution(name: &str, values: Vec<f64>, of: usize) -> Distribution {
    Distribution { name: name.to_owned(), style: Style::nth(9), values, of }
}

/// All kinds of figures with these names in every text.
pub(crate) fn kinds(name: &str) -> Vec<FigureKind> {
    let own = || name.to_owned();
    let points = vec![
        Point { x: 10.0, y: 400.0, low: 380.0, high: 420.0 },
        Point::exact(20.0, 210.0),
        Point::exact(100.0, 55.5),
    ];
    let bounds = vec![Point::exact(10.0, 300.0), Point::exact(100.0, 30.0)];
    let lines = |x, y| {
        FigureKind::Lines(Lines {
            x,
            y,
            series: vec![
                series(name, Role::Measured, points.clone()),
                series("bound", Role::Bound, bounds.clone()),
            ],
        })
    };
    let values = vec![distribution(name, vec![100.0, 250.0, 120.0], 4), distribution("other", vec![5.0], 1)];
    let row = |values: Vec<f64>| BarRow {
        label: own(),
        style: Style::nth(3),
        values,
        spread: Some((1.0, 3.0)),
        bound: Some(1.5),
        note: own(),
    };
    vec![
        curves(vec![
            panel(name, vec![curve(0, 3, &[10.0, 200.0, 30.0]), curve(5, 2, &[90.0])]),
            panel("b", vec![]),
        ]),
        lines(Axis::linear(name, "Mbit/s"), Axis::linear(name, "ms")),
        lines(Axis::log(name, "Mbit/s").ticks(vec![10.0, 100.0]), Axis::log(name, "ms")),
        FigureKind::Cdf(Cdf { x: Axis::linear(name, "ms"), y_label: own(), series: values.clone() }),
        FigureKind::Bars(Bars {
            x: Axis::linear(name, "MB"),
            parts: vec![own(), "rest".to_owned()],
            bound_label: own(),
            rows: vec![row(vec![1.0, 2.0]), row(vec![0.5, f64::NAN])],
        }),
        FigureKind::Histogram(Histogram {
            x: Axis::linear(name, "ms"),
            y_label: own(),
            classes: 8,
            series: values,
        }),
        FigureKind::Heat(HeatMap {
            x_label: own(),
            columns: vec![own(), "20".to_owned()],
            y_label: own(),
            rows: vec![own(), "6".to_owned()],
            value: Axis::linear(name, "ms"),
            values: vec![vec![1200.0, f64::NAN], vec![5000.0, 10.0]],
            limit: Some(4000.0),
        }),
    ]
}

/// All kinds of figures with nothing in them, or nothing that can be drawn.
pub(crate) fn empty_kinds() -> Vec<FigureKind> {
    let axis = || Axis::linear("x", "ms");
    let nan = Point { x: f64::NAN, y: f64::INFINITY, low: f64::NAN, high: f64::NEG_INFINITY };
    let lines = |series| FigureKind::Lines(Lines { x: Axis::log("x", ""), y: Axis::log("y", "ms"), series });
    let bars = |rows| {
        FigureKind::Bars(Bars { x: axis(), parts: vec!["a".to_owned()], bound_label: "b".to_owned(), rows })
    };
    let bad_row = BarRow {
        label: "bad".to_owned(),
        style: Style::default(),
        values: vec![f64::NAN],
        spread: Some((f64::NAN, f64::NAN)),
        bound: Some(f64::NAN),
        note: String::new(),
    };
    let heat = |columns: Vec<String>, values| {
        FigureKind::Heat(HeatMap {
            x_label: String::new(),
            columns,
            y_label: String::new(),
            rows: vec!["r".to_owned()],
            value: axis(),
            values,
            limit: None,
        })
    };
    let cdf = |series| FigureKind::Cdf(Cdf { x: Axis::log("x", "ms"), y_label: String::new(), series });
    let histogram =
        |series| FigureKind::Histogram(Histogram { x: axis(), y_label: String::new(), classes: 0, series });
    vec![
        curves(vec![]),
        curves(vec![panel("nothing", vec![]), panel("never", vec![curve(1, 4, &[]), curve(2, 0, &[1.0])])]),
        curves(vec![panel("bad", vec![curve(1, 4, &[f64::NAN, -1.0, f64::INFINITY]), curve(2, 1, &[0.0])])]),
        lines(vec![]),
        lines(vec![series("bad", Role::Measured, vec![nan, Point::exact(-1.0, -1.0)])]),
        cdf(vec![]),
        cdf(vec![distribution("never", vec![f64::NAN, f64::INFINITY], 2), distribution("none", vec![], 0)]),
        bars(vec![]),
        bars(vec![bad_row]),
        histogram(vec![]),
        histogram(vec![distribution("never", vec![f64::NAN], 1)]),
        heat(vec![], vec![]),
        heat(vec!["c".to_owned()], vec![vec![f64::NAN]]),
    ]
}

pub(crate) fn figure(index: usize, name: &str, kind: FigureKind) -> Figure {
    Figure { id: format!("{name}-{index}"), title: name.to_owned(), caption: name.to_owned(), kind }
}

pub(crate) fn table(name: &str) -> Table {
    let columns = vec![
        Column::text(name).help(name),
        Column::number("mean", "ms", 0).better(Better::Lower),
        Column::number("over bound", name, 2).better(Better::Lower).bar_from(1.0),
        Column::number("delivered", "%", 1).better(Better::Higher),
    ];
    let row = |group: &str, label: &str, numbers: [Cell; 3]| {
        let [a, b, c] = numbers;
        Row {
            group: group.to_owned(),
            style: Some(Style::nth(4)),
            note: name.to_owned(),
            cells: vec![label.into(), a, b, c],
        }
    };
    Table {
        caption: name.to_owned(),
        columns,
        rows: vec![
            row("cold", "sequential", [Cell::Interval(6812.4, 20.0), 6.97.into(), 100.0.into()]),
            row("cold", name, [Cell::Interval(2171.0, 0.0), 2.22.into(), 100.0.into()]),
            row("warm", "broken", [Cell::Missing, f64::NAN.into(), 0.0.into()]),
            row("warm", "node-wide", [1150.0.into(), 1.18.into(), 99.94.into()]),
        ],
    }
}

/// A report with all there is and these texts everywhere.
pub(crate) fn report(name: &str) -> Report {
    let own = || name.to_owned();
    let note = |tone| Block::Note(Note { tone, title: own(), text: own() });
    let mut blocks = vec![Block::Table(table(name)), Block::Text(own())];
    blocks.extend([note(Tone::Plain), note(Tone::Good), note(Tone::Bad)]);
    blocks.extend(
        kinds(name).into_iter().enumerate().map(|(index, kind)| Block::Figure(figure(index, name, kind))),
    );
    Report {
        title: own(),
        subtitle: own(),
        headline: vec![Headline { value: own(), text: own() }],
        facts: vec![Fact::new(name, name), Fact::literal(name, name)],
        sections: vec![
            Section { title: own(), text: vec![own()], blocks },
            Section { title: own(), ..Section::default() },
        ],
    }
}

/// A report of runs in which nothing arrived.
pub(crate) fn empty_report() -> Report {
    let figures = empty_kinds()
        .into_iter()
        .enumerate()
        .map(|(index, kind)| Block::Figure(figure(index, "empty", kind)));
    let blocks = std::iter::once(Block::Table(Table::default())).chain(figures).collect();
    Report {
        sections: vec![Section { title: "empty".to_owned(), text: vec![], blocks }],
        ..Report::default()
    }
}
