//! Our tensors as those of other crates, each behind a feature of its name. The elements are taken over, not copied, where the other
//! crate has their type; where it has not, the error says so.
//!
//! | feature | method of [`Tensor`](crate::sample::Tensor) | gives |
//! |---|---|---|
//! | `ndarray` | `into_ndarray` | `ndarray::ArrayD` |
//! | `candle` | `into_candle` | `candle_core::Tensor` on a device |
//! | `burn` | `into_burn` | `burn_core::tensor::TensorData`, for `Tensor::from_data` |
//!
//! With `burn` there is also [`BurnLoader`]: our loader as the `DataLoader` that `burn`'s `Learner` takes. Each has an example that trains:
//! `examples/softmax.rs` (ndarray), `examples/train.rs` (candle), `examples/burn` (a package of its own).

#[cfg(feature = "burn")]
mod burn;
#[cfg(feature = "burn")]
mod burn_loader;
#[cfg(feature = "candle")]
mod candle;
#[cfg(feature = "ndarray")]
mod ndarray;

#[cfg(feature = "burn")]
pub use burn_loader::BurnLoader;
