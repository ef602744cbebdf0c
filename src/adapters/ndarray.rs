//! `ndarray`.

use ndarray::{ArrayD, IxDyn};

use crate::error::{Error, Result};
use crate::sample::{Element, Tensor};

impl Tensor {
    /// The same elements as an array of `ndarray`, without a copy.
    ///
    /// ```
    /// use shardstream::sample::{Data, Tensor};
    /// let tensor = Tensor::new(vec![2, 2], Data::F32(vec![1.0, 2.0, 3.0, 4.0])).unwrap();
    /// let array = tensor.into_ndarray::<f32>()?;
    /// assert_eq!(array[[1, 0]], 3.0);
    /// # Ok::<(), shardstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the elements are of another type.
    pub fn into_ndarray<T: Element>(self) -> Result<ArrayD<T>> {
        let (shape, data) = self.into_parts();
        let dtype = data.dtype();
        let elements = T::into_vec(data).ok_or_else(|| {
            Error::batch(format!("a tensor of {dtype}, not {}", std::any::type_name::<T>()))
        })?;
        ArrayD::from_shape_vec(IxDyn(&shape), elements)
            .map_err(|error| Error::batch("elements and shape differ").with_source(error))
    }
}
