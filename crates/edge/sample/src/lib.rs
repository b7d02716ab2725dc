//! HAProxy's sample language: typed samples, what fetches them, what converts them, what matches them, and what is made of
//! them: conditions and log formats.
//!
//! Everything is compiled once, when the configuration is read ([`Expression`], [`AclSet`], [`Condition`], [`LogFormat`],
//! all with a [`ParseContext`]), and evaluated any number of times against a [`Context`]. Nothing here touches a socket,
//! a clock, a file or a source of randomness: the context brings them.

mod acl;
mod acl_keyword;
mod arguments;
mod base64;
mod bytes;
mod condition;
mod context;
mod converter;
mod date;
mod error;
mod expression;
mod fetch;
mod http_path;
mod keyword;
mod loader;
mod log_fields;
mod logformat;
mod map;
mod number;
mod parser;
mod pattern;
mod place;
mod stick_key;
mod token;
mod value;
mod variables;

pub use acl::{Acl, AclSet, Outcome};
pub use acl_keyword::{AclKeyword, PREDEFINED as PREDEFINED_ACLS, PredefinedAcl, keywords as acl_keywords};
pub use arguments::ArgumentType;
pub use bytes::Bytes;
pub use condition::Condition;
pub use context::{
    Address, Backend, BackendMetric, Body, Buffer, Connection, Context, Direction, Frontend, FrontendMetric, Listener,
    Nothing, Options, Process, Request, Response, RuleLocation, Server, ServerMetric, StickAnswer, StickKey,
    TcpInformation,
};
pub use converter::converters;
pub use error::{Error, ErrorKind};
pub use expression::Expression;
pub use fetch::fetches;
pub use keyword::{Converter, Fetch, Fetched, State};
pub use loader::{Loader, NoFiles};
pub use log_fields::LogFields;
pub use logformat::{
    CLF_LOG_FORMAT, COMBINED_LOG_FORMAT, COMMON_LOG_FORMAT, HTTP_LOG_FORMAT, HTTPS_LOG_FORMAT, JSON_LOG_FORMAT,
    LOG_VARIABLES, LogFormat, LogFormatOptions, LogVariable, LogVariableEntry, TCP_LOG_FORMAT, reads_request_head,
};
pub use number::parse_hexadecimal;
pub use parser::{ParseContext, Reference, ReferenceKind};
pub use pattern::{Hit, LookUp, MATCH_METHODS, MatchMethod, PatternReference, PatternReferences};
pub use pcre::{Groups, Regex, expand};
pub use place::{PLACES, Place, Places, Source, Sources};
pub use stick_key::{stick_key, stick_key_type};
pub use token::PublicKeys;
pub use value::{Type, Value};
pub use variables::{
    ProcessVariables, Scope, SetCondition, StreamVariables, VARIABLE_OVERHEAD, VariableLimits, VariableName,
};
