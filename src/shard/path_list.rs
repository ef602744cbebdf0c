//! Many paths in little memory.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// A list of paths in which each folder is kept once: a path costs 12 bytes and its file name.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct PathList {
    /// Each folder once, with the slash at its end.
    folders: Vec<Box<str>>,
    /// Which folder each path is in.
    folder_of: Vec<u32>,
    /// File names, one behind the other, and where each ends.
    names: String,
    ends: Vec<u64>,
}

/// Which folders a list has; needed only while it grows.
type Known = HashMap<Box<str>, u32>;

impl PathList {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The path at a place, as folder and file name.
    fn split(&self, place: usize) -> (&str, &str) {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        // The ends are lengths of `names`, so they fit into a usize.
        (
            &self.folders[self.folder_of[place] as usize],
            &self.names[start as usize..self.ends[place] as usize],
        )
    }

    /// The path at a place, which is below [`PathList::len`].
    pub(super) fn get(&self, place: usize) -> String {
        let (folder, name) = self.split(place);
        [folder, name].concat()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = String> + Clone {
        (0..self.len()).map(|place| self.get(place))
    }

    /// Bytes on the heap, without what the folders share.
    #[cfg(test)]
    pub(super) fn heap(&self) -> usize {
        self.names.capacity() + self.ends.capacity() * 8 + self.folder_of.capacity() * 4
    }

    fn push(&mut self, path: &str, known: &mut Known) {
        let (folder, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
        let last =
            self.folder_of.last().copied().filter(|&last| *self.folders[last as usize] == *folder);
        let number = last.or_else(|| known.get(folder).copied()).unwrap_or_else(|| {
            // Four billion folders would not fit into memory.
            let number = self.folders.len() as u32;
            self.folders.push(folder.into());
            known.insert(folder.into(), number);
            number
        });
        self.folder_of.push(number);
        self.names.push_str(name);
        self.ends.push(self.names.len() as u64);
    }

    fn shrink(mut self) -> Self {
        self.folders.shrink_to_fit();
        self.folder_of.shrink_to_fit();
        self.names.shrink_to_fit();
        self.ends.shrink_to_fit();
        self
    }
}

impl<S: AsRef<str>> FromIterator<S> for PathList {
    fn from_iter<I: IntoIterator<Item = S>>(paths: I) -> Self {
        let (mut list, mut known) = (Self::default(), Known::new());
        for path in paths {
            list.push(path.as_ref(), &mut known);
        }
        list.shrink()
    }
}

impl Serialize for PathList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for PathList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = PathList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of paths")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<PathList, A::Error> {
        let (mut list, mut known) = (PathList::default(), Known::new());
        while seq.next_element_seed(Push { list: &mut list, known: &mut known })?.is_some() {}
        if list.len() > u32::MAX as usize {
            return Err(A::Error::custom("more than four billion paths"));
        }
        Ok(list.shrink())
    }
}

/// Takes one path straight from the text into the list.
struct Push<'a> {
    list: &'a mut PathList,
    known: &'a mut Known,
}

impl<'de> DeserializeSeed<'de> for Push<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Push<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path")
    }

    fn visit_str<E: serde::de::Error>(self, path: &str) -> Result<(), E> {
        self.list.push(path, self.known);
        Ok(())
    }
}

impl fmt::Debug for PathList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathList")
            .field("len", &self.len())
            .field("folders", &self.folders.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back() {
        let paths = ["a/0.tar", "b/0.tar", "a/1.tar", "c.tar", "a/", "", "b/d/é.tar", "/x//y"];
        let list: PathList = paths.iter().collect();
        assert_eq!(list.iter().collect::<Vec<_>>(), paths);
        assert_eq!(list.folders.len(), 5);
        let parsed: PathList = serde_json::from_str(r#"["a/0.tar", "b/d/\u00e9.tar"]"#).unwrap();
        assert_eq!(parsed.iter().collect::<Vec<_>>(), ["a/0.tar", "b/d/é.tar"]);
    }

    #[test]
    fn a_path_costs_at_most_24_bytes() {
        let list: PathList =
            (0..10_000).map(|i| format!("part_{:06}/{i:06}.tar", i / 1000)).collect();
        assert_eq!(list.folders.len(), 10);
        assert!(list.heap() <= 24 * 10_000, "{}", list.heap());
    }
}
