//! Tests of declared pages.

use super::*;
use crate::results::{Findings, Used};
use crate::toy::{Toy, loaded};
use samara_report::Drawing;

static PAGE: PageSpec = PageSpec {
    sections: &[
        Section::new("Over the sweep").in_sweep().charts(&[Chart::Lines(&[], None)]),
        Section::new("Nothing").needs("value").tables(&[&[]]).charts(&[Chart::Figures(|_| Vec::new())]),
        Section::new("Values")
            .about("Twice the same.")
            .charts(&[Chart::Bars(Bars {
                name: "values",
                metric: "value + value",
                bounds: &["value"],
                bound: "half of it",
                text: |row| Form::Fixed(1).written(row.mean("value")),
                ..Bars::BASE
            })])
            .tables(&[&[
                mean("one", "value", Form::Percent(0)),
                computed("run", |grid, row| format!("{} of {}", row.run, grid.rows.len())),
            ]])
            .metrics(&["value"]),
    ],
    ..PageSpec::BASE
};

#[test]
fn declared_sections_are_drawn() {
    let loaded = loaded(&["first", "batch"]);
    let outcomes = loaded.points.iter().map(|point| {
        use crate::results::Measured as _;
        Some(Toy::new(point).outcome())
    });
    let findings = Findings::of(&loaded, outcomes.collect(), Used::default()).unwrap();
    let body = PAGE.body(&Results::of(&loaded, &findings));
    let headings: Vec<&str> = body.sections.iter().map(|section| section.heading.as_str()).collect();
    assert_eq!(headings, ["Nothing", "Values"], "no sweep");
    let [Part::Figures(figures), Part::Table(table), Part::Table(named)] = body.sections[1].parts.as_slice()
    else {
        panic!("{:?}", body.sections[1])
    };
    let Drawing::Bars(bars) = &figures[0].drawing else { panic!("bars") };
    assert_eq!(bars.rows[0].parts, [(0.0, 2.0, 1)]);
    assert_eq!((bars.rows[1].bounds[0], bars.key[1].1.as_str()), (1.0, "half of it"));
    assert_eq!(table.rows[1].cells, ["100 %", "batch of 2"]);
    assert_eq!((named.headings[1].as_str(), named.rows[0].cells[0].as_str()), ("Value", "1"));
    assert_eq!(body.summary.table.headings.len(), 1, "the first table, of the section without columns");
}

#[test]
#[should_panic(expected = "section \"Values\" of the page: scenarios with [] have no metric \"value\"")]
fn page_names_declared_metrics_only() {
    // Registers the family that has the metric.
    loaded(&["first"]);
    let page = PageSpec { sections: &PAGE.sections[2..], ..PageSpec::BASE };
    page.check(&Family { spec: &samara_scenario::family::FamilySpec::BASE, ..Family::BASE });
}
