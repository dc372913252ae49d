//! Tests of report pages in headless Chromium: layout, colours, and interactions.

use std::path::PathBuf;

use samara_report::{
    Arrival, Bar, Bars, Explorer, Figure, Ink, Line, Lines, Map, MapLine, Maps, Mark, Page, Panel, Part, Row,
    Scale, Section, Swept, Table, Unit,
};

use super::{Chrome, chrome, fits, pictures, until};
use crate::common::directory;

const NODES: u32 = 1000;
const ITEMS: u16 = 16;
const PUBLISHER: u32 = 0;

/// A run in which node n gets an item from n / 4, a step later each time.
fn panel(number: usize) -> Panel {
    let arrival = |node: u32, item: u16| {
        let mut hops = 0;
        let mut at = node;
        while at > PUBLISHER {
            at /= 4;
            hops += 1;
        }
        let nanos = 1_000_000 * (u64::from(hops) * 100 + u64::from(item) * 3 + number as u64 * 40);
        // One node lacks an item in the last run.
        let is_lost = number == 8 && node == NODES - 1 && item == 0;
        Arrival { node, item, nanos: (!is_lost).then_some(nanos), from: node / 4, hops }
    };
    let arrivals = (1..NODES).flat_map(|node| (0..ITEMS).map(move |item| arrival(node, item)));
    let (label, description) = (format!("Run {number} of a long name"), String::new());
    let publishers = (0..ITEMS).map(|item| (item, PUBLISHER)).collect();
    Panel { label, description, colour: number, arrivals: arrivals.collect(), publishers }
}

/// A page on items of a kind.
fn page(item: &str) -> Page {
    let row = |number: usize| Bar {
        name: format!("Run {number} of a long name"),
        parts: vec![(0.0, 100.0 + 40.0 * number as f64, number % 6)],
        bounds: vec![90.0],
        text: format!("{} ms", 100 + 40 * number),
        ..Bar::default()
    };
    let key =
        vec![(Mark::Bar(Ink::GREY), "mean".to_owned()), (Mark::Dashes(Ink::BLACK), "lower bound".to_owned())];
    let scale = Scale::linear("", 0.0..500.0, Unit::Milliseconds);
    let bars =
        Bars { title: "mean times".to_owned(), scale: scale.clone(), rows: (0..9).map(row).collect(), key };
    let long = Bars { rows: (0..24).map(|number| row(number % 9)).collect(), ..bars.clone() };
    let line = |number: usize| Line {
        label: format!("Run {number}"),
        points: (1..=4).map(|x| (f64::from(x), f64::from(x) * number as f64)).collect(),
        ..Line::default()
    };
    let (swept, _) = Swept::new(&["1", "2", "3", "4"]);
    let lines =
        Lines::over("values over the sweep", ("size", &swept), Unit::Number, (1..8).map(line).collect());
    let fields = vec![vec![Some(0.5); 12]; 12];
    let numbers: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    let maps = Maps {
        title: "links".to_owned(),
        across: ("to".to_owned(), numbers.clone()),
        upright: ("from".to_owned(), numbers),
        lines: vec![MapLine {
            heading: String::new(),
            maps: vec![Map { heading: "one".to_owned(), fields }; 2],
        }],
        is_share: true,
    };
    let cells = |number: usize| vec![format!("{}.5 ms", 9 - number), "1,234".to_owned(), "12 %".to_owned()];
    let rows = (0..9).map(|number| Row::new(format!("Run {number} of a long name"), cells(number))).collect();
    let table = Table::new(["run", "A long heading", "Another long heading", "A third one"], 1, rows);
    let explorer = Explorer {
        axis: "after the publication".to_owned(),
        deadline: None,
        panels_heading: ("Curves".to_owned(), String::new()),
        each: [item, "node"].map(|name| (name.to_owned(), name.to_owned())),
        panels: (0..9).map(panel).collect(),
        bounds: vec![("lower bound".to_owned(), (0..NODES).map(f64::from).collect())],
        regions: (
            vec!["Europe".to_owned(), "Asia".to_owned()],
            (0..NODES).map(|node| u16::from(node % 3 == 0)).collect(),
        ),
        figures: Vec::new(),
    };
    let all = vec![Figure::new("lines", "A caption.", lines), Figure::new("links", "", maps)];
    Page {
        title: "A title of a report".to_owned(),
        findings: vec!["The finding.".to_owned(), "More.".to_owned()],
        figure: Some(Figure::new("means", "", bars)),
        provenance: vec![(
            "Command".to_owned(),
            "`samara run a-long-name --set a.long.key=value`".to_owned(),
        )],
        sections: vec![
            Section::new("Figures", "", all),
            Section::new("A long figure", "", vec![Figure::new("long", "", long)]),
            Section::new("A table", "", table),
            Section::new("Runs", "", Part::Explorer(Box::new(explorer))),
        ],
        ..Page::default()
    }
}

