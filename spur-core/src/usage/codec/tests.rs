use super::*;
use crate::id::JobId;
use crate::time::Millis;
use crate::usage::metric::{Metric, Quality, Source, Subject};
use proptest::prelude::*;

fn key(gpu: u32, metric: Metric) -> SeriesKey {
    SeriesKey {
        subject: Subject::JobGpu(JobId(7), gpu),
        metric,
        source: Source::Nvml,
        quality: Quality::Sampled,
    }
}

fn batch(sequence: u64, keyframe: bool, encoded: Encoded) -> Batch {
    let Encoded { names, ended, body } = encoded;
    Batch {
        sequence,
        late: false,
        at: Millis(sequence * 1000),
        uptime: sequence * 1000,
        span: 1000,
        keyframe,
        names,
        ended,
        body,
    }
}

#[test]
fn steady_growth_costs_two_bytes_and_rest_costs_none() {
    let mut encoder = Encoder::default();
    let values = |second: u64| {
        BTreeMap::from([
            (
                key(0, Metric::GpuHeldTime),
                Value::Count(second * 1_000_000),
            ),
            (key(1, Metric::GpuBusyTime), Value::Count(5)),
            (key(1, Metric::GpuHolders), Value::level(1)),
        ])
    };
    encoder.encode(&values(1), true);
    encoder.encode(&values(2), false);
    assert_eq!(encoder.encode(&values(3), false).0.body.len(), 2);
}

#[test]
fn what_rests_and_grows_again_is_told_right() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    for (sequence, count) in (1u64..).zip([1, 5, 5, 5, 6, 6, 9]) {
        let values = BTreeMap::from([(key(0, Metric::GpuBusyTime), Value::Count(count))]);
        let encoded = encoder.encode(&values, sequence == 1).0;
        decoder
            .decode(&batch(sequence, sequence == 1, encoded))
            .unwrap();
        assert_eq!(
            decoder.current().next().map(|(_, value)| value),
            Some(Value::Count(count))
        );
    }
}

#[test]
fn what_a_decoder_missed_is_an_error_until_a_keyframe() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let values = BTreeMap::from([(key(0, Metric::GpuHeldTime), Value::Count(9))]);
    let first = batch(1, true, encoder.encode(&values, true).0);
    let second = batch(2, false, encoder.encode(&values, false).0);
    let third = batch(3, false, encoder.encode(&values, false).0);
    assert!(decoder.decode(&second).is_err());
    decoder.decode(&first).unwrap();
    assert_eq!(
        decoder.decode(&third),
        Err(BadBatch::Missing { last: 1, found: 3 })
    );
    assert!(decoder.decode(&second).is_err(), "all is forgotten");
    assert_eq!(decoder.decode(&first).unwrap().changed.len(), 1);
}

fn any_values() -> impl Strategy<Value = BTreeMap<SeriesKey, Value>> {
    let count = (
        0u32..6,
        prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0u64..1000],
    )
        .prop_map(|(gpu, count)| (key(gpu, Metric::GpuBusyTime), Value::Count(count)));
    let edge = || prop_oneof![Just(i64::MIN), Just(i64::MAX), -100i64..100];
    let level = (0u32..6, edge(), edge(), edge()).prop_map(|(gpu, mean, min, max)| {
        (
            key(gpu, Metric::GpuHolders),
            Value::Level { mean, min, max },
        )
    });
    prop::collection::vec(prop_oneof![count, level], 0..12)
        .prop_map(|all| all.into_iter().collect())
}

proptest! {
    #[test]
    fn a_decoder_knows_what_the_encoder_was_told(rounds in prop::collection::vec((any_values(), prop::bool::weighted(0.1)), 1..30)) {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let mut known = BTreeMap::new();
        for (sequence, (values, keyframe)) in (1u64..).zip(&rounds) {
            let keyframe = *keyframe || sequence == 1;
            let (encoded, left_out) = encoder.encode(values, keyframe);
            prop_assert_eq!(left_out, 0);
            let decoded = decoder.decode(&batch(sequence, keyframe, encoded)).unwrap();
            for key in &decoded.ended {
                known.remove(key);
            }
            known.extend(decoded.changed);
            prop_assert_eq!(&known, values);
            prop_assert_eq!(&decoder.current().collect::<BTreeMap<_, _>>(), values);
        }
    }

    #[test]
    fn no_bytes_break_a_decoder(body in prop::collection::vec(any::<u8>(), 0..200), numbers in prop::collection::vec(0u32..70_000, 0..8)) {
        let names = numbers.iter().map(|number| SeriesName { number: *number, key: key(*number, if number % 2 == 0 { Metric::GpuBusyTime } else { Metric::GpuHolders }) });
        let encoded = Encoded { names: names.collect(), ended: Vec::new(), body };
        let mut decoder = Decoder::default();
        decoder.decode(&batch(1, true, encoded)).ok();
    }
}
