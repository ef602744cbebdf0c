//! `safetensors` files.

use safetensors::{Dtype, SafeTensors};

use super::npy::elements_of;
use crate::error::{Error, Result};
use crate::sample::Tensor;

/// All tensors in the order in which they lie in the file.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    if bytes.is_empty() {
        return Err(super::plain::empty());
    }
    let fail = |error: safetensors::SafeTensorError| {
        Error::decode("broken safetensors").with_source(error)
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(fail)?;
    let file = SafeTensors::deserialize(bytes).map_err(fail)?;
    metadata
        .offset_keys()
        .into_iter()
        .map(|name| {
            let view = file.tensor(&name).map_err(fail)?;
            let kind = kind(view.dtype()).ok_or_else(|| {
                Error::decode(format!("tensor {name}: type {:?} is not supported", view.dtype()))
            })?;
            let tensor = elements_of(kind, view.data(), false)
                .and_then(|data| Tensor::new(view.shape().to_vec(), data))
                .ok_or_else(|| {
                    Error::decode(format!("tensor {name}: elements and shape differ"))
                })?;
            Ok((name, tensor))
        })
        .collect()
}

const fn kind(dtype: Dtype) -> Option<&'static str> {
    Some(match dtype {
        Dtype::BOOL => "b1",
        Dtype::U8 => "u1",
        Dtype::I8 => "i1",
        Dtype::U16 => "u2",
        Dtype::I16 => "i2",
        Dtype::U32 => "u4",
        Dtype::I32 => "i4",
        Dtype::U64 => "u8",
        Dtype::I64 => "i8",
        Dtype::F16 => "f2",
        Dtype::BF16 => "bf16",
        Dtype::F32 => "f4",
        Dtype::F64 => "f8",
        _ => return None,
    })
}
