//! The scenarios that come along.

use samara_lab::scenario::{ScenarioFile, builtin};

#[test]
fn all_are_right() {
    for name in builtin::names() {
        let plan = ScenarioFile::builtin(name).expect("it is listed").plan();
        let plan = plan.unwrap_or_else(|error| panic!("{name}:\n{error}"));
        assert_eq!(plan.scenario.scenario.name, name);
        assert!(!plan.scenario.scenario.title.is_empty() && !plan.scenario.scenario.description.is_empty());
        assert!(plan.points.iter().all(|point| !point.runs.is_empty()));
    }
    assert_eq!(builtin::list().len(), builtin::names().count());
}