/// Writes the page, and returns its address and its size in bytes.
fn written(test: &str) -> (String, usize) {
    written_with(test, "column")
}

fn written_with(test: &str, item: &str) -> (String, usize) {
    let path: PathBuf = directory(&format!("report-{test}")).join("report.html");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let html = page(item).html();
    std::fs::write(&path, &html).unwrap();
    (format!("file://{}", path.display()), html.len())
}

fn open(chrome: &mut Chrome, address: &str) {
    chrome.open("about:blank");
    chrome.open(address);
    until(
        chrome,
        "document.querySelector('.plot svg') && document.querySelector('#race output').textContent",
    );
}

#[test]
fn figures_fit_and_are_readable_on_all_screens() {
    let Some(mut chrome) = chrome("report-layout") else { return };
    let (address, size) = written("layout");
    assert!(size < 2_000_000, "1,000 nodes and nine runs take {size} bytes");
    for (width, scheme) in [(1280, "light"), (500, "light"), (400, "dark")] {
        chrome.window(width, 900, scheme);
        open(&mut chrome, &address);
        // Printing draws all figures, also those far below.
        chrome.eval("dispatchEvent(new Event('beforeprint'))");
        fits(&mut chrome);
        let least = "Math.min(...[...document.querySelectorAll('figure svg text')].map(t => parseFloat(getComputedStyle(t).fontSize)))";
        assert!(chrome.eval(least).as_f64().unwrap() >= 11.0, "text of figures at {width} pixels");
        let beyond = "[...document.querySelectorAll('figure.drawn .plot')].filter(plot => [...plot.querySelectorAll('text')].some(text => { const [a, b] = [text, plot].map(e => e.getBoundingClientRect()); return a.right > b.right + 2 || a.left < b.left - 2; })).map(plot => plot.parentElement.id)";
        assert_eq!(chrome.eval(beyond), serde_json::json!([]), "text beyond a figure at {width} pixels");
        let silent = "[...document.querySelectorAll('.plot, canvas')].filter(e => e.getAttribute('role') !== 'img' || !e.getAttribute('aria-label')).length";
        assert_eq!(chrome.eval(silent), 0);
        chrome.picture(&pictures().join(format!("report-{width}.png")));
    }
    // A window that becomes narrower gets figures of its width.
    chrome.window(1280, 900, "light");
    open(&mut chrome, &address);
    chrome.window(500, 900, "light");
    until(&mut chrome, "document.querySelector('.plot svg').getAttribute('width') < 500");
    fits(&mut chrome);
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
}

#[test]
fn legends_tables_and_files_work() {
    let Some(mut chrome) = chrome("report-tools") else { return };
    let (address, _) = written("tools");
    chrome.window(500, 900, "light");
    open(&mut chrome, &address);
    chrome.eval("dispatchEvent(new Event('beforeprint'))");
    let lines = "document.querySelectorAll('#figure-lines .plot polyline').length";
    assert_eq!(chrome.eval(lines), 7);
    chrome.eval("document.querySelector('#figure-lines .legend button').click()");
    assert_eq!(chrome.eval(lines), 6, "the legend switches a curve off");
    chrome.eval("document.querySelector('#figure-lines .legend button').click()");
    assert_eq!(chrome.eval(lines), 7);
    let first = "document.querySelector('#s-a-table tbody th').textContent";
    assert_eq!(chrome.eval(first), "Run 0 of a long name");
    chrome.eval("document.querySelectorAll('#s-a-table .sort')[1].click()");
    assert_eq!(chrome.eval(first), "Run 8 of a long name", "sorted by the second column");
    // Saving hands a file to the browser; keep it instead.
    chrome.eval("window.kept = []; URL.createObjectURL = (blob) => { kept.push(blob); return '#'; }; HTMLAnchorElement.prototype.click = () => {}");
    for kind in ["svg", "csv", "png"] {
        chrome.eval(&format!("document.querySelector('#figure-means [data-save={kind}]').click()"));
    }
    chrome.eval("document.querySelector('.save-table').click()");
    until(
        &mut chrome,
        "kept.length === 4 && kept.some(blob => blob.type === 'image/png' && blob.size > 1000)",
    );
    let text = |chrome: &mut Chrome, at: usize| {
        chrome.eval(&format!("kept[{at}].text()")).as_str().unwrap().to_owned()
    };
    let svg = text(&mut chrome, 0);
    assert!(
        svg.starts_with("<svg xmlns=") && svg.contains("Run 8 of a long name") && !svg.contains("var("),
        "{svg}"
    );
    let csv = text(&mut chrome, 1);
    assert!(csv.starts_with("name,mean,") && csv.contains("\nRun 1 of a long name,140,"), "{csv}");
    let table = text(&mut chrome, 2);
    assert!(table.contains("Run,A long heading,Another long heading,A third one\n"), "{table}");
    assert!(table.contains("\"1,234\""), "{table}");
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
}

