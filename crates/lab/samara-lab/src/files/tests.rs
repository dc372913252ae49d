use super::*;

#[test]
fn unfinished_files_have_temporary_names() {
    let directory = std::env::temp_dir().join(format!("samara-files-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("a.txt");
    write(&path, b"old").unwrap();
    for killed_after in 0..2 {
        assert!(kill::after(killed_after, || drop(write(&path, b"new"))));
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
    let names = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| final_name(name) == "a.txt"), "{names:?}");
    remove_temporary(&directory).unwrap();
    assert!(!kill::after(2, || write(&path, b"new").unwrap()));
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    fs::remove_dir_all(&directory).unwrap();
}

/// Threads take and release the lock of one directory. Two never hold it at once, although each
/// owner removes the file.
#[test]
fn lock_has_one_owner_and_leaves_no_file() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let directory = std::env::temp_dir().join(format!("samara-lock-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (owners, taken) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while taken.load(Ordering::SeqCst) < 1000 {
                    let Some(lock) = Lock::take(&directory).unwrap() else { continue };
                    taken.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0);
                    // Hold the lock long enough to notice a second owner.
                    std::thread::sleep(std::time::Duration::from_micros(50));
                    owners.fetch_sub(1, Ordering::SeqCst);
                    drop(lock);
                }
            });
        }
    });
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    fs::remove_dir_all(&directory).unwrap();
}

/// A file that is not finished leaves nothing, and a link with its temporary name is not followed.
#[test]
fn unfinished_files_are_removed() {
    let directory = std::env::temp_dir().join(format!("samara-files-drop-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (path, mine) = (directory.join("a"), directory.join("mine"));
    fs::write(&mine, "mine").unwrap();
    let temporary = directory.join(format!("a.{}.tmp", std::process::id()));
    std::os::unix::fs::symlink(&mine, &temporary).unwrap();
    let mut new = NewFile::create(&path).unwrap();
    new.file.write_all(b"half").unwrap();
    assert_eq!(kind(&temporary), Some(Kind::File));
    drop(new);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    assert_eq!(entries(&directory).unwrap(), ["mine"]);
    let failed = write_named_by(&path, |_| Err::<(), _>("no more room".to_owned())).unwrap_err();
    assert!(failed.contains("no more room"), "{failed}");
    assert_eq!(entries(&directory).unwrap(), ["mine"]);
    fs::remove_dir_all(&directory).unwrap();
}
