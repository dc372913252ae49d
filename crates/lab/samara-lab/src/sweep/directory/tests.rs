use super::*;
use crate::sweep::plan;
use crate::toy;

/// Runs a sweep with points that have already been measured.
fn sweep(path: &Path, loaded: &Loaded, planned: &[Planned]) -> Result<usize, String> {
    let mut opened = SweepDirectory::open(path, loaded, planned, "program", false)?;
    let record = |planned: &Planned| PointRecord {
        id: planned.id.clone(),
        version: VERSION.to_owned(),
        name: planned.point.run.clone(),
        parameters: serde_json::Map::new(),
        digest: "d".to_owned(),
        steps: 1,
        wall_s: 0.0,
        cpu_s: 0.0,
        peak_rss_bytes: 0,
        metrics: serde_json::json!({ "mean": 1.0 }),
        late_faults: Vec::new(),
    };
    let records: Vec<PointRecord> = planned.iter().map(record).collect();
    for record in records.iter().filter(|record| !opened.finished.contains_key(&record.id)) {
        SweepDirectory::write_point(&opened.directory.points(), record)?;
    }
    let summary = SweepSummary::new(loaded, records, Vec::new(), 0.0);
    opened.directory.summary(&summary)?;
    opened.directory.finish(&summary, true)?;
    Ok(opened.finished.len())
}

#[test]
fn killed_sweep_can_be_continued() {
    let loaded = toy::loaded(&[]);
    let planned = plan(&loaded).unwrap();
    let path = std::env::temp_dir().join(format!("samara-sweep-kill-{}", std::process::id()));
    let mut steps = 0;
    loop {
        let _ = fs::remove_dir_all(&path);
        let is_killed = files::kill::after(steps, || drop(sweep(&path, &loaded, &planned)));
        assert!(path.join(COMPLETE).exists() <= path.join("summary.json").exists());
        let kept = sweep(&path, &loaded, &planned);
        let kept = kept.unwrap_or_else(|error| panic!("killed after {steps} changes: {error}"));
        assert!(path.join(COMPLETE).exists() && !path.join(LOCK).exists());
        if !is_killed {
            assert_eq!(kept, planned.len());
            break;
        }
        steps += 1;
    }
    assert!(steps > 20, "{steps}");
    fs::remove_dir_all(&path).unwrap();
}
