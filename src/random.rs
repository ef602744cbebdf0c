//! Every random choice is a function of (seed, stage, epoch, position): no generator has a history.
//!
//! The algorithm is a contract, fixed by the test vectors below; it is the same on every platform. The mixing function is the
//! finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014; constants by Stafford, variant 13).

use crate::position::TICKS;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Hashes words into one, in order.
///
/// ```
/// use shardstream::random::hash;
/// assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
/// ```
#[must_use]
pub fn hash(words: &[u64]) -> u64 {
    words.iter().fold(GOLDEN, |h, &word| {
        mix(h.wrapping_mul(5).wrapping_add(GOLDEN) ^ mix(word.wrapping_add(GOLDEN)))
    })
}

/// Hashes bytes into a word: for names (of stages, of data sets).
#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let folded = words.fold(GOLDEN, |h, word| hash(&[h, word]));
    hash(&[folded, bytes.len() as u64])
}

/// A counter-based generator for one sample at one stage: draw as much as you like, nothing is shared with any other sample.
#[derive(Debug, Clone)]
pub struct Rng {
    key: u64,
    counter: u64,
}

impl Rng {
    /// The generator for these words (for example seed, stage, epoch, ordinal).
    #[must_use]
    pub fn keyed(words: &[u64]) -> Self {
        Self { key: hash(words), counter: 0 }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.counter += 1;
        mix(mix(self.counter.wrapping_mul(GOLDEN) ^ self.key).wrapping_add(self.key))
    }

    /// Uniform in `0..n`, without bias (Lemire, "Fast random integer generation in an interval", 2019).
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0): no number is below 0");
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            #[allow(clippy::cast_possible_truncation)]
            let low = wide as u64;
            if low >= n || low >= n.wrapping_neg() % n {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Uniform in `[0, 1)`, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// The index of one of the weights, each with probability in proportion. `None` if no weight is positive.
    pub fn weighted(&mut self, weights: &[f64]) -> Option<usize> {
        let total: f64 = weights.iter().filter(|w| **w > 0.0).sum();
        let mut left = self.unit() * total;
        let mut last = None;
        for (i, &weight) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            last = Some(i);
            if left < weight {
                break;
            }
            left -= weight;
        }
        last
    }
}

/// `-ln(u)` of a hash read as a fraction `u` in (0, 1), in units of 2^-32, by integers alone.
fn minus_ln(hash: u64) -> u64 {
    // u = x / 2^64 with x odd, so u is never 0. -log2(u) = 64 - log2(x); the fraction of log2 comes bit by bit from squaring.
    let x = hash | 1;
    let zeros = x.leading_zeros();
    let mut mantissa = (x << zeros) >> 1; // in [2^62, 2^63): 1.62 fixed point
    let mut fraction: u64 = 0;
    for _ in 8..32 {
        let square = ((u128::from(mantissa) * u128::from(mantissa)) >> 62) as u64; // in [2^62, 2^64)
        let bit = square >> 63; // without a branch, which nobody could foresee
        mantissa = square >> bit;
        fraction = fraction << 1 | bit;
    }
    fraction <<= 8;
    let log2 = (u64::from(63 - zeros) << 32) | fraction;
    let minus_log2 = (64u64 << 32) - log2;
    // ln 2 = 0.693147180559945... in 0.32 fixed point
    ((u128::from(minus_log2) * 2_977_044_472) >> 32) as u64
}

/// A delay in [`TICKS`] for a hash: exponential with a mean of `mean` samples, cut at `8 * mean`.
#[must_use]
pub fn delay(hash: u64, mean: u64) -> u64 {
    let cut = u128::from(mean) * 8 * u128::from(TICKS);
    let ticks = (u128::from(minus_ln(hash)) * u128::from(mean) * u128::from(TICKS)) >> 32;
    u64::try_from(ticks.min(cut)).unwrap_or(u64::MAX)
}

/// A keyed bijection of `0..n`, computed place by place in constant memory: a Feistel network on the mixed-radix digits of the
/// place (domain `a * b` with `a = ceil(sqrt n)`), walked until it falls into `0..n`.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    a: u64,
    b: u64,
    key: u64,
    rounds: u64,
}

impl Permutation {
    /// The permutation of `0..n` for a key.
    #[must_use]
    pub fn keyed(n: u64, words: &[u64]) -> Self {
        let mut a = n.isqrt();
        if a * a < n {
            a += 1;
        }
        let a = a.max(2);
        // The right digit needs a domain of its own; a small one needs more rounds to mix.
        let b = n.div_ceil(a).max(2);
        let rounds = if n < 1 << 12 { 16 } else { 8 };
        Self { n, a, b, key: hash(words), rounds }
    }

