//! Files to groups over loopback: whole, late, again after a crash, refused and corrupt.

mod ends;

use std::collections::BTreeSet;
use std::fs;
use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use samara_files::{
    Control, FileId, MemberState, ReceiveOptions, Received, Receiving, SendOptions, Sending, Sent,
    TransferError, receive, send,
};
use samara_net::ring::{Event, Group, Options};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Timeout of every wait. A correct test never takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes per second of transfers in the middle of which something happens: they take some seconds.
const RATE: f64 = 3e6;

/// A fresh directory.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory");
    path
}

/// Writes a file that no compression or repetition hides errors in.
fn write_file(path: &Path, bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let contents: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(bytes)
    .collect();
    fs::write(path, &contents).expect("written");
    contents
}

/// Returns a free address of loopback.
fn free_address() -> SocketAddr {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("an address")
}

fn sender(address: SocketAddr, path: &Path, members: usize) -> SendOptions {
    let group = Options::new("files", address);
    SendOptions { group, path: path.to_owned(), members, patience: PATIENCE, rate: None, keeps_on: false }
}

fn receiver(seed: SocketAddr, directory: &Path) -> ReceiveOptions {
    let group = Options::new("files", "127.0.0.1:0".parse().expect("an address")).with_seeds([seed]);
    ReceiveOptions {
        group: group.require_seed(PATIENCE),
        directory: directory.to_owned(),
        overwrites: false,
        keeps_on: false,
        patience: PATIENCE,
    }
}

type Task<T> = JoinHandle<Result<T, TransferError>>;

fn start_send(options: SendOptions) -> Task<Sent> {
    tokio::spawn(async move { send(options, pending(), &mut |_: &Sending| ()).await })
}

fn start_receive(options: ReceiveOptions) -> Task<Received> {
    tokio::spawn(async move { receive(options, pending(), &mut |_: &Receiving| ()).await })
}

