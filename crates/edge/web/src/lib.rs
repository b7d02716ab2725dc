//! What a request for a file means, and what answers it. Opens no socket and no file, reads no clock and no random number: metadata, bytes,
//! the time and seeds are arguments.
//!
//! ```text
//! target ─ path::CleanPath ─ try_files / Alias ─▶ names beneath a root          (whoever calls opens them)
//!                                                   │
//!            a file ◀───────────────────────────────┤
//!              │  mime, negotiate, etag, expires    └─▶ a folder ─▶ index, listing, or a redirect to its path with a slash
//!              ▼
//!            respond::Representation ─ respond ─▶ head of the response, and a BodyPlan: nothing, all, a part, several parts
//! ```
//!
//! What nginx does is the measure; where this differs, the module says so.

pub mod etag;
pub mod expires;
pub mod htpasswd;
pub mod listing;
pub mod mime;
pub mod negotiate;
pub mod path;
pub mod range;
pub mod respond;
pub mod try_files;

pub use etag::TagRule;
pub use expires::{Expires, Expiry};
pub use htpasswd::Users;
pub use listing::{Entry, EntryKind, Listing};
pub use mime::{ContentType, MimeTypes};
pub use negotiate::{Negotiated, Offer};
pub use path::{CleanPath, PathError, PathRules};
pub use range::{RangeLimits, Span};
pub use respond::{BodyPlan, FileFacts, PreparedHeads, Representation};
pub use try_files::{Candidate, Fallback, TryFiles};
