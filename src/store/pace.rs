//! Whether a connection is too slow to wait for. Pure: all times are passed in.

use std::time::Duration;

use super::retry::RetryOptions;
use super::transport::FailureKind;

/// How many replies make up what is usual.
const ENOUGH: u32 = 8;
/// A reply tells a speed if it has so many bytes.
const LONG_ENOUGH: u64 = 256 << 10;
/// Weight of the newest reply.
const NEWEST: f64 = 0.2;
/// Shorter silences are never a stall by comparison.
const SHORTEST_SILENCE: Duration = Duration::from_millis(250);
/// Replies that take no longer are never slow by comparison.
const SHORTEST_REPLY: Duration = Duration::from_millis(500);
/// What is usual may become known while we wait: look again after this time at the latest.
const LOOK: Duration = Duration::from_millis(250);
/// How many times the usual is too much.
const SILENCE_FACTOR: f64 = 8.0;
const SLOW_FACTOR: f64 = 4.0;
/// Before the absolute floor is looked at.
const FLOOR_AFTER: Duration = Duration::from_secs(5);

/// What is usual on this store, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Pace {
    replies: u32,
    /// Replies that were long enough to tell a speed.
    bodies: u32,
    /// Seconds to the first byte.
    latency: f64,
    /// Seconds for each byte after that.
    per_byte: f64,
}

/// A reply that is being read. Counts only time spent waiting for the server, never for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Until the first byte came, once it has.
    pub(super) latency: Option<Duration>,
    /// Since the request was sent.
    pub(super) waited: Duration,
    /// Since the last byte came.
    pub(super) silent: Duration,
    /// Bytes that came.
    pub(super) received: u64,
    /// Bytes that shall come, where that is known.
    pub(super) wanted: Option<u64>,
    /// How often this place has been opened again for being slow: each time doubles the patience, so that a store that has become slow
    /// as a whole is soon left in peace.
    pub(super) reopened: u32,
}

/// What to do with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Wait for more, and look again after this much more waiting.
    Wait(Duration),
    /// Open it again.
    Reopen(FailureKind),
}

impl Pace {
    /// Takes a reply into account, whole or given up.
    pub(super) fn learn(&mut self, reply: &Progress) {
        let latency = reply.latency.unwrap_or(reply.waited);
        let per_byte =
            reply.waited.saturating_sub(latency).as_secs_f64() / reply.received.max(1) as f64;
        let weight = |earlier: u32| if earlier == 0 { 1.0 } else { NEWEST };
        self.latency += weight(self.replies) * (latency.as_secs_f64() - self.latency);
        self.replies = self.replies.saturating_add(1);
        if reply.received >= LONG_ENOUGH {
            self.per_byte += weight(self.bodies) * (per_byte - self.per_byte);
            self.bodies = self.bodies.saturating_add(1);
        }
    }

    /// Judges a reply.
    pub(super) fn judge(&self, reply: &Progress, options: &RetryOptions) -> Verdict {
        let silence = self.silence(reply.reopened, options);
        if reply.silent >= silence {
            return Verdict::Reopen(FailureKind::Stalled);
        }
        let mut look_again = silence - reply.silent;
        if let Some(limit) = self.reply(reply) {
            if reply.waited >= limit {
                return Verdict::Reopen(FailureKind::Slow);
            }
            look_again = look_again.min(limit - reply.waited);
        }
        if let Some(floor) = options.min_speed {
            let after = patient(FLOOR_AFTER, reply.reopened);
            if reply.waited >= after
                && (reply.received as f64) < floor as f64 * reply.waited.as_secs_f64()
            {
                return Verdict::Reopen(FailureKind::Slow);
            }
            look_again =
                look_again.min(after.saturating_sub(reply.waited).max(Duration::from_secs(1)));
        }
        Verdict::Wait(look_again.clamp(Duration::from_millis(1), LOOK))
    }

    /// The longest silence that is waited for.
    fn silence(&self, reopened: u32, options: &RetryOptions) -> Duration {
        if self.replies < ENOUGH {
            return options.stall_timeout;
        }
        let usual =
            Duration::try_from_secs_f64(self.latency * SILENCE_FACTOR).unwrap_or(Duration::MAX);
        patient(usual.max(SHORTEST_SILENCE), reopened).min(options.stall_timeout)
    }

    /// The longest a reply of known length may take.
    fn reply(&self, reply: &Progress) -> Option<Duration> {
        let wanted = reply.wanted.filter(|_| self.bodies >= ENOUGH)?;
        let usual = self.latency + self.per_byte * wanted as f64;
        let limit = Duration::try_from_secs_f64(usual * SLOW_FACTOR).unwrap_or(Duration::MAX);
        Some(patient(limit.max(SHORTEST_REPLY), reply.reopened))
    }
}

