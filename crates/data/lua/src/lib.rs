//! Lua 5.1 for untrusted scripts: bounded memory, patterns and strings that can be ended, and the libraries that scripts expect.
//!
//! [`machine`] starts Lua, compiles and stops; [`patterns`] replaces the functions of strings that nothing could stop;
//! [`json`] (cjson), [`message_pack`] (cmsgpack), [`structure`] (struct) and [`bit`] are libraries; [`random`] is `math.random`.
//! Nothing of Redis is in here: what scripts may ask a server is made by the host, with the functions of [`library`].

pub mod bit;
pub mod json;
pub mod library;
pub mod machine;
pub mod message_pack;
pub mod number_text;
pub mod patterns;
pub mod random;
pub mod structure;
