//! `samara group` as processes over loopback.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Scratch, names, text};

/// Returns a free address of loopback.
fn free_address() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("an address").to_string()
}

fn start(scratch: &Scratch, args: &[&str]) -> Child {
    let mut command = scratch.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("samara starts")
}

fn end(child: Child) -> Output {
    child.wait_with_output().expect("samara ends")
}

/// Waits until something listens on an address.
fn wait_for(address: &str) {
    while TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
}

#[test]
fn a_file_reaches_two_receivers_by_a_command() {
    let scratch = Scratch::new("group-files");
    scratch.write("file.bin", vec![7; 3 << 20]);
    scratch.write("secret", "0123456789abcdef\n");
    let address = free_address();
    let all = ["--secret", "secret", "--patience", "30 s"];
    let sender = start(
        &scratch,
        &[&["group", "send", "file.bin", "--listen", &address, "--members", "2"], &all[..]].concat(),
    );
    let receivers = ["one", "two"].map(|directory| {
        let args = ["group", "receive", directory, "--listen", "127.0.0.1:0", "--seed", &address];
        start(&scratch, &[&args[..], &all[..]].concat())
    });
    for (receiver, directory) in receivers.into_iter().zip(["one", "two"]) {
        let output = end(receiver);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), format!("{directory}/file.bin  3.15 MB, verified\n"));
        assert_eq!(names(&scratch.path(directory)), ["file.bin"]);
        assert!(std::fs::read(scratch.path(directory).join("file.bin")).unwrap() == vec![7; 3 << 20]);
    }
    let output = end(sender);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.starts_with("2 of 2 receivers have the file: 3.15 MB in "), "{shown}");
    assert_eq!(shown.matches("  has it\n").count(), 2, "{shown}");
    assert!(
        shown.lines().last().is_some_and(|line| line.starts_with("blake3 ") && line.len() == 71),
        "{shown}"
    );
}

#[test]
fn a_sender_that_misses_receivers_says_which() {
    let scratch = Scratch::new("group-missing");
    scratch.write("file.bin", vec![7; 1 << 20]);
    std::fs::create_dir(scratch.path("to")).unwrap();
    scratch.write("to/file.bin", "other contents");
    let address = free_address();
    let sender = start(&scratch, &["group", "send", "file.bin", "--listen", &address, "--patience", "2 s"]);
    let args = ["group", "receive", "to", "--listen", "127.0.0.1:0", "--seed", &address];
    let receiver = end(start(&scratch, &args));
    assert_eq!(receiver.status.code(), Some(3), "{}", text(&receiver.stderr));
    assert!(text(&receiver.stdout).contains("exists with other contents"), "{}", text(&receiver.stdout));
    let output = end(sender);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("0 of 1 receivers") && shown.contains("does not take it"), "{shown}");
    assert_eq!(scratch.read("to/file.bin"), "other contents");
}

#[test]
fn wrong_arguments_name_the_way_out() {
    let scratch = Scratch::new("group-wrong");
    scratch.write("file.bin", "x");
    scratch.write("short", "abc");
    for (args, part) in [
        (vec!["send", "absent", "--listen", "127.0.0.1:0"], "absent: No such file"),
        (vec!["send", ".", "--listen", "127.0.0.1:0"], "no plain file"),
        (vec!["send", "file.bin", "--listen", "localhost:7800"], "for example 192.0.2.1:7800"),
        (
            vec!["send", "file.bin", "--listen", "127.0.0.1:0", "--seed", "host.invalid:1"],
            "--seed host.invalid:1: ",
        ),
        (vec!["send", "file.bin", "--listen", "127.0.0.1:0", "--secret", "none"], "none: No such file"),
        (vec!["send", "file.bin", "--listen", "127.0.0.1:0", "--secret", "short"], "16"),
        (vec!["receive", "to", "--listen", "127.0.0.1:0"], "required arguments were not provided:\n  --seed"),
        (vec!["receive", "short", "--listen", "127.0.0.1:0", "--seed", "127.0.0.1:1"], "no directory"),
        (vec!["receive", "absent/to", "--listen", "127.0.0.1:0", "--seed", "127.0.0.1:1"], "create it first"),
    ] {
        let refused = scratch.refused([&["group"], &args[..]].concat());
        assert!(refused.contains(part), "{args:?}: {refused}");
        assert!(!refused.contains("require_seed") && !refused.contains("`advertise`"), "{args:?}: {refused}");
    }
}

