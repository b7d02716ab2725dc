//! haproxycfg.
