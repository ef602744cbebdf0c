//! Loose files, for those who have no shards: [`FileList`].

use std::fmt;

use super::path_list::PathList;
use crate::error::{Error, Result};
use crate::store::{Store, redact};

/// Extensions of pictures, as `ImageFolder` takes them.
const PICTURES: [&str; 9] = ["jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp"];

/// The files of a folder and the folders below it, in a fixed order: by folder, then by name.
///
/// ```
/// use shardstream::shard::image_folder;
/// use shardstream::store::Memory;
/// # tokio_test::block_on(async {
/// let store = Memory::new();
/// for path in ["train/cat/1.jpg", "train/cat/2.PNG", "train/dog/7.jpg", "train/notes.txt"] {
///     store.insert(path, "bytes");
/// }
/// let files = image_folder(&store, "train").await?;
/// assert_eq!((files.len(), files.classes()), (3, &["cat".to_owned(), "dog".to_owned()][..]));
/// assert_eq!((files.name(2), files.class(2)), ("dog/7.jpg".to_owned(), Some(1)));
/// # Ok::<(), shardstream::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct FileList {
    folder: String,
    /// Names below the folder.
    names: PathList,
    classes: Vec<String>,
    /// Where the files of each class end; nothing without classes.
    ends: Vec<usize>,
}

/// The files of a folder and the folders below it, as a source without classes.
///
/// # Errors
/// If the folder can't be listed or has no files.
pub async fn file_list(store: &dyn Store, folder: &str) -> Result<FileList> {
    let mut names = names_below(store, folder).await?;
    names.sort_by(|a, b| order(a).cmp(&order(b)));
    FileList {
        folder: folder.to_owned(),
        names: names.iter().collect(),
        classes: Vec::new(),
        ends: Vec::new(),
    }
    .checked()
}

/// The pictures of a folder that has a folder for each class (the layout of `ImageFolder`). Classes are numbered in the order of
/// their names; files beside the class folders are passed over.
///
/// # Errors
/// If the folder can't be listed or has no class folder with pictures.
pub async fn image_folder(store: &dyn Store, folder: &str) -> Result<FileList> {
    let mut names = names_below(store, folder).await?;
    names.retain(|name| name.contains('/') && is_picture(name));
    names.sort_by(|a, b| (class(a), order(a)).cmp(&(class(b), order(b))));
    let (mut classes, mut ends) = (Vec::<String>::new(), Vec::new());
    for (i, name) in names.iter().enumerate() {
        if classes.last().map(String::as_str) != Some(class(name)) {
            classes.push(class(name).to_owned());
            ends.push(i);
        }
        if let Some(end) = ends.last_mut() {
            *end = i + 1;
        }
    }
    FileList { folder: folder.to_owned(), names: names.iter().collect(), classes, ends }.checked()
}

impl FileList {
    /// How many files there are: at least one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never: a list has at least one file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of a file, below the folder.
    ///
    /// # Panics
    /// If `file` is not below [`FileList::len`].
    #[must_use]
    pub fn name(&self, file: usize) -> String {
        self.names.get(file)
    }

    /// The path of a file.
    ///
    /// # Panics
    /// If `file` is not below [`FileList::len`].
    #[must_use]
    pub fn path(&self, file: usize) -> String {
        super::leaf::join(&self.folder, &self.names.get(file))
    }

    /// The number of a file's class, if there are classes.
    #[must_use]
    pub fn class(&self, file: usize) -> Option<usize> {
        let class = self.ends.partition_point(|&end| end <= file);
        (class < self.classes.len()).then_some(class)
    }

    /// The names of the classes, in the order of their numbers.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    fn checked(self) -> Result<Self> {
        if self.is_empty() {
            return Err(
                Error::manifest("holds no files that are wanted").in_shard(redact(&self.folder))
            );
        }
        Ok(self)
    }
}

impl fmt::Debug for FileList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, names, classes, .. } = self;
        f.debug_struct("FileList")
            .field("folder", folder)
            .field("files", &names.len())
            .field("classes", &classes.len())
            .finish()
    }
}

async fn names_below(store: &dyn Store, folder: &str) -> Result<Vec<String>> {
    let start = if folder.is_empty() {
        String::new()
    } else {
        format!("{}/", folder.trim_end_matches('/'))
    };
    let found = store.list(folder).await?;
    Ok(found
        .into_iter()
        .filter_map(|meta| meta.path.strip_prefix(&start).map(str::to_owned))
        .collect())
}

/// Folder, then name.
fn order(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// The first folder.
fn class(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

fn is_picture(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| {
        PICTURES.iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}
