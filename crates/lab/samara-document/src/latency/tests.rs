use super::*;
use crate::{LatencyKind, LatencyUnit};

fn spec() -> LatencyFile {
    LatencyFile {
        file: "l".to_owned(),
        kind: LatencyKind::OneWay,
        unit: Some(LatencyUnit::Milliseconds),
        ..LatencyFile::default()
    }
}

fn read(spec: &LatencyFile, text: &str) -> Result<Arc<LatencyTable>, String> {
    LatencyTable::read(spec, &Inputs::default().with("l", text))
}

/// Reads a table, and returns its milliseconds and its names.
fn table(text: &str) -> (Vec<Option<f64>>, Option<Vec<String>>) {
    let table = read(&spec(), text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let nanos = (0..table.size).flat_map(|from| (0..table.size).map(move |to| (from, to)));
    let values = nanos.map(|(from, to)| table.get(from, to).map(|nanos| f64::from(nanos) / 1e6));
    (values.collect(), table.names().map(|names| names.all().to_vec()))
}

fn error(text: &str) -> String {
    read(&spec(), text).map(|table| format!("{table:?}")).expect_err("an error")
}

const VALUES: [Option<f64>; 4] = [Some(1.0), Some(20.5), Some(30.0), Some(0.0)];

#[test]
fn reads_the_same_matrix_from_all_formats() {
    let named = Some(vec!["eu".to_owned(), "us".to_owned()]);
    for text in [
        ",eu,us\neu,1,20.5\nus,30,0\n",
        "region,eu,us\nus,30,0\neu,1,20.5\n",
        "eu us\neu 1 20.5\nus 30 0\n",
        "eu,us\n1,20.5\n30,0\n",
        "\u{feff}\teu\tus\neu\t1 ms\t20500 us\nus\t0.03 s\t0\n",
        "# measured at noon\n\neu;us\n1;20.5\n30;0\n",
        "source,destination,timestamp,min,avg,max\neu,eu,t,0,1,2\neu,us,t,0,20.5,2\nus,eu,t,0,30,2\nus,us,t,0,0,0\n",
        "from,to,rtt_us\neu,eu,1000\neu,us,20500\nus,eu,30000\nus,us,0\n",
        "eu eu 1\neu us 20.5\nus eu 30\nus us 0\n",
    ] {
        assert_eq!(table(text), (VALUES.to_vec(), named.clone()), "{text}");
    }
    assert_eq!(table("1 20.5\n30 0\n"), (VALUES.to_vec(), None));
}

#[test]
fn names_may_be_numbers() {
    let (values, names) = table(",0,1\n0,1,20.5\n1,30,0\n");
    assert_eq!((values, names), (VALUES.to_vec(), Some(vec!["0".to_owned(), "1".to_owned()])));
    // NA is North America here, not a missing value.
    assert_eq!(table(",NA,EU\nNA,1,20.5\nEU,30,0\n").1, Some(vec!["NA".to_owned(), "EU".to_owned()]));
}

#[test]
fn round_trips_are_halved() {
    let spec = LatencyFile { kind: LatencyKind::RoundTrip, ..spec() };
    let table = read(&spec, "a b 25\n").expect("a valid table");
    assert_eq!(table.get(1, 0), Some(12_500_000));
}

#[test]
fn repeated_pairs_have_the_mean_and_apply_to_both_directions() {
    let read =
        read(&spec(), "source,destination,avg\na,b,10\na,b,20\nb,c,5\nc,b,7\n").expect("a valid table");
    assert_eq!((read.get(0, 1), read.get(1, 0)), (Some(15_000_000), Some(15_000_000)));
    assert_eq!((read.get(1, 2), read.get(2, 1)), (Some(5_000_000), Some(7_000_000)));
    assert_eq!(read.notes(), ["l: 1 pairs are repeated; their mean is used"]);
}

#[test]
fn ids_are_renamed() {
    let spec = LatencyFile { names: Some("servers.csv".to_owned()), ..spec() };
    let read = |servers: &str| {
        let inputs =
            Inputs::default().with("l", "source,destination,avg\n7,9,10\n").with("servers.csv", servers);
        LatencyTable::read(&spec, &inputs)
    };
    let table =
        read("\"id\",\"name\",\"latitude\"\n9,Oslo,59.9\n7,\"Bonn, old\",50\n").expect("a valid table");
    assert_eq!(
        table.names().map(|names| names.all()),
        Some(["Bonn, old".to_owned(), "Oslo".to_owned()].as_slice())
    );
    assert_eq!(read("id,name\n9,Oslo\n"), Err("servers.csv: has no id 7, which l has".to_owned()));
    assert_eq!(
        read("number,name\n"),
        Err("servers.csv:1: found \"number,name\", expected a header with id and name".to_owned())
    );
}

#[test]
fn hosts_are_matched_to_rows() {
    let table = read(&spec(), ",b,a,c\nb,0,1,2\na,3,0,4\nc,5,6,0\n").expect("a valid table");
    let names: Names = ["a", "b"].into_iter().collect();
    assert_eq!(table.rows_of_hosts(2, Some(&names)), Ok(vec![1, 0]));
    assert_eq!(table.rows_of_hosts(3, None), Ok(vec![0, 1, 2]), "no names: in the order of rows");
    assert_eq!(
        table.rows_of_hosts(4, None),
        Err("l: has 3 rows for 4 nodes; set network.nodes to at most 3, remove it, or use a file with a row for each \
             node"
            .to_owned())
    );
    let names: Names = ["aa"].into_iter().collect();
    assert_eq!(
        table.rows_of_hosts(1, Some(&names)),
        Err("l: has no row for the node aa; did you mean a?".to_owned())
    );
    let numbered = read(&spec(), ",1,0\n1,0,5\n0,6,0\n").expect("a valid table");
    let rows = numbered.rows_of_hosts(2, None).expect("two rows");
    let pairs = numbered.between_hosts(&rows, &spec()).expect("all latencies");
    assert_eq!(pairs[1], 6_000_000, "by number, whatever the order");
}

#[test]
fn regions_need_a_latency_within() {
    let names = ["us".to_owned(), "eu".to_owned()];
    let table = read(&spec(), ",eu,us\neu,,40\nus,50,2\n").expect("a valid table");
    let rows = table.rows_of_regions(&names).expect("two rows");
    let error = table.between_regions(&rows, &spec()).expect_err("not within eu");
    assert_eq!(
        error,
        "l: has no latency between nodes in eu; set one with within = \"10 ms\" in network.latency_file"
    );
    let spec = LatencyFile { within: Some(Span::from_millis(9)), ..spec() };
    let latency = table.between_regions(&rows, &spec).expect("all latencies");
    let ms: Vec<f64> = latency.iter().flatten().map(|span| span.millis_f64()).collect();
    assert_eq!(ms, [9.0, 50.0, 40.0, 9.0]);
}

#[test]
fn missing_pairs_are_reported_or_get_a_default() {
    let table = read(&spec(), "0 10 -1\n10 0 nan\n-1 - 0\n").expect("a valid table");
    let error = table.between_hosts(&[0, 1, 2], &spec()).expect_err("some are missing");
    assert_eq!(
        error,
        "l: has no latency from 0 to 2 (4 of 6 pairs are absent, empty or negative); set one with others = \"100 ms\" in \
         network.latency_file, or sum those along the shortest path of pairs with paths = \"undirected\""
    );
    let spec = LatencyFile { others: Some(Span::from_millis(100)), ..spec() };
    let pairs = table.between_hosts(&[0, 1, 2], &spec).expect("all latencies");
    assert_eq!((pairs[2], pairs[1]), (100_000_000, 10_000_000));
    assert_eq!(table.between_hosts(&[0, 1], &spec).map(|pairs| pairs.len()), Ok(4));
}

#[test]
fn rejects_latencies_of_zero_or_hours() {
    let table = read(&spec(), "0 0\n5 0\n").expect("a valid table");
    assert_eq!(
        table.between_hosts(&[0, 1], &spec()),
        Err("l: the latency from 0 to 1 is 0; expected more than 0 between different nodes".to_owned())
    );
    assert_eq!(
        error("1 5000\n1 1\n"),
        "l:1: column 2 (to 1): a one-way latency of 5.0 s; at most 4.29 s, is the unit right?"
    );
}

#[test]
fn errors_name_the_line() {
    assert_eq!(
        error("a,b\n1,2\n3\n"),
        "l:3: found 1 latencies, expected 2, one for each column (commas, semicolons, tabs or blanks separate cells, in \
         all lines the same; numbers have a decimal point)"
    );
    assert_eq!(error(",a,b\na,1,2\n"), "l: has 1 rows and 2 columns; row b is missing");
    assert_eq!(error(",a,b\na,1,2\na,1,2\n"), "l:3: duplicate row `a`");
    assert_eq!(
        error(",a,b\na,1,2\nc,1,2\n"),
        "l:3: row c has no column; expected the same names for rows and columns"
    );
    assert_eq!(error("1,2\n3,4\n5,6\n"), "l:3: more rows than the 2 columns");
    assert!(
        error("a,b\n1,x\n2,3\n").starts_with("l:2: column 2 (to b): found \"x\", which is not a latency: ")
    );
    assert_eq!(error("\n"), "l: has fewer than two lines; expected a square matrix of latencies");
    assert_eq!(
        error("source,destination,color\na,b,3\n"),
        "l:1: found no known latency column in source, destination, color (known: latency, rtt, avg, average, mean, median, p50, \
         ping, delay, avg_rtt); name it with column in network.latency_file"
    );
    for text in
        ["{\"a\": {\"b\": 1}}", "[[1, 2], [3, 4]]", "REGION_LIST = \"a\";", "topology E2EGraph\n\nnode 1\n"]
    {
        assert!(error(text).contains("python -m samara.data l"), "{text}");
    }
    let column = LatencyFile { column: Some("avg".to_owned()), ..spec() };
    assert_eq!(
        read(&column, "1 2\n3 4\n").map(|table| table.size()),
        Err("l: is not a list of pairs, which column = \"avg\" in network.latency_file requires; remove the column, or set format = \"pairs\""
            .to_owned())
    );
    let far = LatencyFile { others: Some(Span::from_millis(5_000)), ..spec() };
    let table = read(&far, "0 -\n- 0\n").expect("a valid table");
    assert_eq!(
        table.between_hosts(&[0, 1], &far),
        Err("others in network.latency_file is a one-way latency of 5.0 s; at most 4.29 s, is the unit right?".to_owned())
    );
    let bare = LatencyFile { unit: None, ..spec() };
    assert_eq!(
        read(&bare, "1 2\n3 4\n"),
        Err("l:1: column 1 (to 0): found 1, which has no unit; set it with unit = \"ms\" (or \"s\", \"us\", \"ns\") in network.latency_file"
            .to_owned())
    );
}

#[test]
fn paths_sum_latencies_and_multiply_losses() {
    // A square with a slow edge from a to d, and one of two equally long ways with less loss.
    let text = "source,destination,latency_ms,lost\na,b,10,0.5\nb,d,10,0.5\na,c,10,10 %\nc,d,10,0\na,d,90,0\na,a,3,0.2\n";
    let table = |spec: LatencyFile, text: &str| {
        let table = read(&LatencyFile { loss: Some("lost".to_owned()), ..spec }, text);
        table.unwrap_or_else(|error| panic!("{error}"))
    };
    let direct = table(spec(), text);
    let of = |table: &LatencyTable, from: &str, to: &str| {
        let row = |name: &str| table.names().expect("names").find(name).expect("a name") as usize;
        let (from, to) = (row(from), row(to));
        (table.get(from, to).map(|nanos| nanos / 1_000_000), (table.loss(from, to) * 1e4).round() / 1e4)
    };
    assert_eq!(of(&direct, "a", "d"), (Some(90), 0.0));
    assert_eq!(of(&direct, "b", "a"), (Some(10), 0.5), "the other direction has the same loss");
    assert_eq!(of(&direct, "b", "c"), (None, 0.0));
    let paths = table(LatencyFile { paths: Paths::Undirected, ..spec() }, text);
    assert_eq!(of(&paths, "a", "d"), (Some(20), 0.1));
    assert_eq!(of(&paths, "d", "a"), (Some(20), 0.1));
    assert_eq!(of(&paths, "b", "c"), (Some(20), 0.5), "over d: the way over a loses more");
    assert_eq!(of(&paths, "a", "a"), (Some(3), 0.2), "the edge to itself");
    let directed = table(LatencyFile { paths: Paths::Directed, ..spec() }, text);
    assert_eq!((of(&directed, "a", "d"), of(&directed, "d", "a").0), ((Some(20), 0.1), None));
    let losses = paths.losses(&[3, 0]).expect("losses");
    assert!((losses[1] - 0.1).abs() < 1e-6 && losses.len() == 4, "{losses:?}");
    let long = "source,destination,latency_ms,lost\na,b,3000,0\nb,c,3000,0\n";
    let error = read(&LatencyFile { paths: Paths::Undirected, ..spec() }, long).expect_err("too long");
    assert_eq!(error, "l: the path from a to c takes more than 4.29 s; is the unit right?");
}

#[test]
fn losses_are_shares() {
    let spec = LatencyFile { loss: Some("loss".to_owned()), ..spec() };
    let with = |loss: &str| read(&spec, &format!("source,destination,latency,loss\na,b,10,{loss}\n"));
    for (text, expected) in [("0.25", 0.25), ("25 %", 0.25), ("25%", 0.25), ("0", 0.0)] {
        assert!((with(text).expect("a share").loss(1, 0) - expected).abs() < 1e-6, "{text}");
    }
    for text in ["1", "-0.1", "25", "100 %", "nine", "1e400", "", "-", "nan"] {
        let error = with(text).expect_err("no share");
        assert!(error.starts_with(&format!("l:2: from a to b: the loss is \"{text}\"; expected")), "{error}");
    }
    // A pair without a latency needs none, and a short line has none.
    let read_lines = |lines: &str| read(&spec, &format!("source,destination,latency,loss\n{lines}"));
    assert!(read_lines("a,b,10,0\nb,c,nan,nan\n").is_ok());
    assert!(read_lines("a,b,10,0\nb,c,nan,nine\n").is_err());
    assert!(read_lines("a,b,10,0\nb,c,10\n").is_err_and(|why| why.contains("from b to c: the loss is \"\"")));
    let pairs = LatencyFile { format: Some(LatencyFormat::Pairs), ..spec.clone() };
    assert!(
        super::tests::read(&pairs, "a b 12\nb c 3\n")
            .is_err_and(|why| why.contains("found no header with two ends"))
    );
    let read = |text: &str| read(&spec, text).expect_err("an error");
    assert!(
        read("source,destination,latency\na,b,1\n").contains("unknown loss in network.latency_file.loss")
    );
    assert!(read("0,1\n1,0\n").starts_with("l: is a matrix of latencies, which has no loss"));
    assert!(
        read("<graphml><graph><node id='a'/><node id='b'/><edge source='a' target='b'/></graph></graphml>")
            .contains("no edge has a latency")
    );
}

#[test]
fn edges_without_loss_are_named() {
    let spec = LatencyFile { loss: Some("Packet_Loss".to_owned()), ..spec() };
    let graph = |losses: [&str; 2]| {
        let [a, b] = losses;
        let text = format!(
            "<graphml><key id='l' for='edge' attr.name='latency_ms'/><key id='p' for='edge' attr.name='packet_loss'/>\n\
             <graph><node id='a'/><node id='b'/><node id='c'/>\n\
             <edge source='a' target='b'><data key='l'>5</data>{a}</edge>\n\
             <edge source='b' target='c'><data key='l'>5</data>{b}</edge></graph></graphml>"
        );
        read(&spec, &text)
    };
    let with = graph(["<data key='p'>0.5</data>", ""]).expect("a valid graph");
    let note = "l: 1 edges have no packet_loss (the first from b to c on line 4); theirs counts as 0";
    assert_eq!(with.notes(), [note]);
    for empty in ["<data key='p'/>", "<data key='p'> </data>", "<data key='p'>nan</data>"] {
        let error = graph(["<data key='p'>0.5</data>", empty]).expect_err("an empty loss");
        assert!(error.starts_with("l:4: from b to c: the loss is "), "{error}");
    }
}

#[test]
fn columns_without_effect_are_named() {
    let spec = LatencyFile { format: Some(LatencyFormat::Pairs), ..spec() };
    let notes = |text: &str| read(&spec, text).expect("a valid table").notes().to_vec();
    assert_eq!(
        notes("source,destination,min,avg,max\na,b,1,2,3\n"),
        ["l: further columns have no effect: min, max"]
    );
    assert_eq!(notes("a b 12\nb c 3 0.5\n"), ["l: values after the latency have no effect (1 lines)"]);
    assert!(notes("source,destination,avg\na,b,1\n").is_empty());
}
