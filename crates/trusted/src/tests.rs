use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

const NOBODY: u32 = 65534;

/// Creates a folder with a file `own`.
fn folder() -> tempfile::TempDir {
    let folder = whyslow_testing::folder();
    write(&folder.path().join("own"), 0o600);
    folder
}

fn write(path: &Path, mode: u32) {
    fs::write(path, "x").unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn refusal(path: &Path) -> Option<Untrusted> {
    let error = check(path).err()?;
    assert_eq!(open(path).err().map(|e| e.to_string()), Some(error.to_string()));
    Some(error.get_ref().and_then(|inner| inner.downcast_ref::<Untrusted>()).expect("a refusal").clone())
}

#[test]
fn own_files_are_trusted_and_those_that_others_may_write_are_not() {
    let folder = folder();
    let file = folder.path().join("own");
    assert_eq!(read(&file).unwrap(), b"x");
    assert_eq!(check(&folder.path().join("missing")).unwrap_err().kind(), ErrorKind::NotFound);
    write(&file, 0o602);
    assert_eq!(refusal(&file), Some(Untrusted::Writable { path: file.clone(), mode: 0o602 }));
    write(&file, 0o600);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    assert_eq!(refusal(&file), Some(Untrusted::Writable { path: folder.path().to_owned(), mode: 0o777 }));
    // The sticky bit keeps others from replacing a file, but not from adding one.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(refusal(&file), None);
    assert!(refusal(folder.path()).is_some());
}

#[test]
fn what_belongs_to_another_is_not_trusted_however_it_is_reached() {
    if uid() != 0 {
        return;
    }
    let folder = folder();
    let [file, below, link] = ["theirs", "folder", "link"].map(|name| folder.path().join(name));
    write(&file, 0o600);
    chown(&file, Some(NOBODY), None).unwrap();
    assert_eq!(refusal(&file), Some(Untrusted::Owner { path: file.clone(), uid: NOBODY }));
    fs::create_dir(&below).unwrap();
    write(&below.join("own"), 0o600);
    chown(&below, Some(NOBODY), None).unwrap();
    assert_eq!(refusal(&below.join("own")), Some(Untrusted::Owner { path: below.clone(), uid: NOBODY }));
    // Another user's link to a file of ours, then our link to another user's folder.
    symlink("own", &link).unwrap();
    assert_eq!(refusal(&link), None);
    lchown(&link, Some(NOBODY), None).unwrap();
    assert_eq!(refusal(&link), Some(Untrusted::Owner { path: link.clone(), uid: NOBODY }));
    fs::remove_file(&link).unwrap();
    symlink(&below, &link).unwrap();
    assert_eq!(refusal(&link.join("own")), Some(Untrusted::Owner { path: below.clone(), uid: NOBODY }));
    let made = open_or_create(&below.join("new"), 0o600).unwrap_err();
    assert!(is_untrusted(&made) && !below.join("new").exists(), "{made}");
    let made = create_folder(&below.join("a/b"), 0o755, 0o700).unwrap_err();
    assert!(is_untrusted(&made) && !below.join("a").exists(), "{made}");
}

#[test]
fn folders_and_files_are_created_with_their_modes() {
    let folder = folder();
    let path = folder.path().join("a/b");
    for _ in 0..2 {
        create_folder(&path, 0o755, 0o700).unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&folder.path().join("a")), mode(&path)), (0o755, 0o700));
    let file = path.join("../b/./new");
    drop(open_or_create(&file, 0o600).unwrap());
    assert_eq!(mode(&path.join("new")), 0o600);
    assert!(open_or_create(&file, 0o600).is_ok());
    assert!(create_folder(&file, 0o755, 0o700).is_err());
}

#[test]
fn links_in_a_circle_and_what_is_no_file_are_refused() {
    let folder = folder();
    let link = folder.path().join("link");
    symlink("link", &link).unwrap();
    assert_eq!(check(&link).unwrap_err().raw_os_error(), Some(libc::ELOOP));
    assert!(open(folder.path()).is_err());
    assert_eq!(check(&folder.path().join("own/x")).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
}