/// Waits until the thread of a receiver that was aborted has ended.
async fn unlocked(part: &Path) {
    while fs::File::open(part).is_ok_and(|part| part.try_lock().is_err()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a process could listen on an address again.
async fn free_again(address: SocketAddr) {
    while std::net::TcpListener::bind(address).is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a future that is ready once its other half is used.
fn stop() -> (tokio::sync::oneshot::Sender<()>, impl Future<Output = ()> + Send) {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    (sender, async { _ = receiver.await })
}

async fn end<T>(task: Task<T>) -> T {
    timeout(2 * PATIENCE, task).await.expect("in time").expect("no panic").expect("no error")
}

fn assert_only(directory: &Path, name: &str, contents: &[u8]) {
    let names: Vec<_> = fs::read_dir(directory)
        .expect("readable")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, [name], "nothing else is left");
    assert!(fs::read(directory.join(name)).expect("readable") == contents, "the contents of {name} differ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_gets_the_file() {
    for bytes in [0, 1, 128 << 10, (3 << 20) + 77] {
        let base = directory(&format!("every-{bytes}"));
        let file = base.join("file.bin");
        let contents = write_file(&file, bytes);
        let address = free_address();
        let sending = start_send(sender(address, &file, 3));
        let targets: Vec<PathBuf> = (0..3).map(|number| base.join(format!("to-{number}"))).collect();
        let receiving: Vec<_> =
            targets.iter().map(|target| start_receive(receiver(address, target))).collect();
        for (task, target) in receiving.into_iter().zip(&targets) {
            let received = end(task).await;
            assert!(received.is_complete(), "{received:?}");
            assert_eq!(received.files[0].bytes, bytes as u64);
            assert_only(target, "file.bin", &contents);
        }
        let sent = end(sending).await;
        assert!(sent.is_complete, "{sent:?}");
        assert_eq!(sent.digest, Some(blake3::hash(&contents).to_hex().to_string()));
        assert!(sent.last.members.values().all(|state| *state == MemberState::Done), "{sent:?}");
        assert_eq!(sent.last.sent_bytes, bytes as u64, "each byte once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_late_gets_what_it_missed() {
    let base = directory("late");
    let file = base.join("file.bin");
    let contents = write_file(&file, 8 << 20);
    let address = free_address();
    let (begun, mut begins) = tokio::sync::watch::channel(0);
    let options = SendOptions { rate: Some(RATE), ..sender(address, &file, 2) };
    let sending = tokio::spawn(async move {
        send(options, pending(), &mut |report: &Sending| _ = begun.send(report.sent_bytes)).await
    });
    let first = start_receive(receiver(address, &base.join("first")));
    let second = start_receive(receiver(address, &base.join("second")));
    begins.wait_for(|sent| *sent > 1 << 20).await.expect("the sender begins");
    let late = start_receive(receiver(address, &base.join("late")));
    for (task, target) in [(first, "first"), (second, "second"), (late, "late")] {
        assert!(end(task).await.is_complete());
        assert_only(&base.join(target), "file.bin", &contents);
    }
    assert_eq!(end(sending).await.last.members.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_waits_as_long_as_its_sender_is_there() {
    let base = directory("waits");
    let file = base.join("file.bin");
    let contents = write_file(&file, 1 << 20);
    let address = free_address();
    let sending = start_send(sender(address, &file, 2));
    let impatient =
        ReceiveOptions { patience: Duration::from_secs(2), ..receiver(address, &base.join("first")) };
    let (told, mut tells) = tokio::sync::watch::channel(None);
    let first = tokio::spawn(async move {
        let mut report = |report: &Receiving| _ = told.send_replace(report.waits_for);
        receive(impatient, pending(), &mut report).await
    });
    let waits = tells.wait_for(|waits| *waits == Some((1, 2)));
    timeout(PATIENCE, waits).await.expect("it says that the sender waits").expect("the receiver runs");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let second = start_receive(receiver(address, &base.join("second")));
    for (task, target) in [(first, "first"), (second, "second")] {
        assert!(end(task).await.is_complete());
        assert_only(&base.join(target), "file.bin", &contents);
    }
    assert!(end(sending).await.is_complete);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_died_resumes() {
    let base = directory("resume");
    let (file, target) = (base.join("file.bin"), base.join("to"));
    let contents = write_file(&file, 8 << 20);
    let address = free_address();
    let sending = start_send(SendOptions { rate: Some(RATE), ..sender(address, &file, 1) });
    let options = receiver(address, &target);
    let (wrote, mut writes) = tokio::sync::watch::channel(0);
    let dying = tokio::spawn(async move {
        receive(options, pending(), &mut |report: &Receiving| _ = wrote.send(report.bytes)).await
    });
    writes.wait_for(|bytes| *bytes > 1 << 20).await.expect("the receiver writes");
    dying.abort();
    let _ = dying.await;
    unlocked(&target.join(".file.bin.part")).await;
    let again = end(start_receive(receiver(address, &target))).await;
    assert!(again.is_complete(), "{again:?}");
    assert!(again.files[0].had_bytes > 1 << 20, "it kept what it had: {again:?}");
    assert_only(&target, "file.bin", &contents);
    assert!(end(sending).await.is_complete);
}

/// A process without a processor is silent, and the others remove it. It lives, so it asks for what it
/// has missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_was_removed_by_mistake_goes_on() {
    let base = directory("removed");
    let file = base.join("file.bin");
    let contents = write_file(&file, 32 << 20);
    let address = free_address();
    let (left, was_left) = tokio::sync::watch::channel(false);
    let options = SendOptions { rate: Some(RATE), ..sender(address, &file, 2) };
    let sending = tokio::spawn(async move {
        let is_left = |report: &Sending| report.members.values().any(|state| *state == MemberState::Left);
        send(options, pending(), &mut |report: &Sending| {
            _ = left.send_if_modified(|was| {
                *was |= is_left(report);
                *was
            })
        })
        .await
    });
    let other = start_receive(receiver(address, &base.join("other")));
    let options = receiver(address, &base.join("silent"));
    // One thread for all of the member, which the report holds up until the others have removed it.
    let silent = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(receive(options, pending(), &mut |report: &Receiving| {
            let begun = std::time::Instant::now();
            while report.bytes > 1 << 20 && !*was_left.borrow() && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(10));
            }
        }))
    });
    assert!(end(silent).await.is_complete());
    assert!(end(other).await.is_complete());
    assert!(end(sending).await.is_complete);
    for name in ["silent", "other"] {
        assert_only(&base.join(name), "file.bin", &contents);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_died_goes_on() {
    let base = directory("sender-died");
    let file = base.join("file.bin");
    let contents = write_file(&file, 16 << 20);
    let address = free_address();
    let options = || SendOptions { rate: Some(RATE), ..sender(address, &file, 2) };
    let (begun, mut begins) = tokio::sync::watch::channel(0);
    let first = options();
    let dying = tokio::spawn(async move {
        send(first, pending(), &mut |report: &Sending| {
            _ = begun.send(report.slowest().map_or(0, |(_, bytes)| bytes))
        })
        .await
    });
    let receiving = ["one", "two"].map(|name| start_receive(receiver(address, &base.join(name))));
    begins.wait_for(|bytes| *bytes > 1 << 20).await.expect("the receivers write");
    dying.abort();
    free_again(address).await;
    let sent = end(start_send(options())).await;
    assert!(sent.is_complete, "{sent:?}");
    assert!(sent.last.sent_bytes < 15 << 20, "the receivers kept what they had: {sent:?}");
    for (task, name) in receiving.into_iter().zip(["one", "two"]) {
        assert!(end(task).await.is_complete());
        assert_only(&base.join(name), "file.bin", &contents);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_a_receiver_remembers_are_bounded() {
    const ROUNDS: u64 = 140;
    const AT_A_TIME: u64 = 8;
    let base = directory("known");
    let name = |number: u64| format!("file-{number}");
    let digests: Vec<String> = (0..AT_A_TIME)
        .map(|number| blake3::hash(&write_file(&base.join(name(number)), 3)).to_hex().to_string())
        .collect();
    let address = free_address();
    let (group, mut events) = Group::join(Options::new("files", address)).await.expect("a group");
    let receiving = start_receive(receiver(address, &base));
    let view = async {
        while !matches!(events.next().await.expect("an event"), Event::View(view) if view.len() == 2) {}
    };
    timeout(PATIENCE, view).await.expect("the receiver joins");
    for round in 0..ROUNDS {
        let mut wanted = BTreeSet::new();
        for number in 0..AT_A_TIME {
            let file = FileId(AT_A_TIME * round + number);
            let offer = Control::Offer { file, name: name(number), size: 3 };
            for control in [offer, Control::Digest { file, digest: digests[number as usize].clone() }] {
                group.broadcast(control.write()).await.expect("broadcast");
            }
            wanted.insert(Control::Done { file }.write());
        }
        let answers = async {
            while !wanted.is_empty() {
                if let Event::Delivered { payload, .. } = events.next().await.expect("an event") {
                    wanted.remove(&payload.to_bytes());
                }
            }
        };
        timeout(PATIENCE, answers).await.expect("the receiver has the files");
    }
    drop((group, events));
    let received = end(receiving).await;
    assert_eq!((received.files.len(), received.forgotten), (1024, 96));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_there_is_not_sent_again() {
    let base = directory("present");
    let (file, target) = (base.join("file.bin"), base.join("to"));
    let contents = write_file(&file, 1 << 20);
    fs::create_dir(&target).expect("a directory");
    fs::write(target.join("file.bin"), &contents).expect("written");
    let address = free_address();
    let sending = start_send(sender(address, &file, 1));
    assert!(end(start_receive(receiver(address, &target))).await.is_complete());
    let sent = end(sending).await;
    assert_eq!((sent.is_complete, sent.last.sent_bytes), (true, 0));
    assert_only(&target, "file.bin", &contents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_contents_are_kept_unless_they_may_be_overwritten() {
    for (name, other) in [("length", 5), ("contents", 1 << 20)] {
        let base = directory(&format!("other-{name}"));
        let (file, target) = (base.join("file.bin"), base.join("to"));
        let contents = write_file(&file, 1 << 20);
        fs::create_dir(&target).expect("a directory");
        let own = vec![7; other];
        fs::write(target.join("file.bin"), &own).expect("written");
        let address = free_address();
        let sending =
            start_send(SendOptions { patience: Duration::from_secs(2), ..sender(address, &file, 1) });
        let refused = end(start_receive(receiver(address, &target))).await;
        assert!(
            !refused.is_complete() && refused.files[0].failure.as_ref().unwrap().contains("other contents")
        );
        assert!(!end(sending).await.is_complete);
        assert_only(&target, "file.bin", &own);

        let address = free_address();
        let sending = start_send(sender(address, &file, 1));
        let options = ReceiveOptions { overwrites: true, ..receiver(address, &target) };
        assert!(end(start_receive(options)).await.is_complete());
        assert!(end(sending).await.is_complete);
        assert_only(&target, "file.bin", &contents);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_refuses_holds_up_nobody() {
    let base = directory("refuses");
    let (file, other) = (base.join("file.bin"), base.join("to-other"));
    let contents = write_file(&file, 1 << 20);
    fs::create_dir(&other).expect("a directory");
    fs::write(other.join("file.bin"), "something else").expect("written");
    let address = free_address();
    // Longer than the test: nothing may wait for it.
    let sending = start_send(SendOptions { patience: 10 * PATIENCE, ..sender(address, &file, 3) });
    let willing: Vec<PathBuf> = (0..2).map(|number| base.join(format!("to-{number}"))).collect();
    let receiving: Vec<_> = willing.iter().map(|target| start_receive(receiver(address, target))).collect();
    let refusing = start_receive(receiver(address, &other));
    for (task, target) in receiving.into_iter().zip(&willing) {
        assert!(end(task).await.is_complete());
        assert_only(target, "file.bin", &contents);
    }
    assert!(!end(refusing).await.is_complete());
    let sent = end(sending).await;
    assert_eq!((sent.is_complete, sent.last.done), (false, 2), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_its_journal_misdescribes_begins_again() {
    let base = directory("corrupt");
    let (file, target) = (base.join("file.bin"), base.join("to"));
    let contents = write_file(&file, 2 << 20);
    fs::create_dir(&target).expect("a directory");
    let address = free_address();
    let sending = start_send(SendOptions { rate: Some(RATE / 4.0), ..sender(address, &file, 1) });
    // A first receiver leaves its journal, which then claims zeros.
    let options = receiver(address, &target);
    let dying = tokio::spawn(async move { receive(options, pending(), &mut |_: &Receiving| ()).await });
    let journal = target.join(".file.bin.journal");
    while !journal.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    dying.abort();
    let _ = dying.await;
    // Its thread writes the journal once more when it ends.
    unlocked(&target.join(".file.bin.part")).await;
    let text = fs::read_to_string(&journal).expect("readable");
    let mut claimed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    claimed["present"] = serde_json::json!([[0, 2 << 20]]);
    fs::write(target.join(".file.bin.part"), vec![0; 2 << 20]).expect("written");
    fs::write(&journal, claimed.to_string()).expect("written");
    let received = end(start_receive(receiver(address, &target))).await;
    assert!(received.is_complete() && received.files[0].corrupt == 1, "the receiver says it: {received:?}");
    let sent = end(sending).await;
    assert!(sent.is_complete);
    assert_eq!(sent.last.corrupt.into_values().collect::<Vec<_>>(), [1], "and the sender");
    assert_only(&target, "file.bin", &contents);
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_anybody_joins() {
    let base = directory("unfit");
    let hidden = base.join(".hidden");
    fs::write(&hidden, b"x").expect("written");
    for (path, part) in [
        (base.clone(), "no plain file"),
        (base.join("absent"), "No such file"),
        (hidden, "begins with a full stop"),
    ] {
        let error =
            send(sender(free_address(), &path, 1), pending(), &mut |_: &Sending| ()).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_is_an_error() {
    let base = directory("changed");
    let file = base.join("file.bin");
    write_file(&file, 1 << 20);
    let address = free_address();
    let sending = start_send(sender(address, &file, 2));
    let first = start_receive(receiver(address, &base.join("first")));
    // The sender has read it once and waits for the second receiver.
    tokio::time::sleep(Duration::from_millis(500)).await;
    write_file(&file, 1 << 19);
    let second = start_receive(receiver(address, &base.join("second")));
    let error = timeout(2 * PATIENCE, sending).await.expect("in time").expect("no panic").unwrap_err();
    assert!(matches!(error, TransferError::Changed { .. } | TransferError::File { .. }), "{error}");
    for task in [first, second] {
        assert!(!end(task).await.is_complete());
    }
}
