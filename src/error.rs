//! The one error type. The layer that fails says what it knows; each layer above adds the place on the way out.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use crate::position::{Mark, Position};
use crate::redact::redact;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// What failed, where (shard, modality, member, key, field, byte), and why. One word wide.
///
/// ```
/// use shardstream::Error;
/// let error = Error::tar("unexpected end of data").at(1024).in_member("id_2.jpg").in_shard("image/000001.tar");
/// assert_eq!(error.to_string(), "tar: member id_2.jpg in image/000001.tar at byte 1024: unexpected end of data");
/// assert_eq!(error.shard(), Some("image/000001.tar"));
/// ```
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: Cow<'static, str>,
    place: Place,
    scope: Scope,
    transient: bool,
    source: Option<BoxError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Store,
    Tar,
    Twins,
    Group,
    Index,
    Decode,
    Augment,
    Filter,
    Batch,
    Manifest,
    Checkpoint,
    Config,
    Pack,
    Task,
}

/// How much is lost by an error when the loader skips it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One sample.
    Sample,
    /// What is left of one shard.
    Shard,
    /// The run can't go on.
    Run,
}

#[derive(Debug, Default)]
struct Place {
    shard: Option<String>,
    modality: Option<String>,
    member: Option<String>,
    key: Option<String>,
    field: Option<String>,
    offset: Option<u64>,
    settles: Option<(Position, Mark)>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident $kind:ident $scope:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
            Self::new(Kind::$kind, Scope::$scope, message.into())
        }
    )*};
}

impl Error {
    constructors! {
        /// Bytes could not be read or written. Concerns a shard.
        store Store Shard;
        /// A tar archive is broken. Concerns what is left of a shard.
        tar Tar Shard;
        /// The twins of a shard don't fit together at one key. Concerns a sample.
        twins Twins Sample;
        /// Members don't make up a sample. Concerns a sample.
        group Group Sample;
        /// A key index can't be used. Concerns a shard.
        index Index Shard;
        /// A field can't be decoded. Concerns a sample.
        decode Decode Sample;
        /// An augmentation failed. Concerns a sample.
        augment Augment Sample;
        /// A sample was left out on purpose. Concerns a sample; see [`Error::is_filtered`].
        filter Filter Sample;
        /// A sample doesn't fit into its batch. Concerns a sample.
        batch Batch Sample;
        /// A manifest is wrong. Ends the run.
        manifest Manifest Run;
        /// A checkpoint is wrong or belongs to another run. Ends the run.
        checkpoint Checkpoint Run;
        /// What was asked for can't work. Ends the run.
        config Config Run;
        /// Packing failed. Ends the run.
        pack Pack Run;
        /// A task of the loader ended without its result. Ends the run.
        task Task Run;
    }

    fn new(kind: Kind, scope: Scope, message: Cow<'static, str>) -> Self {
        Self(Box::new(Inner {
            kind,
            message,
            place: Place::default(),
            scope,
            transient: false,
            source: None,
        }))
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the byte offset in the tar or file, unless a layer below knew it.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.place.offset.get_or_insert(offset);
        self
    }

    /// Adds the name of the tar member, unless a layer below knew it.
    #[must_use]
    pub fn in_member(mut self, member: impl Into<String>) -> Self {
        self.0.place.member.get_or_insert_with(|| member.into());
        self
    }

    /// Adds the modality, unless a layer below knew it.
    #[must_use]
    pub fn in_modality(mut self, modality: impl Into<String>) -> Self {
        self.0.place.modality.get_or_insert_with(|| modality.into());
        self
    }

    /// Adds the shard (its path or URL as the user knows it; what of it may be secret is left out), unless a layer below knew it.
    #[must_use]
    pub fn in_shard(mut self, shard: impl Into<String>) -> Self {
        self.0.place.shard.get_or_insert_with(|| redact(&shard.into()).into_owned());
        self
    }

    /// Adds the sample's key, unless a layer below knew it.
    #[must_use]
    pub fn of_key(mut self, key: impl Into<String>) -> Self {
        self.0.place.key.get_or_insert_with(|| key.into());
        self
    }

    /// Adds the field, unless a layer below knew it.
    #[must_use]
    pub fn in_field(mut self, field: impl Into<String>) -> Self {
        self.0.place.field.get_or_insert_with(|| field.into());
        self
    }

    /// Adds the place in the order that is settled when this error is skipped, unless a layer below knew it.
    #[must_use]
    pub fn settling(mut self, position: Position, mark: Mark) -> Self {
        self.0.place.settles.get_or_insert((position, mark));
        self
    }