fn patient(limit: Duration, reopened: u32) -> Duration {
    limit.saturating_mul(1 << reopened.min(20))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn options() -> RetryOptions {
        RetryOptions { stall_timeout: 10_000 * MS, ..RetryOptions::default() }
    }

    /// 100 ms to the first byte, then 1 MB in 100 ms.
    fn usual() -> Progress {
        Progress {
            latency: Some(100 * MS),
            waited: 200 * MS,
            received: 1_000_000,
            wanted: Some(1_000_000),
            ..Progress::default()
        }
    }

    fn known() -> Pace {
        let mut pace = Pace::default();
        (0..ENOUGH).for_each(|_| pace.learn(&usual()));
        pace
    }

    #[test]
    fn at_first_only_the_stall_timeout_counts() {
        let silent = |ms: u32| Progress {
            silent: ms * MS,
            waited: ms * MS,
            wanted: Some(1),
            ..Progress::default()
        };
        let mut pace = Pace::default();
        for _ in 0..ENOUGH {
            assert_eq!(pace.judge(&silent(9_999), &options()), Verdict::Wait(MS));
            assert_eq!(
                pace.judge(&silent(10_000), &options()),
                Verdict::Reopen(FailureKind::Stalled)
            );
            pace.learn(&usual());
        }
        assert_eq!(pace.judge(&silent(9_999), &options()), Verdict::Reopen(FailureKind::Stalled));
    }

    #[test]
    fn then_what_is_usual_counts() {
        let wait = |ms: u32| Verdict::Wait(ms * MS);
        let (stalled, slow) =
            (Verdict::Reopen(FailureKind::Stalled), Verdict::Reopen(FailureKind::Slow));
        for (silent, waited, received, reopened, want) in [
            // Eight times the usual latency of silence.
            (799, 799, 0, 0, wait(1)),
            (800, 800, 0, 0, stalled),
            (800, 800, 0, 1, wait(250)),
            (1600, 1600, 0, 1, stalled),
            // Never longer than the stall timeout.
            (10_000, 10_000, 0, 9, stalled),
            // Four times the usual 200 ms for a reply of 1 MB.
            (1, 799, 900_000, 0, wait(1)),
            (1, 800, 900_000, 0, slow),
            (1, 800, 900_000, 1, wait(250)),
            (1, 1600, 900_000, 1, slow),
        ] {
            let reply = Progress {
                silent: silent * MS,
                waited: waited * MS,
                received,
                reopened,
                latency: Some(100 * MS),
                ..usual()
            };
            assert_eq!(known().judge(&reply, &options()), want, "{reply:?}");
        }
    }

    #[test]
    fn a_store_that_slows_down_as_a_whole_is_left_in_peace() {
        // Everything takes a hundred times as long from now on. Each reply is opened again a few times at most.
        let (mut pace, mut reopened_in_all) = (known(), 0);
        for _ in 0..100 {
            let mut reopened = 0;
            loop {
                let reply =
                    Progress { waited: 10_000 * MS, received: 500_000, reopened, ..usual() };
                if pace.judge(&reply, &options()) == Verdict::Reopen(FailureKind::Slow) {
                    reopened += 1;
                    pace.learn(&reply);
                } else {
                    pace.learn(&Progress { waited: 20_000 * MS, ..usual() });
                    break;
                }
            }
            reopened_in_all += reopened;
        }
        assert!((1..10).contains(&reopened_in_all), "{reopened_in_all}");
    }

    #[test]
    fn the_floor_is_off_unless_asked_for() {
        let crawling = Progress {
            waited: 6000 * MS,
            received: 6_000,
            wanted: None,
            latency: Some(MS),
            ..Progress::default()
        };
        assert!(matches!(Pace::default().judge(&crawling, &options()), Verdict::Wait(_)));
        let with_floor = RetryOptions { min_speed: Some(1_001), ..options() };
        assert_eq!(
            Pace::default().judge(&crawling, &with_floor),
            Verdict::Reopen(FailureKind::Slow)
        );
        let early = Progress { waited: 4999 * MS, ..crawling };
        assert!(matches!(Pace::default().judge(&early, &with_floor), Verdict::Wait(_)));
        let fast_enough = RetryOptions { min_speed: Some(1_000), ..options() };
        assert!(matches!(Pace::default().judge(&crawling, &fast_enough), Verdict::Wait(_)));
    }
}
