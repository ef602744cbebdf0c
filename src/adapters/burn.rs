//! `burn`.

use burn_core::tensor::TensorData;

use crate::error::{Error, Result};
use crate::sample::{Data, Tensor};

impl Tensor {
    /// The same elements as `burn` takes them in `Tensor::from_data`, without a copy.
    ///
    /// ```
    /// use shardstream::sample::{Data, Tensor};
    /// let tensor = Tensor::new(vec![2, 2], Data::F32(vec![1.0, 2.0, 3.0, 4.0])).unwrap();
    /// let data = tensor.into_burn()?;
    /// assert_eq!(data.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), shardstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the number of elements doesn't fit the shape.
    pub fn into_burn(self) -> Result<TensorData> {
        let (shape, data) = self.into_parts();
        if shape.iter().product::<usize>() != data.len() {
            return Err(Error::batch(format!("{} elements in a tensor {shape:?}", data.len())));
        }
        Ok(match data {
            Data::Bool(v) => TensorData::new(v, shape),
            Data::U8(v) => TensorData::new(v, shape),
            Data::I8(v) => TensorData::new(v, shape),
            Data::U16(v) => TensorData::new(v, shape),
            Data::I16(v) => TensorData::new(v, shape),
            Data::U32(v) => TensorData::new(v, shape),
            Data::I32(v) => TensorData::new(v, shape),
            Data::U64(v) => TensorData::new(v, shape),
            Data::I64(v) => TensorData::new(v, shape),
            Data::F16(v) => TensorData::new(v, shape),
            Data::BF16(v) => TensorData::new(v, shape),
            Data::F32(v) => TensorData::new(v, shape),
            Data::F64(v) => TensorData::new(v, shape),
        })
    }
}
