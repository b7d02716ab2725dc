//! Which file a request is for, and what answers it.

use std::{collections::VecDeque, os::fd::OwnedFd, time::SystemTime};

use http::{HeaderId, Method, RequestHead, ResponseHead, Version, reason_phrase};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2, statat},
    io::Errno,
};
use web::{
    BodyPlan, CleanPath, Entry, EntryKind, FileFacts, Listing, MimeTypes, PathRules, RangeLimits, Representation, Span,
    TagRule,
    etag::push_tag,
    listing::{Format, Order, policy},
    range::Piece,
    respond::{Asked, asked, refuse_method, respond, respond_options},
};

use crate::options::Options;

/// Entries that a listing shows at most: each is in memory while it is sorted.
const ENTRIES_MAX: usize = 10_000;

/// A folder that is served.
pub struct Site {
    root: OwnedFd,
    index: Vec<u8>,
    is_application: bool,
    lists: bool,
    rules: PathRules,
    types: MimeTypes,
}

/// What follows a head.
pub enum Payload {
    /// Nothing.
    None,
    /// These bytes.
    Bytes(Vec<u8>),
    /// These pieces of a file.
    File(OwnedFd, VecDeque<Piece>),
}

impl Site {
    /// Opens the folder.
    ///
    /// # Errors
    /// The system's; [`Errno::NOSYS`] where the kernel cannot keep paths beneath a folder (before Linux 5.6).
    pub fn open(options: &Options) -> Result<Self, Errno> {
        let root = open(&options.folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let site = Self {
            root,
            index: options.index.clone().into_bytes(),
            is_application: options.is_application,
            lists: options.lists,
            rules: PathRules { hidden: options.shows_hidden },
            types: MimeTypes::built_in(),
        };
        site.beneath(b".", OFlags::DIRECTORY)?;
        Ok(site)
    }

    /// Opens what a name leads to, if that is beneath the root. A pipe is not waited for.
    fn beneath(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        openat2(&self.root, name, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
    }

    /// Answers a request: the head without what belongs to the connection, and what follows it.
    pub fn answer(&self, request: &RequestHead, response: &mut ResponseHead) -> Payload {
        match asked(request.method_kind()) {
            Asked::File => {}
            Asked::Options => {
                respond_options(response);
                return Payload::None;
            }
            Asked::Nothing => {
                refuse_method(response);
                return said(response, 405);
            }
        }
        let path = match CleanPath::of_target(request.path(), self.rules) {
            Ok(path) => path,
            Err(error) => return refuse(response, error.status()),
        };
        let answered =
            if path.is_folder() { self.folder(request, response, &path) } else { self.file(request, response, &path) };
        match answered {
            Ok(payload) => payload,
            Err(Errno::NOENT | Errno::NOTDIR) if self.is_application => {
                let index = self.beneath(&self.index, OFlags::empty());
                index
                    .and_then(|file| self.send(request, response, file, &self.index))
                    .unwrap_or_else(|_| refuse(response, 404))
            }
            Err(error) => refuse(response, status_of(error)),
        }
    }

    fn file(&self, request: &RequestHead, response: &mut ResponseHead, path: &CleanPath) -> Result<Payload, Errno> {
        let file = self.beneath(path.relative(), OFlags::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Directory {
            return Ok(redirect(request, response, path));
        }
        self.send(request, response, file, path.relative())
    }

    fn folder(&self, request: &RequestHead, response: &mut ResponseHead, path: &CleanPath) -> Result<Payload, Errno> {
        let mut index = path.relative().to_vec();
        index.push(b'/');
        index.extend_from_slice(&self.index);
        match self.beneath(&index, OFlags::empty()) {
            Ok(file) => return self.send(request, response, file, &self.index),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let folder = self.beneath(path.relative(), OFlags::DIRECTORY)?;
        if self.lists { self.list(request, response, path, &folder) } else { Err(Errno::NOENT) }
    }

    /// Answers with a file that is open.
    fn send(
        &self,
        request: &RequestHead,
        response: &mut ResponseHead,
        file: OwnedFd,
        name: &[u8],
    ) -> Result<Payload, Errno> {
        let status = fstat(&file)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(Errno::NOENT);
        }
        let (facts, now) = (facts(&status), now());
        let mut tag = Vec::new();
        push_tag(TagRule::default(), &facts, None, now, &mut tag);
        let representation = Representation {
            length: facts.length,
            modified: facts.modified,
            tag: &tag,
            content_type: self.types.of(name, Some("utf-8")),
            coding: None,
            varies: false,
            expiry: None,
            ranges: RangeLimits::default(),
            prepared: None,
        };
        let pieces = match respond(request, &representation, now, random, response) {
            BodyPlan::Nothing => return Ok(Payload::None),
            BodyPlan::Whole => VecDeque::from([Piece::File(Span { start: 0, end: facts.length })]),
            BodyPlan::Part(span) => VecDeque::from([Piece::File(span)]),
            BodyPlan::Parts(parts) => parts.pieces.into(),
        };
        Ok(Payload::File(file, pieces))
    }

    fn list(
        &self,
        request: &RequestHead,
        response: &mut ResponseHead,
        path: &CleanPath,
        folder: &OwnedFd,
    ) -> Result<Payload, Errno> {
        let mut entries = Vec::new();
        let mut is_cut = false;
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || name.starts_with(b".") && !self.rules.hidden {
                continue;
            }
            if entries.len() >= ENTRIES_MAX {
                is_cut = true;
                break;
            }
            // What has gone meanwhile, or leads nowhere, is only a name.
            let status = statat(folder, name, AtFlags::empty()).ok();
            let kind = status.as_ref().map(|status| FileType::from_raw_mode(status.st_mode));
            let kind = match kind {
                Some(FileType::Directory) => EntryKind::Folder,
                Some(FileType::RegularFile) => EntryKind::File,
                _ => EntryKind::Other,
            };
            let facts = status.as_ref().map(facts).unwrap_or_default();
            entries.push(Entry { name: name.into(), kind, length: facts.length, modified: facts.modified });
        }
        let format = Format::wanted(request);
        let order = Order::wanted(request.query());
        let bytes = Listing::new(path, entries, is_cut, format, order).write_rest(&self.types);
        response.start(Version::Http11, 200);
        response.headers.add_known(HeaderId::ContentType, format.content_type().as_bytes());
        response.headers.add_known(HeaderId::CacheControl, b"no-cache");
        response.headers.add_known(HeaderId::Vary, b"Accept");
        if format == Format::Html {
            response.headers.add(b"content-security-policy", policy().as_bytes());
        }
        Ok(with_length(response, bytes))
    }
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn facts(status: &Stat) -> FileFacts {
    FileFacts {
        length: u64::try_from(status.st_size).unwrap_or(0),
        modified: status.st_mtime,
        nanoseconds: status.st_mtime_nsec.try_into().unwrap_or(0),
        inode: status.st_ino,
    }
}

/// What nobody foresees parts several ranges from each other.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without a source there is the time, which is better than a constant.
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_ne_bytes(bytes),
        Err(_) => now().cast_unsigned(),
    }
}

/// The status that tells of an error of the system.
fn status_of(error: Errno) -> u16 {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => 404,
        // Out of the folder, or without permission.
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP => 403,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => 503,
        _ => 500,
    }
}

