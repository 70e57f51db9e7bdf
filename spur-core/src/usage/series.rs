//! A time series of bounded size: when it is full, neighbours are joined and it goes on at half the resolution, so that a job of
//! a minute and one of a month take the same room.

use serde::{Deserialize, Serialize};

/// Most points of a series.
pub const POINTS_MAX: usize = 512;

/// What was seen in one step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Sum of what was seen, each weighted with its milliseconds.
    pub sum: i128,
    /// Milliseconds in which something was seen; 0: a gap.
    pub millis: u64,
    /// Least.
    pub min: i64,
    /// Greatest.
    pub max: i64,
}

impl Point {
    /// The mean; absent in a gap.
    pub fn mean(&self) -> Option<i64> {
        let mean = self.sum.checked_div(i128::from(self.millis))?;
        i64::try_from(mean).ok()
    }

    fn join(self, other: Self) -> Self {
        match (self.millis, other.millis) {
            (0, _) => other,
            (_, 0) => self,
            _ => Self {
                sum: self.sum.saturating_add(other.sum),
                millis: self.millis.saturating_add(other.millis),
                min: self.min.min(other.min),
                max: self.max.max(other.max),
            },
        }
    }
}

/// The series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Milliseconds of a point.
    step: u64,
    points: Vec<Point>,
}

impl Series {
    /// An empty one whose points stand for so many milliseconds (at least 1) as long as there is room.
    pub fn new(step: u64) -> Self {
        Self {
            step: step.max(1),
            points: Vec::new(),
        }
    }

    /// Milliseconds of a point.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The points from the series' start.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Notes a value that held for `millis` up to `until` (both in milliseconds; `until` from the series' start). It is counted
    /// into the point in which it ends.
    pub fn add(&mut self, until: u64, millis: u64, (mean, min, max): (i64, i64, i64)) {
        if millis == 0 {
            return;
        }
        let at = loop {
            let at = until.saturating_sub(1) / self.step;
            match usize::try_from(at) {
                Ok(at) if at < POINTS_MAX => break at,
                Ok(_) | Err(_) => self.halve(),
            }
        };
        if at >= self.points.len() {
            self.points.resize(at + 1, Point::default());
        }
        let seen = Point {
            sum: i128::from(mean) * i128::from(millis),
            millis,
            min,
            max,
        };
        self.points[at] = self.points[at].join(seen);
    }

    fn halve(&mut self) {
        self.step = self.step.saturating_mul(2);
        let joined = self.points.chunks(2).map(|pair| match pair {
            [a, b] => a.join(*b),
            [a] => *a,
            _ => Point::default(),
        });
        self.points = joined.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_month_takes_the_room_of_a_minute() {
        let mut series = Series::new(1000);
        let month = 30 * 24 * 3600;
        for second in 1..=month / 60 {
            series.add(second * 60_000, 60_000, (500, 0, 1000));
        }
        assert!(series.points().len() <= POINTS_MAX && series.points().len() > POINTS_MAX / 2);
        assert!(
            series
                .points()
                .iter()
                .all(|point| point.mean() == Some(500))
        );
        assert_eq!(
            series
                .points()
                .iter()
                .map(|point| point.millis)
                .sum::<u64>(),
            month * 1000
        );
    }

    #[test]
    fn a_gap_is_a_gap() {
        let mut series = Series::new(1000);
        series.add(1000, 1000, (1, 1, 1));
        series.add(5000, 1000, (2, 2, 2));
        let means: Vec<_> = series.points().iter().map(Point::mean).collect();
        assert_eq!(means, [Some(1), None, None, None, Some(2)]);
    }

    proptest! {
        #[test]
        fn joining_loses_no_time_and_no_extreme(steps in prop::collection::vec((1u64..100_000, -50i64..50), 1..2000)) {
            let mut series = Series::new(10);
            let mut now = 0;
            for (millis, value) in &steps {
                now += millis;
                series.add(now, *millis, (*value, value - 1, value + 1));
            }
            let points = series.points();
            prop_assert!(points.len() <= POINTS_MAX);
            prop_assert_eq!(points.iter().map(|p| p.millis).sum::<u64>(), now);
            prop_assert_eq!(points.iter().map(|p| p.sum).sum::<i128>(), steps.iter().map(|(m, v)| i128::from(*m) * i128::from(*v)).sum::<i128>());
            let seen = || points.iter().filter(|p| p.millis > 0);
            prop_assert_eq!(seen().map(|p| p.max).max(), steps.iter().map(|(_, v)| v + 1).max());
        }
    }
}
