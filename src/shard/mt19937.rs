//! Python's `random.Random`, bit for bit, as far as shuffling needs it.
//!
//! The generator is MT19937 (Matsumoto, Nishimura: "Mersenne Twister", ACM TOMACS 1998) with the seeding by an array that its
//! authors published in 2002; Python seeds it with the 32-bit words of the seed, lowest first.

const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// A generator that gives what Python's gives for the same whole-numbered seed.
#[derive(Clone)]
pub(super) struct PythonRandom {
    state: [u32; WORDS],
    next: usize,
}

impl PythonRandom {
    pub(super) fn seeded(seed: u64) -> Self {
        // The words of the seed, as few as it needs but at least one; the truncations take them apart.
        let key = [seed as u32, (seed >> 32) as u32];
        let key = &key[..if key[1] == 0 { 1 } else { 2 }];
        let mut state = [0u32; WORDS];
        state[0] = 19_650_218;
        for i in 1..WORDS {
            state[i] = 1_812_433_253u32
                .wrapping_mul(state[i - 1] ^ (state[i - 1] >> 30))
                .wrapping_add(i as u32);
        }
        // Twice over the state: once to mix in the key, once to mix what came of it.
        let mut i = 1;
        let wrap = |state: &mut [u32; WORDS], i: usize| {
            if i + 1 < WORDS {
                return i + 1;
            }
            state[0] = state[WORDS - 1];
            1
        };
        for round in 0..WORDS {
            let j = round % key.len();
            let before = state[i - 1] ^ (state[i - 1] >> 30);
            state[i] = (state[i] ^ before.wrapping_mul(1_664_525))
                .wrapping_add(key[j])
                .wrapping_add(j as u32);
            i = wrap(&mut state, i);
        }
        for _ in 1..WORDS {
            let before = state[i - 1] ^ (state[i - 1] >> 30);
            state[i] = (state[i] ^ before.wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i = wrap(&mut state, i);
        }
        state[0] = 1 << 31;
        Self { state, next: WORDS }
    }

    pub(super) fn next_u32(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9D2C_5680;
        word ^= (word << 15) & 0xEFC6_0000;
        word ^ (word >> 18)
    }

    fn twist(&mut self) {
        for i in 0..WORDS {
            let joined = (self.state[i] & (1 << 31)) | (self.state[(i + 1) % WORDS] & !(1 << 31));
            let odd = if joined & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.state[i] = self.state[(i + MIDDLE) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// Uniform in `0..n` for `n` above 0: as many bits as `n` has, drawn until they are below it.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        let bits = n.max(1).ilog2() + 1;
        loop {
            let drawn = self.next_u32() >> (32 - bits);
            if drawn < n.max(1) {
                return drawn;
            }
        }
    }

    /// Shuffles as `random.shuffle` does.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let Ok(n) = u32::try_from(i + 1) else { continue };
            list.swap(i, self.below(n) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffled(n: u32, seed: u64) -> Vec<u32> {
        let mut list: Vec<u32> = (0..n).collect();
        PythonRandom::seeded(seed).shuffle(&mut list);
        list
    }

    #[test]
    fn words() {
        for (seed, want) in [
            (0, &[3_626_764_237, 1_654_615_998, 3_255_389_356, 3_823_568_514, 1_806_341_205][..]),
            (1, &[577_090_037, 2_444_712_010, 3_639_700_191, 3_445_702_192, 3_280_387_012]),
            ((1 << 40) + 5, &[2_166_296_868, 2_220_160_828, 1_153_647_273]),
        ] {
            let mut random = PythonRandom::seeded(seed);
            assert_eq!(
                (0..want.len()).map(|_| random.next_u32()).collect::<Vec<_>>(),
                want,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn numbers_below() {
        let mut random = PythonRandom::seeded(0);
        assert_eq!(
            (0..10).map(|_| random.below(25)).collect::<Vec<_>>(),
            [12, 24, 13, 1, 8, 16, 15, 12, 9, 15]
        );
    }

    #[test]
    fn shuffles() {
        assert_eq!(shuffled(10, 0), [7, 8, 1, 5, 3, 4, 2, 0, 9, 6]);
        assert_eq!(shuffled(10, 1), [6, 8, 9, 7, 5, 3, 0, 4, 1, 2]);
        assert_eq!(shuffled(10, 2), [5, 9, 3, 4, 6, 7, 2, 8, 1, 0]);
        assert_eq!(shuffled(10, 7), [8, 3, 1, 4, 7, 0, 9, 6, 2, 5]);
        assert_eq!(shuffled(10, 123_456_789), [0, 1, 9, 4, 3, 5, 2, 6, 8, 7]);
        assert_eq!(shuffled(5, 0), [2, 1, 0, 4, 3]);
        assert_eq!(shuffled(1, 0), [0]);
        assert!(shuffled(0, 0).is_empty());
    }
}