    /// Says that trying again may help.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.0.transient = true;
        self
    }

    /// Says how much is lost when this error is skipped.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.0.scope = scope;
        self
    }

    /// How much is lost when this error is skipped.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.0.scope
    }

    /// Whether trying again may help (a connection that broke, a server that asks for patience).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.0.transient
    }

    /// Whether the error concerns one sample, and the stream goes on with the next one.
    #[must_use]
    pub fn concerns_one_sample(&self) -> bool {
        self.0.scope == Scope::Sample
    }

    /// Whether no fault is meant: a filter or an augmentation left the sample out on purpose.
    #[must_use]
    pub fn is_filtered(&self) -> bool {
        self.0.kind == Kind::Filter
    }

    /// Whether what was asked for can't work, as opposed to data that is broken.
    #[must_use]
    pub fn is_config(&self) -> bool {
        matches!(self.0.kind, Kind::Config | Kind::Checkpoint | Kind::Manifest)
    }

    /// Whether a checkpoint can't be used.
    #[must_use]
    pub fn is_checkpoint(&self) -> bool {
        self.0.kind == Kind::Checkpoint
    }

    /// The shard concerned.
    #[must_use]
    pub fn shard(&self) -> Option<&str> {
        self.0.place.shard.as_deref()
    }

    /// The modality concerned.
    #[must_use]
    pub fn modality(&self) -> Option<&str> {
        self.0.place.modality.as_deref()
    }

    /// The tar member concerned.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        self.0.place.member.as_deref()
    }

    /// The key of the sample concerned.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.place.key.as_deref()
    }

    /// The field concerned.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.place.field.as_deref()
    }

    /// The byte in the tar or file at which it was noticed.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.place.offset
    }

    /// The place in the order that is settled when this error is skipped.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.place.settles.map(|(position, _)| position)
    }

    /// Position and mark, for stages that reorder.
    #[must_use]
    pub fn mark(&self) -> Option<(Position, Mark)> {
        self.0.place.settles
    }

    /// The mark, to be changed by a stage that reorders.
    pub fn mark_mut(&mut self) -> Option<&mut Mark> {
        self.0.place.settles.as_mut().map(|(_, mark)| mark)
    }

    /// What went wrong, without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What went wrong with which key and field, without paths: for what is kept in a checkpoint.
    #[must_use]
    pub fn reason(&self) -> String {
        let place = Place {
            key: self.0.place.key.clone(),
            field: self.0.place.field.clone(),
            ..Place::default()
        };
        let mut line = self.0.kind.word().to_owned();
        let place = place.to_string();
        for part in [place.as_str(), &self.0.message].into_iter().filter(|part| !part.is_empty()) {
            line.push_str(": ");
            line.push_str(part);
        }
        line
    }
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Store => "read",
            Self::Tar => "tar",
            Self::Twins => "twins",
            Self::Group => "group",
            Self::Index => "index",
            Self::Decode => "decode",
            Self::Augment => "augment",
            Self::Filter => "filter",
            Self::Batch => "batch",
            Self::Manifest => "manifest",
            Self::Checkpoint => "checkpoint",
            Self::Config => "config",
            Self::Pack => "pack",
            Self::Task => "task",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.field.as_ref().map(|field| format!("field {field}")));
        words.extend(self.key.as_ref().map(|key| {
            if words.is_empty() { format!("sample {key}") } else { format!("of sample {key}") }
        }));
        words.extend(self.member.as_ref().map(|member| format!("member {member}")));
        words.extend(self.modality.as_ref().map(|modality| format!("modality {modality}")));
        words.extend(
            self.shard
                .as_ref()
                .map(|shard| if words.is_empty() { shard.clone() } else { format!("in {shard}") }),
        );
        words.extend(self.offset.map(|offset| format!("at byte {offset}")));
        f.write_str(&words.join(" "))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.0.place.to_string();
        let mut line = self.0.kind.word().to_owned();
        for part in [place.as_str(), &self.0.message] {
            if !part.is_empty() {
                line.push_str(": ");
                line.push_str(part);
            }
        }
        let mut source = self.0.source.as_deref().map(|e| e as &(dyn StdError + 'static));
        while let Some(error) = source {
            let text = error.to_string();
            if !line.ends_with(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
            source = error.source();
        }
        // One line, whatever a file name or a server put into it.
        f.write_str(&line.replace(['\n', '\r', '\0'], " "))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Error").field(&self.to_string()).field(&self.0.place.settles).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}
