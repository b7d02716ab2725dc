//! Functions that need nothing but their arguments.
