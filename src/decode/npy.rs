//! numpy's `npy`: a magic, a Python dictionary, the elements.

use crate::error::{Error, Result};
use crate::sample::{Data, Tensor};

/// Parses a whole file. The elements come out in C order and in the machine's byte order.
pub(super) fn decode(bytes: &[u8]) -> Result<Tensor> {
    let (header, body) = split(bytes)?;
    let Header { descr, fortran, shape } = parse(header)?;
    let data = read(&descr, &shape, body)?;
    let tensor =
        Tensor::new(shape, data).ok_or_else(|| Error::decode("npy: elements and shape differ"))?;
    Ok(if fortran { from_fortran(tensor) } else { tensor })
}

fn split(bytes: &[u8]) -> Result<(&str, &[u8])> {
    let cut = || Error::decode("npy: cut off in the header");
    if bytes.is_empty() {
        return Err(super::plain::empty());
    }
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(|| {
        Error::decode(format!("not an npy: the field begins with {}", super::plain::show(bytes)))
    })?;
    let (&[major, _minor], rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match major {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        _ => return Err(Error::decode(format!("npy: version {major} is not known"))),
    };
    let (header, body) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header =
        std::str::from_utf8(header).map_err(|_| Error::decode("npy: the header is not text"))?;
    Ok((header, body))
}

struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
fn parse(header: &str) -> Result<Header> {
    let bad = |what: &str| Error::decode(format!("npy: the header has no {what}"));
    let after = |key: &str| {
        let at = header.find(&format!("'{key}'"))? + key.len() + 2;
        Some(header[at..].trim_start().strip_prefix(':')?.trim_start())
    };
    let descr = after("descr").ok_or_else(|| bad("descr"))?;
    let Some((descr, _)) = descr.strip_prefix('\'').and_then(|d| d.split_once('\'')) else {
        return Err(Error::decode("npy: arrays of records are not supported"));
    };
    let fortran = after("fortran_order").ok_or_else(|| bad("fortran_order"))?;
    let shape = after("shape")
        .and_then(|s| s.strip_prefix('(')?.split_once(')'))
        .ok_or_else(|| bad("shape"))?
        .0;
    let shape = shape
        .split(',')
        .map(|axis| axis.trim().trim_end_matches('L'))
        .filter(|axis| !axis.is_empty())
        .map(|axis| axis.parse().map_err(|_| bad("shape that can be read")))
        .collect::<Result<Vec<usize>>>()?;
    Ok(Header { descr: descr.to_owned(), fortran: fortran.starts_with("True"), shape })
}

fn read(descr: &str, shape: &[usize], body: &[u8]) -> Result<Data> {
    if descr.contains('O') {
        return Err(Error::decode(
            "npy: an array of Python objects is a pickle and is not read; save it as numbers",
        ));
    }
    let (order, kind) = descr.split_at_checked(1).unwrap_or(("", descr));
    let big = match order {
        "<" => false,
        ">" => true,
        "|" => false,
        "=" => cfg!(target_endian = "big"),
        _ => return Err(Error::decode(format!("npy: type {descr} is not supported"))),
    };
    let width = kind.get(1..).and_then(|w| w.parse::<usize>().ok()).unwrap_or(0);
    let elements = shape.iter().try_fold(1usize, |n, &axis| n.checked_mul(axis));
    let size = elements
        .and_then(|n| n.checked_mul(width))
        .ok_or_else(|| Error::decode("npy: the shape is too large"))?;
    let body = body
        .get(..size)
        .ok_or_else(|| Error::decode(format!("npy: cut off: {} of {size} bytes", body.len())))?;
    elements_of(kind, body, big)
        .ok_or_else(|| Error::decode(format!("npy: type {descr} is not supported")))
}

/// Elements of a type as numpy names it without the byte order (`f4`); `bf16` beside those. `None` if the type isn't known.
pub(super) fn elements_of(kind: &str, body: &[u8], big_endian: bool) -> Option<Data> {
    macro_rules! read {
        ($variant:ident $t:ty) => {{
            let read = if big_endian { <$t>::from_be_bytes } else { <$t>::from_le_bytes };
            Data::$variant(body.as_chunks().0.iter().map(|chunk| read(*chunk)).collect())
        }};
    }
    Some(match kind {
        "b1" => Data::Bool(body.iter().map(|&b| b != 0).collect()),
        "u1" => Data::U8(body.to_vec()),
        "i1" => Data::I8(body.iter().map(|&b| b.cast_signed()).collect()),
        "u2" => read!(U16 u16),
        "i2" => read!(I16 i16),
        "u4" => read!(U32 u32),
        "i4" => read!(I32 i32),
        "u8" => read!(U64 u64),
        "i8" => read!(I64 i64),
        "f2" => read!(F16 half::f16),
        "bf16" => read!(BF16 half::bf16),
        "f4" => read!(F32 f32),
        "f8" => read!(F64 f64),
        _ => return None,
    })
}

/// Reorders elements of which the first axis is the fastest.
fn from_fortran(tensor: Tensor) -> Tensor {
    fn reorder<T: Copy>(values: &[T], shape: &[usize]) -> Vec<T> {
        let mut strides = Vec::with_capacity(shape.len());
        let mut stride = 1;
        for &axis in shape {
            strides.push(stride);
            stride *= axis;
        }
        let mut index = vec![0; shape.len()];
        let mut out = Vec::with_capacity(values.len());
        for _ in 0..values.len() {
            out.push(values[index.iter().zip(&strides).map(|(i, s)| i * s).sum::<usize>()]);
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                if index[axis] < shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        out
    }
    let (shape, data) = tensor.into_parts();
    macro_rules! arms {
        ($($variant:ident)*) => {
            match &data {
                $(Data::$variant(values) => Data::$variant(reorder(values, &shape)),)*
            }
        };
    }
    let data = arms!(Bool U8 I8 U16 I16 U32 I32 U64 I64 F16 BF16 F32 F64);
    Tensor { shape, data }
}
