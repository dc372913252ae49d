use super::*;

fn pace(samples: &[(u64, u64)]) -> f64 {
    let mut pace = Pace::default();
    samples.iter().fold(0.0, |_, (at, bytes)| pace.of("one", Duration::from_secs(*at), *bytes))
}

#[test]
fn the_rate_is_that_of_the_last_seconds() {
    assert_eq!(pace(&[(0, 1_000)]), 0.0, "what was there before is no rate");
    assert_eq!(pace(&[(0, 1_000), (2, 1_200)]), 100.0);
    let slowed: Vec<_> = (0..60).map(|at| (at, if at < 30 { 100 * at } else { 3_000 + at })).collect();
    assert_eq!(pace(&slowed), 1.0, "a rate of the past is forgotten");
    assert_eq!(pace(&[(0, 0), (10, 1_000), (11, 200), (13, 220)]), 10.0, "the file begins again");
    let mut pace = Pace::default();
    for (at, name, bytes) in [(0, "one", 0), (1, "one", 100), (2, "two", 5_000), (3, "two", 5_010)] {
        let rate = pace.of(name, Duration::from_secs(at), bytes);
        assert!(rate <= 100.0, "another receiver is the slowest: {rate} B/s after {at} s");
    }
}

#[test]
fn lines_of_progress_fit_80_columns() {
    let line = transferred(1_234_567_890_123, 9_999_999_999_999, 123.4e6, "");
    assert_eq!(line, "12 %  1235 GB of 10000 GB, 123 MB/s, 71033 s left");
    assert!(line.len() + " at 192.0.2.1:7800, 8 done".len() + "1:23:45  ".len() < 86, "{line}");
    assert_eq!(transferred(0, 0, 0.0, ""), "0 %  0 B of 0 B, 0 B/s");
}

pub(in crate::group) fn sending(members: &[(&str, MemberState)]) -> Sending {
    let members: BTreeMap<_, _> =
        members.iter().map(|(name, state)| ((*name).to_owned(), state.clone())).collect();
    let done = members.values().filter(|state| **state == MemberState::Done).count();
    Sending {
        size: 60_000_000,
        has_begun: true,
        there: members.len(),
        sent_bytes: 60_000_000,
        elapsed: Duration::from_secs(30),
        done,
        members,
        forgotten: 0,
        corrupt: BTreeMap::new(),
        refusals: Vec::new(),
        receipts_failure: None,
    }
}

#[test]
fn the_sender_names_the_slowest_and_counts_the_done() {
    use MemberState::{Done, Failed, Receiving};
    let mut display = SenderDisplay::default();
    let begun = Instant::now();
    let members = [("a:1", Done), ("b:1", Receiving(6_000_000)), ("c:1", Receiving(9_000_000))];
    let screen = display.of(&sending(&members), 3, false, begun);
    assert_eq!(screen.lines, ["a:1  has it", "b:1  joined", "c:1  joined"]);
    assert_eq!(screen.progress.unwrap(), "10 %  6.00 MB of 60.0 MB at b:1, 0 B/s, 1 done");
    let refused = Failed("full".to_owned());
    let waiting = Sending { has_begun: false, ..sending(&[("a:1", Done), ("b:1", refused)]) };
    let screen = display.of(&waiting, 3, false, begun);
    assert_eq!(screen.lines, ["b:1  does not take it: full"]);
    assert_eq!(
        screen.progress.unwrap(),
        "waiting for receivers: 2 of 3, 1 have the file",
        "one that refuses is there"
    );
    let kept = display.of(&sending(&[("a:1", Done)]), 1, true, begun);
    assert_eq!(kept.progress.unwrap(), "1 have the file; waiting for others until Ctrl-C");
}

#[test]
fn a_receiver_that_is_away_for_a_moment_has_not_left() {
    use MemberState::{Left, Receiving};
    let mut display = SenderDisplay::default();
    let begun = Instant::now();
    let (there, gone) = (sending(&[("a:1", Receiving(1))]), sending(&[("a:1", Left)]));
    let mut lines = |report, at| display.of(report, 1, false, begun + Duration::from_secs(at)).lines;
    assert_eq!(lines(&there, 0), ["a:1  joined"]);
    assert_eq!(lines(&gone, 1), [""; 0]);
    assert_eq!(lines(&there, 3), [""; 0]);
    assert_eq!(lines(&gone, 4), [""; 0]);
    assert_eq!(lines(&gone, 7), ["a:1  left before it had the file"]);
    assert_eq!(lines(&gone, 8), [""; 0]);
    assert_eq!(lines(&there, 9), ["a:1  joined"]);
}

