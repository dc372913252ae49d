//! A relay in its own network namespace, with and without privileges. It has no test harness, as a
//! process must enter a namespace before threads start. It is skipped, with the reason, where the
//! system does not allow it.

#[cfg(target_os = "linux")]
#[path = "common/mod.rs"]
#[expect(dead_code, reason = "shared with the other tests")]
mod common;

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("SKIPPED: {}", samara_emulation::availability().unwrap_err());
}

#[cfg(target_os = "linux")]
mod linux {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    use nix::unistd::geteuid;
    use samara_emulation::{
        EmulationConfig, Relay, RelayConfig, RelayError, Unavailable, enter_private_network,
    };

    use super::common::datagrams;

    /// Set for the unprivileged process: the file for creating devices.
    const TUN_FILE: &str = "SAMARA_TEST_TUN_FILE";

    /// A user without privileges on every Linux (`nobody`).
    const NOBODY: u32 = 65_534;

    pub(super) fn main() {
        if let Some(file) = std::env::var_os(TUN_FILE) {
            carries_packets(Path::new(&file));
            return;
        }
        as_nobody();
        carries_packets(Path::new("/dev/net/tun"));
        println!("test private_network ... done");
    }

    /// Runs the test in an unprivileged process, if this one may start such a process.
    fn as_nobody() {
        if !geteuid().is_root() {
            return;
        }
        // Some systems let root alone open the file, so the unprivileged user gets its own.
        let directory = std::env::temp_dir().join(format!("samara-tun-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
        let file = directory.join("tun");
        let ran = mknod(&file, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(10, 200))
            .map_err(std::io::Error::from)
            .and_then(|()| std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)))
            .and_then(|()| {
                let mut command = Command::new(std::env::current_exe()?);
                command.env(TUN_FILE, &file).uid(NOBODY).gid(NOBODY).status()
            });
        std::fs::remove_dir_all(&directory).unwrap();
        match ran {
            Ok(status) => assert!(status.success(), "the unprivileged process failed"),
            Err(error) => println!("SKIPPED without privileges: {error}"),
        }
    }

    fn carries_packets(tun_file: &Path) {
        let nobody = !geteuid().is_root();
        if let Err(error) = enter_private_network() {
            let expected = matches!(error, Unavailable::NoNamespace(_) | Unavailable::System { .. });
            assert!(expected, "{error}");
            println!("SKIPPED: {error}");
            return;
        }
        assert_eq!(geteuid().is_root(), !nobody, "the user stays the same");
        let emulation = EmulationConfig::uniform(2, 50_000_000, Duration::from_millis(20));
        let config = RelayConfig { tun_file: tun_file.into(), ..RelayConfig::new(emulation) };
        let mut relay = match Relay::start(config) {
            Ok(relay) => relay,
            Err(RelayError::Unavailable(error)) if !matches!(error, Unavailable::System { .. }) => {
                println!("SKIPPED: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(relay.device(), "samara0", "the namespace had no devices");
        let ((one, _), (two, port)) = (datagrams(&relay, 0), datagrams(&relay, 1));
        one.send_to(b"hello", (relay.dial_address(0, 1), port)).unwrap();
        let mut buffer = [0; 10];
        let (len, from) = two.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from.ip()), (&b"hello"[..], relay.dial_address(1, 0).into()));
        let report = relay.report().unwrap();
        assert_eq!((report.hosts[0].sent.packets, report.hosts[1].received.packets), (1, 1));
        // Loopback works as well: programs use it to reach themselves.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // A second thread now runs, the relay's: too late for another namespace.
        let late = enter_private_network().unwrap_err();
        assert!(matches!(late, Unavailable::Threads(2)), "{late}");
        println!("test private_network{} ... ok", if nobody { " without privileges" } else { "" });
    }
}
