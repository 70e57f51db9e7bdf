use super::*;
use crate::meter::testing::{count, level};
use crate::meter::window::sorted;
use spur_core::usage::codec::Decoder;
use spur_core::usage::metric::Value;

const FREE: LinkView = LinkView {
    connection: 1,
    limit: u64::MAX,
    room: true,
};

struct Lab {
    outlet: Outlet,
    now: u64,
}

impl Lab {
    fn new() -> Self {
        Self {
            outlet: Outlet::default(),
            now: 1_000_000,
        }
    }

    fn second(&mut self, energy: u64, power: i64, link: LinkView) -> Option<Emit> {
        self.now += 1000;
        let now = Moment {
            at: Millis(self.now),
            uptime: self.now,
        };
        let values = sorted(vec![count(0, energy), level(0, power)]);
        self.outlet.take(values, 1000, now, link)
    }
}

fn live(emit: Option<Emit>) -> Batch {
    match emit {
        Some(Emit::Live(batch)) => batch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_second_goes_out_with_a_keyframe_a_minute() {
    let mut lab = Lab::new();
    let mut decoder = Decoder::default();
    let mut keyframes = Vec::new();
    for second in 1..=130 {
        let batch = live(lab.second(second * 10, 5, FREE));
        assert_eq!((batch.sequence, batch.span), (second, 1000));
        decoder.decode(&batch).unwrap();
        keyframes.extend(batch.keyframe.then_some(second));
        assert!(
            decoder
                .current()
                .any(|(_, value)| value == Value::Count(second * 10))
        );
    }
    assert_eq!(keyframes, [1, 61, 121]);
}

#[test]
fn without_credit_readings_are_joined() {
    let mut lab = Lab::new();
    let two = LinkView { limit: 2, ..FREE };
    let mut decoder = Decoder::default();
    decoder.decode(&live(lab.second(10, 1, two))).unwrap();
    decoder.decode(&live(lab.second(20, 2, two))).unwrap();
    assert_eq!(lab.second(30, 3, two), None);
    assert_eq!(lab.second(40, 9, two), None);
    let batch = live(lab.second(50, 6, LinkView { limit: 3, ..FREE }));
    assert_eq!(
        (batch.sequence, batch.span, batch.keyframe),
        (3, 3000, false)
    );
    let decoded = decoder.decode(&batch).unwrap();
    assert_eq!(
        decoded.changed,
        [
            (
                level(0, 0).0,
                Value::Level {
                    mean: 6,
                    min: 3,
                    max: 9
                }
            ),
            (count(0, 0).0, Value::Count(50))
        ]
    );
}

#[test]
fn a_controller_that_forgets_to_give_credit_is_asked() {
    let mut lab = Lab::new();
    let none = LinkView { limit: 0, ..FREE };
    live(lab.second(1, 1, none));
    let sent: Vec<_> = (0..12).filter_map(|_| lab.second(1, 1, none)).collect();
    assert_eq!(sent.len(), 2);
}

#[test]
fn a_full_queue_is_like_no_credit() {
    let mut lab = Lab::new();
    let full = LinkView {
        room: false,
        ..FREE
    };
    assert!((0..20).all(|_| lab.second(1, 1, full).is_none()));
    assert_eq!(live(lab.second(1, 1, FREE)).span, 21_000);
}

#[test]
fn while_the_controller_is_away_ten_seconds_then_minutes_are_kept() {
    let mut lab = Lab::new();
    let away = LinkView::default();
    let mut spans = Vec::new();
    for second in 1..=1200 {
        if let Some(Emit::Spool(reading)) = lab.second(second, 1, away) {
            spans.push(reading.span);
        }
    }
    assert_eq!(spans.iter().filter(|span| **span == 10_000).count(), 60);
    assert!(spans[60..].iter().all(|span| *span == 60_000), "{spans:?}");
    assert_eq!(spans.len(), 70);
    let batch = live(lab.second(1201, 1, FREE));
    assert!(batch.keyframe);
    let again = live(lab.second(
        1202,
        1,
        LinkView {
            connection: 2,
            ..FREE
        },
    ));
    assert!(again.keyframe && again.sequence == 2);
}