    /// Where place `i` goes.
    ///
    /// # Panics
    /// If `i` is not below `n`.
    #[must_use]
    pub fn get(&self, i: u64) -> u64 {
        assert!(i < self.n, "place {i} of a permutation of {}", self.n);
        let mut x = i;
        loop {
            x = self.step(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn step(&self, x: u64) -> u64 {
        let (mut left, mut right) = (x / self.b, x % self.b);
        for round in 0..self.rounds {
            // Digits change in turn: each is shifted by a hash of the other, so every round can be undone.
            if round % 2 == 0 {
                left = add(left, self.shift(round, right, self.a), self.a);
            } else {
                right = add(right, self.shift(round, left, self.b), self.b);
            }
        }
        left * self.b + right
    }

    fn shift(&self, round: u64, digit: u64, modulus: u64) -> u64 {
        let h = mix(mix(self.key ^ round.wrapping_mul(GOLDEN)) ^ digit.wrapping_mul(GOLDEN));
        ((u128::from(h) * u128::from(modulus)) >> 64) as u64
    }
}

const fn add(a: u64, b: u64, modulus: u64) -> u64 {
    let sum = a + b;
    if sum >= modulus { sum - modulus } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract: a change of any of these changes the order of every data set. Computed by an independent program.
    #[test]
    fn vectors() {
        assert_eq!(hash(&[]), 0x9E37_79B9_7F4A_7C15);
        assert_eq!(hash(&[0]), 9_656_191_133_689_290_200);
        assert_eq!(hash(&[1, 2, 3]), 4_869_744_580_638_330_866);
        assert_eq!(hash_bytes(b"shardstream"), 16_038_923_458_604_317_375);
        let mut rng = Rng::keyed(&[7, 1]);
        let three =
            [1_256_043_301_187_838_318, 14_578_999_755_028_072_462, 10_066_333_735_616_521_264];
        assert_eq!([(); 3].map(|()| rng.next_u64()), three);
        let mut rng = Rng::keyed(&[7, 1]);
        assert_eq!([(); 8].map(|()| rng.below(10)), [0, 7, 5, 7, 4, 8, 6, 1]);
        let ten = Permutation::keyed(10, &[7]);
        assert_eq!((0..10).map(|i| ten.get(i)).collect::<Vec<_>>(), [4, 6, 1, 5, 0, 7, 8, 9, 2, 3]);
        let million = Permutation::keyed(1_000_000, &[7, 0, 0]);
        assert_eq!([0, 1, 999_999].map(|i| million.get(i)), [779_133, 200_761, 253_904]);
        let delays = [430_101_126, 57_046_871, 96_918_132, 130_965_830];
        assert_eq!([0, 1, 2, 3].map(|i| delay(hash(&[7, i]), 1000)), delays);
        assert_eq!((delay(0, 1000), delay(u64::MAX, 1000)), (8000 * TICKS, 2));
    }

    #[test]
    fn permutation_is_a_bijection() {
        for n in (0..200).chain([1000, 1023, 1024, 1025, 65_537]) {
            let p = Permutation::keyed(n, &[7, n]);
            let mut seen = vec![false; usize::try_from(n).unwrap()];
            for i in 0..n {
                let to = usize::try_from(p.get(i)).unwrap();
                assert!(!std::mem::replace(&mut seen[to], true), "n {n}: {to} twice");
            }
        }
    }

    #[test]
    fn small_permutations_are_near_uniform() {
        // 24 permutations of 4; 24,000 keys; each should come about 1000 times.
        let mut counts = std::collections::HashMap::new();
        for key in 0..24_000 {
            let p = Permutation::keyed(4, &[key]);
            *counts.entry((0..4).map(|i| p.get(i)).collect::<Vec<_>>()).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 24);
        let worst = counts.values().map(|&c| (c - 1000i32).abs()).max().unwrap();
        assert!(worst < 160, "off by {worst} of 1000: {counts:?}");
    }

    #[test]
    fn minus_ln_is_right() {
        for (hash, want) in [
            (u64::MAX, 0.0),
            (1 << 63, std::f64::consts::LN_2),
            (1 << 60, 2.772_588_7),
            (0, 44.361_419),
        ] {
            let got = minus_ln(hash) as f64 / 4_294_967_296.0;
            assert!((got - want).abs() < 1e-5, "{hash}: {got} {want}");
        }
    }

    #[test]
    fn delays_have_the_mean() {
        let n = 200_000u64;
        let sum: u128 = (0..n).map(|i| u128::from(delay(hash(&[1, i]), 1000))).sum();
        let mean = sum as f64 / n as f64 / TICKS as f64;
        assert!((mean - 1000.0).abs() < 10.0, "{mean}");
        assert!((0..n).all(|i| delay(hash(&[1, i]), 1000) <= 8000 * TICKS));
    }
}
