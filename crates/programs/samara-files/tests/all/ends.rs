//! Transfers that end early and go on, and members that are not receivers.

use samara_net::ring::Secret;

use super::*;

/// A sender that reports how many receivers have the file, and the bytes of the slowest other one.
fn start_watched(options: SendOptions) -> (Task<Sent>, tokio::sync::watch::Receiver<(usize, u64)>) {
    let (told, tells) = tokio::sync::watch::channel((0, 0));
    let sending = tokio::spawn(async move {
        let mut report = |report: &Sending| {
            let slowest = report.slowest().map_or(0, |(_, bytes)| bytes);
            told.send_replace((report.done, slowest));
        };
        send(options, pending(), &mut report).await
    });
    (sending, tells)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_starts_again_counts_those_that_have_the_file() {
    let base = directory("receipts");
    let file = base.join("from").join("file.bin");
    fs::create_dir(base.join("from")).expect("a directory");
    let contents = write_file(&file, 16 << 20);
    // The first receiver has the file, and ends with its sender.
    fs::create_dir(base.join("has")).expect("a directory");
    fs::write(base.join("has/file.bin"), &contents).expect("written");
    let address = free_address();
    let options = || SendOptions { rate: Some(RATE), ..sender(address, &file, 2) };
    let (dying, mut tells) = start_watched(options());
    let has = start_receive(receiver(address, &base.join("has")));
    let gets = start_receive(receiver(address, &base.join("gets")));
    let is_between = |(done, slowest): &(usize, u64)| *done == 1 && *slowest > 1 << 20;
    timeout(PATIENCE, tells.wait_for(is_between)).await.expect("in time").expect("the sender runs");
    dying.abort();
    let _ = dying.await;
    assert!(end(has).await.is_complete(), "one with the file needs no sender");
    assert!(base.join("from/.file.bin.receipts").exists());
    free_again(address).await;
    let sent = end(start_send(options())).await;
    assert_eq!((sent.is_complete, sent.last.done), (true, 2), "{sent:?}");
    assert!(end(gets).await.is_complete());
    assert_only(&base.join("gets"), "file.bin", &contents);
    assert_only(&base.join("from"), "file.bin", &contents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mended_receiver_gets_the_file_by_the_same_command() {
    let base = directory("mended");
    let (file, refuses) = (base.join("file.bin"), base.join("refuses"));
    let contents = write_file(&file, 1 << 20);
    fs::create_dir(&refuses).expect("a directory");
    fs::write(refuses.join("file.bin"), "something else").expect("written");
    let address = free_address();
    let sending = start_send(sender(address, &file, 2));
    let has = start_receive(receiver(address, &base.join("has")));
    assert!(!end(start_receive(receiver(address, &refuses))).await.is_complete());
    assert!(end(has).await.is_complete());
    assert!(!end(sending).await.is_complete);
    fs::remove_file(refuses.join("file.bin")).expect("mended");
    let sending = start_send(sender(address, &file, 2));
    assert!(end(start_receive(receiver(address, &refuses))).await.is_complete());
    let sent = end(sending).await;
    assert_eq!((sent.is_complete, sent.last.done), (true, 2), "{sent:?}");
    assert_only(&refuses, "file.bin", &contents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_sends_is_no_receiver() {
    let base = directory("two-senders");
    for same_name in [false, true] {
        let base = base.join(same_name.to_string());
        fs::create_dir_all(base.join("other")).expect("a directory");
        let file = base.join("file.bin");
        let contents = write_file(&file, 1 << 20);
        let other = base.join("other").join(if same_name { "file.bin" } else { "two.bin" });
        write_file(&other, 1 << 19);
        let address = free_address();
        let patience = Duration::from_secs(2);
        let sending = start_send(SendOptions { patience, ..sender(address, &file, 2) });
        let (told, mut tells) = tokio::sync::watch::channel(false);
        let options = receiver(address, &base.join("first"));
        let first = tokio::spawn(async move {
            receive(options, pending(), &mut |_: &Receiving| _ = told.send_replace(true)).await
        });
        let is_offered = tells.wait_for(|is_offered| *is_offered);
        timeout(PATIENCE, is_offered).await.expect("in time").expect("the receiver runs");
        let second_sender = SendOptions {
            group: Options::new("files", "127.0.0.1:0".parse().expect("an address")).with_seeds([address]),
            ..sender(address, &other, 1)
        };
        let refused = end(start_send(second_sender)).await;
        let MemberState::Failed(cause) = refused.last.members.values().next().expect("one receiver") else {
            panic!("{refused:?}");
        };
        let expected = format!("takes the file of {address} only (file.bin)");
        assert!(cause.contains(&expected), "{cause}");
        // Longer than the patience of the first sender, which runs from its start.
        tokio::time::sleep(2 * patience).await;
        let second = start_receive(receiver(address, &base.join("second")));
        for (task, name) in [(first, "first"), (second, "second")] {
            let received = end(task).await;
            assert!(received.is_complete(), "another sender is no failure: {received:?}");
            assert_only(&base.join(name), "file.bin", &contents);
        }
        let sent = end(sending).await;
        assert_eq!((sent.is_complete, sent.last.members.len()), (true, 2), "{sent:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_was_stopped_is_missed_and_goes_on() {
    let base = directory("stopped-sender");
    let file = base.join("file.bin");
    let contents = write_file(&file, 12 << 20);
    let address = free_address();
    let options = || SendOptions { rate: Some(RATE), ..sender(address, &file, 1) };
    let (stops, stopped) = stop();
    let first = options();
    let sending = tokio::spawn(async move { send(first, stopped, &mut |_: &Sending| ()).await });
    let (told, mut tells) = tokio::sync::watch::channel((0, None));
    let options_of_receiver = receiver(address, &base.join("to"));
    let receiving = tokio::spawn(async move {
        let mut report = |report: &Receiving| _ = told.send_replace((report.bytes, report.sender_gone));
        receive(options_of_receiver, pending(), &mut report).await
    });
    let some = tells.wait_for(|(bytes, _)| *bytes > 1 << 20);
    timeout(PATIENCE, some).await.expect("in time").expect("the receiver runs");
    stops.send(()).expect("the sender runs");
    let sent = end(sending).await;
    assert!(sent.is_stopped && !sent.is_complete, "{sent:?}");
    let gone = tells.wait_for(|(_, gone)| gone.is_some());
    timeout(PATIENCE, gone).await.expect("the receiver says it").expect("the receiver runs");
    free_again(address).await;
    let sending = start_send(options());
    let back = tells.wait_for(|(_, gone)| gone.is_none());
    timeout(PATIENCE, back).await.expect("the sender is back").expect("the receiver runs");
    assert!(end(receiving).await.is_complete());
    assert!(end(sending).await.is_complete);
    assert_only(&base.join("to"), "file.bin", &contents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_was_stopped_keeps_all_that_came() {
    let base = directory("stopped-receiver");
    let (file, target) = (base.join("file.bin"), base.join("to"));
    let contents = write_file(&file, 8 << 20);
    let address = free_address();
    let sending = start_send(SendOptions { rate: Some(RATE), ..sender(address, &file, 1) });
    let (stops, stopped) = stop();
    let options = receiver(address, &target);
    let (told, mut tells) = tokio::sync::watch::channel(0);
    let receiving = tokio::spawn(async move {
        receive(options, stopped, &mut |report: &Receiving| _ = told.send_replace(report.bytes)).await
    });
    let some = tells.wait_for(|bytes| *bytes > 1 << 20);
    timeout(PATIENCE, some).await.expect("in time").expect("the receiver runs");
    // The journal is a second behind; what came since counts, too.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let reported = *tells.borrow();
    stops.send(()).expect("the receiver runs");
    let received = end(receiving).await;
    assert!(received.is_stopped && !received.is_complete(), "{received:?}");
    assert!(received.files[0].bytes > reported, "{received:?} after {reported}");
    let again = end(start_receive(receiver(address, &target))).await;
    assert!(again.is_complete(), "{again:?}");
    assert_eq!(again.files[0].had_bytes, received.files[0].bytes);
    assert!(end(sending).await.is_complete);
    assert_only(&target, "file.bin", &contents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_stays_serves_later_receivers() {
    let base = directory("stays");
    let file = base.join("file.bin");
    let contents = write_file(&file, 1 << 20);
    let address = free_address();
    let (stops, stopped) = stop();
    let patience = Duration::from_secs(1);
    let options = SendOptions { keeps_on: true, patience, ..sender(address, &file, 1) };
    let sending = tokio::spawn(async move { send(options, stopped, &mut |_: &Sending| ()).await });
    for name in ["first", "second"] {
        let target = base.join(name);
        assert!(end(start_receive(receiver(address, &target))).await.is_complete(), "it ends with the file");
        assert_only(&target, "file.bin", &contents);
        // Longer than the patience.
        tokio::time::sleep(2 * patience).await;
    }
    stops.send(()).expect("the sender stays");
    let sent = end(sending).await;
    assert_eq!((sent.is_complete, sent.is_stopped, sent.last.done), (true, true, 2), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_stays_releases_receivers_from_one_that_died() {
    let base = directory("stays-died");
    let file = base.join("file.bin");
    let contents = write_file(&file, 8 << 20);
    let address = free_address();
    let (sending, mut tells) =
        start_watched(SendOptions { keeps_on: true, rate: Some(RATE), ..sender(address, &file, 2) });
    let first = start_receive(receiver(address, &base.join("first")));
    let dying = start_receive(receiver(address, &base.join("dying")));
    let some = tells.wait_for(|(_, slowest)| *slowest > 1 << 20);
    timeout(PATIENCE, some).await.expect("in time").expect("the sender runs");
    dying.abort();
    assert!(end(first).await.is_complete());
    assert_only(&base.join("first"), "file.bin", &contents);
    assert!(!sending.is_finished(), "the other one may come back");
    sending.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_its_sender_replaced_arrives() {
    let base = directory("replaced");
    let (file, target) = (base.join("file.bin"), base.join("to"));
    write_file(&file, 12 << 20);
    let address = free_address();
    let (dying, mut tells) = start_watched(SendOptions { rate: Some(RATE), ..sender(address, &file, 1) });
    let (told, failures) = tokio::sync::watch::channel(None);
    let options = receiver(address, &target);
    let receiving = tokio::spawn(async move {
        let mut report = |report: &Receiving| {
            if report.failure.is_some() {
                told.send_replace(report.failure.clone());
            }
        };
        receive(options, pending(), &mut report).await
    });
    let some = tells.wait_for(|(_, slowest)| *slowest > 1 << 20);
    timeout(PATIENCE, some).await.expect("in time").expect("the sender runs");
    dying.abort();
    let _ = dying.await;
    let contents = write_file(&file, 3 << 20);
    free_again(address).await;
    let sending = start_send(sender(address, &file, 1));
    let received = end(receiving).await;
    assert!(received.is_complete() && received.files.len() == 1, "{received:?}");
    let why = failures.borrow().clone().expect("it says that the file is another one");
    assert!(why.contains("other contents under this name now"), "{why}");
    assert!(end(sending).await.is_complete);
    assert_only(&target, "file.bin", &contents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_counts_the_nodes_that_it_refuses() {
    let base = directory("refused-nodes");
    let file = base.join("file.bin");
    write_file(&file, 1 << 10);
    let address = free_address();
    let secret = |text: &str| Secret::new(text.as_bytes()).expect("long enough");
    let options = sender(address, &file, 1);
    let options = SendOptions { group: options.group.with_secret(secret("0123456789abcdef")), ..options };
    let (told, mut tells) = tokio::sync::watch::channel(0);
    let sending = tokio::spawn(async move {
        let mut report = |report: &Sending| {
            _ = told.send_replace(report.refusals.iter().map(|refusal| refusal.count).sum::<u64>())
        };
        send(options, pending(), &mut report).await
    });
    for other in [Some("fedcba9876543210"), None] {
        let before = *tells.borrow();
        let options = receiver(address, &base.join("to"));
        let group = match other {
            Some(other) => options.group.with_secret(secret(other)),
            None => options.group,
        };
        let wrong = start_receive(ReceiveOptions { group, ..options });
        let more = tells.wait_for(|count| *count > before);
        timeout(PATIENCE, more).await.expect("in time").expect("the sender runs");
        wrong.abort();
        let _ = wrong.await;
    }
    sending.abort();
}

#[tokio::test]
async fn directories_above_that_of_the_file_are_not_made() {
    let base = directory("above");
    let target = base.join("absent/to");
    let error = receive(receiver(free_address(), &target), pending(), &mut |_: &Receiving| ()).await;
    let error = error.unwrap_err().to_string();
    let above = format!("{} does not exist; create it first", base.join("absent").display());
    assert!(error.contains(&above), "{error}");
    assert!(!base.join("absent").exists());
}
