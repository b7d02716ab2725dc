//! base.
