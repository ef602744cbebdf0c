//! A contiguous typed array in C order.

use crate::recycled;

/// Elements of a [`Tensor`], in C order (last axis fastest).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Data {
    Bool(Vec<bool>),
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F16(Vec<half::f16>),
    BF16(Vec<half::bf16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

macro_rules! for_each_data {
    ($self:expr, $v:ident => $body:expr) => {
        match $self {
            Data::Bool($v) => $body,
            Data::U8($v) => $body,
            Data::I8($v) => $body,
            Data::U16($v) => $body,
            Data::I16($v) => $body,
            Data::U32($v) => $body,
            Data::I32($v) => $body,
            Data::U64($v) => $body,
            Data::I64($v) => $body,
            Data::F16($v) => $body,
            Data::BF16($v) => $body,
            Data::F32($v) => $body,
            Data::F64($v) => $body,
        }
    };
}

impl Data {
    /// Keeps its memory for others, if it was taken there.
    pub(super) fn keep(self) {
        match self {
            Self::F32(numbers) => recycled::keep(numbers),
            Self::U8(values) => recycled::keep(values),
            Self::U16(values) => recycled::keep(values),
            _ => {}
        }
    }

    /// That it is somebody else's from now on.
    pub(super) fn give_away(&self) {
        match self {
            Self::F32(numbers) => recycled::give_away(numbers),
            Self::U8(values) => recycled::give_away(values),
            Self::U16(values) => recycled::give_away(values),
            _ => {}
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        for_each_data!(self, v => v.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the elements as numpy abbreviates it: `u1`, `i8`, `f4`, `b1` …; `bf16` for bfloat16.
    #[must_use]
    pub fn dtype(&self) -> &'static str {
        match self {
            Self::Bool(_) => "b1",
            Self::U8(_) => "u1",
            Self::I8(_) => "i1",
            Self::U16(_) => "u2",
            Self::I16(_) => "i2",
            Self::U32(_) => "u4",
            Self::I32(_) => "i4",
            Self::U64(_) => "u8",
            Self::I64(_) => "i8",
            Self::F16(_) => "f2",
            Self::BF16(_) => "bf16",
            Self::F32(_) => "f4",
            Self::F64(_) => "f8",
        }
    }

    /// The elements as bytes in the machine's order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bool(v) => bytemuck::cast_slice(v),
            Self::U8(v) => v,
            Self::I8(v) => bytemuck::cast_slice(v),
            Self::U16(v) => bytemuck::cast_slice(v),
            Self::I16(v) => bytemuck::cast_slice(v),
            Self::U32(v) => bytemuck::cast_slice(v),
            Self::I32(v) => bytemuck::cast_slice(v),
            Self::U64(v) => bytemuck::cast_slice(v),
            Self::I64(v) => bytemuck::cast_slice(v),
            Self::F16(v) => bytemuck::cast_slice(v),
            Self::BF16(v) => bytemuck::cast_slice(v),
            Self::F32(v) => bytemuck::cast_slice(v),
            Self::F64(v) => bytemuck::cast_slice(v),
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn item_size(&self) -> usize {
        match self {
            Self::Bool(_) | Self::U8(_) | Self::I8(_) => 1,
            Self::U16(_) | Self::I16(_) | Self::F16(_) | Self::BF16(_) => 2,
            Self::U32(_) | Self::I32(_) | Self::F32(_) => 4,
            Self::U64(_) | Self::I64(_) | Self::F64(_) => 8,
        }
    }

    /// Appends the elements of another array of the same type; false if the types differ.
    pub fn append(&mut self, other: &Self) -> bool {
        macro_rules! arms {
            ($($variant:ident)*) => {
                match (self, other) {
                    $((Self::$variant(a), Self::$variant(b)) => a.extend_from_slice(b),)*
                    _ => return false,
                }
            };
        }
        arms!(Bool U8 I8 U16 I16 U32 I32 U64 I64 F16 BF16 F32 F64);
        true
    }

    /// A copy of some of the elements; those beyond the end are left out.
    #[must_use]
    pub fn part(&self, range: std::ops::Range<usize>) -> Self {
        let end = range.end.min(self.len());
        let range = range.start.min(end)..end;
        macro_rules! arms {
            ($($variant:ident)*) => {
                match self {
                    $(Self::$variant(v) => Self::$variant(v[range].to_vec()),)*
                }
            };
        }
        arms!(Bool U8 I8 U16 I16 U32 I32 U64 I64 F16 BF16 F32 F64)
    }

    /// An empty array of the same type with room for `n` elements, in the memory of a [`Tensor`] that was dropped if there is one.
    #[must_use]
    pub fn empty_like(&self, n: usize) -> Self {
        macro_rules! arms {
            ($($variant:ident)*) => {
                match self {
                    Self::F32(_) => Self::F32(recycled::room(n)),
                    Self::U8(_) => Self::U8(recycled::room(n)),
                    Self::U16(_) => Self::U16(recycled::room(n)),
                    $(Self::$variant(_) => Self::$variant(Vec::with_capacity(n)),)*
                }
            };
        }
        arms!(Bool I8 I16 U32 I32 U64 I64 F16 BF16 F64)
    }
}

/// A type that the elements of a [`Tensor`] can have.
///
/// ```
/// use shardstream::sample::{Data, Element};
/// assert_eq!(f32::into_vec(Data::F32(vec![1.0, 2.0])), Some(vec![1.0, 2.0]));
/// assert_eq!(f32::into_vec(Data::U8(vec![1, 2])), None);
/// ```
pub trait Element: Copy + Default + Send + Sync + 'static + sealed::Sealed {
    /// Wraps elements.
    fn into_data(elements: Vec<Self>) -> Data;

    /// The elements, if they are of this type. Nothing is copied.
    fn into_vec(data: Data) -> Option<Vec<Self>>;

    /// The elements, if they are of this type.
    fn as_slice(data: &Data) -> Option<&[Self]>;
}

mod sealed {
    /// The set of types is fixed.
    pub trait Sealed {}
}

macro_rules! element {
    ($($t:ty => $variant:ident,)*) => {$(
        impl sealed::Sealed for $t {}

        impl Element for $t {
            fn into_data(elements: Vec<Self>) -> Data {
                Data::$variant(elements)
            }

            fn into_vec(data: Data) -> Option<Vec<Self>> {
                if let Data::$variant(elements) = data { Some(elements) } else { None }
            }

            fn as_slice(data: &Data) -> Option<&[Self]> {
                if let Data::$variant(elements) = data { Some(elements) } else { None }
            }
        }
    )*};
}

element! {
    bool => Bool,
    u8 => U8,
    i8 => I8,
    u16 => U16,
    i16 => I16,
    u32 => U32,
    i32 => I32,
    u64 => U64,
    i64 => I64,
    half::f16 => F16,
    half::bf16 => BF16,
    f32 => F32,
    f64 => F64,
}

/// A contiguous typed array in C order.
///
/// A batch or a picture (of `f32`, `u8` or `u16`, from 64 KiB) that is dropped leaves its memory to those to come: as much as was needed at once,
/// at most 512 MiB of each.
/// [`into_parts`](Self::into_parts) takes the elements out without a copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Length of each axis; empty for a scalar.
    pub shape: Vec<usize>,
    /// The elements; as many as the product of the shape.
    pub data: Data,
}

impl Tensor {
    /// A tensor, if the number of elements fits the shape.
    #[must_use]
    pub fn new(shape: Vec<usize>, data: Data) -> Option<Self> {
        let n = shape.iter().try_fold(1usize, |n, &axis| n.checked_mul(axis))?;
        (n == data.len()).then_some(Self { shape, data })
    }

    /// Its shape and its elements; nothing is copied.
    ///
    /// ```
    /// use shardstream::sample::{Data, Tensor};
    /// let tensor = Tensor::new(vec![2], Data::U8(vec![1, 2])).unwrap();
    /// assert_eq!(tensor.into_parts(), (vec![2], Data::U8(vec![1, 2])));
    /// ```
    #[must_use]
    pub fn into_parts(mut self) -> (Vec<usize>, Data) {
        let data = std::mem::replace(&mut self.data, Data::U8(Vec::new()));
        data.give_away();
        (std::mem::take(&mut self.shape), data)
    }

    /// Type and shape, for error messages.
    pub(crate) fn describe(&self) -> String {
        format!("tensor {} {:?}", self.data.dtype(), self.shape)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        std::mem::replace(&mut self.data, Data::U8(Vec::new())).keep();
    }
}
