//! A few threads that share out numbered work.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Result;

/// Calls `work` for every number below `count` on `threads` threads; results in order. Ends early at the first error, and returns that
/// of the lowest number known. A panic in a thread comes out here.
pub(crate) fn each<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut results = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return results;
            }
            let result = work(at);
            if result.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            results.push((at, result));
        }
    };
    let mut results: Vec<(usize, Result<T>)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads.min(count).max(1)).map(|_| scope.spawn(run)).collect();
        handles
            .into_iter()
            .flat_map(|handle| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn results_in_order_and_the_first_error() {
        assert_eq!(
            each(3, 100, |at| Ok(at * 2)).unwrap(),
            (0..100).map(|at| at * 2).collect::<Vec<_>>()
        );
        assert_eq!(each(3, 0, Ok).unwrap(), [0usize; 0]);
        let error = each(3, 100, |at| if at == 7 { Err(Error::pack("seven")) } else { Ok(at) })
            .unwrap_err();
        assert_eq!(error.message(), "seven");
    }
}
