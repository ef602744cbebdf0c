//! What the fields of a parquet file's footer and of its pages' headers hold, by number, as the format says: `parquet.thrift` of apache/parquet-format.

use self::Holds::{Any, Byte, Double, Flag, Many, Number, One, Text};

/// What a field or an element holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Holds {
    /// Passed over by its type.
    Any,
    Flag,
    Byte,
    /// Of any width; choices are numbers.
    Number,
    Double,
    Text,
    /// A structure: what its fields hold, from number 1 on.
    One(Fields),
    /// A list.
    Many(&'static Self),
}

pub(super) type Fields = &'static [Holds];

impl Holds {
    /// Whether it may come with this type of Thrift's compact form.
    pub(super) const fn comes_as(self, kind: u8) -> bool {
        match self {
            Any => true,
            Flag => matches!(kind, 1 | 2),
            Byte => kind == 3,
            Number => matches!(kind, 4..=6),
            Double => kind == 7,
            Text => kind == 8,
            Many(_) => matches!(kind, 9 | 10),
            One(_) => kind == 12,
        }
    }
}

const NONE: Fields = &[];
const PAIR: Fields = &[Text, Text];

/// `FileMetaData`.
pub(super) const FOOTER: Fields = &[
    Number,
    Many(&One(SCHEMA_ELEMENT)),
    Number,
    Many(&One(ROW_GROUP)),
    Many(&One(PAIR)),
    Text,
    Many(&One(&[One(NONE), One(NONE)])),
    Any,
    Text,
];

const SCHEMA_ELEMENT: Fields =
    &[Number, Number, Number, Text, Number, Number, Number, Number, Number, One(LOGICAL_TYPE)];

const LOGICAL_TYPE: Fields = &[
    One(NONE),
    One(NONE),
    One(NONE),
    One(NONE),
    One(&[Number, Number]),
    One(NONE),
    One(TIME),
    One(TIME),
    Any,
    One(&[Byte, Flag]),
    One(NONE),
    One(NONE),
    One(NONE),
    One(NONE),
    One(NONE),
    One(&[Byte]),
    One(&[Text]),
    One(&[Text, Number]),
    One(NONE),
];

const TIME: Fields = &[Flag, One(&[One(NONE), One(NONE), One(NONE)])];

const ROW_GROUP: Fields = &[
    Many(&One(COLUMN_CHUNK)),
    Number,
    Number,
    Many(&One(&[Number, Flag, Flag])),
    Number,
    Number,
    Number,
];

const COLUMN_CHUNK: Fields =
    &[Text, Number, One(COLUMN), Number, Number, Number, Number, Any, Text];

const COLUMN: Fields = &[
    Number,
    Many(&Number),
    Many(&Text),
    Number,
    Number,
    Number,
    Number,
    Many(&One(PAIR)),
    Number,
    Number,
    Number,
    One(STATISTICS),
    Many(&One(&[Number, Number, Number])),
    Number,
    Number,
    One(&[Number, Many(&Number), Many(&Number)]),
    One(&[One(&[Double; 8]), Many(&Number)]),
];

const STATISTICS: Fields = &[Text, Text, Number, Number, Text, Text, Flag, Flag, Number];

/// `PageHeader`.
pub(super) const PAGE: Fields = &[
    Number,
    Number,
    Number,
    Number,
    One(&[Number, Number, Number, Number, One(STATISTICS)]),
    One(NONE),
    One(&[Number, Number, Flag]),
    One(&[Number, Number, Number, Number, Number, Number, Flag, One(STATISTICS)]),
];
/// The number of its field that says how many bytes the page has in the file.
pub(super) const PAGE_SIZE: i16 = 3;