#[test]
fn the_sender_says_what_it_refuses_and_sends_again() {
    let mut display = SenderDisplay::default();
    let mut report = sending(&[("a:1", MemberState::Receiving(0))]);
    let mut lines = |report: &Sending| display.of(report, 1, false, Instant::now()).lines.join("\n");
    assert_eq!(lines(&report), "a:1  joined");
    let refusal = |count| Refusal { host: [192, 0, 2, 1].into(), cause: "unauthenticated", count };
    let text = "another secret or group name; compare --secret and --name";
    report.refusals = vec![refusal(1)];
    assert_eq!(lines(&report), format!("refused a node of 192.0.2.1: it has {text}"));
    assert_eq!(lines(&report), "", "once");
    report.refusals = vec![refusal(2)];
    assert_eq!(lines(&report), format!("refused a node of 192.0.2.1, 2 times: it has {text}"));
    report.refusals = vec![refusal(3)];
    assert_eq!(lines(&report), "", "at one, two, four and so on");
    report.corrupt.insert("a:1".to_owned(), 1);
    assert_eq!(lines(&report), "a:1  its bytes were damaged: 60.0 MB go again, to all receivers");
    report.receipts_failure = Some("no room".to_owned());
    assert_eq!((lines(&report), lines(&report)), ("no room".to_owned(), String::new()));
}

fn receiving(bytes: u64) -> Receiving {
    Receiving {
        name: "a.img".to_owned(),
        sender: "s:1".to_owned(),
        size: 60_000_000,
        bytes,
        had_bytes: 0,
        elapsed: Duration::from_secs(1),
        waits_for: None,
        sender_gone: None,
        corrupt: 0,
        is_done: false,
        failure: None,
    }
}

#[test]
fn the_receiver_says_whom_it_waits_for() {
    let mut display = ReceiverDisplay::default();
    let mut screen = |report: &Receiving| {
        let Screen { lines, progress } = display.of(report, Some(Duration::from_secs(60)));
        (lines.join("\n"), progress.unwrap_or_default())
    };
    let told = |line: &str, progress: &str| (line.to_owned(), progress.to_owned());
    let waits = Receiving { waits_for: Some((3, 5)), ..receiving(0) };
    let waiting = "the sender waits for receivers: 3 of 5";
    assert_eq!(screen(&waits), told("a.img  60.0 MB from s:1", waiting));
    assert_eq!(screen(&receiving(6_000_000)), told("", "10 %  6.00 MB of 60.0 MB, 0 B/s"));
    let gone = Receiving { sender_gone: Some(Duration::from_secs(12)), ..receiving(6_000_000) };
    let left = "a.img  its sender s:1 left; waiting 60 s for it to come back";
    let progress = "6.00 MB of 60.0 MB; the sender is gone for 12 s of 60 s";
    assert_eq!(screen(&gone), told(left, progress), "no rate and no rest of the past");
    assert_eq!(screen(&gone), told("", progress));
    let (line, _) = screen(&Receiving { corrupt: 1, ..receiving(0) });
    assert_eq!(
        line,
        "a.img  what was on disk was damaged: all 60.0 MB come again\na.img  its sender s:1 is back"
    );
    let done = Receiving { is_done: true, corrupt: 1, ..receiving(60_000_000) };
    let (line, progress) = screen(&done);
    assert_eq!(line, "a.img  verified; waiting for the others");
    assert_eq!(progress, "a.img is complete; waiting for the others", "no progress of the past");
    let refused = Receiving { sender: "b:1".to_owned(), failure: Some("no".to_owned()), ..receiving(0) };
    assert_eq!(screen(&refused), told("a.img  no", ""), "another sender changes no progress");
    assert_eq!(screen(&refused), told("", ""), "it is said once");
}

#[test]
fn files_that_a_display_remembers_are_bounded() {
    let mut display = ReceiverDisplay::default();
    for number in 0..2 * FILES_MAX {
        let report = Receiving { name: format!("{number}"), ..receiving(0) };
        assert_eq!(display.of(&report, None).lines.len(), 1);
        assert!(display.files.len() <= FILES_MAX);
    }
}
