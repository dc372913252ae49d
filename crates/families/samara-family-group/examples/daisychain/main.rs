//! Compares samara-ring with JGroups 5.5, with and without DAISYCHAIN: throughput, processor time,
//! latency, the gap after a crash, and completeness of a leaver's messages.
//!
//! `cargo run --release -p samara-family-group --example daisychain -- [CASE...]
//! [--quick] [--alone] [--launches N] [--json FILE] [--congestion NAME]`
//!
//! A case is `loopback`, `shaped`, `shaped-8` (the ring without JGroups, with eight members),
//! `crash`, `leave` or `protection` (the ring without authentication, with a secret, and with
//! certificates, in turn). Without a case, all but `protection` run. `--alone` omits JGroups everywhere. The example
//! also simulates the throughput of our shaped groups.
//!
//! Every member is a process of its own. The shaped network has a namespace for each member, with
//! an uplink of 100 Mbit/s. It requires root; without root the example skips it. JGroups requires
//! Java and Maven (`interop/java`); without them the example skips JGroups, or fails if
//! `SAMARA_REQUIRE_PEERS` is set.
//!
//! See docs/guides/groups.md.

mod cluster;
#[path = "../../../../worlds/samara-libp2p/examples/throughput/histogram.rs"]
mod histogram;
mod measure;
mod member;
mod network;
mod node;
#[path = "../../../../worlds/samara-libp2p/examples/throughput/process.rs"]
mod process;
mod protection;
mod report;
mod simulated;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::measure::{Measuring, Plan};
use crate::network::Network;
use crate::node::Implementation;

pub(crate) type Anyhow<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CASES: [&str; 6] = ["loopback", "shaped", "shaped-8", "crash", "leave", "protection"];
const USAGE: &str = "expected: [loopback|shaped|shaped-8|crash|leave|protection]... [--quick] [--alone] [--launches N] [--json FILE] [--congestion NAME]";

/// The arguments of the command line.
#[derive(Default)]
struct Arguments {
    cases: Vec<String>,
    is_quick: bool,
    is_alone: bool,
    launches: Option<usize>,
    json: Option<PathBuf>,
    congestion: Option<String>,
}

impl Arguments {
    fn parse(words: &[String]) -> Anyhow<Self> {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => arguments.is_quick = true,
                "--alone" => arguments.is_alone = true,
                "--launches" => arguments.launches = Some(words.next().ok_or(USAGE)?.parse()?),
                "--json" => arguments.json = Some(words.next().ok_or(USAGE)?.into()),
                "--congestion" => arguments.congestion = Some(words.next().ok_or(USAGE)?.clone()),
                case if CASES.contains(&case) => arguments.cases.push(case.to_owned()),
                _ => return Err(format!("found {word:?}; {USAGE}").into()),
            }
        }
        if arguments.cases.is_empty() {
            arguments.cases = CASES[..5].iter().map(|case| (*case).to_owned()).collect();
        }
        Ok(arguments)
    }

    fn wants(&self, case: &str) -> bool {
        self.cases.iter().any(|wanted| wanted == case)
    }
}

fn main() -> Anyhow<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, protection, index, members @ ..] = &words[..]
        && mode == "member"
    {
        let members = members.iter().map(|member| member.parse()).collect::<Result<Vec<_>, _>>()?;
        let index = index.parse()?;
        return member::run(index, &members, protection::authentication(protection, index, &members)?);
    }
    compare(&Arguments::parse(&words)?)
}

