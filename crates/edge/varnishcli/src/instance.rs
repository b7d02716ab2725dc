//! What the role does when a command asks for it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::{BackendDetails, Parameters, Status};

/// Text of a reply, or why not.
pub type Outcome = Result<String, Failure>;

/// Why a command was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Of which kind this is.
    pub status: Status,
    /// What it is, and what to do.
    pub text: String,
}

impl Failure {
    /// It cannot be done now: 300.
    pub fn cannot(text: impl Into<String>) -> Self {
        Self { status: Status::Cannot, text: text.into() }
    }

    /// An argument cannot be: 106.
    pub fn parameter(text: impl Into<String>) -> Self {
        Self { status: Status::Parameter, text: text.into() }
    }
}

/// Where the text of a VCL is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VclSource<'a> {
    /// In a file, which is looked for along the parameter vcl_path.
    File(&'a str),
    /// Here.
    Text(&'a str),
}

/// What a user wants of a VCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VclState {
    /// Warm while it is used and for vcl_cooldown after.
    Auto,
    /// Without probes and counters.
    Cold,
    /// Ready.
    Warm,
}

impl VclState {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }

    /// The one that a word names.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        [Self::Auto, Self::Cold, Self::Warm].into_iter().find(|state| state.name() == word)
    }
}

/// A program, or a name for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VclKind {
    /// A program.
    Program(VclState),
    /// A label of the program with this name.
    Label(String),
}

/// A VCL that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VclEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: VclKind,
    /// `init`, `cold`, `warm`, `busy` or `cooling`.
    pub temperature: &'static str,
    /// Requests in it, while there is a worker.
    pub busy: Option<u64>,
    /// Whether new requests go to it.
    pub is_active: bool,
    /// It was discarded while requests were in it.
    pub is_discarded: bool,
    /// Labels that its program goes to (`return (vcl(label))`).
    pub uses: Vec<String>,
}

/// The worker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// There is none.
    Stopped,
    /// It begins.
    Starting,
    /// It serves.
    Running,
    /// It ends.
    Stopping,
    /// It ended by itself, and another one is not started yet.
    Died,
}

impl ChildState {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Died => "died, (restarting)",
        }
    }
}

/// Processes of the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pids {
    /// The managing one.
    pub master: u32,
    /// The worker, if there is one.
    pub worker: Option<u32>,
}

/// What an administrator says of a backend's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdminHealth {
    /// Its probe decides; `probe` in lists.
    Auto,
    /// It is healthy.
    Healthy,
    /// It is sick.
    Sick,
}

/// A backend or director of a VCL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendEntry {
    /// `vcl.name`.
    pub name: String,
    /// `backend`, or the kind of director: `round-robin`.
    pub kind: String,
    /// What the administrator says; `None` where neither probe nor administrator does: then lists have `healthy`.
    pub admin: Option<AdminHealth>,
    /// Good ones and all of the probe's window, or of a director's backends.
    pub good_of: (u32, u32),
    /// Whether it is healthy.
    pub is_healthy: bool,
    /// When that changed.
    pub last_change: SystemTime,
    /// What `-p` says of it; none of a director that has nothing to say.
    pub details: Option<BackendDetails>,
}

/// A ban in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BanEntry {
    /// When it was made: seconds since 1970.
    pub time: f64,
    /// Objects whose next test begins with it.
    pub references: u64,
    /// Whether it is done.
    pub is_completed: bool,
    /// What it says.
    pub specification: String,
}

/// What commands look at and change. The role implements it; everything that has to be checked before (names, states, dependencies, numbers of
/// arguments) has been when a method is called.
pub trait Instance {
    /// The secret that clients must know, read anew for each of them; `None` if it cannot be read.
    fn secret(&mut self) -> Option<Vec<u8>>;

    /// Lines about the machine and the program, for the banner: `Linux,6.1,x86_64,...` and the program with its version.
    fn identity(&mut self) -> Vec<String>;

    /// The parameters.
    fn parameters(&mut self) -> &mut Parameters;

    /// A parameter has another value; it takes effect now where it can.
    fn parameter_changed(&mut self, name: &str);

    /// All VCLs and labels, in the order they came.
    fn vcls(&mut self) -> Vec<VclEntry>;

    /// Compiles and loads a VCL. The text of the failure is the compiler's.
    ///
    /// # Errors
    /// When it is no VCL, or cannot be read.
    fn vcl_load(&mut self, name: &str, source: VclSource<'_>, state: VclState) -> Outcome;

    /// New requests go to this VCL, or to the label's.
    ///
    /// # Errors
    /// When the worker refuses.
    fn vcl_use(&mut self, name: &str) -> Result<(), Failure>;

    /// Unloads these, which nothing depends on but others of them. Labels stand before what they are of.
    ///
    /// # Errors
    /// When the worker refuses.
    fn vcl_discard(&mut self, names: &[String]) -> Result<(), Failure>;

    /// Gives a program a label, or moves the label to it.
    ///
    /// # Errors
    /// When the worker refuses.
    fn vcl_label(&mut self, label: &str, name: &str) -> Result<(), Failure>;

    /// Sets a program's state.
    ///
    /// # Errors
    /// When the worker refuses.
    fn vcl_state(&mut self, name: &str, state: VclState) -> Result<(), Failure>;

    /// The files of a program: name and text, the program's own first and the built-in one last.
    fn vcl_files(&mut self, name: &str) -> Vec<(String, String)>;

    /// Makes a ban of words as `req.url ~ ^/a && obj.status == 404`.
    ///
    /// # Errors
    /// When they are no ban, or cannot be added.
    fn ban(&mut self, words: &[String]) -> Result<(), Failure>;

    /// The bans, the latest first.
    ///
    /// # Errors
    /// When there is no worker.
    fn bans(&mut self) -> Result<Vec<BanEntry>, Failure>;

    /// Backends and directors of all VCLs.
    ///
    /// # Errors
    /// When there is no worker.
    fn backends(&mut self) -> Result<Vec<BackendEntry>, Failure>;

    /// Sets the health of a backend of that list.
    ///
    /// # Errors
    /// When the worker refuses.
    fn set_backend_health(&mut self, name: &str, health: AdminHealth) -> Result<(), Failure>;

    /// Storages: name and kind (`s0`, `malloc`).
    fn storages(&mut self) -> Vec<(String, String)>;

    /// The worker's state.
    fn state(&mut self) -> ChildState;

    /// Starts the worker, which is stopped.
    ///
    /// # Errors
    /// When it does not start.
    fn start(&mut self) -> Outcome;

    /// Stops the worker, which is running.
    ///
    /// # Errors
    /// When it does not stop.
    fn stop(&mut self) -> Outcome;

    /// Its processes.
    fn pids(&mut self) -> Pids;

    /// What the worker said when it last ended by a fault of the program.
    fn panic_text(&mut self) -> Option<String>;

    /// Forgets that; with `counters`, the counter too.
    fn clear_panic(&mut self, counters: bool);

    /// Listening sockets: name, address, port (`-` for a path).
    fn listeners(&mut self) -> Vec<(String, String, String)>;

    /// A command that is for developers: `debug.xid 999`. `None` if it does not exist here.
    fn debug(&mut self, command: &str, arguments: &[String]) -> Option<Outcome>;
}
