//! The process, as a server sees it: figures from /proc, and the file of settings.

use std::{
    cell::RefCell,
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use commands::{
    config::{OomScoreAdjust, Settings},
    host::{CpuFigures, Host, ListenTrouble, MemoryFigures, ProcessFigures, TlsChange},
};

use crate::{
    allocator, clock, descriptors,
    error::chain,
    listener::{self, Listener, Place},
    messages,
    replace::replace,
    secure::{CurrentSecurity, Security},
    terms::Terms,
};

/// The process that a store runs in.
#[derive(Debug)]
pub struct Process {
    config_file: Option<PathBuf>,
    run_id: String,
    memory_used: fn() -> usize,
    memory_at_start: u64,
    resident_at_start: u64,
    listening: Rc<RefCell<Listening>>,
    security: CurrentSecurity,
    /// Who supervises it.
    supervised: &'static str,
    terms: Option<Terms>,
    /// Where it is written which node of its cluster it is.
    node: Option<PathBuf>,
}

/// What is listened on, and what is to be.
#[derive(Debug, Default)]
pub struct Listening {
    /// The addresses that are listened on.
    pub open: Vec<Place>,
    /// New listeners, with all addresses that are to be listened on from then on.
    pub next: Option<(Vec<Listener>, Vec<Place>)>,
    /// What connections with TLS are to begin with from then on.
    pub next_security: Option<NextSecurity>,
}

/// What connections with TLS are to begin with, if there are to be any.
#[derive(Debug)]
pub struct NextSecurity(pub Option<Arc<Security>>);

impl Process {
    /// This one, with what has been allocated so far as what it takes without data.
    ///
    /// # Errors
    ///
    /// There are no random numbers.
    pub fn new(
        config_file: Option<PathBuf>,
        memory_used: fn() -> usize,
        (listening, security): (Rc<RefCell<Listening>>, CurrentSecurity),
        supervised: &'static str,
    ) -> io::Result<Self> {
        let mut random = [0; 20];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let run_id = basics::hex::lower(&random);
        let memory_at_start = memory_used() as u64;
        let resident_at_start = resident_bytes().unwrap_or(memory_at_start);
        Ok(Self {
            config_file,
            run_id,
            memory_used,
            memory_at_start,
            resident_at_start,
            listening,
            security,
            supervised,
            terms: None,
            node: None,
        })
    }

    /// Where a node of a cluster keeps terms of agents.
    ///
    /// # Errors
    ///
    /// The file is not there and cannot be made, or cannot be read.
    pub fn keep_terms_in(&mut self, root: &Path, settings: &Settings) -> io::Result<()> {
        self.node = settings.cluster_enabled.0.then(|| node_file(root));
        self.terms = settings.cluster_enabled.0.then(|| Terms::open(root)).transpose()?;
        Ok(())
    }
}

/// Where the agent of this machine writes which node of its cluster a store is: beside the store's folder, which may be a copy of
/// another one's.
fn node_file(root: &Path) -> PathBuf {
    let mut name = root.as_os_str().to_owned();
    name.push(".node");
    name.into()
}

impl Host for Process {
    fn process(&self) -> ProcessFigures {
        let name = rustix::system::uname();
        let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        ProcessFigures {
            id: std::process::id(),
            run_id: self.run_id.clone(),
            supervised: self.supervised,
            executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
            config_file: self.config_file.as_deref().map(|path| path.display().to_string()).unwrap_or_default(),
            os: format!("{} {} {}", part(name.sysname()), part(name.release()), part(name.machine())),
        }
    }

    fn time_us(&self) -> Option<u64> {
        Some(clock::now_us())
    }

    fn memory(&self) -> MemoryFigures {
        let used = (self.memory_used)() as u64;
        let total = rustix::system::sysinfo();
        let allocator = allocator::figures();
        MemoryFigures {
            used,
            at_start: self.memory_at_start,
            resident_at_start: self.resident_at_start,
            resident: resident_bytes().unwrap_or(used),
            allocator: allocator::version(),
            allocator_allocated: allocator.allocated,
            allocator_active: allocator.active,
            allocator_resident: allocator.resident,
            total: total.totalram * u64::from(total.mem_unit),
        }
    }

    fn purge_memory(&self) {
        allocator::purge();
    }

    fn cpu(&self) -> CpuFigures {
        let (user, system) = times(Path::new("/proc/self/stat"));
        let (thread_user, thread_system) = times(Path::new("/proc/thread-self/stat"));
        CpuFigures { system, user, thread_system, thread_user }
    }

    fn listen(&self, settings: &Settings, tls: TlsChange) -> Result<(), ListenTrouble> {
        let told = |trouble, error: &dyn std::error::Error| {
            messages::warn(&chain(error));
            trouble
        };
        let mut security = None;
        if tls == TlsChange::Some || self.security.get().is_none() {
            let next = Security::of(settings).map_err(|error| told(ListenTrouble::Tls, &error))?;
            security = Some(NextSecurity(next));
        }
        let mut listening = self.listening.borrow_mut();
        let next = listener::open_addresses(settings, &listening.open);
        listening.next = Some(next.map_err(|error| told(ListenTrouble::Address, &error))?);
        listening.next_security = security;
        Ok(())
    }

    fn make_room_for_clients(&self, count: i64) -> Result<(), i64> {
        descriptors::make_more_room(count)
    }

    fn read_config(&self) -> Result<Option<Vec<u8>>, String> {
        match &self.config_file {
            // One that has gone is written anew.
            Some(path) => match fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Vec::new())),
                other => other.map(Some).map_err(|error| error.to_string()),
            },
            None => Ok(None),
        }
    }

    fn write_config(&self, text: &[u8]) -> Result<(), String> {
        let Some(path) = &self.config_file else { return Ok(()) };
        replace(path, text).map_err(|error| error.to_string())
    }

    fn node(&self) -> Option<String> {
        // It is asked when connections begin, and may have been written since the last one.
        let text = std::fs::read_to_string(self.node.as_ref()?).ok()?;
        Some(text.trim().to_owned()).filter(|node| !node.is_empty())
    }

    fn kept_term(&self) -> u64 {
        // It was read when it was opened.
        self.terms.as_ref().and_then(|terms| terms.last().ok()).unwrap_or(0)
    }

    fn keep_term(&self, term: u64) -> Result<(), String> {
        self.terms.as_ref().map_or(Ok(()), |terms| terms.keep(term)).map_err(|error| error.to_string())
    }
}

