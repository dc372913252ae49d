//! `samara mix` as processes over loopback: the commands of the guide, and wrong arguments.

use std::path::Path;
use std::process::Command;

use crate::common::{Scratch, names, text};

/// Returns the shell commands of a section of the guide.
fn commands_of_the_guide() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let guide = std::fs::read_to_string(root.join("docs/guides/mix.md")).unwrap();
    let (_, section) = guide.split_once("## Send a message\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section behind it");
    section.split("```").skip(1).step_by(2).filter_map(|code| code.strip_prefix("sh\n")).collect()
}

/// The guide's pool of three nodes, a message of 2,000 bytes, a receiver that prints, one that is late and
/// has no round to fetch, and one that is somebody else.
#[test]
fn the_commands_of_the_guide_send_a_message() {
    let scratch = Scratch::new("mix-guide");
    let program = Path::new(env!("CARGO_BIN_EXE_samara"));
    // A host of loopback for this process, where the guide's ports are free.
    let id = std::process::id();
    let host = format!("127.{}.{}.{}", 64 + id % 64, id / 64 % 256, 1 + id / 16_384 % 254);
    let guide = commands_of_the_guide().replace("127.0.0.1", &host);
    let script = format!(
        "set -e\n\
         trap 'kill $(jobs -p); wait' EXIT\n\
         {guide}\n\
         samara mix send --to $(cat alice.address) --pool node-0.toml message.txt > again.txt\n\
         samara mix receive --key alice.pem --pool node-0.toml > printed.txt\n\
         samara mix key alice.pem | diff alice.address -\n\
         samara mix key bob.pem > bob.address 2> bob.txt\n\
         status=0\n\
         samara mix receive --key bob.pem --pool pool.toml --patience '1 s' --out bob 2> nothing.txt || status=$?\n\
         echo $status > bob.status\n\
         samara mix receive --key alice.pem --pool pool.toml --from 99999999999999 --patience '1 s' || true\n"
    );
    let path = std::env::join_paths(
        std::iter::once(program.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut command = Command::new("timeout");
    command.args(["300", "bash", "-c", &script]).current_dir(&scratch.0).env("PATH", path.unwrap());
    let output = command.output().unwrap();
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    let logs = || (0..4).map(|n| scratch.read(&format!("{n}.log"))).collect::<String>();
    assert!(output.status.success(), "{shown}{errors}{}", logs());
    let message = scratch.read("message.txt");
    assert_eq!(message.len(), 2_000);
    assert!(shown.starts_with("5 of 5 payloads came out of round "), "{shown}");
    let [name] = &names(&scratch.path("inbox"))[..] else { panic!("{shown}") };
    assert!(shown.contains(&format!("message {name}\ninbox/{name}  2000 bytes\n")), "{shown}");
    assert_eq!(scratch.read(&format!("inbox/{name}")), message);
    assert_eq!(scratch.read("printed.txt"), message);
    assert!(errors.contains("the nodes have all results of the last "), "{errors}");
    assert!(errors.contains("no message for this key: no round has ended"), "{errors}");
    // The second time, it is the same message.
    assert!(scratch.read("again.txt").contains(&format!("message {name}\n")), "{shown}");
    assert!(errors.contains(&format!("message {name} came again in round ")), "{errors}");
    // Nobody else reads it.
    assert_eq!((scratch.read("bob.status"), names(&scratch.path("bob"))), ("3\n".to_owned(), vec![]));
    let nothing = scratch.read("nothing.txt");
    assert!(nothing.contains("no message for this key: rounds "), "{nothing}");
    // No command prints a secret.
    let pem = scratch.read("alice.pem");
    let secret = pem.lines().nth(1).expect("a line of base64");
    for text in [&shown, &errors, &scratch.read("alice.address"), &scratch.read("bob.txt"), &logs()] {
        assert!(!text.contains(&secret[24..]), "{text}");
    }
}

#[test]
fn wrong_arguments_name_the_way_out() {
    let scratch = Scratch::new("mix-wrong");
    let address = scratch.ok(["mix", "key", "key.pem"]);
    let address = address.trim();
    let node = |gateway: &str| {
        let fingerprint = "1".repeat(64);
        format!(
            "[mix]\nnodes = [{{ fingerprint = \"{fingerprint}\", address = \"127.0.0.1:1\"{gateway} }}]\n"
        )
    };
    scratch.write("pool.toml", node(", gateway = \"127.0.0.1:1\""));
    scratch.write("closed.toml", node(""));
    scratch.write("wrong.toml", node("") + "batches = 7\n");
    scratch.write("other.toml", "[pool]\n");
    scratch.write("readable.pem", scratch.read("key.pem"));
    scratch.write("long.bin", vec![0; (2 << 20) + 1]);
    let wrong = format!("{}{}", &address[..55], if address.ends_with('a') { 'b' } else { 'a' });
    let send = |to: &str, pool: &str, more: &str| format!("send --to {to} --pool {pool} {more}");
    let receive = |key: &str, pool: &str| format!("receive --key {key} --pool {pool} --patience 1s");
    for (args, part) in [
        (send("alice", "pool.toml", "key.pem"), "`samara mix key` prints it"),
        (send(&wrong, "pool.toml", "key.pem"), "a letter is wrong"),
        (send(address, "absent.toml", "key.pem"), "absent.toml: cannot read the file"),
        (send(address, "closed.toml", "key.pem"), "closed.toml:2: mix.nodes.0.gateway: found none"),
        (send(address, "wrong.toml", "key.pem"), "wrong.toml:3: mix.batches"),
        (send(address, "other.toml", "key.pem"), "other.toml"),
        (send(address, "pool.toml", "key.pem"), "--team-min: found 3; expected 1 to 1"),
        (send(address, "pool.toml", "absent.txt --team-min 1"), "absent.txt: No such file"),
        (send(address, "pool.toml", "long.bin --team-min 1"), "at most 1789952"),
        (
            receive("absent.pem", "pool.toml"),
            "absent.pem: No such file or directory (os error 2); `samara mix key",
        ),
        (receive("pool.toml", "pool.toml"), "which lets others read it"),
        (receive("readable.pem", "pool.toml"), "which lets others read it"),
        (receive("key.pem", "pool.toml"), "no node of the pool answers: node 0: 127.0.0.1:1: "),
    ] {
        let refused = scratch.refused(std::iter::once("mix").chain(args.split(' ')));
        assert!(refused.contains(part), "{args}: {refused}");
        assert!(!refused.contains("team_min"), "{args}: {refused}");
    }
    // Nothing listens there: the sender gives up, and says why.
    let args = send(address, "pool.toml", "key.pem --team-min 1 --patience 1s");
    let output = scratch.samara(std::iter::once("mix").chain(args.split(' ')));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let errors = text(&output.stderr);
    assert!(errors.contains("no secret shared with node 0: "), "{errors}");
    assert!(errors.contains("no other payload of the message can come out; send the same"), "{errors}");
}
