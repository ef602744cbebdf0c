//! How many ranges of one object are read at once: as many as help. Pure.

use std::time::Duration;

/// A step up must bring so much to be worth its connections.
const WORTH: f64 = 1.1;
/// Rounds to stay after a step that brought nothing.
const HOLD: u32 = 8;
/// One refusal in so many parts is too many connections; fewer are chance.
const REFUSALS: usize = 8;
/// Below this share of its time waiting, the reader is served well enough.
const WAITING: f64 = 0.1;

/// The number of ranges, and what the last step up brought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Width {
    now: usize,
    most: usize,
    /// Width and speed before the last step up, while it is on trial.
    before: Option<(usize, f64)>,
    /// Whether the round is the first one after a step up: half of its parts were begun before.
    settling: bool,
    /// Rounds in which nothing is tried.
    hold: u32,
}

/// What happened while as many ranges as the width were read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Round {
    pub(super) bytes: u64,
    pub(super) took: Duration,
    /// How much of that time the reader waited for bytes.
    pub(super) reader_waited: Duration,
    /// Parts that were read.
    pub(super) parts: usize,
    /// How often the server asked for patience.
    pub(super) refused: usize,
}

impl Width {
    pub(super) fn new(start: usize, most: usize) -> Self {
        let most = most.max(1);
        Self { now: start.clamp(1, most), most, before: None, settling: false, hold: 0 }
    }

    pub(super) const fn now(&self) -> usize {
        self.now
    }

    /// Draws the conclusion from a round.
    pub(super) fn learn(&mut self, round: Round) {
        let seconds = round.took.as_secs_f64().max(1e-6);
        let speed = round.bytes as f64 / seconds;
        if round.refused * REFUSALS > round.parts {
            self.now = (self.now / 2).max(1);
            (self.before, self.settling, self.hold) = (None, false, HOLD);
            return;
        }
        if std::mem::take(&mut self.settling) {
            return;
        }
        if let Some((width, was)) = self.before.take()
            && speed < was * WORTH
        {
            self.now = width;
            self.hold = HOLD;
        }
        if self.hold > 0 {
            self.hold -= 1;
        } else if round.reader_waited.as_secs_f64() > WAITING * seconds && self.now < self.most {
            (self.before, self.settling) = (Some((self.now, speed)), true);
            self.now = (self.now * 2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(speed: f64, waiting: f64, refused: usize) -> Round {
        let took = Duration::from_secs(1);
        Round {
            bytes: speed as u64,
            took,
            reader_waited: took.mul_f64(waiting),
            parts: 16,
            refused,
        }
    }

    /// Widths over rounds of a link on which each connection brings 40 up to a limit.
    fn widths(limit: f64, waiting: f64, rounds: usize) -> Vec<usize> {
        let mut width = Width::new(2, 32);
        (0..rounds)
            .map(|_| {
                width.learn(round((width.now() as f64 * 40.0).min(limit), waiting, 1));
                width.now()
            })
            .collect()
    }

    #[test]
    fn grows_while_it_helps() {
        // One round to settle after each step.
        assert_eq!(widths(400.0, 1.0, 8), [4, 4, 8, 8, 16, 16, 32, 32]);
        // 32 brought no more than 16: back, stay for a while, try again.
        assert_eq!(widths(400.0, 1.0, 10)[8..], [16, 16]);
        assert_eq!(widths(400.0, 1.0, 19)[15..], [16, 32, 32, 16]);
        assert_eq!(widths(1e9, 1.0, 10)[6..], [32, 32, 32, 32]);
    }

    #[test]
    fn a_reader_that_never_waits_needs_no_more() {
        assert_eq!(widths(400.0, 0.05, 5), [2; 5]);
    }

    #[test]
    fn a_server_that_asks_for_patience_gets_it() {
        let mut width = Width::new(16, 32);
        for want in [8, 4, 2, 1, 1] {
            width.learn(round(400.0, 1.0, 3));
            assert_eq!(width.now(), want);
        }
        for _ in 0..HOLD {
            width.learn(round(400.0, 1.0, 2));
            assert_eq!(width.now(), 1);
        }
        width.learn(round(400.0, 1.0, 2));
        assert_eq!(width.now(), 2);
        // Throttled while it settles: back at once.
        width.learn(round(400.0, 1.0, 3));
        assert_eq!(width.now(), 1);
        assert_eq!(Width::new(0, 0).now(), 1);
    }
}
