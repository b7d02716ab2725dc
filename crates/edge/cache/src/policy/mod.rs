//! RFC 9111 for a shared cache.
//!
//! ```text
//! response ── may_store ──▶ stored ── reuse ──▶ fresh: served
//!                 │                     ├─────▶ stale, but may be served while it is fetched again
//!                 ▼                     ├─────▶ must be validated ── 304 ──▶ updated, served
//!             not stored: why           └─────▶ cannot be used: why
//! ```

pub mod conditional;
pub mod directives;
pub mod freshness;
pub mod invalidation;
pub mod range;
pub mod reuse;
pub mod storing;
pub mod update;
pub mod vary;