fn compare(arguments: &Arguments) -> Anyhow<()> {
    if arguments.wants("protection") {
        let rounds = arguments.launches.unwrap_or(5);
        let scale = if arguments.is_quick { 10 } else { 1 };
        protection::compare(&Network::Loopback, rounds, 40_000 / scale)?;
        match network::missing() {
            None => protection::compare(&Network::shaped(4, None)?, rounds, 8_000 / scale)?,
            Some(missing) => println!("The shaped network is SKIPPED: {missing}."),
        }
    }
    if arguments.cases == ["protection"] {
        return Ok(());
    }
    let implementations = implementations(arguments.is_alone)?;
    let mut plan = if arguments.is_quick { Plan::QUICK } else { Plan::FULL };
    plan.launches = arguments.launches.unwrap_or(plan.launches);
    let mut measuring = Measuring::new(implementations, plan);
    let done = measure_all(arguments, &mut measuring);
    // Measurements made before a failure are still valid.
    println!("{}", measuring.report);
    if let Some(path) = &arguments.json {
        let conditions = json!({
            "message_bytes": measure::BYTES,
            "congestion_control": network::congestion(arguments.congestion.as_deref()),
            "uplink": "tbf rate 100mbit burst 64kb latency 50ms",
            "mtu": 1500,
            "jgroups": "5.5.7.Final, tcp.xml as shipped, -Xms256m -Xmx256m -XX:+UseParallelGC",
            "load_average": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
            "quick": arguments.is_quick,
        });
        std::fs::write(path, serde_json::to_string_pretty(&measuring.report.json(conditions))? + "\n")?;
        println!("written: {}", path.display());
    }
    done?;
    measuring.check()
}

fn measure_all(arguments: &Arguments, measuring: &mut Measuring) -> Anyhow<()> {
    let loopback = Network::Loopback;
    if arguments.wants("loopback") {
        measuring.throughput(&loopback, 4, false)?;
    }
    if arguments.wants("crash") {
        measuring.crashes(&loopback)?;
    }
    if arguments.wants("leave") {
        measuring.leaves(&loopback)?;
    }
    if let Some(missing) = network::missing() {
        println!("The shaped network is SKIPPED: {missing}.");
        return Ok(());
    }
    let congestion = arguments.congestion.as_deref();
    println!("shaped: 100 Mbit/s uplinks, congestion control {}", network::congestion(congestion));
    if arguments.wants("shaped") || arguments.wants("crash") || arguments.wants("leave") {
        let shaped = Network::shaped(4, congestion)?;
        if arguments.wants("shaped") {
            measuring.throughput(&shaped, 4, false)?;
        }
        // Quick runs skip these: the shape of the network changes the results little.
        if arguments.wants("crash") && !arguments.is_quick {
            measuring.crashes(&shaped)?;
        }
        if arguments.wants("leave") && !arguments.is_quick {
            measuring.leaves(&shaped)?;
        }
    }
    if arguments.wants("shaped-8") {
        measuring.throughput(&Network::shaped(8, congestion)?, 8, true)?;
    }
    Ok(())
}

fn implementations(is_alone: bool) -> Anyhow<Vec<Implementation>> {
    let this = std::env::current_exe()?;
    let arguments = vec!["member".into(), "none".into()];
    let mut all = vec![Implementation { name: "samara-ring", program: this.into(), arguments }];
    if is_alone {
        return Ok(all);
    }
    let is_there = |program: &str| {
        let mut command = Command::new(program);
        command.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !is_there("java") || !is_there("mvn") {
        if std::env::var_os("SAMARA_REQUIRE_PEERS").is_some() {
            return Err("SAMARA_REQUIRE_PEERS is set, but Java or Maven is missing; install both".into());
        }
        println!("Java or Maven is missing, so JGroups is SKIPPED.");
        return Ok(all);
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../interop/java");
    let built = Command::new("mvn").args(["-q", "-B", "compile"]).current_dir(&source).status()?;
    if !built.success() {
        return Err("interop/java does not build: see above".into());
    }
    let target = source.join("target");
    let mut class_path = target.join("classes").into_os_string();
    class_path.push(":");
    class_path.push(target.join("lib").join("*"));
    for (name, stack) in [("JGroups TCP", "tcp"), ("JGroups DAISYCHAIN", "daisychain")] {
        let mut arguments: Vec<OsString> =
            ["-Xms256m", "-Xmx256m", "-XX:+UseParallelGC", "-cp"].map(OsString::from).into();
        arguments.extend([class_path.clone(), "samara.Member".into(), stack.into()]);
        all.push(Implementation { name, program: "java".into(), arguments });
    }
    Ok(all)
}
