//! `candle`.

use candle_core::Device;

use crate::error::{Error, Result};
use crate::sample::{Data, Tensor};

impl Tensor {
    /// The same elements as a tensor of `candle`; on the CPU without a copy. `bool` becomes `u8`.
    ///
    /// ```
    /// use candle_core::{DType, Device};
    /// use shardstream::sample::{Data, Tensor};
    /// let tensor = Tensor::new(vec![2, 2], Data::U8(vec![1, 2, 3, 4])).unwrap();
    /// let tensor = tensor.into_candle(&Device::Cpu)?.to_dtype(DType::F32)?;
    /// assert_eq!(tensor.dims(), [2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If `candle` has no such type (`i8`, `u16`, `u64`), or the device has no room.
    pub fn into_candle(self, device: &Device) -> Result<candle_core::Tensor> {
        let (shape, data) = self.into_parts();
        let tensor = match data {
            Data::Bool(v) => candle_core::Tensor::from_vec(
                v.into_iter().map(u8::from).collect::<Vec<_>>(),
                shape,
                device,
            ),
            Data::U8(v) => candle_core::Tensor::from_vec(v, shape, device),
            Data::U32(v) => candle_core::Tensor::from_vec(v, shape, device),
            Data::I16(v) => candle_core::Tensor::from_vec(v, shape, device),
            Data::I32(v) => candle_core::Tensor::from_vec(v, shape, device),
            Data::I64(v) => candle_core::Tensor::from_vec(v, shape, device),
            Data::F16(v) => candle_core::Tensor::from_vec(v, shape, device),
            Data::BF16(v) => candle_core::Tensor::from_vec(v, shape, device),
            Data::F32(v) => candle_core::Tensor::from_vec(v, shape, device),
            Data::F64(v) => candle_core::Tensor::from_vec(v, shape, device),
            other => {
                return Err(Error::batch(format!("candle has no tensors of {}", other.dtype())));
            }
        };
        tensor.map_err(|error| Error::batch("no tensor for candle").with_source(error))
    }
}
