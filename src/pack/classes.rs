//! Which folder a picture or video belongs to: classes of aspect ratio with exact borders, bins of duration.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Width and height in pixels, as shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dimensions {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// The classes of PiD's packer, widest first.
pub const ASPECT_RATIOS: [(u32, u32); 8] =
    [(21, 9), (16, 9), (3, 2), (4, 3), (1, 1), (3, 4), (2, 3), (9, 16)];

/// The class that is nearest by ratio (in log space): the border between two neighbours is their geometric mean, here without
/// rounding: `w/h >= sqrt(a*b)` if `w * w * denominators >= h * h * numerators`.
#[must_use]
pub fn aspect_ratio(Dimensions { width, height }: Dimensions) -> (u32, u32) {
    let square = |side: u32| u128::from(side) * u128::from(side);
    let borders = ASPECT_RATIOS.windows(2).map(|pair| {
        let ((aw, ah), (bw, bh)) = (pair[0], pair[1]);
        (u128::from(aw * bw), u128::from(ah * bh))
    });
    let class = borders
        .take_while(|(numerators, denominators)| {
            square(width) * denominators < square(height) * numerators
        })
        .count();
    ASPECT_RATIOS[class]
}

/// Edges of the bins of duration, in seconds: `0,5,10,30,inf`.
#[derive(Debug, Clone, PartialEq)]
pub struct DurationBins(Vec<f64>);

impl DurationBins {
    /// Folder of a duration: the first bin whose upper edge lies above it, or the last.
    pub(crate) fn folder(&self, seconds: f64) -> String {
        let last = self.0.len() - 2;
        let at = (0..last).find(|&at| seconds < self.0[at + 1]).unwrap_or(last);
        // `inf` and whole numbers print as in PiD; fractions are kept, so that no two bins have one name.
        format!("duration_{}_{}", self.0[at], self.0[at + 1])
    }
}

impl Default for DurationBins {
    fn default() -> Self {
        Self(vec![0.0, 5.0, 10.0, 30.0, f64::INFINITY])
    }
}

impl FromStr for DurationBins {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let edges: Result<Vec<f64>, _> =
            text.split(',').map(|edge| edge.trim().parse::<f64>()).collect();
        match edges {
            Ok(edges)
                if edges.len() >= 2
                    && edges[0] >= 0.0
                    && edges.windows(2).all(|pair| pair[0] < pair[1]) =>
            {
                Ok(Self(edges))
            }
            _ => Err(Error::config(format!(
                "{text:?}: expected two or more rising edges in seconds, such as 0,5,10,30,inf"
            ))),
        }
    }
}

impl fmt::Display for DurationBins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges: Vec<String> = self.0.iter().map(f64::to_string).collect();
        f.write_str(&edges.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(width: u32, height: u32) -> (u32, u32) {
        aspect_ratio(Dimensions { width, height })
    }

    #[test]
    fn borders_are_those_of_pid() {
        // Six digits of each border, from pid-loader.md 12.2, a hair above and below.
        let borders = [2_036_700, 1_632_993, 1_414_214, 1_154_701, 866_025, 707_107, 612_372];
        for (at, border) in borders.into_iter().enumerate() {
            assert_eq!(class(border + 2, 1_000_000), ASPECT_RATIOS[at], "above {border}");
            assert_eq!(class(border - 2, 1_000_000), ASPECT_RATIOS[at + 1], "below {border}");
        }
        for (w, h) in ASPECT_RATIOS {
            assert_eq!(class(w * 120, h * 120), (w, h));
        }
    }

    #[test]
    fn nearest_in_log_space() {
        // The definition, in floats, on every small picture.
        for width in 1..120 {
            for height in 1..120 {
                let distance = |(w, h): (u32, u32)| {
                    (f64::from(width) / f64::from(height)).ln() - (f64::from(w) / f64::from(h)).ln()
                };
                let got = class(width, height);
                let best = ASPECT_RATIOS
                    .into_iter()
                    .map(|c| distance(c).abs())
                    .fold(f64::INFINITY, f64::min);
                assert!(distance(got).abs() <= best + 1e-12, "{width}x{height}: {got:?}");
            }
        }
        assert_eq!(class(u32::MAX, 1), (21, 9));
        assert_eq!(class(1, u32::MAX), (9, 16));
    }

    #[test]
    fn durations() {
        let bins = DurationBins::default();
        let folders = [0.0, 4.999, 5.0, 29.9, 30.0, 1e9].map(|d| bins.folder(d));
        assert_eq!(
            folders,
            [
                "duration_0_5",
                "duration_0_5",
                "duration_5_10",
                "duration_10_30",
                "duration_30_inf",
                "duration_30_inf"
            ]
        );
        // Defect 12.3: these collapsed into one name.
        let bins: DurationBins = "0,0.5,2".parse().unwrap();
        assert_eq!(
            [0.1, 0.5, 7.0].map(|d| bins.folder(d)),
            ["duration_0_0.5", "duration_0.5_2", "duration_0.5_2"]
        );
        for bad in ["", "5", "0,x", "5,0", "0,0", "-1,2", "nan,3"] {
            assert!(bad.parse::<DurationBins>().is_err(), "{bad}");
        }
        assert_eq!(DurationBins::default().to_string(), "0,5,10,30,inf");
    }
}