/// Sends the client to the path of a folder with its slash. The path is ours, so that no `//host` leads elsewhere.
fn redirect(request: &RequestHead, response: &mut ResponseHead, path: &CleanPath) -> Payload {
    let mut location = Vec::new();
    for byte in path.as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => location.push(*byte),
            byte if byte.is_ascii_alphanumeric() => location.push(*byte),
            byte => http::push_encoded(*byte, &mut location),
        }
    }
    location.push(b'/');
    if let Some(query) = request.query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    response.start(Version::Http11, 301);
    response.headers.add_known(HeaderId::Location, &location);
    said(response, 301)
}

/// Says that there is nothing to get.
pub fn refuse(response: &mut ResponseHead, status: u16) -> Payload {
    response.start(Version::Http11, status);
    said(response, status)
}

/// Says a status in words.
fn said(response: &mut ResponseHead, status: u16) -> Payload {
    response.headers.add_known(HeaderId::ContentType, b"text/plain; charset=utf-8");
    with_length(response, format!("{status} {}\n", reason_phrase(status)).into_bytes())
}

fn with_length(response: &mut ResponseHead, bytes: Vec<u8>) -> Payload {
    response.headers.add_number(HeaderId::ContentLength, bytes.len() as u64);
    Payload::Bytes(bytes)
}

/// Whether what follows the head is sent.
pub fn has_body(request: &RequestHead) -> bool {
    request.method_kind() != Method::Head
}
