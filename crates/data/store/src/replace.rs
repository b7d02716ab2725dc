//! Files that people keep, written anew by the store: settings and users.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, fchown},
    path::{Path, PathBuf},
};

/// Writes a file as a whole or not at all. Its mode and, as far as the system lets it, its owner stay; what a link leads to is
/// written, and the link stays.
///
/// # Errors
///
/// The folder or the disk refuses it. The file is as it was then.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One that leads nowhere yet is followed too; what is no link is itself.
    let path = match fs::canonicalize(path) {
        Ok(found) => found,
        Err(_) => fs::read_link(path).map_or_else(
            |_| path.to_owned(),
            |target| path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target)),
        ),
    };
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = File::create(&temporary).and_then(|mut file| {
        if let Ok(former) = fs::metadata(&path) {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (former.uid(), former.gid()) {
                // Only root may give files away; a group may be one's own.
                let _ = fchown(&file, Some(former.uid()), Some(former.gid()))
                    .or_else(|_| fchown(&file, None, Some(former.gid())));
            }
            // NOTE: behind the owner, whose change may take bits away, and in front of what is secret.
            file.set_permissions(former.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        // The new name is as durable as the system lets it be.
        if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn mode_owner_and_links_stay() {
        let folder = std::env::temp_dir().join(format!("tidegate-replace-{}", std::process::id()));
        fs::create_dir_all(folder.join("real")).unwrap();
        let (file, link, dangling) = (folder.join("real/store.conf"), folder.join("link"), folder.join("dangling"));
        fs::write(&file, "port 1\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        // Where the tests may give files away.
        let _ = fchown(File::open(&file).unwrap(), Some(12), Some(34));
        let before = fs::metadata(&file).unwrap();
        symlink("real/store.conf", &link).unwrap();
        symlink("real/new.conf", &dangling).unwrap();
        replace(&link, b"port 2\n").unwrap();
        replace(&dangling, b"port 3\n").unwrap();
        let after = fs::metadata(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "port 2\n");
        assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(folder.join("real/new.conf")).unwrap(), "port 3\n");
        assert_eq!(fs::read_dir(folder.join("real")).unwrap().count(), 2, "nothing else is left");
        fs::remove_dir_all(&folder).unwrap();
        assert!(replace(&file, b"").is_err(), "there is no folder any more");
    }
}
