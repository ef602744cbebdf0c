//! What to do after a failed attempt. Pure: time and randomness are passed in.

use std::time::Duration;

use super::transport::{Failure, FailureKind};

/// How patiently a remote object is read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RetryOptions {
    /// How long to go on trying without a single new byte.
    pub deadline: Duration,
    /// How many attempts in a row may fail without a single new byte.
    pub attempts: u32,
    /// Waiting time after the first failure; doubles with each further one.
    pub first_delay: Duration,
    /// The waiting time grows no longer than this.
    pub longest_delay: Duration,
    /// A connection that is silent for this long is given up and opened again. Sooner, once it is known how fast the store
    /// usually answers.
    pub stall_timeout: Duration,
    /// A connection that stays below so many bytes a second for 5 seconds is opened again. Off by default: a floor that does not
    /// fit the link makes every stream reconnect for ever. What is far below the usual speed is opened again anyway.
    pub min_speed: Option<u64>,
    /// Where the jitter of the waiting times starts; `None` takes a seed that is different in every process. It has no influence
    /// on the data.
    pub seed: Option<u64>,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(180),
            attempts: 20,
            first_delay: Duration::from_millis(100),
            longest_delay: Duration::from_secs(15),
            stall_timeout: Duration::from_secs(10),
            min_speed: None,
            seed: None,
        }
    }
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Ask again after this time.
    Retry(Duration),
    /// The failure is final.
    GiveUp(Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Asking again can't help.
    Final,
    /// The attempts or the time are used up.
    Spent,
}

/// Failures in a row since the last new byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spell {
    /// How many, this one included.
    pub(super) failures: u32,
    /// For how long.
    pub(super) lasted: Duration,
}

/// Decides by the failure, the spell it belongs to, and a random number in `[0, 1)`.
pub(super) fn decide(
    failure: &Failure,
    spell: Spell,
    roll: f64,
    options: &RetryOptions,
) -> Decision {
    if !is_transient(failure.kind) {
        return Decision::GiveUp(Why::Final);
    }
    let wait = delay(failure.kind, spell.failures, roll, options);
    if spell.failures >= options.attempts || spell.lasted.saturating_add(wait) > options.deadline {
        return Decision::GiveUp(Why::Spent);
    }
    Decision::Retry(wait)
}

/// Whether another attempt may fare better.
pub(super) const fn is_transient(kind: FailureKind) -> bool {
    match kind {
        FailureKind::Status { code, .. } => {
            matches!(code, 408 | 421 | 425 | 429 | 500 | 502..=504 | 506..=599)
        }
        FailureKind::Broken | FailureKind::Stalled | FailureKind::Slow | FailureKind::Mismatch => {
            true
        }
        FailureKind::PastEnd { .. } | FailureKind::Changed | FailureKind::Final => false,
    }
}

/// Doubling, between half and the whole of the step. A server's own wish is the least, with a little on top so that not all
/// clients come back at once.
fn delay(kind: FailureKind, failures: u32, roll: f64, options: &RetryOptions) -> Duration {
    let step = options
        .first_delay
        .saturating_mul(1 << failures.saturating_sub(1).min(20))
        .min(options.longest_delay);
    let jittered = step.mul_f64(0.5 + roll / 2.0);
    match kind {
        FailureKind::Status { retry_after: Some(asked), .. } => {
            jittered.max(asked.saturating_add(options.first_delay.mul_f64(roll)))
        }
        // Waiting does not help a slow connection, another connection may.
        FailureKind::Stalled | FailureKind::Slow if failures <= 1 => Duration::ZERO,
        _ => jittered,
    }
}

/// Reads the `Retry-After` header: seconds. (The form with a date would need both clocks to agree; it counts as absent.)
#[cfg(any(feature = "http", test))]
pub(super) fn retry_after(header: &str) -> Option<Duration> {
    header.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, seconds: Option<u64>) -> Failure {
        Failure::new(
            FailureKind::Status { code, retry_after: seconds.map(Duration::from_secs) },
            "",
        )
    }

    fn options() -> RetryOptions {
        RetryOptions {
            deadline: Duration::from_secs(8),
            attempts: 5,
            longest_delay: Duration::from_secs(1),
            ..RetryOptions::default()
        }
    }

    #[test]
    fn which_failures_are_final() {
        let at = Spell { failures: 1, lasted: Duration::ZERO };
        for code in [400, 401, 403, 404, 405, 410, 411, 412, 416, 451, 501, 505, 301] {
            assert_eq!(
                decide(&status(code, Some(1)), at, 0.5, &options()),
                Decision::GiveUp(Why::Final),
                "{code}"
            );
        }
        for code in [408, 425, 429, 500, 502, 503, 504, 509, 520, 599] {
            assert!(
                matches!(decide(&status(code, None), at, 0.5, &options()), Decision::Retry(_)),
                "{code}"
            );
        }
        for (kind, transient) in [
            (FailureKind::Broken, true),
            (FailureKind::Stalled, true),
            (FailureKind::Slow, true),
            (FailureKind::Mismatch, true),
            (FailureKind::PastEnd { size: None }, false),
            (FailureKind::Changed, false),
            (FailureKind::Final, false),
        ] {
            let decided = decide(&Failure::new(kind, ""), at, 0.5, &options());
            assert_eq!(matches!(decided, Decision::Retry(_)), transient, "{kind:?}");
        }
    }

    #[test]
    fn the_waiting_time() {
        let (broken, stalled) = (FailureKind::Broken, FailureKind::Stalled);
        let asks = |seconds| FailureKind::Status {
            code: 503,
            retry_after: Some(Duration::from_secs(seconds)),
        };
        for (kind, failures, roll, ms) in [
            (broken, 1, 0.0, 50),
            (broken, 1, 1.0, 100),
            (broken, 2, 0.0, 100),
            (broken, 3, 1.0, 400),
            (broken, 4, 1.0, 800),
            (broken, 5, 1.0, 1000),
            (broken, 60, 1.0, 1000),
            (broken, u32::MAX, 0.0, 500),
            (asks(2), 1, 0.0, 2000),
            (asks(2), 1, 1.0, 2100),
            (asks(0), 3, 1.0, 400),
            (stalled, 1, 1.0, 0),
            (stalled, 2, 1.0, 200),
            (FailureKind::Slow, 1, 1.0, 0),
        ] {
            assert_eq!(
                delay(kind, failures, roll, &options()),
                Duration::from_millis(ms),
                "{kind:?} {failures} {roll}"
            );
        }
    }

    #[test]
    fn one_budget() {
        let spell = |failures, ms| Spell { failures, lasted: Duration::from_millis(ms) };
        let spent = Decision::GiveUp(Why::Spent);
        for (failure, spell, want) in [
            (status(500, None), spell(4, 1000), Decision::Retry(Duration::from_millis(600))),
            (status(500, None), spell(5, 1000), spent),
            (status(500, None), spell(1, 7_925), Decision::Retry(Duration::from_millis(75))),
            (status(500, None), spell(1, 7_926), spent),
            // What the server asks for is longer than we may wait: say so now.
            (status(429, Some(9)), spell(1, 0), spent),
            (status(429, Some(u64::MAX)), spell(1, 0), spent),
        ] {
            assert_eq!(decide(&failure, spell, 0.5, &options()), want, "{failure:?} {spell:?}");
        }
    }

    #[test]
    fn the_header() {
        assert_eq!(retry_after(" 3 "), Some(Duration::from_secs(3)));
        for header in ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(retry_after(header), None);
        }
    }
}
