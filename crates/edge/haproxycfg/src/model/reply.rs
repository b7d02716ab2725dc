//! Responses made by the edge itself.

use std::sync::Arc;

use sample::LogFormat;

/// A response made by the edge: `return`, `deny`, `tarpit`, `http-error`.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Status; `None`: the action's own (403 for deny, 200 for return, 500 for tarpit).
    pub status: Option<u16>,
    /// `content-type`.
    pub content_type: Option<Vec<u8>>,
    /// Body.
    pub body: ReplyBody,
    /// `hdr`.
    pub headers: Vec<(String, LogFormat)>,
}

/// Where the body of a [`Reply`] comes from.
#[derive(Clone, Debug, Default)]
pub enum ReplyBody {
    /// The proxy's error reply for that status (`default-errorfiles`, or nothing said).
    #[default]
    ErrorPage,
    /// None.
    Empty,
    /// `errorfile`: a whole response as in the file.
    Raw(Arc<[u8]>),
    /// `file`, `string`.
    Fixed(Arc<[u8]>),
    /// `lf-file`, `lf-string`.
    Format(LogFormat),
}

/// What replaces the built-in page of a status.
#[derive(Clone, Debug)]
pub enum ErrorReply {
    /// `errorfile`: a whole response.
    Raw(Arc<[u8]>),
    /// `errorloc`, `errorloc302`, `errorloc303`.
    Redirect {
        /// 302 or 303.
        status: u16,
        /// Where to.
        location: Vec<u8>,
    },
    /// `http-error`.
    Reply(Box<Reply>),
}
