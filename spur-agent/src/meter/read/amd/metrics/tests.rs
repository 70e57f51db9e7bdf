use super::*;
use proptest::prelude::*;

/// A table of a version with all bits set, in which nothing is supported.
fn table(format: u8, content: u8, size: u16) -> Vec<u8> {
    let mut bytes = vec![0xff; usize::from(size)];
    let [low, high] = size.to_le_bytes();
    bytes[..4].copy_from_slice(&[low, high, format, content]);
    bytes
}

fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

const SIZES: [(u8, u8, u16); 15] = [
    (1, 0, 80),
    (1, 1, 96),
    (1, 2, 104),
    (1, 3, 120),
    (1, 4, 288),
    (1, 5, 360),
    (1, 6, 1664),
    (1, 7, 2208),
    (1, 8, 4384),
    (2, 0, 120),
    (2, 1, 120),
    (2, 2, 128),
    (2, 3, 152),
    (2, 4, 168),
    (3, 0, 264),
];

#[test]
fn what_is_not_supported_is_absent_in_every_version() {
    for (format, content, size) in SIZES {
        let told = parse(&table(format, content, size));
        assert_eq!(told, Ok(Table::default()), "{format}.{content}");
    }
}

#[test]
fn an_unknown_version_is_refused_by_its_name() {
    assert_eq!(parse(&[1]), Err(Unknown::Short(1)));
    for (format, content) in [(1, 9), (2, 5), (3, 1), (0, 0), (4, 0)] {
        let refused = parse(&table(format, content, 4000)).unwrap_err();
        assert!(
            refused.to_string().contains(&format!("{format}.{content}")),
            "{refused}"
        );
    }
    let mut short = table(1, 3, 120);
    short.truncate(100);
    assert_eq!(
        parse(&short),
        Err(Unknown::Size {
            format: 1,
            content: 3,
            size: 100
        })
    );
}

#[test]
fn a_card_tells_no_energy_and_an_mi200_does() {
    let mut bytes = table(1, 3, 120);
    set(&mut bytes, 6, &61u16.to_le_bytes());
    set(&mut bytes, 8, &70u16.to_le_bytes());
    set(&mut bytes, 16, &37u16.to_le_bytes());
    set(&mut bytes, 18, &120u16.to_le_bytes());
    set(&mut bytes, 22, &212u16.to_le_bytes());
    set(&mut bytes, 24, &(65_536u64 * 5).to_le_bytes());
    set(&mut bytes, 54, &1700u16.to_le_bytes());
    let card = parse(&bytes).unwrap();
    assert_eq!(
        (card.activity, card.memory_activity, card.power_mw),
        (Some(370), None, Some(212_000))
    );
    assert_eq!(
        (card.temperature, card.memory_temperature, card.clock),
        (Some(61_000), Some(70_000), Some(1700))
    );
    assert_eq!(card.energy_mj, None);
    set(&mut bytes, 90, &66u16.to_le_bytes());
    let instinct = parse(&bytes).unwrap();
    assert_eq!(
        (instinct.energy_mj, instinct.memory_temperature),
        (Some(5_000), Some(66_000))
    );
}

#[test]
fn partitions_of_an_mi300_have_their_own_activity() {
    for (content, size, layout) in [(6u8, 1664u16, &LAYOUT_6), (7, 2208, &LAYOUT_7)] {
        let mut bytes = table(1, content, size);
        set(&mut bytes, 12, &50u16.to_le_bytes());
        set(&mut bytes, layout.energy, &(65_536u64 * 3).to_le_bytes());
        set(&mut bytes, layout.links + 16, &7u64.to_le_bytes());
        set(&mut bytes, layout.links + 64, &9u64.to_le_bytes());
        set(&mut bytes, layout.clocks + 2, &2100u16.to_le_bytes());
        set(&mut bytes, layout.partitions, &2u16.to_le_bytes());
        let entry = (usize::from(size) - layout.parts - 8) / PARTS_MAX;
        set(&mut bytes, layout.parts, &100u32.to_le_bytes());
        set(&mut bytes, layout.parts + 4, &50u32.to_le_bytes());
        set(&mut bytes, layout.parts + entry, &8u32.to_le_bytes());
        let told = parse(&bytes).unwrap();
        assert_eq!(
            (told.partitions, told.parts[0], told.parts[1], told.parts[2]),
            (2, Some(750), Some(80), None)
        );
        assert_eq!(
            (told.activity, told.energy_mj, told.clock),
            (Some(500), Some(3_000), Some(2100))
        );
        assert_eq!(
            (told.link_read, told.link_written),
            (Some(7 << 10), Some(9 << 10))
        );
    }
}

#[test]
fn throttled_time_is_a_share_of_the_firmwares_cycles() {
    let mut throttled = Throttled::default();
    let at = |cycles, power, thermal| Table {
        residencies: Some((cycles, power, thermal)),
        ..Table::default()
    };
    assert_eq!(
        throttled.take(&at(u32::MAX - 9, 100, 7), 1000),
        Some((0, 0))
    );
    assert_eq!(throttled.take(&at(90, 125, 7), 1000), Some((250_000, 0)));
    assert_eq!(throttled.take(&at(90, 125, 7), 1000), Some((250_000, 0)));
    assert_eq!(throttled.take(&Table::default(), 1000), None);
}

proptest! {
    #[test]
    fn no_bytes_break_the_parser(head in 0usize..SIZES.len(), mut bytes in prop::collection::vec(any::<u8>(), 0..4400), lie in any::<u16>()) {
        let (format, content, size) = SIZES[head];
        let size = if lie % 3 == 0 { lie } else { size };
        let [low, high] = size.to_le_bytes();
        for (at, byte) in [low, high, format, content].into_iter().enumerate() {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        if let Ok(table) = parse(&bytes) {
            prop_assert!(table.activity.is_none_or(|share| share <= 1000));
            prop_assert!(table.parts.iter().flatten().all(|share| *share <= 1000));
        }
    }
}