#[test]
fn race_and_paths_follow_the_clock_and_the_address() {
    let Some(mut chrome) = chrome("report-race") else { return };
    let (address, _) = written("race");
    chrome.window(1280, 900, "light");
    open(&mut chrome, &address);
    let counts = "[...document.querySelectorAll('.lanes output')].map(o => o.textContent)";
    let all = chrome.eval(counts);
    assert_eq!((all[0].as_str(), all[8].as_str()), (Some("999 of 999"), Some("998 of 999")));
    let scrub = |to: u32| {
        format!(
            "(() => {{ const r = document.querySelector('[data-race=clock]'); r.value = {to}; r.dispatchEvent(new Event('input')) }})()"
        )
    };
    chrome.eval(&scrub(0));
    assert_eq!(chrome.eval(counts)[0], "0 of 999");
    chrome.eval(&scrub(300));
    let some = chrome.eval(counts);
    assert!(some[0] != "0 of 999" && some[0] != "999 of 999" && some[0] != some[8], "{some}");
    let choose = |order: &str| {
        format!(
            "(() => {{ const o = document.querySelector('[data-race=order]'); o.value = '{order}'; o.dispatchEvent(new Event('change')) }})()"
        )
    };
    let groups = "document.querySelector('[data-race=groups]').textContent";
    for (order, text) in [
        ("hop", "Groups from the top: 1 to 5 hops from the publisher."),
        ("region", "Groups from the top: Europe, Asia."),
        ("time", ""),
    ] {
        chrome.eval(&choose(order));
        assert_eq!(chrome.eval(groups), text);
        assert_eq!(chrome.eval(counts), some, "the order changes no count");
    }
    chrome.eval("document.querySelector('[data-race=play]').click()");
    until(&mut chrome, "Number(document.querySelector('[data-race=clock]').value) > 330");
    chrome.eval("document.querySelector('[data-race=play]').click()");
    // A click on a dot follows its node, and the address keeps it.
    chrome.eval("(() => { const canvas = document.querySelector('.lanes canvas'), at = canvas.getBoundingClientRect(); canvas.dispatchEvent(new MouseEvent('click', { clientX: at.left + 2, clientY: at.top + 2 })) })()");
    until(&mut chrome, "/^#node=[0-9]+$/.test(location.hash) && !document.getElementById('path').hidden");
    // Node 600 gets its columns over 150, 37, 9 and 2.
    open(&mut chrome, &format!("{address}#column=3&node=600"));
    until(&mut chrome, "!document.getElementById('path').hidden");
    let path = chrome.eval("document.querySelector('#path tbody td:nth-child(5)').textContent");
    assert_eq!(path, "publisher → 2 109 ms → 9 209 ms → 37 309 ms → 150 409 ms → 600 509 ms");
    assert_eq!(chrome.eval("document.querySelectorAll('#path tbody tr').length"), 9);
    chrome.eval("document.querySelector('#path button[data-node=\"150\"]').click()");
    until(&mut chrome, "location.hash === '#column=3&node=150'");
    chrome.eval("document.getElementById('clear').click()");
    until(&mut chrome, "location.hash === '' && document.getElementById('path').hidden");
    // Other families have other items.
    let (address, _) = written_with("race-of-messages", "message");
    open(&mut chrome, &format!("{address}#message=3&node=600"));
    until(&mut chrome, "!document.getElementById('path').hidden");
    assert_eq!(
        chrome.eval("document.querySelector('#path h3').textContent"),
        "Message 3 to node 600, hop by hop"
    );
    assert_eq!(chrome.eval("document.querySelectorAll('#path th')[1].textContent"), "Message");
    chrome.eval("document.querySelector('#path button[data-node=\"150\"]').click()");
    until(&mut chrome, "location.hash === '#message=3&node=150'");
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
}