/// What the machine holds of this process, in bytes.
pub fn resident_bytes() -> Option<u64> {
    memory_pages().map(|(resident, _)| resident * rustix::param::page_size() as u64)
}

/// The same without pages of files: how much of the program it holds is the machine's choice.
pub fn resident_without_files() -> Option<u64> {
    memory_pages().map(|(resident, files)| resident.saturating_sub(files) * rustix::param::page_size() as u64)
}

/// How many pages the machine holds of this process, and how many of them are of files.
fn memory_pages() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut fields = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
    fields.next().zip(fields.next())
}

/// The time that a process or thread has taken, in microseconds: outside of the kernel, and in it.
fn times(path: &Path) -> (u64, u64) {
    const BEFORE_TIMES: usize = 11;
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let text = fs::read_to_string(path).unwrap_or_default();
    // The name of the program stands in parentheses and may have blanks.
    let mut fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().skip(BEFORE_TIMES);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0) * 1_000_000 / ticks;
    (next(), next())
}

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// How willing the kernel's OOM killer is told to find the process (`oom-score-adj`).
#[derive(Debug)]
pub struct OomScore {
    /// As it was before settings had a say.
    before: i64,
    now: i64,
    is_set: bool,
}

fn present() -> i64 {
    fs::read_to_string(OOM_SCORE).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

impl OomScore {
    /// As it is.
    pub fn new() -> Self {
        let before = present();
        Self { before, now: before, is_set: false }
    }

    /// Makes it what the settings say.
    pub fn apply(&mut self, settings: &Settings) {
        let [master, ..] = settings.oom_score_adj_values.0;
        let is_set = settings.oom_score_adj != OomScoreAdjust::No;
        if is_set && !self.is_set {
            // Somebody else may have changed it meanwhile: that is what it is set back to.
            self.before = present();
            self.now = self.before;
        }
        if !is_set && !self.is_set {
            return;
        }
        self.is_set = is_set;
        let wanted = match settings.oom_score_adj {
            OomScoreAdjust::No => self.before,
            OomScoreAdjust::Relative | OomScoreAdjust::Yes => self.before + master,
            OomScoreAdjust::Absolute => master,
        };
        let wanted = wanted.clamp(-1000, 1000);
        if wanted == self.now {
            return;
        }
        match fs::write(OOM_SCORE, wanted.to_string()) {
            Ok(()) => self.now = wanted,
            Err(error) => messages::warn(&format!("oom-score-adj: the kernel refuses {wanted}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_there() {
        let process = Process::new(None, || 1000, Default::default(), "no").unwrap();
        let memory = process.memory();
        assert!(memory.resident > 100_000 && memory.total > memory.resident, "{memory:?}");
        assert_eq!((memory.used, memory.at_start), (1000, 1000));
        let figures = process.process();
        assert_eq!((figures.id, figures.run_id.len()), (std::process::id(), 40));
        assert!(figures.os.starts_with("Linux "), "{}", figures.os);
        let before = process.cpu();
        let mut sum = 0_u64;
        // Other threads of these tests may have used what the process has.
        while process.cpu().user < before.user + 20_000 || process.cpu().thread_user == 0 {
            sum = (0..1_000_000).fold(sum, |sum: u64, number| sum.wrapping_mul(31).wrapping_add(number));
        }
        assert!(process.cpu().thread_user > 0, "{sum}");
    }

    #[test]
    fn a_file_of_settings_is_replaced_as_a_whole() {
        let path = std::env::temp_dir().join(format!("tidegate-rewrite-{}.conf", std::process::id()));
        fs::write(&path, "port 1\n").unwrap();
        let process = Process::new(Some(path.clone()), || 0, Default::default(), "no").unwrap();
        assert_eq!(process.read_config(), Ok(Some(b"port 1\n".to_vec())));
        process.write_config(b"port 2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "port 2\n");
        fs::remove_file(&path).unwrap();
        let nowhere = Process::new(Some("/nowhere/at/all.conf".into()), || 0, Default::default(), "no").unwrap();
        assert!(nowhere.write_config(b"").is_err());
    }
}
