//! Looking for the file that answers a request: several names, one after the other.
//!
//! A lookup can be made twice: on a worker, where it ends with `AGAIN` as soon as a disk would have to be waited for, and then on a
//! disk thread, where it waits.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::SystemTime,
};

use http::Coding;
use rustix::{
    fs::{FileType, fstat},
    io::Errno,
};
use web::{CleanPath, Offer, negotiate::file_suffix};

use super::{
    CachedFile, Content, Descriptor, Facts, LiveFolder, OpenFile,
    beneath::{OpenAs, Patience},
    read::read_at,
};

/// How often a file is read that changes while it is read.
const READS_MAX: usize = 8;
/// How old a version must be, so that another one cannot have the same time: the kernel's clock of files moves in such steps.
const STEP_NS: i128 = 20_000_000;
/// The same where times of files are whole seconds.
const COARSE_STEP_NS: i128 = 2_000_000_000;

/// What is looked for under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A file.
    File,
    /// A file, or a folder.
    Any,
    /// A folder.
    Folder,
}

/// A name that is looked for.
#[derive(Clone, Debug)]
pub struct Step {
    /// The path that a request for it would have.
    pub path: CleanPath,
    /// Its path in the folder, if that is another one.
    pub inside: Option<CleanPath>,
    /// What it is to be.
    pub kind: StepKind,
}

impl Step {
    fn name(&self) -> &[u8] {
        self.inside.as_ref().unwrap_or(&self.path).relative()
    }
}

/// Names that are looked for beneath a folder.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The folder.
    pub folder: Arc<LiveFolder>,
    /// The names in order.
    pub steps: Vec<Step>,
    /// Compressed variants that are looked for.
    pub offer: Offer,
    /// Bytes up to which a file is read into memory.
    pub memory_bytes_max: usize,
    /// What was found the last time. What has not changed is not read again.
    pub known: Option<Arc<CachedFile>>,
}

/// What was found.
#[derive(Debug)]
pub enum Found {
    /// A file.
    File {
        /// At which step.
        step: usize,
        /// It.
        file: OpenFile,
        /// The same compressed.
        variants: Vec<(Coding, OpenFile)>,
    },
    /// A folder, at this step.
    Folder(usize),
    /// Nothing that may be read.
    Forbidden,
    /// Nothing.
    Nothing,
}

impl Lookup {
    /// Looks.
    ///
    /// # Errors
    /// The system's, for what is not just an absent file; `AGAIN` where a disk would have to be waited for.
    pub fn run(&self, patience: Patience) -> Result<Found, Errno> {
        #[cfg(debug_assertions)]
        slow_disk::meet(&self.steps, patience)?;
        let mut is_forbidden = false;
        for (place, step) in self.steps.iter().enumerate() {
            let name = step.name();
            let what = if step.kind == StepKind::Folder { OpenAs::Look } else { OpenAs::File };
            let opened = match self.folder.open(name, what, patience) {
                // What may not be read may be a folder, or in one.
                Err(Errno::ACCESS) if step.kind == StepKind::Any => self.folder.open(name, OpenAs::Look, patience),
                opened => opened,
            };
            let descriptor = match opened {
                Ok(descriptor) => descriptor,
                Err(Errno::ACCESS | Errno::PERM) => {
                    is_forbidden = true;
                    continue;
                }
                Err(error) if is_absence(error) => continue,
                Err(error) => return Err(error),
            };
            let facts = Facts::from(&fstat(&descriptor)?);
            match (facts.kind, step.kind) {
                (FileType::Directory, StepKind::Folder | StepKind::Any) => return Ok(Found::Folder(place)),
                (FileType::RegularFile, StepKind::File | StepKind::Any) => {
                    let known = self.known.as_ref().filter(|known| known.path == step.path);
                    let Some(file) = self.read(descriptor, facts, known.map(|known| &known.plain.file), patience)?
                    else {
                        is_forbidden = true;
                        continue;
                    };
                    let variants = self.variants(name, &file, patience)?;
                    return Ok(Found::File { step: place, file, variants });
                }
                _ => {}
            }
        }
        Ok(if is_forbidden { Found::Forbidden } else { Found::Nothing })
    }

