//! The lists of patterns of a configuration: files, read once however often they are used, and those that stand in ACLs.

use std::collections::HashMap;
use std::sync::Arc;

use super::elements::{Element, Elements};
use super::reference::{Compilation, PatternReference, User};
use crate::error::{Error, ErrorKind};
use crate::loader::Loader;

/// Every list of patterns of a configuration.
#[derive(Clone, Debug, Default)]
pub struct PatternReferences {
    list: Vec<Arc<PatternReference>>,
    by_path: HashMap<Box<str>, Arc<PatternReference>>,
    by_id: HashMap<i64, Arc<PatternReference>>,
    /// The file that the last use stood in, as the next one will.
    file: Option<Arc<str>>,
}

impl PatternReferences {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The paths read so far.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.by_path.keys().map(|path| &**path)
    }

    /// Every list; once the configuration has been read, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PatternReference>> {
        self.list.iter()
    }

    /// The list of this file.
    #[must_use]
    pub fn of_file(&self, path: &str) -> Option<&Arc<PatternReference>> {
        self.by_path.get(path)
    }

    /// The list of this number.
    #[must_use]
    pub fn numbered(&self, id: i64) -> Option<&Arc<PatternReference>> {
        self.by_id.get(&id)
    }

    /// Gives a number to each list that has none, when the whole configuration has been read.
    pub fn finish(&mut self) {
        let mut next = 0;
        for reference in self.list.iter().filter(|reference| reference.id().is_none()) {
            while self.by_id.contains_key(&next) {
                next += 1;
            }
            reference.give_id(next);
            self.by_id.insert(next, Arc::clone(reference));
        }
        self.list.sort_by_key(|reference| reference.id());
        self.list.shrink_to_fit();
    }

    fn file(&mut self, name: &str) -> Arc<str> {
        match &self.file {
            Some(file) if **file == *name => Arc::clone(file),
            _ => Arc::clone(self.file.insert(Arc::from(name))),
        }
    }

    /// Whether a number given with `-u` is free.
    pub(crate) fn is_free(&self, id: i64) -> bool {
        !self.by_id.contains_key(&id)
    }

    /// Keeps the patterns that stand in an ACL at this place.
    pub(crate) fn add_inline(
        &mut self,
        keyword: &'static str,
        compilation: Compilation,
        id: Option<i64>,
        words: &[Arc<[u8]>],
        place: (&str, u32),
    ) -> Arc<PatternReference> {
        let reference = Arc::new(PatternReference::inline(keyword, compilation, id, words));
        reference.add_use(User::Acl, &self.file(place.0), place.1);
        if let Some(id) = id {
            self.by_id.insert(id, Arc::clone(&reference));
        }
        self.list.push(Arc::clone(&reference));
        reference
    }

    /// The patterns of a file that is used at this place.
    pub(crate) fn load(
        &mut self,
        loader: &dyn Loader,
        path: &str,
        two_columns: bool,
        user: User,
        place: (&str, u32),
    ) -> Result<Arc<PatternReference>, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::File, message).word(path.as_bytes()));
        let reference = match self.by_path.get(path) {
            Some(reference) if reference.has_two_columns() == two_columns => Arc::clone(reference),
            Some(_) => {
                let (is, wanted) = if two_columns { ("one", "two") } else { ("two", "one") };
                return refuse(format!(
                    "The file \"{path}\" is already used as {is} column file and cannot be used by as {wanted} column file."
                ));
            }
            None => {
                let Ok(content) = loader.load(path) else {
                    return refuse(format!("failed to open pattern file <{path}>"));
                };
                let mut elements = Elements::with_capacity(memchr::memchr_iter(b'\n', &content).count() + 1);
                for (line, number) in content.split(|byte| *byte == b'\n').zip(1u32..) {
                    if let Some(element) = element(number, line, two_columns) {
                        elements.push(element);
                    }
                }
                let reference = Arc::new(PatternReference::of_file(path, two_columns, elements));
                self.by_path.insert(path.into(), Arc::clone(&reference));
                self.list.push(Arc::clone(&reference));
                reference
            }
        };
        reference.add_use(user, &self.file(place.0), place.1);
        Ok(reference)
    }
}

/// Reads a line: a comment only if `#` is its first character, leading blanks skipped. One column is everything up to the
/// end; of two, the first ends at a blank.
fn element(number: u32, line: &[u8], two_columns: bool) -> Option<Element> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let end = line.iter().position(|byte| *byte == b'\r' || *byte == 0).unwrap_or(line.len());
    let line = line.get(..end)?;
    let line = line.get(line.iter().take_while(|byte| is_blank(byte)).count()..)?;
    if line.is_empty() {
        return None;
    }
    let (key, value) = if two_columns {
        let key_end = line.iter().position(is_blank).unwrap_or(line.len());
        (line.get(..key_end)?, Some(line.get(key_end..)?.trim_ascii()))
    } else {
        (line, None)
    };
    Some(Element { version: 0, line: number, key: key.into(), value: value.map(Arc::from) })
}