#[test]
fn a_group_that_is_not_there_has_a_status_of_its_own() {
    let scratch = Scratch::new("group-none");
    scratch.write("file.bin", "x");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    for (args, part) in [
        (vec!["send", "file.bin", "--listen", &taken], &*taken),
        (
            vec!["receive", "to", "--listen", "127.0.0.1:0", "--seed", "127.0.0.1:1", "--patience", "1 s"],
            "no seed answered within 1s: 127.0.0.1:1",
        ),
    ] {
        let output = scratch.samara([&["group"], &args[..]].concat());
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{args:?}: {shown}");
        assert!(shown.contains(part), "{args:?}: {shown}");
        assert!(args[0] == "send" || !shown.contains("found the group"), "{args:?}: {shown}");
        assert!(!shown.contains("require_seed") && !shown.contains("`advertise`"), "{args:?}: {shown}");
    }
}

#[test]
fn interrupted_transfers_say_how_to_go_on() {
    let scratch = Scratch::new("group-interrupted");
    scratch.write("file.bin", vec![7; 1 << 20]);
    let address = free_address();
    let sender = start(&scratch, &["group", "send", "file.bin", "--listen", &address, "--rate", "80 kbit/s"]);
    wait_for(&address);
    let args = ["group", "receive", "to", "--listen", "127.0.0.1:0", "--seed", &address];
    let receiver = start(&scratch, &args);
    while !scratch.path("to/.file.bin.part").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupt(&receiver);
    let output = end(receiver);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("interrupted; what has come is kept, and the same"), "{shown}");
    interrupt(&sender);
    let output = end(sender);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{shown}{}", text(&output.stderr));
    let expected = "0 of 1 receivers have the file: interrupted; the same command again sends the";
    assert!(shown.starts_with(expected), "{shown}");
}

#[test]
fn an_interrupt_does_not_wait_for_the_digest_of_a_long_file() {
    let scratch = Scratch::new("group-long");
    // Its digest takes many minutes.
    let file = std::fs::File::create(scratch.path("long.bin")).expect("created");
    file.set_len(1 << 40).expect("a file with a hole");
    let address = free_address();
    let mut sender = start(&scratch, &["group", "send", "long.bin", "--listen", &address]);
    let mut first = String::new();
    let stderr = sender.stderr.take().expect("a pipe");
    BufReader::new(stderr).read_line(&mut first).expect("it has joined");
    assert_eq!(first, "waiting for receivers: 0 of 1\n");
    interrupt(&sender);
    let output = end(sender);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{shown}");
    assert!(shown.starts_with("0 of 1 receivers") && !shown.contains("blake3"), "{shown}");
}

#[test]
fn a_sender_stays_for_later_receivers() {
    let scratch = Scratch::new("group-stays");
    scratch.write("file.bin", vec![7; 1 << 20]);
    let address = free_address();
    let sender = start(&scratch, &["group", "send", "file.bin", "--listen", &address, "--keep-on"]);
    wait_for(&address);
    let port = address.rsplit(':').next().expect("a port");
    for directory in ["one", "two"] {
        let seed = format!("localhost:{port}");
        let args = ["group", "receive", directory, "--listen", "127.0.0.1:0", "--seed", &seed];
        assert_eq!(scratch.ok(args), format!("{directory}/file.bin  1.05 MB, verified\n"));
    }
    interrupt(&sender);
    let output = end(sender);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.starts_with("2 of 2 receivers have the file: "), "{shown}");
}

#[test]
fn a_sender_says_that_it_refused_a_node() {
    let scratch = Scratch::new("group-refused");
    scratch.write("file.bin", "x");
    scratch.write("secret", "0123456789abcdef");
    scratch.write("other", "fedcba9876543210");
    let address = free_address();
    let args = ["group", "send", "file.bin", "--listen", &address, "--secret", "secret"];
    let sender = start(&scratch, &args);
    wait_for(&address);
    let args = ["group", "receive", "to", "--listen", "127.0.0.1:0", "--seed", &address];
    let output = scratch.samara([&args[..], &["--secret", "other", "--patience", "3 s"]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    interrupt(&sender);
    let output = end(sender);
    let shown = text(&output.stderr);
    assert!(shown.contains("refused a node of 127.0.0.1: it has another secret or group name"), "{shown}");
}