    /// One version of an open file; `None` if it may not be read.
    fn read(
        &self,
        descriptor: OwnedFd,
        facts: Facts,
        known: Option<&OpenFile>,
        patience: Patience,
    ) -> Result<Option<OpenFile>, Errno> {
        if let Some(known) = known.filter(|known| known.facts == facts && known.is_settled) {
            return Ok(Some(known.clone()));
        }
        let mut facts = facts;
        for _ in 0..READS_MAX {
            let is_small = usize::try_from(facts.length).is_ok_and(|length| length <= self.memory_bytes_max);
            if !is_small {
                let content = Content::Descriptor(Arc::new(Descriptor::new(descriptor, facts.length)));
                return Ok(Some(OpenFile { facts, content, is_settled: true }));
            }
            // NOTE: nothing is read behind the end: the length that is seen after reading tells whether the file has grown.
            let length = usize::try_from(facts.length).unwrap_or(0);
            let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, length).collect();
            let room = Arc::get_mut(&mut bytes).unwrap_or_default();
            let count = match read_at(descriptor.as_fd(), room, 0, patience) {
                // It was only looked at.
                Err(Errno::BADF | Errno::ACCESS | Errno::PERM) => return Ok(None),
                read => read?,
            };
            let later = Facts::from(&fstat(&descriptor)?);
            if count == length && later == facts {
                return Ok(Some(OpenFile { facts, content: Content::Memory(bytes), is_settled: is_settled(&facts) }));
            }
            if patience == Patience::None {
                return Err(Errno::AGAIN);
            }
            facts = later;
        }
        Err(Errno::BUSY)
    }

    /// The same compressed, as far as it lies there and is not older.
    fn variants(&self, name: &[u8], file: &OpenFile, patience: Patience) -> Result<Vec<(Coding, OpenFile)>, Errno> {
        let mut variants = Vec::new();
        for coding in self.offer.iter() {
            let Some(suffix) = file_suffix(coding) else { continue };
            let name = [name, suffix.as_bytes()].concat();
            let descriptor = match self.folder.open(&name, OpenAs::File, patience) {
                Ok(descriptor) => descriptor,
                Err(Errno::AGAIN) => return Err(Errno::AGAIN),
                Err(_) => continue,
            };
            let facts = Facts::from(&fstat(&descriptor)?);
            if facts.kind != FileType::RegularFile || facts.modified.0 < file.facts.modified.0 {
                continue;
            }
            let known = self.known.as_ref().and_then(|known| known.variant(coding));
            if let Some(found) = self.read(descriptor, facts, known, patience)? {
                variants.push((coding, found));
            }
        }
        Ok(variants)
    }
}

/// Whether that is how the system says that there is no such file, or none that is served.
fn is_absence(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::NODEV
            | Errno::ILSEQ
            | Errno::INVAL
    )
}

/// Whether another version would have another time.
fn is_settled(facts: &Facts) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let (seconds, nanoseconds) = facts.modified;
    let modified = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    let step = if nanoseconds == 0 { COARSE_STEP_NS } else { STEP_NS };
    i128::try_from(now).unwrap_or(i128::MAX) - modified > step
}

/// A disk that answers slowly, for tests: `TIDEGATE_SLOW_FILES=<end of a path>=<milliseconds>`.
#[cfg(debug_assertions)]
pub(super) mod slow_disk {
    use std::{sync::OnceLock, thread, time::Duration};

    use rustix::io::Errno;

    use super::{Patience, Step};

    fn setting() -> Option<&'static (String, Duration)> {
        static SETTING: OnceLock<Option<(String, Duration)>> = OnceLock::new();
        let read = || {
            let text = std::env::var("TIDEGATE_SLOW_FILES").ok()?;
            let (end, milliseconds) = text.rsplit_once('=')?;
            Some((end.to_owned(), Duration::from_millis(milliseconds.parse().ok()?)))
        };
        SETTING.get_or_init(read).as_ref()
    }

    pub(super) fn meet(steps: &[Step], patience: Patience) -> Result<(), Errno> {
        let Some((end, time)) = setting() else { return Ok(()) };
        if steps.iter().any(|step| step.path.as_bytes().ends_with(end.as_bytes())) {
            if patience == Patience::None {
                return Err(Errno::AGAIN);
            }
            thread::sleep(*time);
        }
        Ok(())
    }
}
