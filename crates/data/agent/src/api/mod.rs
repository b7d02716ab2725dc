//! What can be asked of an agent, as a table: a route is declared once, and dispatch, checks of what comes in, who may ask, and the
//! description that is served (`openapi`) come from it. Knows nothing of clusters: what a route does is its handler's, of any type.

mod input;
mod openapi;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use input::Input;
pub use openapi::describe;

/// Whether asking changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing changes.
    Read,
    /// The cluster, its processes or its history may change.
    Change,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number from 0 up.
    Integer,
    /// Text.
    Text,
    /// True or false.
    Flag,
}

/// A value that comes with a request: a part of its path, or a field of its body or query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Whether it must be there. Parts of the path always are.
    pub is_required: bool,
    /// What it means.
    pub about: &'static str,
}

impl Parameter {
    /// One that must be there.
    #[must_use]
    pub const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, is_required: true, about }
    }

    /// One that may be left out.
    #[must_use]
    pub const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, is_required: false, about }
    }
}

/// Something that can be asked.
#[derive(Clone, Copy, Debug)]
pub struct Route<H> {
    /// HTTP's method.
    pub method: &'static str,
    /// The path; `{name}` stands for a parameter.
    pub path: &'static str,
    /// Whether it changes something.
    pub access: Access,
    /// What it belongs to.
    pub tag: &'static str,
    /// Its name in the description.
    pub id: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What comes with it.
    pub parameters: &'static [Parameter],
    /// What does it.
    pub handler: H,
}

/// What a path leads to.
#[derive(Debug)]
pub enum RouteMatch<'a, H> {
    /// A route, and the parts of the path that are parameters.
    Route(&'a Route<H>, BTreeMap<&'static str, String>),
    /// The path is known, with these methods.
    OtherMethod(Vec<&'static str>),
    /// Nothing.
    Nothing,
}

impl<H: Copy> Route<H> {
    /// One that changes nothing.
    #[must_use]
    pub const fn read(path: &'static str, handler: H) -> Self {
        Self { method: "GET", path, access: Access::Read, tag: "", id: "", about: "", parameters: &[], handler }
    }

    /// One that changes something.
    #[must_use]
    pub const fn change(method: &'static str, path: &'static str, handler: H) -> Self {
        Self { method, path, access: Access::Change, tag: "", id: "", about: "", parameters: &[], handler }
    }

    /// What it belongs to, its name, what it does.
    #[must_use]
    pub const fn named(mut self, tag: &'static str, id: &'static str, about: &'static str) -> Self {
        self.tag = tag;
        self.id = id;
        self.about = about;
        self
    }

    /// What comes with it.
    #[must_use]
    pub const fn takes(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }
}

impl<H> Route<H> {
    /// The parts of its path that are parameters.
    pub fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The parameters of a path, if it is this route's.
    fn matches(&self, path: &str) -> Option<BTreeMap<&'static str, String>> {
        let mut values = BTreeMap::new();
        let (mut own, mut given) = (self.path.split('/'), path.split('/'));
        loop {
            match (own.next(), given.next()) {
                (None, None) => return Some(values),
                (Some(own), Some(given)) => match own.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                    Some(name) if !given.is_empty() => drop(values.insert(name, input::decoded(given)?)),
                    None if own == given => {}
                    _ => return None,
                },
                _ => return None,
            }
        }
    }
}

/// Looks a path up. A path of plain words goes before one with parameters, whatever their order in the table.
#[must_use]
pub fn find<'a, H>(table: &'a [Route<H>], method: &str, path: &str) -> RouteMatch<'a, H> {
    let mut found: Vec<_> = table.iter().filter_map(|route| Some((route, route.matches(path)?))).collect();
    let fewest = found.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
    found.retain(|(_, values)| values.len() == fewest);
    let methods: Vec<&'static str> = found.iter().map(|(route, _)| route.method).collect();
    // HEAD asks for what GET would say.
    let method = if method == "HEAD" { "GET" } else { method };
    match found.into_iter().find(|(route, _)| route.method == method) {
        Some((route, values)) => RouteMatch::Route(route, values),
        None if methods.is_empty() => RouteMatch::Nothing,
        None => RouteMatch::OtherMethod(methods),
    }
}
